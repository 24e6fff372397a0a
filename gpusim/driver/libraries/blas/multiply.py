"""A product of matrices: what it is made of, which kernel does it, and the parameters that this takes."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from gpusim.driver.attributes import compute_capability
from gpusim.driver.caller import read
from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.libraries.blas.kernels import run
from gpusim.driver.state import Driver

KINDS = {
    0: ("f32", 4), 1: ("f64", 8), 2: ("f16", 2), 3: ("i8", 1), 4: ("c32", 8), 5: ("c64", 16), 10: ("i32", 4),
    14: ("bf16", 2), 28: ("e4m3", 1), 29: ("e5m2", 1),
}  # fmt: skip
"""Name in `types.cuh` and bytes of a number, by `cudaDataType_t`."""
F32, F64, F16, I8, C32, C64, I32, BF16, E4M3, E5M2 = 0, 1, 2, 3, 4, 5, 10, 14, 28, 29
TRANSPOSED, CONJUGATED = 1, 2  # cublasOperation_t
_RESULTS = {F32: (F32, F16, BF16, I8, E4M3, E5M2)} | {kind: (kind,) for kind in (F16, F64, C32, C64, I32)}
"""Allowed types of the result, by the type of the scalars."""
FP8 = (E4M3, E5M2)
_SCALARS = {64: F16, 65: F16, 70: F64, 71: F64, 72: I32, 73: I32}
"""Type of the scalars by `cublasComputeType_t`; the others take floats."""
_TF32 = (74, 75, 77)
_FEW, _MANY = 64, 128
_THIN, _WARPS = 4, 8
"""Rows or columns up to which a product is that of `thin.cu`."""
_TILES = ((32, 4, 4, 2.0, 3.5, 7.5, 1.4), (64, 8, 2, 5.0, 2.0, 21.5, 4.5), (128, 8, 1, 6.0, 0.0, 74.0, 0.0))
"""Of floats: tile, sums of a thread in a row, slices; microseconds on an H200 that are always there; in a sum of 768, a
part that is there once and one for each block of an SM; for each of those the join of a cluster's sums (measured from 1
to 2048 rows and columns)."""
_MOST_BLOCKS = 65535
"""Of a grid in y and in z."""


@dataclass(frozen=True)
class Matrix:
    """A matrix in memory, or one for each of a batch. kind: `cudaDataType_t`. leading: elements from a column to the
    next, or from a row where those are contiguous (by_rows). stride: elements to the batch's next. operation: what is
    taken of it, `cublasOperation_t`. scale: address of a float that it is to be multiplied by, or of one for each row
    of the first factor or column of the second (scale_each)."""

    address: int
    kind: int
    leading: int
    stride: int = 0
    operation: int = 0
    by_rows: bool = False
    scale: int = 0
    scale_each: bool = False

    @property
    def steps(self) -> tuple[int, int]:
        """Elements to the next row, and to the next column, of what is taken."""
        row, column = (self.leading, 1) if self.by_rows else (1, self.leading)
        return (column, row) if self.operation else (row, column)


@dataclass(frozen=True)
class Scalars:
    """alpha and beta, as bytes of the host or, on_device, as addresses."""

    kind: int
    alpha: int
    beta: int
    on_device: bool = False

    def packed(self) -> bytes:
        """Return the kernel's parameter: two addresses, then two values of 16 bytes."""
        if self.on_device:
            return struct.pack("<2Q32x", self.alpha, self.beta)
        size = KINDS[self.kind][1]
        values = (read(each, size).ljust(16, b"\0") if each else bytes(16) for each in (self.alpha, self.beta))
        return bytes(16) + b"".join(values)


@dataclass(frozen=True)
class Epilogue:
    """Operations on a sum before it is stored. flags: `cublasLtEpilogue_t`. bias, aux: addresses; bias_stride,
    aux_stride: elements to the batch's next; aux_leading: from a column of aux to the next. largest: address of the
    largest absolute value."""

    flags: int = 1
    bias: int = 0
    bias_stride: int = 0
    aux: int = 0
    aux_leading: int = 0
    aux_stride: int = 0
    largest: int = 0


