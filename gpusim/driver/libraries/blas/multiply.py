"""A product of matrices: what is allowed, and the parameters that its kernel takes."""

from __future__ import annotations

import struct
from dataclasses import replace
from math import ceil

from gpusim.driver.attributes import compute_capability
from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.libraries.blas import choice, sgemm
from gpusim.driver.libraries.blas.choice import MOST_BLOCKS, Macros, choose
from gpusim.driver.libraries.blas.kernels import run, workspace
from gpusim.driver.libraries.blas.product import C32, C64, E5M2, F32, FP8, KINDS, MatrixProduct
from gpusim.driver.state import Driver

_DEFAULT, _SCALES, _SCALED = 1, 1024, 2048
_AFTER = {4: "bias", 2: "relu", 8: "drelu", 32: "gelu", 64: "dgelu", 128: "aux", _SCALES: "scales", _SCALED: "scaled"}
"""Names of what an epilogue does: `cublasLtEpilogue_t`, and scales of the matrices and of the result."""


def check(driver: Driver, what: MatrixProduct) -> Macros:
    """The macros of a product's types. Raises INVALID_VALUE, NOT_SUPPORTED."""
    fail_if(min(what.m, what.n, what.k, what.batches) < 0, ResultCode.INVALID_VALUE)
    a, b, c, d = (each.kind for each in (what.a, what.b, what.c, what.d))
    capability = compute_capability(driver.config)
    fail_if(not what.allowed or a == b == E5M2, ResultCode.NOT_SUPPORTED)
    fail_if(a in FP8 and capability < (8, 9), ResultCode.NOT_SUPPORTED)
    fail_if(what.d.by_rows != what.c.by_rows or what.d.operation, ResultCode.NOT_SUPPORTED)
    matrix = capability >= (8, 0) and a not in (C32, C64) and (a != F32 or what.tf32)
    names = ["tf32" if matrix and each == F32 else KINDS[each][0] for each in (a, b)]
    after = what.epilogue.flags & ~_DEFAULT | _SCALES * any((what.a.scale, what.b.scale, what.c.scale))
    after |= _SCALED * any((what.d.scale, what.epilogue.largest))
    types = {"TA": names[0], "TB": names[1], "TC": KINDS[c][0], "TD": KINDS[d][0], "TS": KINDS[what.scalars.kind][0]}
    return types | {"EPILOGUE": after, "MATRIX": int(matrix)}


def multiply(driver: Driver, stream: int, what: MatrixProduct) -> None:
    """Launch the kernel of a product in a stream by its handle. Raises INVALID_VALUE, NOT_SUPPORTED."""
    bias_steps = (1, 0) if what.d.by_rows else (0, 1)
    if not what.d.by_rows:  # the kernels' rows are contiguous
        what = what.transposed()
    types = check(driver, what)
    if not (what.m and what.n and what.batches):
        return
    if sgemm.is_known(driver.config, what, types):
        sgemm.multiply(driver, stream, what, types, bias_steps)
        return
    what = _packed(driver, stream, what, types)
    chosen = choose(driver.config, what, types)
    fail_if(chosen.grid[1] > MOST_BLOCKS, ResultCode.NOT_SUPPORTED)
    macros, name = types | chosen.macros, _name(types, chosen.tile)
    values = b"".join((*choice.tensor_maps(what, macros), what.packed(bias_steps)))
    run(driver, stream, chosen.file, name, chosen.grid, chosen.threads, values, chosen.shared, **macros)


def _packed(driver: Driver, stream: int, what: MatrixProduct, types: Macros) -> MatrixProduct:
    """The product of copies of those factors that bulk copies cannot take, where these are worth it."""
    way = choice.way_of(driver.config, what, types)
    if not choice.is_worth_copies(way, what):
        return what
    factors, copies, grid = [what.a, what.b], [], (ceil(what.k / 64), 0, 0)
    size = KINDS[what.a.kind][1]
    for side, (each, rows) in enumerate(zip(factors, (what.m, what.n), strict=True)):
        if choice.can_be_copied(way, what, side):
            continue
        batches, pitch = what.batches if each.stride else 1, -(-what.k * size // 16) * 16 // size
        room = workspace(driver, stream, side, pitch * rows * batches * size)
        row, k = each.steps if side == 0 else each.steps[::-1]
        values = struct.pack("<Q3q", each.address, row, k, each.stride)
        copies.append(values + struct.pack("<Q2q3i4x", room, pitch, pitch * rows, rows, what.k, batches))
        grid = grid[0], max(grid[1], ceil(rows / 32)), grid[2] + batches
        far = pitch * rows * (batches > 1)
        factors[side] = replace(each, address=room, leading=pitch, stride=far, operation=0, by_rows=side == 0)
    if copies:
        values = b"".join(copies).ljust(2 * len(copies[0]), b"\0")
        run(driver, stream, "pack.cu", f"gpusim_pack_{8 * size}", grid, 256, values, 0, SIZE=size)
    return replace(what, a=factors[0], b=factors[1])


def _name(macros: Macros, tile: str) -> str:
    """Kernel name in the table of launches: types of the factors, that of the result if it differs, tile, epilogue."""
    factor, other, result = (str(macros[each]) for each in ("TA", "TB", "TD"))
    types = [factor, *([other] if other != factor else [])]
    if result != factor and (factor, result) not in (("tf32", "f32"), ("i8", "i32")):
        types.append(result)
    after = (name for bit, name in _AFTER.items() if int(macros["EPILOGUE"]) & bit)
    return "_".join(("gpusim_gemm", *types, tile, *after))
