"""cuBLAS: products of matrices, of one type or of several, for one or for many of the same shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.libraries.blas.multiply import (
    C32,
    C64,
    F16,
    F32,
    F64,
    Matrix,
    MatrixProduct,
    Scalars,
    allows_tf32,
    multiply,
    scalar_kind,
)
from gpusim.driver.libraries.blas.state import Handle, routine
from gpusim.driver.state import Driver

_LETTERS = {"S": F32, "D": F64, "C": C32, "Z": C64, "H": F16}
_COMPUTE = {F32: 68, F64: 70, C32: 68, C64: 70, F16: 64}  # cublasComputeType_t
_TF32_MATH = (1, 3)  # cublasMath_t: tensor cores, as they were once asked for and are now


def _gemm(
    driver: Driver,
    handle: Handle,
    operations: Sequence[int],
    extents: Sequence[int],
    scalars: tuple[int, int],
    matrices: Sequence[Sequence[int]],
    compute: int,
    batches: int = 1,
    pointers: bool = False,
) -> None:
    """matrices: address, kind, leading extent and stride of A, B and C. Raises INVALID_VALUE, NOT_SUPPORTED."""
    m, n, k = extents
    fail_if(any(each not in (0, 1, 2) for each in operations), ResultCode.INVALID_VALUE)
    rows = (k if operations[0] else m, n if operations[1] else k, m)
    narrow = any(matrix[2] < max(1, extent) for matrix, extent in zip(matrices, rows, strict=True))
    fail_if(narrow or 0 in scalars, ResultCode.INVALID_VALUE)
    a, b, c = (
        Matrix(address, kind, leading, stride, operation)
        for (address, kind, leading, stride), operation in zip(matrices, [*operations, 0], strict=True)
    )
    tf32 = allows_tf32(compute) or (compute == _COMPUTE[F32] and handle.math_mode in _TF32_MATH)
    kind = scalar_kind(compute, c.kind)
    given = Scalars(kind, *scalars, on_device=bool(handle.pointer_mode))
    what = MatrixProduct(m, n, k, a, b, c, c, given, batches, pointers, tf32)
    multiply(driver, driver.stream_of(handle.stream), what)


def _declare(letter: str, kind: int, name: str = "gemm") -> None:
    compute = _COMPUTE[kind]

    def one(driver: Driver, handle: Handle, *x: int) -> None:
        matrices = (x[6], kind, x[7], 0), (x[8], kind, x[9], 0), (x[11], kind, x[12], 0)
        _gemm(driver, handle, x[:2], x[2:5], (x[5], x[10]), matrices, compute)

    def strided(driver: Driver, handle: Handle, *x: int) -> None:
        matrices = (x[6], kind, x[7], x[8]), (x[9], kind, x[10], x[11]), (x[13], kind, x[14], x[15])
        _gemm(driver, handle, x[:2], x[2:5], (x[5], x[12]), matrices, compute, x[16])

    def batched(driver: Driver, handle: Handle, *x: int) -> None:
        matrices = (x[6], kind, x[7], 0), (x[8], kind, x[9], 0), (x[11], kind, x[12], 0)
        _gemm(driver, handle, x[:2], x[2:5], (x[5], x[10]), matrices, compute, x[13], pointers=True)

    plain = f"cublas{letter}{name}"
    routine(plain if letter == "H" or name != "gemm" else f"{plain}_v2", "ii nnn p pn pn p pn")(one)
    routine(f"{plain}StridedBatched", "ii nnn p pnq pnq p pnq n")(strided)
    routine(f"{plain}Batched", "ii nnn p pn pn p pn n")(batched)


for _letter, _kind in _LETTERS.items():
    _declare(_letter, _kind)
_declare("C", C32, "gemm3m")


@routine("cublasGemmEx", "ii nnn p pin pin p pin i (i)")
def gemm_ex(driver: Driver, handle: Handle, *x: Any) -> None:
    matrices = (x[6], x[7], x[8], 0), (x[9], x[10], x[11], 0), (x[13], x[14], x[15], 0)
    _gemm(driver, handle, x[:2], x[2:5], (x[5], x[12]), matrices, x[16])


@routine("cublasGemmStridedBatchedEx", "ii nnn p pinq pinq p pinq n i (i)")
def gemm_strided_ex(driver: Driver, handle: Handle, *x: Any) -> None:
    matrices = x[6:10], x[10:14], x[15:19]
    _gemm(driver, handle, x[:2], x[2:5], (x[5], x[14]), matrices, x[20], x[19])


@routine("cublasGemmBatchedEx", "ii nnn p pin pin p pin n i (i)")
def gemm_batched_ex(driver: Driver, handle: Handle, *x: Any) -> None:
    matrices = (x[6], x[7], x[8], 0), (x[9], x[10], x[11], 0), (x[13], x[14], x[15], 0)
    _gemm(driver, handle, x[:2], x[2:5], (x[5], x[12]), matrices, x[17], x[16], pointers=True)


@routine("cublasSgemmEx", "ii nnn p pin pin p pin")
def sgemm_ex(driver: Driver, handle: Handle, *x: Any) -> None:
    gemm_ex(driver, handle, *x, _COMPUTE[F32])


@routine("cublasCgemmEx", "ii nnn p pin pin p pin")
def cgemm_ex(driver: Driver, handle: Handle, *x: Any) -> None:
    gemm_ex(driver, handle, *x, _COMPUTE[C32])
