"""Every NumPy reference against a kernel under Numba's CUDA simulator, which executes it without machine code.

That the other kernels with the same reference compute what it says, `tests/validate/test_replay.py` shows, and
`test_cuda_sources.py` of families that have kernels of CUDA C++.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpusim.launch import CudaSource
from programs import registry

SLOW = ("attention/fused", "gemv/vectorised", "matmul_register/eight_by_eight", "matmul_tensor/staged",
        "matmul_tensor/ldmatrix", "matmul_tensor/asynchronous", "convolution/implicit_gemm", "mandelbrot")  # fmt: skip
"""An earlier step of their ladder has the same reference and takes seconds less. `mandelbrot` has none:
`test_replay.py` compares its reference with the machine code, whose outputs were checked on an H200."""
#: The last other variant with each reference; a reference that a function has made is told apart by what it holds.
VARIANTS = [
    each
    for ladder in registry.families().values()
    for each in ladder
    if each.name not in SLOW and not any(isinstance(one.kernel, CudaSource) for one in ladder)
]
NAMES = list(
    {
        (each.reference.__code__, *(repr(cell.cell_contents) for cell in each.reference.__closure__ or ())): each.name
        for each in VARIANTS
    }.values()
)
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def report(request: pytest.FixtureRequest) -> dict[str, str | None]:
    """What the simulator says of each that is asked for, from one process for all of them."""
    tests = [item for item in request.session.items if item.path == request.path]
    asked = [test.callspec.params["name"] for test in tests if isinstance(test, pytest.Function)]
    env = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": str(ROOT)}
    runner = Path(__file__).with_name("cudasim_runner.py")
    done = subprocess.run(
        [sys.executable, str(runner), *asked], env=env, cwd=ROOT, capture_output=True, text=True, timeout=540
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", NAMES)
def test_matches_reference(report: dict[str, str | None], name: str) -> None:
    assert report[name] is None
