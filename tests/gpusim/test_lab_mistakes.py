"""Typical mistakes in a kernel of the lab's page, in both languages: each has a sentence of its own, at its line."""

import re
import tomllib

import numpy as np
import pytest

from gpusim.errors import ArgumentError, DeadlockError, MemoryAccessError
from gpusim.lab import answers
from gpusim.simulation import simulate
from isa import load
from tests.house import ROOT

PYTHON = """\
import numpy as np
from numba import cuda, float32


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(256, float32)
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    if i < x.size:
        tile[t] = x[i]
    cuda.syncthreads()
    if i < x.size:
        out[i] = 2 * tile[255 - t]


x = np.ones(1000, np.float32)
out = np.zeros(1024, np.float32)
grid, block, args = 4, 256, (x, out)
"""
CUDA = """\
// gpusim run --grid 4 --block 256 --args "float32[1000]=ones, float32[1024], int32(1000)"
__global__ void kernel(const float *x, float *out, int n) {
  __shared__ float tile[256];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int t = threadIdx.x;
  if (i < n)
    tile[t] = x[i];
  __syncthreads();
  if (i < n)
    out[i] = 2 * tile[255 - t];
}
"""
ENGINES = re.compile(
    r"nopython|pipeline|NRT|Untyped|Numba|NVRTC|ptxas|LLVM|TypingError|signature|Traceback|0x[0-9a-f]{4}"
)
"""Words of the engines underneath, which nobody who writes a kernel has to know."""

MISTAKES = tomllib.loads((ROOT / "tests/gpusim/data/lab/mistakes.toml").read_text("utf-8"))


def said(source, language):
    return answers.answer(("write", {"source": source, "gpu": "tiny", "language": language}))


@pytest.mark.parametrize(
    ("language", "row"), [(language, row) for language, rows in MISTAKES.items() for row in rows],
    ids=lambda value: value["said"] if isinstance(value, dict) else value,
)  # fmt: skip
def test_a_mistake_has_its_own_sentence_at_its_line(language, row, monkeypatch):
    monkeypatch.setattr(answers, "MOST_CYCLES", 1_500_000)
    text = PYTHON if language == "python" else CUDA
    text += "\n\ndef helper(x):\n    return x\n" * ("helper" in row["new"])
    assert row["old"] in text
    found = said(text.replace(row["old"], row["new"]), language)
    assert re.search(row["said"], found["error"]), found["error"]
    assert found["line"] == (row["line"] or None), found
    assert not ENGINES.search(found["error"]) and "\n" not in found["error"]


@pytest.mark.parametrize(("text", "language"), [(PYTHON, "python"), (CUDA, "cuda")])
def test_without_a_mistake_nothing_is_said(text, language):
    found = said(text, language)
    assert "error" not in found and found["cycles"] > 0
    assert {row[3] for row in found["code"]["code"]} <= set(range(15))
    assert ("argument 1: [2. 2. 2. ... 0. 0. 0.]" in found["printed"]) == (language == "cuda")


def test_of_several_kernels_one_is_named():
    several = PYTHON.replace("@cuda.jit\n", "@cuda.jit\ndef other(x):\n    x[0] = 1\n\n\n@cuda.jit\n")
    assert "several kernels, other, kernel: kernel = NAME" in said(several, "python")["error"]
    chosen = several.replace("def kernel", "def double") + "kernel = double\n"
    assert said(chosen, "python")["kernel"] == "double"
    double = CUDA + "__global__ void other(float *x) { x[0] = 1; }\n"
    assert "--entry NAME" in said(double, "cuda")["error"]
    assert said(double.replace("--grid", "--entry kernel --grid"), "cuda")["kernel"] == "kernel"


def test_the_command_line_reads_the_same(tmp_path):
    """What is said comes from the rooms below: of arrays their name, index and shape, of C parameters their types."""
    (file := tmp_path / "kernel.cu").write_text(CUDA.replace("if (i < n)\n    tile", "if (true)\n    tile"))
    program, out = load(file), np.zeros(1024, np.float32)
    with pytest.raises(
        MemoryAccessError, match=r"past the end of 'x' \(4,000 bytes\), at index 1000 of shape \(1000,\)"
    ):
        simulate(program, 4, 256, (np.ones(1000, np.float32), out, 1000), "tiny")
    with pytest.raises(ArgumentError, match=r"argument 2 \('n'\): a value of type float given, the kernel takes int"):
        simulate(program, 4, 256, (np.ones(1024, np.float32), out, 1.0), "tiny")
    simulate(program, 4, 256, (np.ones(1024, np.float32), out, np.uint32(1000)), "tiny")
    file.write_text(CUDA.replace("  __syncthreads();\n", "  while (t < 256)\n    ;\n"))
    with pytest.raises(DeadlockError, match="the loop at this line never ends"):
        simulate(load(file), 4, 256, (np.ones(1024, np.float32), out, 1000), "tiny")
