"""Products of floats as an H200 took them: the stand-in's own kernels, and the library's beside them.

`data/products_h200.json` has 131 products: what both took on the GPU, one after the other.
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from gpusim import load_config
from gpusim.driver.libraries.blas.choice import fastest
from tests import forks

RECORDED = json.loads((Path(__file__).parent / "data/products_h200.json").read_text())["products"]
SHOWN = ((1, 768, 768), (1, 4096, 4096), (16, 2304, 768), (64, 768, 768), (256, 768, 768), (512, 512, 512))
PROGRAM = """
import ctypes
from tests.gpusim.blas_program import *
handle = new_handle()
one, zero = (ctypes.c_float * 1)(1), (ctypes.c_float * 1)(0)
for m, n, k in {shapes}:
    a, b, c = (to_device(np.ones(extents, np.float32)) for extents in ((m, k), (n, k), (m, n)))
    for _ in range(3):
        check(blas.cublasGemmEx(handle, T, N, n, m, k, one, p(b), F32, k, p(a), F32, k, zero, p(c), F32, n, 68, -1))
    assert (to_host(c, np.zeros((m, n), np.float32)) == k).all()
"""


def recorded(m: int, n: int, k: int) -> list:
    return next(row for row in RECORDED if row[:4] == [m, n, k, "NT"])


def test_our_kernels_take_what_they_took_on_the_gpu(tmp_path):
    program = tmp_path / "products.py"
    program.write_text(textwrap.dedent(PROGRAM).format(shapes=SHOWN))
    out = tmp_path / "launches.json"
    options = "--gpu", "h200", "--json", "--output", str(out), sys.executable, str(program)
    done = forks.run("-m", "gpusim.cli", "exec", *options, env=os.environ | {"PYTHONPATH": str(forks.ROOT)})
    assert done.returncode == 0, done.stderr
    groups = json.loads(out.read_text())["launches"]
    assert len(groups) == len(SHOWN)
    for shape, group in zip(SHOWN, groups, strict=True):
        *_, library_us, tile, parts, ours_us = recorded(*shape)
        assert group["name"] == f"gpusim_gemm_f32_{tile}" and group["grid"][2] == parts
        took = group["time_us"] / group["calls"]
        assert abs(took / ours_us - 1) < (0.5 if tile == "thin" else 0.15), (shape, took, ours_us)
        assert 0.6 < took / library_us < 1.6


def test_the_tile_that_is_chosen_is_seldom_far_from_the_library():
    """On the GPU: a third of the products within 20 %, half of them within 25 %."""
    driver = SimpleNamespace(config=load_config("h200"))
    ratios = []
    for m, n, k, _, library_us, tile, parts, ours_us in RECORDED:
        if tile != "thin":
            size, *_, found = fastest(driver, SimpleNamespace(m=m, n=n, k=k, batches=1), True)
            assert (f"{size}x{size}", found) == (tile, parts)
        ratios.append(abs(ours_us / library_us - 1))
    assert np.median(ratios) < 0.26 and np.mean(np.array(ratios) < 0.2) > 0.33
