"""Scalar PTX instructions, compiled for sm_90 and run, give the bits that an H200 gave: a ninth of all, since
machine instructions are all compared by themselves (test_hardware.py).

`tests/corpus` holds the instructions and their operands; the recording holds what each kernel wrote. Instructions of
which the PTX manual promises an error bound only are held to that bound.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import gpusim
from gpusim.config import GPUConfig, load_config
from isa import Program
from isa.listing import programs_from_cubin
from tests.corpus import BYTES, CHAPTERS, THREADS, assemble_all, operand_classes, operands

RECORDING = Path(__file__).parent / "data" / "h200_corpus.npz"
UNWRITTEN = 0xCD
# Largest relative and absolute error of the approximate instructions, as unsigned type: PTX manual, and the CUDA
# programming guide's table of functions that map to one instruction.
BOUNDS = {
    "f32": (2.0**-20.4, 2.0**-20.5),
    "f64": (2.0**-19, 0.0),
    "f16": (2.0**-9.9, 2.0**-24),
    "bf16": (2.0**-7, 0.0),
}


@cache
def recording() -> dict[str, tuple[np.ndarray, np.ndarray | None]]:
    """By template: the bytes of results, and the operands' memory where the kernel changed it."""
    with np.load(RECORDING) as data:
        changed = dict(zip(data["changed"].tolist(), data["memory"], strict=True))
        pairs = zip(data["templates"].tolist(), data["out"], strict=True)
        return {template: (out, changed.get(number)) for number, (template, out) in enumerate(pairs)}


@cache
def machine(arch: str) -> GPUConfig:
    return load_config("tiny", [f"gpu.arch={arch}"])


@cache
def programs() -> dict[tuple[str, str], Program]:
    """Every ninth recorded kernel by its chapter and form, in one file: a listing takes half a second."""
    chosen = [form for name in CHAPTERS for form in sorted(set(CHAPTERS[name])) if form[0] in recording()][::9]
    cubin, kernels, _ = assemble_all(dict.fromkeys(chosen), "sm_90")
    return {kernels[name]: program for name, program in programs_from_cubin(cubin, abi="c").items()}


def run(program: Program, classes: str, arch: str = "sm_90") -> tuple[np.ndarray, np.ndarray]:
    """What the kernel leaves in the operands' and the results' memory."""
    memory = np.concatenate([operands(classes).ravel(), np.zeros(256, np.uint8)])
    results = np.full(THREADS * BYTES + 256, UNWRITTEN, np.uint8)
    gpusim.simulate(program, 1, THREADS, (memory, results), machine(arch), threads=1)
    return memory[: THREADS * BYTES], results[: THREADS * BYTES]


def values(raw: np.ndarray, kind: str) -> np.ndarray:
    """Results as numbers; all of a thread's results have one type."""
    written = raw.reshape(THREADS, BYTES)
    if kind == "bf16":
        return (written.view(np.uint16)[:, :2].astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    count = 1 if kind in ("f32", "f64") else 2
    return written.view(np.dtype(kind.replace("f", "float")))[:, :count].astype(np.float64)


def close(got: np.ndarray, want: np.ndarray, template: str) -> bool:
    """Whether approximate results lie within the bounds, special values being equal."""
    kind = next(name for name in ("bf16", "f16", "f32", "f64") if name in template.split()[0])
    relative, absolute = (2.0**-11, 0.0) if template.startswith("tanh.approx.f32") else BOUNDS[kind]
    with np.errstate(invalid="ignore"):
        return np.allclose(values(got, kind), values(want, kind), relative, absolute, equal_nan=True)


@pytest.mark.parametrize("chapter", sorted(set(CHAPTERS) - {"textures"}))
def test_results_are_those_of_the_gpu(chapter, toolchain):
    wrong = []
    for template, note in sorted(programs().keys() & set(CHAPTERS[chapter])):
        program = programs()[template, note]
        classes = operand_classes((template, note))
        want, changed = recording()[template]
        memory, results = run(program, classes)
        same = close(results, want, template) if note == "approximate" else np.array_equal(results, want)
        if not same or not np.array_equal(memory, operands(classes).ravel() if changed is None else changed):
            wrong.append(template)
    assert not wrong


@pytest.mark.parametrize("arch", ["sm_75", "sm_120"])
def test_other_architectures_give_the_same_bits(arch, toolchain):
    """Other machine code for the same PTX, a sample of it; the whole list takes half a minute for each architecture."""
    exact = {form for chapter in CHAPTERS.values() for form in chapter if form[0] in recording() and form[1] == ""}
    cubin, kernels, _ = assemble_all(sorted(exact)[::92], arch)
    wrong = []
    for name, program in programs_from_cubin(cubin, abi="c").items():
        want, changed = recording()[kernels[name][0]]
        classes = operand_classes(kernels[name])
        memory, results = run(program, classes, arch)
        unchanged = operands(classes).ravel() if changed is None else changed
        if not np.array_equal(results, want) or not np.array_equal(memory, unchanged):
            wrong.append(kernels[name][0])
    assert len(kernels) > 17
    assert not wrong


def test_the_recording_has_every_form_with_defined_bits(toolchain):
    """What is missing needs a later GPU, or came into the list after the recording."""
    forms = [form for name, chapter in CHAPTERS.items() if name != "textures" for form in chapter]
    _, kernels, dropped = assemble_all([form for form in forms if form[0] not in recording()], "sm_90")
    missing = {form[0] for form in kernels.values() if form[1] in ("", "approximate")}
    assert missing and dropped and all("shfl.sync" in template for template in missing)
    assert len(recording()) > 2200
