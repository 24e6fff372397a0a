"""cuBLAS as a C program calls it, through ctypes: arrays on the device, handles, products compared with NumPy's.

Imported by programs that `driver_program.run` starts, where the simulated driver is installed.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
from typing import Any

import numpy as np

F32, F64, F16, I8, C32, C64, I32, BF16, E4M3, E5M2 = 0, 1, 2, 3, 4, 5, 10, 14, 28, 29
N, T, C = 0, 1, 2
NUMPY = {F32: "f4", F64: "f8", F16: "f2", I8: "i1", C32: "c8", C64: "c16", I32: "i4"}
NUMPY |= {BF16: "u2", E4M3: "u1", E5M2: "u1"}
runtime = ctypes.CDLL("libcudart.so.13")
blas = ctypes.CDLL("libcublas.so.13")
lt = ctypes.CDLL("libcublasLt.so.13")


def check(status: int) -> None:
    assert status == 0, status


def p(value: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(value)


def pointer_of(values: np.ndarray) -> ctypes.c_void_p:
    return p(values.ctypes.data)


def to_device(values: np.ndarray) -> int:
    """Address of a copy of an array as it lies in memory."""
    place = ctypes.c_void_p()
    check(runtime.cudaMalloc(ctypes.byref(place), ctypes.c_size_t(max(values.nbytes, 1))))
    check(runtime.cudaMemcpy(place, pointer_of(values), ctypes.c_size_t(values.nbytes), 1))
    return place.value or 0


def to_host(address: int, like: np.ndarray) -> np.ndarray:
    found = np.empty_like(like)
    check(runtime.cudaMemcpy(pointer_of(found), p(address), ctypes.c_size_t(found.nbytes), 2))
    return found


def new_handle() -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    check(blas.cublasCreate_v2(ctypes.byref(handle)))
    return handle


# --- numbers of types that NumPy does not have ------------------------------------------------------------------------


def encoded(values: np.ndarray, kind: int) -> np.ndarray:
    """Values as they lie in memory."""
    if kind == BF16:
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16).reshape(values.shape)
    if kind in (E4M3, E5M2):
        table = decoded(np.arange(256, dtype=np.uint8), kind)
        distance = np.abs(values.reshape(-1, 1) - table)
        return np.nanargmin(distance, axis=1).astype(np.uint8).reshape(values.shape)
    return values.astype(NUMPY[kind])


def decoded(values: np.ndarray, kind: int) -> np.ndarray:
    """What lies in memory, as values."""
    if kind == BF16:
        return (values.astype(np.uint32) << 16).view(np.float32)
    if kind == E5M2:
        return (values.astype(np.uint16) << 8).view(np.float16).astype(np.float32)
    if kind == E4M3:
        exponent, fraction = values >> 3 & 15, (values & 7).astype(np.float32)
        size = np.where(exponent, (8 + fraction) * 2.0 ** (exponent.astype(np.float32) - 10), fraction * 2.0**-9)
        size = np.where((values & 0x7F) == 0x7F, np.nan, size)
        return (np.where(values & 0x80, -1, 1) * size).astype(np.float32)
    return values


def some(rng: np.random.Generator, shape: tuple[int, ...], kind: int) -> np.ndarray:
    """Values of a type, as they lie in memory, in Fortran's order."""
    if kind in (I8, I32):
        found = rng.integers(-9, 10, shape)
    else:
        found = rng.standard_normal(shape)
        if kind in (C32, C64):
            found = found + 1j * rng.standard_normal(shape)
    return np.asfortranarray(encoded(np.asarray(found), kind))


def exact(values: np.ndarray, kind: int) -> np.ndarray:
    """Values with which a reference is computed."""
    return decoded(values, kind).astype(np.complex128 if kind in (C32, C64) else np.float64)


def taken(values: np.ndarray, operation: int) -> np.ndarray:
    return values if operation == N else values.T if operation == T else values.conj().T


TOLERANCE = {F16: 2e-3, BF16: 1e-2, E4M3: 0.07, E5M2: 0.13, F32: 2e-6, C32: 2e-6, F64: 1e-14, C64: 1e-14, I32: 0, I8: 0}


def assert_near(found: np.ndarray, wanted: np.ndarray, kind: int, k: int, tolerance: float | None = None) -> None:
    near = TOLERANCE[kind] if tolerance is None else tolerance
    np.testing.assert_allclose(exact(found, kind), wanted, rtol=near, atol=near * max(k, 1) ** 0.5)


def scalar(value: complex, kind: int) -> np.ndarray:
    return np.array([value if kind in (C32, C64) else np.real(value)]).astype(NUMPY[kind])


