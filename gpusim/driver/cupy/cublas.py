"""In the place of `cupy_backends.cuda.libs.cublas`: products of matrices by a kernel of this package, since the
vendor's cuBLAS has the static runtime inside. What is not here is said to be missing.

A matrix lies column by column, as in cuBLAS. alpha and beta are addresses, of the host or of the device.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from cupy_backends.cuda.api import runtime

_CONSTANTS = """
CUBLAS_OP_N 0 CUBLAS_OP_T 1 CUBLAS_OP_C 2 CUBLAS_POINTER_MODE_HOST 0 CUBLAS_POINTER_MODE_DEVICE 1
CUBLAS_SIDE_LEFT 0 CUBLAS_SIDE_RIGHT 1 CUBLAS_FILL_MODE_LOWER 0 CUBLAS_FILL_MODE_UPPER 1
CUBLAS_DIAG_NON_UNIT 0 CUBLAS_DIAG_UNIT 1 CUBLAS_GEMM_DEFAULT -1 CUBLAS_GEMM_DEFAULT_TENSOR_OP 99
CUBLAS_GEMM_DFALT -1 CUBLAS_GEMM_DFALT_TENSOR_OP 99 CUBLAS_DEFAULT_MATH 0 CUBLAS_TENSOR_OP_MATH 1
CUBLAS_COMPUTE_16F 64 CUBLAS_COMPUTE_16F_PEDANTIC 65 CUBLAS_COMPUTE_32F 68 CUBLAS_COMPUTE_32F_PEDANTIC 69
CUBLAS_COMPUTE_32F_FAST_16F 74 CUBLAS_COMPUTE_32F_FAST_16BF 75 CUBLAS_COMPUTE_32F_FAST_TF32 77
CUBLAS_COMPUTE_64F 70 CUBLAS_COMPUTE_64F_PEDANTIC 71 CUBLAS_COMPUTE_32I 72 CUBLAS_COMPUTE_32I_PEDANTIC 73
"""
_words = _CONSTANTS.split()
globals().update(zip(_words[::2], map(int, _words[1::2]), strict=True))
_SOURCE = Path(__file__).with_name("matrix_product.cu")
_TILE, _MOST_BLOCKS = 16, 65535
_NOT_SUPPORTED = 15
_COMPUTED_IN_HALF = (64, 65)
_R_32F, _R_64F, _R_16F, _C_32F, _C_64F, _R_16BF = 0, 1, 2, 4, 5, 14
_ELEMENTS = {
    _R_32F: ("float", np.float32),
    _R_64F: ("double", np.float64),
    _R_16F: ("__half", np.float32),
    _C_32F: ("complex<float>", np.complex64),
    _C_64F: ("complex<double>", np.complex128),
    _R_16BF: ("__nv_bfloat16", np.float32),
}
"""Type in CUDA C++, and what its products are summed in, by cudaDataType."""


class CUBLASError(RuntimeError):
    """An error code of cuBLAS. status: cublasStatus_t."""

    def __init__(self, status: int):
        self.status = status
        super().__init__(
            "CUBLAS_STATUS_NOT_SUPPORTED" if status == _NOT_SUPPORTED else f"cuBLAS status {status}"
        )

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return type(self), (self.status,)


def check_status(status: int) -> None:
    if status != 0:
        raise CUBLASError(status)


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"cuBLAS is not simulated, only its products of matrices are: there is no {name}", name=name
    )


# --- handles ----------------------------------------------------------------------------------------------------------

_states: dict[int, dict[str, int]] = {}
_handles = itertools.count(1)


def create() -> int:
    _states[handle := next(_handles)] = {"pointer mode": 0, "stream": 0, "math mode": 0}
    return handle


destroy = _states.pop  # no function of this module, whose names may be gone when CuPy's handles end


def getVersion(handle: int) -> int:
    return 130000


def _property(name: str) -> tuple[Callable[[int], int], Callable[[int, int], None]]:
    def set_it(handle: int, value: int) -> None:
        _states[handle][name] = value

    return lambda handle: _states[handle][name], set_it


getPointerMode, setPointerMode = _property("pointer mode")
getStream, setStream = _property("stream")
getMathMode, setMathMode = _property("math mode")

# --- products ---------------------------------------------------------------------------------------------------------

_MATRIX = np.dtype([(name, np.int64) for name in ("first", "list", "row", "column", "batch", "conjugate")])
"""A matrix as the kernel gets it; strides in elements."""


def _matrix(address: int, row: int, column: int, operation: int = 0, batch: int | None = 0) -> Any:
    """op() of a matrix at an address. row, column, batch: elements from one to the next; no batch: the address is that
    of the addresses of all matrices."""
    if operation != 0:
        row, column = column, row
    places = (address, 0, row, column, batch) if batch is not None else (0, address, row, column, 0)
    return np.array((*places, operation == 2), dtype=_MATRIX)[()]


def _scalar(address: int, kind: Any) -> Any:
    value = np.empty((), kind)
    runtime.memcpy(value.ctypes.data, address, value.nbytes, runtime.memcpyDefault)
    return value[()]


def _multiply(
    shape: tuple[int, int, int], scalars: tuple[int, int], types: Any, matrices: Any, count: int = 1
) -> None:
    """C = alpha A B + beta C. shape: m, n and k. scalars: addresses of alpha and beta. types: cudaDataType of A, B and
    C. count: of the batch."""
    if any(each not in _ELEMENTS for each in types):
        raise CUBLASError(_NOT_SUPPORTED)
    names, sums = zip(*(_ELEMENTS[each] for each in types), strict=True)
    kind = np.result_type(*sums).type
    total = next(name for name, found in _ELEMENTS.values() if found is kind)
    kernel = _kernel(
        *(f"-DELEMENT_{letter}={name}" for letter, name in zip("ABC", names, strict=True)), f"-DSUM={total}"
    )
    values = *(np.int32(each) for each in shape), *(_scalar(each, kind) for each in scalars)
    tiles = -(-shape[0] // _TILE), -(-shape[1] // _TILE)
    for first in range(0, count if all(tiles) else 0, _MOST_BLOCKS):
        grid = (*tiles, min(count - first, _MOST_BLOCKS))
        kernel(grid, (_TILE, _TILE), (*values, np.int64(first), *matrices))


@cache
def _kernel(*options: str) -> Any:
    import cupy

    return cupy.RawKernel(_SOURCE.read_text(), "matrix_product", options=("-std=c++17", *options))


def gemmStridedBatchedEx(
    handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, *rest: int
) -> None:
    """rest: address, type, leading dimension and stride of A and of B, beta, the same four of C, then the number of
    matrices, cublasComputeType_t or cudaDataType, cublasGemmAlgo_t."""
    a, type_a, lda, stride_a, b, type_b, ldb, stride_b, beta, c, type_c, ldc, stride_c, count, compute, _ = (
        rest
    )
    if compute in _COMPUTED_IN_HALF:
        raise CUBLASError(_NOT_SUPPORTED)
    operands = (
        _matrix(a, 1, lda, transa, stride_a),
        _matrix(b, 1, ldb, transb, stride_b),
        _matrix(c, 1, ldc, 0, stride_c),
    )
    _multiply((m, n, k), (alpha, beta), (type_a, type_b, type_c), operands, count)


def gemmEx(handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, *rest: int) -> None:
    """As above without strides and number."""
    a, b, (beta, *c), compute = rest[0:3], rest[3:6], rest[6:10], rest[10:12]
    gemmStridedBatchedEx(handle, transa, transb, m, n, k, alpha, *a, 0, *b, 0, beta, *c, 0, 1, *compute)


def sgemmEx(handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, *rest: int) -> None:
    gemmEx(handle, transa, transb, m, n, k, alpha, *rest, _R_32F, -1)


def _of_type(kind: int) -> dict[str, Callable[..., None]]:
    """The functions for matrices of one type, by their names without the letter for it."""

    def gemm(handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, *rest: int) -> None:
        a, lda, b, ldb, beta, c, ldc = rest
        gemmEx(
            handle, transa, transb, m, n, k, alpha, a, kind, lda, b, kind, ldb, beta, c, kind, ldc, kind, -1
        )

    def strided(
        handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, *rest: int
    ) -> None:
        (a, *of_a), (b, *of_b), (beta, c, *of_c), count = rest[0:3], rest[3:6], rest[6:10], rest[10]
        operands = a, kind, *of_a, b, kind, *of_b, beta, c, kind, *of_c
        gemmStridedBatchedEx(handle, transa, transb, m, n, k, alpha, *operands, count, kind, -1)

    def batched(
        handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int, *rest: int
    ) -> None:
        a, lda, b, ldb, beta, c, ldc, count = rest
        lists = (
            _matrix(a, 1, lda, transa, None),
            _matrix(b, 1, ldb, transb, None),
            _matrix(c, 1, ldc, 0, None),
        )
        _multiply((m, n, k), (alpha, beta), (kind,) * 3, lists, count)

    def gemv(handle: int, trans: int, m: int, n: int, alpha: int, *rest: int) -> None:
        a, lda, x, incx, beta, y, incy = rest
        rows, columns = (m, n) if trans == 0 else (n, m)
        operands = _matrix(a, 1, lda, trans), _matrix(x, incx, 1), _matrix(y, incy, 1)
        _multiply((rows, 1, columns), (alpha, beta), (kind,) * 3, operands)

    def geam(handle: int, transa: int, transb: int, m: int, n: int, alpha: int, *rest: int) -> None:
        """C = alpha op(A) + beta op(B)."""
        a, lda, beta, b, ldb, c, ldc = rest
        result = _array(kind, c, m, n, ldc, 0)
        result[...] = _array(kind, a, m, n, lda, transa) * _scalar(alpha, result.dtype)
        if factor := _scalar(beta, result.dtype):
            result += _array(kind, b, m, n, ldb, transb) * factor

    found = gemm, strided, batched, gemv, geam
    return dict(zip(("gemm", "gemmStridedBatched", "gemmBatched", "gemv", "geam"), found, strict=True))


def _array(kind: int, address: int, rows: int, columns: int, leading: int, operation: int) -> Any:
    """op() of the matrix at an address as an array of CuPy's."""
    import cupy

    of = np.dtype(_ELEMENTS[kind][1])
    shape = (rows, columns) if operation == 0 else (columns, rows)
    memory = cupy.cuda.UnownedMemory(address, leading * shape[1] * of.itemsize, None)
    pointer = cupy.cuda.MemoryPointer(memory, 0)
    array = cupy.ndarray(shape, of, pointer, strides=(of.itemsize, leading * of.itemsize))
    return (array, array.T, array.T.conj())[operation]


for _letter, _kind in {"s": _R_32F, "d": _R_64F, "c": _C_32F, "z": _C_64F}.items():
    globals().update({_letter + name: function for name, function in _of_type(_kind).items()})