@dataclass(frozen=True)
class MatrixProduct:
    """D = epilogue(alpha op(A) op(B) + beta C), m x n with sums of k, for each of a batch. pointers: the matrices'
    addresses are those of arrays of pointers. tf32: tensor cores may round floats."""

    m: int
    n: int
    k: int
    a: Matrix
    b: Matrix
    c: Matrix
    d: Matrix
    scalars: Scalars
    batches: int = 1
    pointers: bool = False
    tf32: bool = False
    epilogue: Epilogue = field(default_factory=Epilogue)


def scalar_kind(compute: int, result: int) -> int:
    """Type of alpha and beta by `cublasComputeType_t` and the type of what comes out."""
    kind = _SCALARS.get(compute, F32)
    return {F32: C32, F64: C64}.get(kind, kind) if result in (C32, C64) else kind


def allows_tf32(compute: int) -> bool:
    """Return whether `cublasComputeType_t` lets tensor cores round floats."""
    return compute in _TF32


def choose(driver: Driver, what: MatrixProduct) -> dict[str, str | int]:
    """The kernel's macros. Raises INVALID_VALUE, NOT_SUPPORTED."""
    fail_if(min(what.m, what.n, what.k, what.batches) < 0, ResultCode.INVALID_VALUE)
    a, b, c, d = (each.kind for each in (what.a, what.b, what.c, what.d))
    scalars = what.scalars.kind
    known = {a, b, c, d, scalars} <= KINDS.keys() and d in _RESULTS.get(scalars, ())
    alike = a == b or {a, b} == set(FP8)
    real = a not in (C32, C64, F64, I32)
    fits = a == I8 if scalars == I32 else real if scalars in (F32, F16) else a == scalars
    after = c == d or (d in FP8 and c in (F16, BF16, d))
    major, minor = compute_capability(driver.config)
    capability = 10 * major + minor
    fail_if(not (known and alike and fits and after) or a == b == E5M2, ResultCode.NOT_SUPPORTED)
    fail_if(a in FP8 and capability < 89, ResultCode.NOT_SUPPORTED)
    fail_if(what.d.by_rows != what.c.by_rows or what.d.operation, ResultCode.NOT_SUPPORTED)
    matrix = capability >= 80 and a not in (C32, C64) and (a != F32 or what.tf32)
    names = ["tf32" if matrix and each == F32 else KINDS[each][0] for each in (a, b)]
    plain = what.epilogue == Epilogue() and not any((what.a.scale, what.b.scale, what.c.scale, what.d.scale))
    types = {"TA": names[0], "TB": names[1], "TC": KINDS[c][0], "TD": KINDS[d][0], "TS": KINDS[scalars][0]}
    macros: dict[str, str | int] = {**types, "EPILOGUE": int(not plain)}
    if min(what.m, what.n) <= _THIN:
        return macros | {"FEW": 1 if min(what.m, what.n) == 1 else _THIN}
    if matrix:
        many = -(-what.m // _MANY) * -(-what.n // _MANY) * what.batches >= driver.config.sm.count
        tile = _MANY if many and a != F64 else _FEW
        return macros | {"MATRIX": 1, "TILE_M": tile, "TILE_N": tile}
    tile, each, slices, parts = fastest(driver, what, capability >= 90) if a == F32 else (_FEW, 4, 1, 1)
    return macros | {"MATRIX": 0, "TILE_M": tile, "TILE_N": tile, "EACH": each, "SLICES": slices, "PARTS": parts}


def fastest(driver: Driver, what: MatrixProduct, clusters: bool) -> tuple[int, int, int, int]:
    """The tile of a product of floats, sums of a thread in a row, slices of the sum over k, and parts of it that the
    blocks of a cluster have, by what `_TILES` says of their time."""
    sms, sums = driver.config.sm.count, what.k / 768

    def cost(row: tuple[int, int, int, float, float, float, float], parts: int) -> float:
        each = -(-(-(-what.m // row[0]) * -(-what.n // row[0]) * what.batches * parts) // sms)
        return row[3] + (row[4] + row[5] * each) * sums / parts + row[6] * each * (parts > 1)

    clusters = clusters and what.batches <= _MOST_BLOCKS // 4
    # The largest tile's sums find no room beside each other.
    choices = [(row, parts) for row in _TILES for parts in (1, 2, 4) if parts == 1 or (clusters and row[0] < _MANY)]
    row, parts = min(choices, key=lambda choice: cost(*choice))
    return (*row[:3], parts)


def multiply(driver: Driver, stream: int, what: MatrixProduct) -> None:
    """Launch the kernel of a product in a stream by its handle. Raises INVALID_VALUE, NOT_SUPPORTED."""
    macros = choose(driver, what)
    name = _name(macros)
    if not (what.m and what.n and what.batches):
        return
    scale_a, scale_b = what.a.scale, what.b.scale
    each_a, each_b = what.a.scale_each, what.b.scale_each
    (a_row, a_k), (b_k, b_column) = what.a.steps, what.b.steps
    first, second = (what.a, a_row, a_k), (what.b, b_column, b_k)
    rows, columns, bias_steps = what.m, what.n, (1, 0)
    if not what.d.by_rows:  # the kernel's rows are contiguous: it computes the transposed product
        first, second, scale_a, scale_b, each_a, each_b = second, first, scale_b, scale_a, each_b, each_a
        rows, columns, bias_steps = what.n, what.m, (0, 1)
        macros["TA"], macros["TB"] = macros["TB"], macros["TA"]
    after = what.epilogue
    values = b"".join(
        (
            *(struct.pack("<Q3q", x.address, row, k, x.stride) for x, row, k in (first, second)),
            *(struct.pack("<Q2q", x.address, x.leading, x.stride) for x in (what.c, what.d)),
            struct.pack("<Q2q", after.aux, after.aux_leading, after.aux_stride),
            struct.pack("<Q3q", after.bias, *bias_steps, after.bias_stride),
            what.scalars.packed(),
            struct.pack("<5Q", scale_a, scale_b, what.c.scale, what.d.scale, after.largest),
            struct.pack("<2i", int(each_a), int(each_b)),
            struct.pack("<4i", rows, columns, what.k, what.batches),
            struct.pack("<2i", int(what.pointers), int(first[0].operation == CONJUGATED)),
            struct.pack("<2i", int(second[0].operation == CONJUGATED), after.flags),
        )
    )
    batches = min(what.batches, _MOST_BLOCKS)
    if "FEW" in macros:
        macros["TALL"] = int(rows > columns)
        length, (_, _, of_k) = (rows, first) if rows > columns else (columns, second)
        each = _WARPS if of_k == 1 else 32 * max(4 // KINDS[what.a.kind][1], 1)
        run(driver, stream, "thin.cu", name, (-(-length // each), 1, batches), 32 * _WARPS, values, **macros)
        return
    tile, per = int(macros["TILE_M"]), int(macros.get("EACH", 1))
    grid = -(-columns // tile), -(-rows // tile), batches * int(macros.get("PARTS", 1))
    fail_if(grid[1] > _MOST_BLOCKS, ResultCode.NOT_SUPPORTED)
    threads = 2 * tile if macros["MATRIX"] else int(macros["SLICES"]) * (tile // per) ** 2
    run(driver, stream, "gemm.cu", name, grid, threads, values, **macros)


def _name(macros: dict[str, str | int]) -> str:
    """Kernel name in the table of launches: types of the factors, that of the result if it differs, tile."""
    factor, other, result = (str(macros[each]) for each in ("TA", "TB", "TD"))
    types = [factor, *([other] if other != factor else [])]
    if result != factor and (factor, result) not in (("tf32", "f32"), ("i8", "i32")):
        types.append(result)
    tile = "thin" if "FEW" in macros else f"{macros['TILE_M']}x{macros['TILE_N']}"
    return "_".join(("gpusim_gemm", *types, tile, *(["epilogue"] if macros["EPILOGUE"] else [])))
