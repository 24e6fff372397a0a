"""cuBLASLt: descriptors of products, heuristics and the product itself."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import partial
from typing import Any

from gpusim.driver.api.copy import Fill
from gpusim.driver.caller import caller, put_int, put_pointer, read
from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.libraries.blas.multiply import check, multiply
from gpusim.driver.libraries.blas.product import BF16, FP8, KINDS, Epilogue, Matrix, MatrixProduct, Scalars, allows_tf32
from gpusim.driver.libraries.blas.state import Descriptor, Handle, add, destroy, find
from gpusim.driver.registry import entries, entry
from gpusim.driver.state import Driver

# cublasLtMatmulDescAttributes_t
_COMPUTE, _SCALE_TYPE, _POINTER_MODE, _TRANS_A, _TRANS_B, _TRANS_C = range(6)
_EPILOGUE, _BIAS, _BIAS_STRIDE, _AUX, _AUX_LEADING, _AUX_STRIDE = 7, 8, 10, 11, 12, 13
_SCALE_A, _SCALE_B, _SCALE_C, _SCALE_D, _LARGEST, _AUX_TYPE = 17, 18, 19, 20, 21, 22
_FAST, _BIAS_TYPE, _MODE_A, _MODE_B, _MODE_C, _MODE_D = 25, 26, 31, 32, 33, 34
# cublasLtMatrixLayoutAttribute_t
_TYPE, _ORDER, _ROWS, _COLUMNS, _LEADING, _BATCHES, _STRIDE, _PLANE, _BATCH_MODE = range(9)
_SCALAR, _OUTER_VECTOR = 0, 3  # cublasLtMatmulMatrixScale_t
_BIAS_FLAG, _AUX_FLAG = 4, 128
_EPILOGUES = (1, 2, 4, 6, 32, 36, 130, 134, 160, 164, 136, 192)
"""Epilogues that the kernel supports (cublasLtEpilogue_t); those that sum a bias's gradients are refused."""
_ALGORITHM = struct.pack("<8Q", 1, *(0,) * 7)
"""cublasLtMatmulAlgo_t of the one algorithm: its number, and nothing to choose."""


def _product(compute: int, scale: int) -> Descriptor:
    return Descriptor({_COMPUTE: struct.pack("<i", compute), _SCALE_TYPE: struct.pack("<i", scale)})


def _layout(kind: int, rows: int, columns: int, leading: int) -> Descriptor:
    sizes = {_ROWS: rows, _COLUMNS: columns, _LEADING: leading}
    return Descriptor({_TYPE: struct.pack("<i", kind), **{key: struct.pack("<Q", x) for key, x in sizes.items()}})


def _set(driver: Driver, handle: int, attribute: int, place: int, nbytes: int) -> None:
    fail_if(not place or not 0 < nbytes <= 64, ResultCode.INVALID_VALUE)
    find(driver, handle, Descriptor).attributes[attribute] = read(place, nbytes)


def _get(driver: Driver, handle: int, attribute: int, place: int, room: int, written: int) -> None:
    value = find(driver, handle, Descriptor).attributes.get(attribute, bytes(room))
    put_pointer(written, len(value))
    if place:
        fail_if(room < len(value), ResultCode.INVALID_VALUE)
        caller().write(place, value)


for _kind, _given, _make in (
    ("MatmulDesc", "i i", _product),
    ("MatrixLayout", "i q q q", _layout),
    ("MatmulPreference", "", Descriptor),
):
    entries(
        (f"cublasLt{_kind}Create", f"*p {_given}", lambda driver, *given, make=_make: add(driver, make(*given))),
        (f"cublasLt{_kind}Destroy", "p", partial(destroy, Descriptor)),
        (f"cublasLt{_kind}SetAttribute", "p i p q", _set),
        (f"cublasLt{_kind}GetAttribute", "p i p q p", _get),
        anytime=True,
    )


# --- algorithms -------------------------------------------------------------------------------------------------------


@entry("cublasLtMatmulAlgoGetHeuristic", "p ppppp p i p p")
def heuristic(driver: Driver, handle: int, *given: int) -> None:
    *described, _, most, results, count = given
    fail_if(most < 1 or not results or not count, ResultCode.INVALID_VALUE)
    put_int(count, 0)
    check(driver, _described(driver, *described))
    # cublasLtMatmulHeuristicResult_t: the algorithm, bytes of workspace, status, waves
    caller().write(results, _ALGORITHM + struct.pack("<Qif16x", 0, ResultCode.SUCCESS, 1.0))
    put_int(count, 1)


# --- the product ------------------------------------------------------------------------------------------------------


