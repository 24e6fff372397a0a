"""Products of floats: which kernels cuBLAS ran on an H200 for those of layers, and what ours take.

`data/floats_h200.json` has 132 layers, with a bias, without, and both gradients: names, grids and times of all kernels.
`python -m tests.gpusim.test_blas_floats` writes the choices of `sgemm.txt` anew from them.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from math import ceil
from pathlib import Path

import numpy as np
import pytest

import gpusim.driver.libraries.blas.sgemm as module
from gpusim import load_config
from gpusim.driver.libraries.blas.sgemm import choose, tables
from tests.gpusim.driver_program import run

RECORDED = json.loads((Path(__file__).parent / "data/floats_h200.json").read_text())
FILE = Path(module.__file__).with_name("sgemm.txt")
PROFILED = 0.78
"""Of a launch's overhead, what a profiler does not see (`gpusim.driver.libraries.cupti`)."""
LAYERS = ("bias", "linear", "input", "weight")
HEAD = """
import functools
from tests.gpusim.blas_program import *
handle = new_handle()
one, zero = (ctypes.c_float * 1)(1), (ctypes.c_float * 1)(0)
def launched():
    return [(key, group.cycles) for key, group in driver.log.groups.items()]
@functools.cache  # so that a second launch finds them in L2
def ones(*extents):
    return to_device(np.ones(extents, "f4"))
def layer(kind, batch, inputs, outputs):
    x, w, y = (ones(*each) for each in ((batch, inputs), (outputs, inputs), (batch, outputs)))
    if kind == "bias":
        what = descriptor(68, F32, _3=T, _7=4, _8=ones(outputs))
        d = y, layout(F32, outputs, batch, outputs)
        factors = (w, layout(F32, inputs, outputs, inputs)), (x, layout(F32, inputs, batch, inputs))
        check(matmul(handle, what, [*factors, d, d]))
    else:
        operations, (m, n, k), (a, b, c) = {
            "linear": ((T, N), (outputs, batch, inputs), (w, x, y)),
            "input": ((N, N), (inputs, batch, outputs), (w, y, x)),
            "weight": ((N, T), (inputs, outputs, batch), (x, y, w)),
        }[kind]
        leading = k if operations[0] else m, n if operations[1] else k
        check(blas.cublasSgemm_v2(handle, *operations, m, n, k, one, p(a), leading[0], p(b), leading[1], zero, p(c), m))
    check(runtime.cudaDeviceSynchronize())
"""


def extents(layer: str, batch: int, inputs: int, outputs: int) -> tuple[int, int, int]:
    """Rows, columns and length of the sums of a layer's product."""
    shapes = {"input": (batch, inputs, outputs), "weight": (outputs, inputs, batch)}
    return shapes.get(layer, (batch, outputs, inputs))


def recorded() -> list[tuple[str, tuple[int, ...], list[tuple[str, list[int], float]]]]:
    """Layer, sizes and kernels of each product."""
    names = RECORDED["kernels"]
    return [
        (layer, tuple(sizes), [(names[number], grid, us) for number, grid, us in row])
        for *sizes, bias, linear, inputs, weight in RECORDED["layers"]
        for layer, row in zip(LAYERS, (bias, linear, inputs, weight), strict=True)
    ]


def chosen(kernels: list[tuple[str, list[int], float]]) -> tuple[str, str, int]:
    """Tile, way and parts by the kernels that ran."""
    products = [each for each in kernels if re.search("tilesize|simt|largek", each[0]) and "split" not in each[0]]
    ((name, grid, _),) = products
    found = re.search(r"largek|\d+x\d+x8_stage3|\d+x\d+_8x\d", name)
    assert found, name
    way = "onto" if "largek" in name else "chain" if "Memset" in kernels[0][0] else "pieces" if kernels[1:] else "whole"
    return found[0], way, grid[2]


def choices() -> list[str]:
    """Lines of `sgemm.txt`."""
    made = ["/".join(map(str, chosen(row))).removesuffix("/whole/1") for *_, row in recorded()]
    return [" ".join(map(str, (*row[:3], *made[4 * at : 4 * at + 4]))) for at, row in enumerate(RECORDED["layers"])]


def test_the_table_says_what_was_recorded():
    lines = FILE.read_text().splitlines()
    assert [line for line in lines if "=" not in line and not line.startswith("#")] == choices()
    for at, layer in enumerate(LAYERS):
        for of, sizes, kernels in recorded():
            assert layer != of or choose(at, *extents(layer, *sizes)) == chosen(kernels), (layer, sizes)