def gemm_ex(
    handle: ctypes.c_void_p,
    extents: tuple[int, int, int],
    operations: tuple[int, int] = (N, N),
    kinds: tuple[int, int, int] = (F32, F32, F32),
    compute: int = 68,
    scalars: tuple[complex, complex] = (1, 0),
    extra: int = 0,
    on_device: bool = False,
    tolerance: float | None = None,
    seed: int = 1,
) -> np.ndarray:
    """Call cublasGemmEx with random matrices, whose columns are `extra` longer than they need be, and compare."""
    rng = np.random.default_rng(seed)
    m, n, k = extents
    shapes = [(k, m) if operations[0] else (m, k), (n, k) if operations[1] else (k, n), (m, n)]
    a, b, c = (some(rng, (rows + extra, columns), kind) for (rows, columns), kind in zip(shapes, kinds, strict=True))
    kind_of_scalars = {64: F16, 70: F64, 72: I32}.get(compute, F32)
    if kinds[2] in (C32, C64):
        kind_of_scalars = kinds[2]
    alpha, beta = (scalar(each, kind_of_scalars) for each in scalars)
    where = [to_device(each) for each in (a, b, c)]
    given = [p(to_device(each)) if on_device else pointer_of(each) for each in (alpha, beta)]
    check(blas.cublasSetPointerMode_v2(handle, int(on_device)))
    arguments: list[Any] = [handle, *operations, m, n, k, given[0]]
    for place, kind, values in zip(where[:2], kinds[:2], (a, b), strict=True):
        arguments += [p(place), kind, max(values.shape[0], 1)]
    arguments += [given[1], p(where[2]), kinds[2], max(c.shape[0], 1), compute, -1]
    check(blas.cublasGemmEx(*arguments))
    found = to_host(where[2], c)
    first, second = (exact(x[:rows], kind) for x, (rows, _), kind in zip((a, b), shapes[:2], kinds[:2], strict=True))
    product = taken(first, operations[0]) @ taken(second, operations[1])
    wanted = alpha[0] * product + (beta[0] * exact(c[:m], kinds[2]) if beta[0] else 0)
    assert_near(found[:m], wanted, kinds[2], k, tolerance)
    assert (found[m:] == c[m:]).all()  # what lies between the columns stays
    return found


# --- cuBLASLt ---------------------------------------------------------------------------------------------------------

_LETTERS = {1: "i", 2: "i", 3: "i", 4: "i", 7: "I", 22: "i", 26: "i", 31: "i", 32: "i"}


def descriptor(compute: int, scale: int, **attributes: int) -> ctypes.c_void_p:
    """attributes: by numbers of cublasLtMatmulDescAttributes_t, as `_3=1`."""
    made = ctypes.c_void_p()
    check(lt.cublasLtMatmulDescCreate(ctypes.byref(made), compute, scale))
    for name, value in attributes.items():
        number = int(name[1:])
        data = struct.pack("<" + _LETTERS.get(number, "Q"), value)
        check(lt.cublasLtMatmulDescSetAttribute(made, number, data, ctypes.c_size_t(len(data))))
    return made


def layout(kind: int, rows: int, columns: int, leading: int, **attributes: int) -> ctypes.c_void_p:
    made = ctypes.c_void_p()
    sizes = (ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(leading))
    check(lt.cublasLtMatrixLayoutCreate(ctypes.byref(made), kind, *sizes))
    for name, value in attributes.items():
        number = int(name[1:])
        data = struct.pack("<q" if number == 6 else "<i", value)
        check(lt.cublasLtMatrixLayoutSetAttribute(made, number, data, ctypes.c_size_t(len(data))))
    return made


def matmul(
    handle: ctypes.c_void_p,
    product: ctypes.c_void_p,
    matrices: list[tuple[int, ctypes.c_void_p]],
    scalars: tuple[float, float] = (1, 0),
    scale: int = F32,
) -> int:
    """Ask for an algorithm and multiply with it; the first status that is no success. matrices: A, B, C, D."""
    preference, count = ctypes.c_void_p(), ctypes.c_int()
    check(lt.cublasLtMatmulPreferenceCreate(ctypes.byref(preference)))
    result = ctypes.create_string_buffer(96)
    layouts = [each for _, each in matrices]
    status = lt.cublasLtMatmulAlgoGetHeuristic(handle, product, *layouts, preference, 1, result, ctypes.byref(count))
    if status:
        return int(status)
    assert count.value == 1
    kept = [scalar(each, scale) for each in scalars]
    alpha, beta = map(pointer_of, kept)
    (a, al), (b, bl), (c, cl), (d, dl) = ((p(place), of) for place, of in matrices)
    rest = c, cl, d, dl, result, None, ctypes.c_size_t(0), None
    status = lt.cublasLtMatmul(handle, product, alpha, a, al, b, bl, beta, *rest)
    return int(status)


ALL = list(itertools.product((N, T), (N, T)))
