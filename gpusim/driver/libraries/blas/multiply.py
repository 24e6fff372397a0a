"""A product of matrices: what is allowed, and the parameters that its kernel takes."""

from __future__ import annotations

import struct

from gpusim.driver.attributes import compute_capability
from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.libraries.blas.choice import MOST_BLOCKS, Macros, choose
from gpusim.driver.libraries.blas.kernels import run
from gpusim.driver.libraries.blas.product import (
    BF16,
    C32,
    C64,
    CONJUGATED,
    E4M3,
    E5M2,
    F16,
    F32,
    F64,
    FP8,
    I8,
    I32,
    KINDS,
    Epilogue,
    MatrixProduct,
)  # fmt: skip
from gpusim.driver.state import Driver

_RESULTS = {F32: (F32, F16, BF16, I8, E4M3, E5M2)} | {kind: (kind,) for kind in (F16, F64, C32, C64, I32)}
"""Allowed types of the result, by the type of the scalars."""
_SCALARS = {64: F16, 65: F16, 70: F64, 71: F64, 72: I32, 73: I32}
"""Type of the scalars by `cublasComputeType_t`; the others take floats."""
_TF32 = (74, 75, 77)


def scalar_kind(compute: int, result: int) -> int:
    """Type of alpha and beta by `cublasComputeType_t` and the type of what comes out."""
    kind = _SCALARS.get(compute, F32)
    return {F32: C32, F64: C64}.get(kind, kind) if result in (C32, C64) else kind


def allows_tf32(compute: int) -> bool:
    """Return whether `cublasComputeType_t` lets tensor cores round floats."""
    return compute in _TF32


def check(driver: Driver, what: MatrixProduct) -> Macros:
    """The macros of a product's types. Raises INVALID_VALUE, NOT_SUPPORTED."""
    fail_if(min(what.m, what.n, what.k, what.batches) < 0, ResultCode.INVALID_VALUE)
    a, b, c, d = (each.kind for each in (what.a, what.b, what.c, what.d))
    scalars = what.scalars.kind
    known = {a, b, c, d, scalars} <= KINDS.keys() and d in _RESULTS.get(scalars, ())
    alike = a == b or {a, b} == set(FP8)
    real = a not in (C32, C64, F64, I32)
    fits = a == I8 if scalars == I32 else real if scalars in (F32, F16) else a == scalars
    after = c == d or (d in FP8 and c in (F16, BF16, d))
    capability = _capability(driver)
    fail_if(not (known and alike and fits and after) or a == b == E5M2, ResultCode.NOT_SUPPORTED)
    fail_if(a in FP8 and capability < 89, ResultCode.NOT_SUPPORTED)
    fail_if(what.d.by_rows != what.c.by_rows or what.d.operation, ResultCode.NOT_SUPPORTED)
    matrix = capability >= 80 and a not in (C32, C64) and (a != F32 or what.tf32)
    names = ["tf32" if matrix and each == F32 else KINDS[each][0] for each in (a, b)]
    plain = what.epilogue == Epilogue() and not any((what.a.scale, what.b.scale, what.c.scale, what.d.scale))
    types = {"TA": names[0], "TB": names[1], "TC": KINDS[c][0], "TD": KINDS[d][0], "TS": KINDS[scalars][0]}
    return types | {"EPILOGUE": int(not plain), "MATRIX": int(matrix)}


def _capability(driver: Driver) -> int:
    major, minor = compute_capability(driver.config)
    return 10 * major + minor


def multiply(driver: Driver, stream: int, what: MatrixProduct) -> None:
    """Launch the kernel of a product in a stream by its handle. Raises INVALID_VALUE, NOT_SUPPORTED."""
    types = check(driver, what)
    if not (what.m and what.n and what.batches):
        return
    bias_steps = (1, 0)
    if not what.d.by_rows:  # the kernels' rows are contiguous
        what, bias_steps = what.transposed(), (0, 1)
        types = check(driver, what)
    chosen = choose(driver.config, what, types, _capability(driver))
    fail_if(chosen.grid[1] > MOST_BLOCKS, ResultCode.NOT_SUPPORTED)
    values, name = chosen.maps + _values(what, bias_steps), _name(types, chosen.tile)
    macros = types | chosen.macros
    run(driver, stream, chosen.file, name, chosen.grid, chosen.threads, values, chosen.shared, **macros)


def _values(what: MatrixProduct, bias_steps: tuple[int, int]) -> bytes:
    """`Gemm` of `product.cuh`."""
    (a_row, a_k), (b_k, b_column) = what.a.steps, what.b.steps
    first, second, after = (what.a, a_row, a_k), (what.b, b_column, b_k), what.epilogue
    return b"".join(
        (
            *(struct.pack("<Q3q", x.address, row, k, x.stride) for x, row, k in (first, second)),
            *(struct.pack("<Q2q", x.address, x.leading, x.stride) for x in (what.c, what.d)),
            struct.pack("<Q2q", after.aux, after.aux_leading, after.aux_stride),
            struct.pack("<Q3q", after.bias, *bias_steps, after.bias_stride),
            what.scalars.packed(),
            struct.pack("<5Q", what.a.scale, what.b.scale, what.c.scale, what.d.scale, after.largest),
            struct.pack("<2i", int(what.a.scale_each), int(what.b.scale_each)),
            struct.pack("<4i", what.m, what.n, what.k, what.batches),
            struct.pack("<2i", int(what.pointers), int(what.a.operation == CONJUGATED)),
            struct.pack("<2i", int(what.b.operation == CONJUGATED), after.flags),
        )
    )


def _name(macros: Macros, tile: str) -> str:
    """Kernel name in the table of launches: types of the factors, that of the result if it differs, tile."""
    factor, other, result = (str(macros[each]) for each in ("TA", "TB", "TD"))
    types = [factor, *([other] if other != factor else [])]
    if result != factor and (factor, result) not in (("tf32", "f32"), ("i8", "i32")):
        types.append(result)
    return "_".join(("gpusim_gemm", *types, tile, *(["epilogue"] if macros["EPILOGUE"] else [])))
