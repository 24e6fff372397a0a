"""cuBLAS: products of matrices, of one type or of several, for one or for many of the same shape."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.libraries.blas import product
from gpusim.driver.libraries.blas.multiply import multiply
from gpusim.driver.libraries.blas.product import C32, C64, F16, F32, F64, Matrix, MatrixProduct, Scalars
from gpusim.driver.libraries.blas.state import Handle, routine
from gpusim.driver.state import Driver

_LETTERS = {"S": F32, "D": F64, "C": C32, "Z": C64, "H": F16}
_COMPUTE = {F32: 68, F64: 70, C32: 68, C64: 70, F16: 64}  # cublasComputeType_t
_TF32_MATH = (1, 3)  # cublasMath_t: tensor cores, as they were once asked for and are now


Operand = Sequence[int]
"""Of a matrix: address, `cudaDataType_t`, leading extent and, in a batch, elements to the next."""


def _gemm(
    driver: Driver, handle: Handle, compute: int, pointers: bool, operations: Operand, extents: Operand, *given: Any
) -> None:
    """given: alpha, A, B, beta, C, and of a batch their number. pointers: addresses are those of lists of pointers.
    Raises INVALID_VALUE, NOT_SUPPORTED."""
    (alpha, a, b, beta, c), batches = given[:5], given[5] if given[5:] else 1
    m, n, k = extents
    fail_if(any(each not in (0, 1, 2) for each in operations), ResultCode.INVALID_VALUE)
    rows = (k if operations[0] else m, n if operations[1] else k, m)
    narrow = any(matrix[2] < max(1, extent) for matrix, extent in zip((a, b, c), rows, strict=True))
    fail_if(narrow or 0 in (alpha, beta), ResultCode.INVALID_VALUE)
    a, b, c = (
        Matrix(matrix[0], matrix[1], matrix[2], matrix[3] if matrix[3:] else 0, operation)
        for matrix, operation in zip((a, b, c), (*operations, 0), strict=True)
    )
    tf32 = product.allows_tf32(compute) or (compute == _COMPUTE[F32] and handle.math_mode in _TF32_MATH)
    scalars = Scalars(product.scalar_kind(compute, c.kind), alpha, beta, on_device=bool(handle.pointer_mode))
    multiply(driver, handle.stream, MatrixProduct(m, n, k, a, b, c, c, scalars, batches, pointers, tf32))


def _of_one_kind(
    kind: int, pointers: bool, driver: Driver, handle: Handle, operations: Operand, extents: Operand, *given: Any
) -> None:
    """Matrices of one type, which they do not name."""
    alpha, a, b, beta, c, *batches = given
    a, b, c = ((each[0], kind, *each[1:]) for each in (a, b, c))
    _gemm(driver, handle, _COMPUTE[kind], pointers, operations, extents, alpha, a, b, beta, c, *batches)


def _of_kinds(pointers: bool, driver: Driver, handle: Handle, *given: Any) -> None:
    """The type of computation comes last."""
    _gemm(driver, handle, given[-1], pointers, *given[:-1])


for _variant, _stride, _batches, _pointers in (
    ("", "", "", False),
    ("StridedBatched", "q", "n", False),
    ("Batched", "", "n", True),
):
    _matrix = f"pn{_stride}"
    for _letter, _kind in _LETTERS.items():
        _suffix = "_v2" if not _variant and _letter != "H" else ""
        _run = partial(_of_one_kind, _kind, _pointers)
        routine(f"cublas{_letter}gemm{_variant}{_suffix}", f"ii nnn p {_matrix} {_matrix} p {_matrix} {_batches}")(_run)
    _matrix = f"pin{_stride}"
    routine(f"cublasGemm{_variant}Ex", f"ii nnn p {_matrix} {_matrix} p {_matrix} {_batches} i (i)")(
        partial(_of_kinds, _pointers)
    )
routine("cublasSgemmEx", "ii nnn p pin pin p pin")(lambda *given: _of_kinds(False, *given, _COMPUTE[F32]))
