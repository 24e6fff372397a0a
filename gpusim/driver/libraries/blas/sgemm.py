"""Products of floats on Hopper, by kernels of the shapes that cuBLAS was seen to take for them."""

from __future__ import annotations

import struct
from dataclasses import replace
from functools import cache
from importlib import resources
from math import ceil, log2

from gpusim.config import GPUConfig
from gpusim.driver.api.copy import Fill
from gpusim.driver.attributes import compute_capability
from gpusim.driver.libraries.blas.choice import THIN, Macros
from gpusim.driver.libraries.blas.kernels import run, workspace
from gpusim.driver.libraries.blas.product import F32, MatrixProduct
from gpusim.driver.state import Driver

_WAYS = ("whole", "pieces", "chain", "onto")
"""How blocks share a sum over k, as `staged.cu` numbers it."""


@cache
def tables() -> tuple[dict[str, dict[str, int]], list[list[str]]]:
    """Of `sgemm.txt`: macros of kernels by their names, and recorded products."""
    lines = resources.files("gpusim.driver.libraries.blas").joinpath("sgemm.txt").read_text().splitlines()
    rows, macros = [line.split() for line in lines if not line.startswith("#")], {}
    for name, *given in (row for row in rows if "=" in row[1]):
        macros[name] = {key: int(value) for key, value in (each.split("=") for each in given)}
    return macros, [row for row in rows if row[0] not in macros]


def is_known(config: GPUConfig, what: MatrixProduct, types: Macros) -> bool:
    """Return whether such products were recorded."""
    floats = {each.kind for each in (what.a, what.b, what.c, what.d, what.scalars)} == {F32} and not types["MATRIX"]
    one = what.batches == 1 and not what.pointers and what.k > 0 and min(what.m, what.n) > THIN
    return floats and one and compute_capability(config) == (9, 0)


@cache
def choose(layer: int, m: int, n: int, k: int) -> tuple[str, str, int]:
    """Tile of the recorded product that is nearest, how its blocks share a sum over k, and how many do. layer: 0 with
    an epilogue; else 1 if rows of both factors lie along k, 2 if those of the first do, 3 if none."""
    rows = tables()[1]
    order = {2: (0, 1, 2), 3: (2, 1, 0)}.get(layer, (0, 2, 1))  # of inputs' rows, inputs, outputs
    row = min(rows, key=lambda row: sum(log2(x / int(row[at])) ** 2 for x, at in zip((m, n, k), order, strict=True)))
    tile, way, parts = (*row[3 + layer].split("/"), "whole", "1")[:3]
    return tile, way, int(parts) * max(k // int(row[order[2]]), 1) if way == "pieces" else int(parts)


def multiply(driver: Driver, stream: int, what: MatrixProduct, types: Macros, bias_steps: tuple[int, int]) -> None:
    """Launch a product's kernels in a stream by its handle."""
    across, plain = what.across, types | {"EPILOGUE": 0}
    layer = 0 if types["EPILOGUE"] else 3 if across[0] else 1 + across[1]
    tile, way, parts = choose(layer, what.m, what.n, what.k)
    kernels, name = tables()[0], f"gpusim_sgemm_{tile}"
    macros = kernels[tile] | {"PART": _WAYS.index(way)}
    for x, each, rows, lies in zip("AB", (what.a, what.b), (what.m, what.n), across, strict=True):
        wide = macros["WIDE"] and lies and not (each.address | each.leading * 4 | rows * 4) % 16
        macros |= {f"ACROSS_{x}": int(lies), f"WIDE_{x}": int(wide)}
    m, n = macros["TILE_M"], macros["TILE_N"]
    down, right, pitch = ceil(what.m / m), ceil(what.n / n), ceil(what.n / 4) * 4
    sums = {"pieces": what.m * pitch * parts, "chain": down * m * right * n}.get(way, 0)
    room = workspace(driver, stream, 2, 4 * sums) if sums else 0
    turns = workspace(driver, stream, 3, 8 * down * right) if way in ("chain", "onto") else 0

    def add(kernel: str, types: Macros, *sums: int) -> None:
        block, called = kernels[kernel], f"{name}_{kernel.split('_')[0]}"
        grid = ceil(what.n / block["COLUMNS"]), ceil(what.m / block["ROWS"]), 1
        values, rest = what.packed(bias_steps) + struct.pack("<2q2i", *sums), types | block
        run(driver, stream, "reduce.cu", called, grid, block["THREADS"], values, 0, **rest)

    if turns:
        driver.enqueue(driver.stream_of(stream), Fill(driver, turns, 0, 0, 1, 8 * down * right, 1))
    if way == "onto":
        add("scale", plain, 0, 0, 0, 0)
    grid = (down, right, parts) if macros["ROWS_FIRST"] else (right, down, parts)
    values = (replace(what, c=what.d) if way == "onto" else what).packed(bias_steps) + struct.pack("<2q", room, turns)
    shared = 4 * macros["STAGES"] * macros["DEPTH"] * (m + n + 4 * (2 - sum(across)))
    rest = (types if way in ("whole", "chain") else plain) | macros
    run(driver, stream, "staged.cu", name, grid, 32 * macros["WARPS_M"] * macros["WARPS_N"], values, shared, **rest)
    if way == "pieces":
        add(f"split_{tile}" if f"split_{tile}" in kernels else "reduce", types, room, what.m * pitch, pitch, parts)
    if way == "onto":
        add("after", types, what.d.address, 0, what.d.leading, 1)
