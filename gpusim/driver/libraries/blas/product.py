"""What a product of matrices is made of."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from math import ceil

from gpusim.driver.caller import read

KINDS = {
    0: ("f32", 4), 1: ("f64", 8), 2: ("f16", 2), 3: ("i8", 1), 4: ("c32", 8), 5: ("c64", 16), 10: ("i32", 4),
    14: ("bf16", 2), 28: ("e4m3", 1), 29: ("e5m2", 1),
}  # fmt: skip
"""Name in `types.cuh` and bytes of a number, by `cudaDataType_t`."""
F32, F64, F16, I8, C32, C64, I32, BF16, E4M3, E5M2 = 0, 1, 2, 3, 4, 5, 10, 14, 28, 29
TRANSPOSED, CONJUGATED = 1, 2  # cublasOperation_t
FP8 = (E4M3, E5M2)
LINE = 128
"""Bytes along k of a step."""
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
    """alpha and beta, as bytes of the host or, on_device, as addresses; or 1 and 0 (plain)."""

    kind: int
    alpha: int = 0
    beta: int = 0
    on_device: bool = False
    plain: bool = False

    def packed(self) -> bytes:
        """Return the kernel's parameter: two addresses, then two values of 16 bytes."""
        if self.plain:
            return struct.pack("<16xf28x", 1)
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
    addresses are those of arrays of pointers. tf32: tensor cores may round floats. fast: sums of 8-bit floats may be
    those of tensor cores, which keep 14 bits."""

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
    fast: bool = False
    epilogue: Epilogue = field(default_factory=Epilogue)

    def transposed(self) -> MatrixProduct:
        """The product of the transposed factors in the other order, which is that of the same numbers in memory."""
        a, b, c, d = (replace(each, by_rows=not each.by_rows) for each in (self.a, self.b, self.c, self.d))
        return replace(self, m=self.n, n=self.m, a=b, b=a, c=c, d=d)

    @property
    def steps(self) -> int:
        """Steps of the sum over k."""
        return ceil(self.k * KINDS[self.a.kind][1] / LINE)

    @property
    def across(self) -> tuple[bool, bool]:
        """Whether k runs across what lies together in memory, of the first factor and of the second."""
        return self.a.steps[1] != 1, self.b.steps[0] != 1

    def packed(self, bias_steps: tuple[int, int] = (1, 0)) -> bytes:
        """Return `Gemm` of `product.cuh`, the kernels' parameter. bias_steps: elements of the bias from a row of D, and
        from a column, to the next."""
        a, b, after = self.a, self.b, self.epilogue
        factors = a.address, *a.steps, a.stride, b.address, *b.steps[::-1], b.stride
        outputs = [each for x in (self.c, self.d) for each in (x.address, x.leading, x.stride)]
        outputs += [after.aux, after.aux_leading, after.aux_stride]
        bias, scales = (after.bias, *bias_steps, after.bias_stride), (a.scale, b.scale, self.c.scale, self.d.scale)
        numbers = a.scale_each, b.scale_each, self.m, self.n, self.k, self.batches, self.pointers
        conjugated = a.operation == CONJUGATED, b.operation == CONJUGATED
        first = struct.pack("<21q", *factors, *outputs, *bias) + self.scalars.packed()
        return first + struct.pack("<5q9i4x", *scales, after.largest, *numbers, *conjugated)

    @property
    def allowed(self) -> bool:
        """Whether there are such factors, scalars and results together."""
        a, b, c, d, scalars = (each.kind for each in (self.a, self.b, self.c, self.d, self.scalars))
        if not ({a, b, c, d, scalars} <= KINDS.keys() and d in _RESULTS.get(scalars, ())):
            return False
        real = a not in (C32, C64, F64, I32)
        fits = a == I8 if scalars == I32 else real if scalars in (F32, F16) else a == scalars
        return (a == b or {a, b} == set(FP8)) and fits and (c == d or (d in FP8 and c in (F16, BF16, d)))