def test_tiles_are_those_that_names_and_grids_tell():
    for layer, sizes, kernels in recorded():
        m, n, _ = extents(layer, *sizes)
        tile, _, parts = chosen(kernels)
        macros = tables()[0][tile]
        down, right = ceil(m / macros["TILE_M"]), ceil(n / macros["TILE_N"])
        for name, grid, _ in kernels:
            if "split_k" in name:
                block = tables()[0][f"split_{tile}"]
                assert grid == [down, right, macros["TILE_M"] // block["ROWS"]] and block["COLUMNS"] == macros["TILE_N"]
            elif "xmma" in name:
                warps = re.search(r"stage(\d)_warpsize(\d)x(\d)", name)
                assert warps and [*map(int, warps.groups())] == [macros[x] for x in ("STAGES", "WARPS_M", "WARPS_N")]
                assert grid == [down, right, parts]
            elif "simt" in name:  # CUTLASS turns the grid so that blocks that follow each other share columns
                turned = 8 if right >= 6 else 4 if right >= 3 else right
                assert grid == [down * turned, ceil(right / turned), parts], (name, m, n)
            elif "largek" in name:
                assert grid == [right, down, parts]
            elif "Memset" not in name:
                block = tables()[0]["after" if "epilogue" in name else "scale" if "scal_" in name else "reduce"]
                high, wide = ceil(m / block["ROWS"]), ceil(n / block["COLUMNS"])
                assert grid[0] == wide and (grid[1] == high or wide * high > 700), (name, m, n, grid)


def test_the_nearest_shape_seldom_has_another_kernel(monkeypatch):
    """Without its own row a product gets that of its neighbour: the same tile, the same way, of few with others."""
    same, kernels = Counter(), tables()[0]
    for layer, sizes, row in recorded():
        others = [each for each in tables()[1] if each[:3] != [*map(str, sizes)]]
        monkeypatch.setattr(module, "tables", lambda others=others: (kernels, others))
        found, wanted = choose.__wrapped__(LAYERS.index(layer), *extents(layer, *sizes)), chosen(row)
        same.update({(layer, "tile"): found[0] == wanted[0], (layer, "launches"): found[1] == wanted[1]})
    shares = {key: count / len(RECORDED["layers"]) for key, count in same.items()}
    print(", ".join(f"{layer} {what} {share:.0%}" for (layer, what), share in shares.items()))
    assert min(shares.values()) > 0.4 and sum(shares.values()) / len(shares) > 0.55


TIMED = (
    *(("bias", 32, 1024, 10), ("bias", 64, 256, 256), ("bias", 256, 256, 256), ("linear", 32, 512, 512)),
    *(("linear", 64, 784, 256), ("input", 32, 256, 256), ("input", 128, 512, 512), ("weight", 32, 768, 768)),
    *(("weight", 128, 512, 512), ("weight", 256, 256, 256)),
)


@pytest.mark.usefixtures("toolchain")
@pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")
def test_ours_take_about_as_long():
    """Of each the second launch, without what a profiler does not count."""
    told = run(
        f"""
        for given in {TIMED}:
            layer(*given)
            before = dict(launched())
            layer(*given)
            print(*given, *(cycles - before[name] for name, cycles in launched() if cycles > before[name]))
        """,
        head=HEAD,
        gpu="h200",
    )
    of, us, ratios = {(layer, *sizes): kernels for layer, sizes, kernels in recorded()}, load_config("h200").time_us, []
    for line in told.stdout.splitlines():
        layer, batch, inputs, outputs, *cycles = line.split()
        kernels = [each for each in of[layer, int(batch), int(inputs), int(outputs)] if "Memset" not in each[0]]
        assert len(cycles) == len(kernels), line
        ours = sum(us(int(each) - PROFILED * load_config("h200").launch.overhead_cycles) for each in cycles)
        ratios.append(ours / sum(us for *_, us in kernels))
        print(layer, batch, inputs, outputs, f"{ratios[-1]:.2f}")
    assert len(ratios) == len(TIMED) and 0.85 < np.median(ratios) < 1.1, ratios
    assert np.mean(np.abs(np.log(ratios))) < 0.25, ratios


if __name__ == "__main__":
    lines = [line for line in FILE.read_text().splitlines() if "=" in line or line.startswith("#")]
    FILE.write_text("\n".join([*lines, *choices(), ""]))