@entry("cublasLtMatmul", "p p p pp pp p pp pp (ppq) S")
def matmul(driver: Driver, handle: int, *given: Any) -> None:
    product, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, stream = given
    layouts = a_layout, b_layout, c_layout, d_layout
    find(driver, handle, Handle)
    what = _described(driver, product, *layouts, addresses=(a, b, c, d), scalars=(alpha, beta))
    if what.epilogue.largest:
        driver.enqueue(stream, Fill(driver, what.epilogue.largest, 0, 0, 4, 1, 1))
    multiply(driver, stream.handle, what)


def _described(
    driver: Driver, product: int, *layouts: int,
    addresses: Sequence[int] = (0, 0, 0, 0), scalars: Sequence[int] = (0, 0),
) -> MatrixProduct:  # fmt: skip
    """Return the product that is asked for. Raises INVALID_VALUE, NOT_SUPPORTED."""
    asked = find(driver, product, Descriptor)
    found = [find(driver, each, Descriptor) for each in layouts]
    operations = asked.number(_TRANS_A), asked.number(_TRANS_B), asked.number(_TRANS_C), 0
    scales = [asked.address(each) for each in (_SCALE_A, _SCALE_B, _SCALE_C, _SCALE_D)]
    modes = [asked.number(each) for each in (_MODE_A, _MODE_B, _MODE_C, _MODE_D)]
    fail_if(any(mode not in (_SCALAR, _OUTER_VECTOR) for mode in modes), ResultCode.NOT_SUPPORTED)
    fail_if(asked.number(_POINTER_MODE) not in (0, 1), ResultCode.NOT_SUPPORTED)
    a, b, c, d = (
        _matrix(layout, address, operation, scale, mode == _OUTER_VECTOR)
        for layout, address, operation, scale, mode in zip(found, addresses, operations, scales, modes, strict=True)
    )
    rows, columns = _shape(found[0], a)
    k, n = _shape(found[1], b)
    result = found[3].number(_ROWS), found[3].number(_COLUMNS)
    fail_if(columns != k or result != (rows, n), ResultCode.INVALID_VALUE)
    given = Scalars(asked.number(_SCALE_TYPE), *scalars, on_device=bool(asked.number(_POINTER_MODE)))
    batches = max(found[3].number(_BATCHES, 1), 1)
    tf32 = allows_tf32(asked.number(_COMPUTE))
    fast = asked.attributes.get(_FAST, b"\0")[0] != 0
    return MatrixProduct(rows, n, k, a, b, c, d, given, batches, False, tf32, fast, _epilogue(asked, c, d))


def _matrix(layout: Descriptor, address: int, operation: int, scale: int, each: bool) -> Matrix:
    fail_if(layout.number(_ORDER) not in (0, 1), ResultCode.NOT_SUPPORTED)
    fail_if(layout.number(_BATCH_MODE), ResultCode.NOT_SUPPORTED)
    sizes = layout.number(_LEADING), layout.number(_STRIDE)
    return Matrix(address, layout.number(_TYPE), *sizes, operation, bool(layout.number(_ORDER)), scale, each)


def _shape(layout: Descriptor, matrix: Matrix) -> tuple[int, int]:
    """Rows and columns of what is taken of a matrix."""
    rows, columns = layout.number(_ROWS), layout.number(_COLUMNS)
    return (columns, rows) if matrix.operation else (rows, columns)


def _epilogue(asked: Descriptor, c: Matrix, d: Matrix) -> Epilogue:
    flags = asked.number(_EPILOGUE, 1)
    fail_if(flags not in _EPILOGUES, ResultCode.NOT_SUPPORTED)
    real = c.kind in KINDS and KINDS[c.kind][0] in ("f32", "f16", "bf16")
    fail_if(flags != 1 and not real, ResultCode.NOT_SUPPORTED)
    bias = asked.address(_BIAS) if flags & _BIAS_FLAG else 0
    kind = asked.number(_BIAS_TYPE, -1)
    kind = kind if kind >= 0 else BF16 if d.kind in FP8 else d.kind
    fail_if(bias and kind != c.kind, ResultCode.NOT_SUPPORTED)
    fail_if(flags & _AUX_FLAG and asked.number(_AUX_TYPE, d.kind) not in (-1, d.kind), ResultCode.NOT_SUPPORTED)
    aux = asked.address(_AUX) if flags & _AUX_FLAG else 0
    leading, stride = asked.number(_AUX_LEADING), asked.number(_AUX_STRIDE)
    more = asked.number(_BIAS_STRIDE), aux, leading, stride, asked.address(_LARGEST)
    return Epilogue(flags, bias, *more)
