"""Which pipes count an instruction, and in how many turns matrices come out of shared memory: recorded on an H200.

`h200_pipes.zip` holds 467 single instructions with the pipes that Nsight Compute counted them in, images of 48 kernels
whose counts are exact down to the turns of the ADU and the half of the FMA pipe, and LDSM and STSM at chosen addresses.
"""

import json
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import gpusim
from gpusim.engine.state import layout as L
from gpusim.launch.tensor_map import encode_tiled
from isa import Program
from isa.instruction import parse_instruction
from isa.opcodes import OPCODES, PIPES, pipes_of
from tests.gpusim import sass

DATA = Path(__file__).parent / "data" / "h200_pipes.zip"
NOT_IN_TABLE = {"CLMAD", "FSWZADD", "VHMNMX"}


@cache
def recording():
    with zipfile.ZipFile(DATA) as file:
        return json.loads(file.read("recording.json"))


def program(name):
    with zipfile.ZipFile(DATA) as file:
        return Program.from_bytes(file.read(f"{name}.gpuprog"), name)


def test_every_instruction_counts_in_the_recorded_pipes():
    differing, unknown = {}, set()
    for text, encoding, pipes in recording()["forms"]:
        instruction = parse_instruction(0, text, int(encoding, 16), {})
        if instruction.opcode not in OPCODES:
            unknown.add(instruction.opcode)
        elif set(pipes_of(instruction)) != set(pipes.split()):
            differing[text] = pipes
    assert not differing
    assert unknown == NOT_IN_TABLE


@pytest.mark.parametrize("kernel", recording()["kernels"], ids=lambda kernel: kernel["name"])
def test_every_pipe_of_a_kernel_is_exact(kernel):
    data = np.random.default_rng(3).integers(0, 1 << 32, 8192, np.uint64).astype(np.uint32)
    with gpusim.Device("h200") as device:
        args = (device.to_device(data), device.to_device(np.zeros(1 << 16, np.uint32)))
        if kernel["tensor"]:
            tensor = device.to_device(np.zeros(1 << 14, np.uint32))
            args += (encode_tiled("uint32", tensor.address, [64, 64], [256], [8, 8], [1, 1], "none", False),)
        metrics = device.launch(program(kernel["name"]), 1, kernel["threads"], args).metrics
    counts = {pipe: metrics[f"sm__inst_executed_pipe_{pipe}.sum"] for pipe in PIPES}
    assert {pipe: count for pipe, count in counts.items() if count} == kernel["counts"]


@pytest.mark.parametrize("matrix", recording()["matrices"], ids=lambda matrix: matrix["name"])
def test_matrices_in_shared_memory_count_as_on_the_hardware(matrix):
    kernel, names = program(matrix["name"]), recording()["columns"]
    for pattern, counters in zip(recording()["patterns"], matrix["counters"], strict=True):
        args = (np.array(pattern, np.uint32), np.zeros(1 << 14, np.uint32))
        metrics = gpusim.simulate(kernel, 1, 32, args, "h200").metrics
        assert [metrics[name] for name in names] == counters


def test_a_functional_run_knows_what_does_not_depend_on_time():
    args = (np.arange(8192, dtype=np.uint32), np.zeros(1 << 16, np.uint32))
    metrics = gpusim.simulate(program("match_any_b32"), 1, 128, args, mode="functional").metrics
    assert metrics["smsp__inst_executed_pipe_adu.sum"] == 32  # the turns of the ADU are the SM's
    assert "sm__inst_executed_pipe_adu.sum" not in metrics and "sm__inst_executed_pipe_fmaheavy.sum" not in metrics


MIXES = {
    "F": (80, 0), "I": (160, 159), "V": (160, 159), "H": (160, 159), "A": (0, 159), "FI": (80, 0), "FFI": (106, 47),
    "FFFI": (80, 0), "FVA": (53, 0), "AV": (80, 0), "HI": (160, 159), "FH": (80, 159), "FHI": (106, 106), "FA": (0, 0),
    "VFF": (101, 42), "VFDAFFI": (88, 40),
}  # fmt: skip
"""160 instructions of one warp in these turns, each a cycle after the last if it may be: how many an H200 counts in the
heavy half of the FMA pipe, and the warp's cycles of math_pipe_throttle."""
LETTERS = {
    "F": "FFMA R2{}, R12, R13, RZ",
    "D": "FADD R2{}, R12, R13",
    "I": "IMAD R2{}, R12, R13, RZ",
    "V": "VIADD R2{}, R12, R13",
    "H": "HFMA2 R2{}, R12, R13, RZ",
    "A": "LOP3.LUT R2{}, R12, R13, RZ, 0x3, !PT",
}


@pytest.mark.parametrize("mix", MIXES)
def test_the_halves_of_the_fma_pipe_take_turns(mix, monkeypatch):
    monkeypatch.setattr(sass, "ENCODING", 7 << 113 | 7 << 110 | 1 << 105)  # stalls a cycle, waits for nothing
    lines = [LETTERS[mix[k % len(mix)]].format(k % 4) for k in range(160)]
    result = gpusim.simulate(sass.assemble("\n".join(lines)), 1, 32, [np.zeros(1, np.uint32)], "h200")
    heavy, throttle = MIXES[mix]
    # Where the next line of code comes a cycle late, which half is free changes.
    assert abs(result.metrics["sm__inst_executed_pipe_fmaheavy.sum"] - heavy) <= 6
    assert abs(result.record.counters[:, L.COUNT_STALL + L.STALL_MATH].sum() - throttle) <= 15
