"""cuSPARSE as a C program calls it, through ctypes: matrices of every format, compared with NumPy's products.

Imported by programs that `driver_program.run` starts, where the simulated driver is installed.
"""

from __future__ import annotations

import ctypes
import itertools  # noqa: F401 - for programs that take all of this module
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.gpusim.blas_program import (
    BF16,
    C32,
    C64,
    F16,
    F32,
    F64,
    check,
    decoded,
    encoded,
    p,
    runtime,
    to_device,
    to_host,
)

sparse = ctypes.CDLL("libcusparse.so.12")
INVALID_VALUE, NOT_SUPPORTED = 3, 10
CSR, CSC, COO, BSR = "Csr", "Csc", "Coo", "Bsr"
_COMPUTED = {F64: F64, C32: C32, C64: C64}
_SCALAR = {F32: "f4", F64: "f8", C32: "c8", C64: "c16"}
_NEAR = {F32: 1e-5, F64: 1e-12, F16: 2e-3, BF16: 2e-2, C32: 1e-5, C64: 1e-12}
rng = np.random.default_rng(5)


def new_handle() -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    check(sparse.cusparseCreate(ctypes.byref(handle)))
    return handle


handle = new_handle()


def q(value: int) -> ctypes.c_int64:
    return ctypes.c_int64(value)


def made(name: str, *given: Any) -> ctypes.c_void_p:
    """A descriptor."""
    found = ctypes.c_void_p()
    check(getattr(sparse, f"cusparseCreate{name}")(ctypes.byref(found), *given))
    return found


def drawn(rows: int, columns: int, kind: int = F32, density: float = 0.2) -> np.ndarray:
    """A matrix, most of whose elements are 0, as rounded to a type."""
    found = rng.standard_normal((rows, columns)) + (
        1j * rng.standard_normal((rows, columns)) if kind in (C32, C64) else 0
    )
    found[rng.random((rows, columns)) > density] = 0
    return decoded(encoded(found, kind), kind).astype("c16" if kind in (C32, C64) else "f8")


@dataclass
class Sparse:
    """A matrix on the device. places: of offsets (of COO rows), indices and values."""

    matrix: np.ndarray
    handle: ctypes.c_void_p
    places: tuple[int, int, int]
    count: int


def sparse_of(matrix: np.ndarray, form: str = CSR, kind: int = F32, index: int = 2, base: int = 0) -> Sparse:
    """A matrix in a format. index: cusparseIndexType_t."""
    by_lines = matrix.T if form == CSC else matrix
    lines, indices = np.nonzero(by_lines)
    offsets = lines if form == COO else np.searchsorted(lines, np.arange(len(by_lines) + 1))
    of = {2: "i4", 3: "i8"}[index]
    arrays = (offsets + base).astype(of), (indices + base).astype(of), encoded(by_lines[lines, indices], kind)
    places = tuple(to_device(each) for each in arrays)
    types = (index, base, kind) if form == COO else (index, index, base, kind)
    made_of = made(form, *map(q, (*matrix.shape, len(lines))), *map(p, places), *types)
    return Sparse(matrix, made_of, places, len(lines))


def blocks_of(matrix: np.ndarray, block: int, kind: int = F32, by_rows: bool = True) -> Sparse:
    """A matrix in blocks."""
    rows, columns = matrix.shape[0] // block, matrix.shape[1] // block
    tiles = matrix.reshape(rows, block, columns, block).transpose(0, 2, 1, 3)
    lines, indices = np.nonzero(np.abs(tiles).sum((2, 3)))
    values = tiles[lines, indices] if by_rows else tiles[lines, indices].transpose(0, 2, 1)
    offsets = np.searchsorted(lines, np.arange(rows + 1))
    arrays = offsets.astype("i4"), indices.astype("i4"), encoded(np.ascontiguousarray(values), kind)
    places = tuple(to_device(each) for each in arrays)
    sizes = map(q, (rows, columns, len(lines), block, block))
    made_of = made(BSR, *sizes, *map(p, places), 2, 2, 0, kind, 2 if by_rows else 1)
    return Sparse(matrix, made_of, places, len(lines))


def dense_of(matrix: np.ndarray, kind: int = F32, by_rows: bool = True) -> tuple[ctypes.c_void_p, int, np.ndarray]:
    """The descriptor, address and content of a dense matrix or vector; a matrix has room between its lines."""
    lines = np.atleast_2d(matrix if by_rows else matrix.T)
    padded = np.zeros((lines.shape[0], lines.shape[1] + 3 * (matrix.ndim > 1)), lines.dtype)
    padded[:, : lines.shape[1]] = lines
    content = encoded(padded, kind)
    place = to_device(content)
    if matrix.ndim == 1:
        return made("DnVec", q(len(matrix)), p(place), kind), place, content
    given = *map(q, (*matrix.shape, content.shape[1])), p(place), kind, 2 if by_rows else 1
    return made("DnMat", *given), place, content


def found_in(dense: tuple[ctypes.c_void_p, int, np.ndarray], like: np.ndarray, kind: int, by_rows: bool = True) -> Any:
    """What lies in a dense matrix or vector."""
    lines = decoded(to_host(dense[1], dense[2]), kind)
    extents = like.shape if by_rows else like.shape[::-1]
    return lines[0] if like.ndim == 1 else (lines[:, : extents[1]] if by_rows else lines[:, : extents[1]].T)


def scalar(value: complex, kind: int, on_device: bool = False) -> ctypes.c_void_p:
    content = np.array([value], _SCALAR[_COMPUTED.get(kind, F32)])
    _kept.append(content)
    return p(to_device(content) if on_device else content.ctypes.data)


_kept: list[np.ndarray] = []


def room(size: int) -> ctypes.c_void_p:
    place = ctypes.c_void_p()
    check(runtime.cudaMalloc(ctypes.byref(place), ctypes.c_size_t(max(size, 8))))
    return place


def taken(matrix: np.ndarray, operation: int) -> np.ndarray:
    return (matrix, matrix.T, matrix.conj().T)[operation]


def near(found: np.ndarray, wanted: np.ndarray, kind: int, terms: int = 1) -> None:
    limit = _NEAR[kind] * (1 + np.sqrt(terms)) * max(1.0, float(np.abs(wanted).max(initial=0)))
    worst = float(np.abs(found - wanted).max(initial=0))
    assert worst <= limit, (worst, limit)


def multiply(
    a: Sparse,
    columns: int,
    kind: int = F32,
    ops: tuple[int, int] = (0, 0),
    rows: tuple[bool, bool] = (True, True),
    on_device: bool = False,
) -> None:
    """Y = alpha op(A) op(X) + beta Y, compared with NumPy's; by a vector if there are no columns. rows: whether X and Y
    lie by rows."""  # fmt: skip
    m, k = taken(a.matrix, ops[0]).shape
    x_shape = ((columns, k) if ops[1] else (k, columns)) if columns else (k,)
    x, y = (
        drawn(*(shape if columns else (*shape, 1)), kind, 1.0).reshape(shape)
        for shape in (x_shape, (m, columns)[: 1 + bool(columns)])
    )
    of_x, of_y = dense_of(x, kind, rows[0]), dense_of(y, kind, rows[1])
    alpha, beta, compute = scalar(1.5, kind, on_device), scalar(-0.5, kind, on_device), _COMPUTED.get(kind, F32)
    check(sparse.cusparseSetPointerMode(handle, int(on_device)))
    given = *ops[: 1 + bool(columns)], alpha, a.handle, of_x[0], beta, of_y[0], compute, 0
    name, size = f"cusparseSpM{'M' if columns else 'V'}", ctypes.c_size_t()
    check(getattr(sparse, f"{name}_bufferSize")(handle, *given, ctypes.byref(size)))
    check(getattr(sparse, name)(handle, *given, room(size.value)))
    wanted = 1.5 * taken(a.matrix, ops[0]) @ (taken(x, ops[1]) if columns else x) - 0.5 * y
    near(found_in(of_y, y, kind, rows[1]), wanted, kind, k)


def sampled(form: str, kind: int, ops: tuple[int, int] = (0, 0), index: int = 2) -> None:
    """C = alpha op(X) op(Y) + beta C where C has elements, compared with NumPy's."""
    c = drawn(21, 34, kind)
    x, y = (
        drawn(*(shape[::-1] if op else shape), kind, 1.0) for shape, op in zip(((21, 40), (40, 34)), ops, strict=True)
    )
    of = sparse_of(c, form, kind, index, base=1)
    alpha, beta, compute = scalar(1.5, kind), scalar(0.5, kind), _COMPUTED.get(kind, F32)
    given = *ops, alpha, dense_of(x, kind)[0], dense_of(y, kind, False)[0], beta, of.handle, compute, 0
    size = ctypes.c_size_t()
    check(sparse.cusparseSDDMM_bufferSize(handle, *given, ctypes.byref(size)))
    check(sparse.cusparseSDDMM(handle, *given, room(size.value)))
    wanted = 1.5 * taken(x, ops[0]) @ taken(y, ops[1]) + 0.5 * c
    wanted[c == 0] = 0
    near(as_dense(of, form, kind), wanted, kind, 40)


def as_dense(of: Sparse, form: str, kind: int) -> np.ndarray:
    """A sparse matrix, as the library writes it out."""
    dense = dense_of(np.ones(of.matrix.shape), kind, False)
    size = ctypes.c_size_t()
    check(sparse.cusparseSparseToDense_bufferSize(handle, of.handle, dense[0], 0, ctypes.byref(size)))
    check(sparse.cusparseSparseToDense(handle, of.handle, dense[0], 0, room(size.value)))
    return found_in(dense, of.matrix, kind, False)


def size_of(matrix: ctypes.c_void_p) -> tuple[int, ...]:
    found = [ctypes.c_int64() for _ in range(3)]
    check(sparse.cusparseSpMatGetSize(matrix, *map(ctypes.byref, found)))
    return tuple(each.value for each in found)


def from_dense(matrix: np.ndarray, form: str, kind: int, index: int) -> None:
    """A dense matrix becomes one of a format, and is the same."""
    dense = dense_of(matrix, kind)
    rows, columns = matrix.shape
    offsets, size = room(8 * (max(rows, columns) + 1)), ctypes.c_size_t()
    kinds = (index, 1, kind) if form == COO else (index, index, 1, kind)
    of = made(form, q(rows), q(columns), q(0), None if form == COO else offsets, None, None, *kinds)
    check(sparse.cusparseDenseToSparse_bufferSize(handle, dense[0], of, 0, ctypes.byref(size)))
    buffer = room(size.value)
    check(sparse.cusparseDenseToSparse_analysis(handle, dense[0], of, 0, buffer))
    assert size_of(of) == (rows, columns, np.count_nonzero(matrix)), size_of(of)
    places = [offsets, *(room(16 * size_of(of)[2]) for _ in range(2))]
    if form == COO:
        places[0] = room(8 * size_of(of)[2])
    check(getattr(sparse, f"cusparse{form}SetPointers")(of, *places))
    check(sparse.cusparseDenseToSparse_convert(handle, dense[0], of, 0, buffer))
    near(as_dense(Sparse(matrix, of, (0, 0, 0), 0), form, kind), matrix, kind)


def multiply_sparse(a: np.ndarray, b: np.ndarray, kind: int = F32, index: int = 2, base: int = 0) -> None:
    """C = alpha A B of sparse matrices, compared with NumPy's; its elements are in order."""
    first, second = (sparse_of(each, CSR, kind, index, base) for each in (a, b))
    shape, state = (a.shape[0], b.shape[1]), ctypes.c_void_p()
    offsets = room(8 * (shape[0] + 1))
    c = made(CSR, q(shape[0]), q(shape[1]), q(0), offsets, None, None, index, index, base, kind)
    check(sparse.cusparseSpGEMM_createDescr(ctypes.byref(state)))
    alpha, beta, compute = scalar(1.5, kind), scalar(0, kind), _COMPUTED.get(kind, F32)
    given = 0, 0, alpha, first.handle, second.handle, beta, c, compute, 0, state
    for phase in (sparse.cusparseSpGEMM_workEstimation, sparse.cusparseSpGEMM_compute):
        size = ctypes.c_size_t()
        check(phase(handle, *given, ctypes.byref(size), None))
        check(phase(handle, *given, ctypes.byref(size), room(size.value)))
    wanted = 1.5 * a @ b
    pattern = (a != 0).astype("f8") @ (b != 0)
    count = size_of(c)[2]
    assert count == np.count_nonzero(pattern), (count, np.count_nonzero(pattern))
    indices = room(8 * count)
    check(sparse.cusparseCsrSetPointers(c, offsets, indices, room(16 * count)))
    check(sparse.cusparseSpGEMM_copy(handle, *given))
    near(as_dense(Sparse(wanted, c, (0, 0, 0), 0), CSR, kind), wanted, kind, a.shape[1])
    assert list(to_host(indices.value or 0, np.zeros(count, ("i4", "i8")[index - 2])) - base) == list(
        np.nonzero(pattern)[1]
    )
    check(sparse.cusparseSpGEMM_destroyDescr(state))


def legacy(base: int = 0) -> ctypes.c_void_p:
    found = made("MatDescr")
    check(sparse.cusparseSetMatIndexBase(found, base))
    assert sparse.cusparseGetMatIndexBase(found) == base
    return found


def add_sparse(a: np.ndarray, b: np.ndarray, letter: str, kind: int) -> None:
    """C = alpha A + beta B of sparse matrices, compared with NumPy's."""
    (m, n), descriptor, alpha, beta = a.shape, legacy(), scalar(1.5, kind), scalar(-2, kind)
    first, second = (sparse_of(each, CSR, kind) for each in (a, b))
    parts = [(each.count, p(each.places[2]), p(each.places[0]), p(each.places[1])) for each in (first, second)]
    offsets, size, total = room(4 * (m + 1)), ctypes.c_size_t(), ctypes.c_int()
    both = alpha, descriptor, *parts[0], beta, descriptor, *parts[1], descriptor
    sizes = getattr(sparse, f"cusparse{letter}csrgeam2_bufferSizeExt")
    check(sizes(handle, m, n, *both, None, offsets, None, ctypes.byref(size)))
    buffer, patterns = room(size.value), [(descriptor, each[0], *each[2:]) for each in parts]
    given = *patterns[0], *patterns[1], descriptor, offsets, ctypes.byref(total), buffer
    check(sparse.cusparseXcsrgeam2Nnz(handle, m, n, *given))
    assert total.value == np.count_nonzero((a != 0) | (b != 0))
    indices, values = room(4 * total.value), room(16 * total.value)
    check(getattr(sparse, f"cusparse{letter}csrgeam2")(handle, m, n, *both, values, offsets, indices, buffer))
    c = made(CSR, q(m), q(n), q(total.value), offsets, indices, values, 2, 2, 0, kind)
    near(as_dense(Sparse(a, c, (0, 0, 0), 0), CSR, kind), 1.5 * a - 2 * b, kind)


def sort(symbol: str, count: int, extents: tuple[int, int]) -> None:
    """Elements in any order are put in theirs, and the numbers that go with them follow. symbol: 'coosortByRow', ..."""
    lines, indices = (rng.integers(0, each, count).astype("i4") for each in extents)
    by_lines = not symbol.startswith("coo")
    if by_lines:
        lines = np.sort(lines)
    of = np.searchsorted(lines, np.arange(extents[0] + 1)).astype("i4") if by_lines else lines
    places, order, size = (to_device(of), to_device(indices)), room(4 * count), ctypes.c_size_t()
    check(sparse.cusparseCreateIdentityPermutation(handle, count, order))
    head = handle, *(extents[::-1] if symbol == "cscsort" else extents), count
    sizes = getattr(sparse, f"cusparseX{symbol.split('By')[0]}_bufferSizeExt")
    check(sizes(*head, p(places[0]), p(places[1]), ctypes.byref(size)))
    more = (legacy(),) if by_lines else ()
    check(getattr(sparse, f"cusparseX{symbol}")(*head, *more, p(places[0]), p(places[1]), order, room(size.value)))
    keys = (lines, indices) if symbol.endswith("Column") else (indices, lines)
    wanted = np.lexsort(keys)
    assert np.array_equal(to_host(order.value or 0, indices), wanted)
    assert np.array_equal(to_host(places[1], indices), indices[wanted])
    assert np.array_equal(to_host(places[0], of), of if by_lines else lines[wanted])


def turn(matrix: np.ndarray, kind: int, base: int) -> None:
    """CSR to CSC, and through COO back to offsets."""
    (m, n), of, size = matrix.shape, sparse_of(matrix, CSR, kind, base=base), ctypes.c_size_t()
    values, offsets, indices = room(16 * of.count), room(4 * (n + 1)), room(4 * of.count)
    given = (
        m,
        n,
        of.count,
        p(of.places[2]),
        p(of.places[0]),
        p(of.places[1]),
        values,
        offsets,
        indices,
        kind,
        1,
        base,
        1,
    )
    check(sparse.cusparseCsr2cscEx2_bufferSize(handle, *given, ctypes.byref(size)))
    check(sparse.cusparseCsr2cscEx2(handle, *given, room(size.value)))
    c = made(CSC, q(m), q(n), q(of.count), offsets, indices, values, 2, 2, base, kind)
    near(as_dense(Sparse(matrix, c, (0, 0, 0), 0), CSC, kind), matrix, kind)
    lines, again = room(4 * of.count), room(4 * (m + 1))
    check(sparse.cusparseXcsr2coo(handle, p(of.places[0]), of.count, m, lines, base))
    check(sparse.cusparseXcoo2csr(handle, lines, of.count, m, again, base))
    rows = np.nonzero(matrix)[0].astype("i4")
    assert np.array_equal(to_host(lines.value or 0, rows), rows + base)
    wanted = np.searchsorted(rows, np.arange(m + 1)).astype("i4") + base
    assert np.array_equal(to_host(again.value or 0, wanted), wanted)


def solve(form: str, kind: int, lower: bool, op: int, unit: bool = False, columns: int = 0) -> None:
    """op(A) Y = alpha op(X), where the other triangle of A is not 0 but is not looked at."""
    matrix = drawn(40, 40, kind) / 8 + np.diag(1 + rng.random(40))
    of, given = sparse_of(matrix, form, kind), drawn(40, columns or 1, kind, 1.0)
    for attribute, value in enumerate((not lower, unit)):
        content = np.array([value], "i4")
        check(sparse.cusparseSpMatSetAttribute(of.handle, attribute, p(content.ctypes.data), ctypes.c_size_t(4)))
    x = given if columns else given[:, 0]
    of_x, of_y, state, size = (
        dense_of(x, kind),
        dense_of(np.zeros_like(x), kind, False),
        ctypes.c_void_p(),
        ctypes.c_size_t(),
    )
    name = f"cusparseSpS{'M' if columns else 'V'}"
    check(getattr(sparse, f"{name}_createDescr")(ctypes.byref(state)))
    ops = (op, 0)[: 1 + bool(columns)]
    all_of = *ops, scalar(2, kind), of.handle, of_x[0], of_y[0], _COMPUTED.get(kind, F32), 0, state
    check(getattr(sparse, f"{name}_bufferSize")(handle, *all_of, ctypes.byref(size)))
    check(getattr(sparse, f"{name}_analysis")(handle, *all_of, room(size.value)))
    check(getattr(sparse, f"{name}_solve")(handle, *all_of))
    triangle = np.tril(matrix) if lower else np.triu(matrix)
    if unit:
        np.fill_diagonal(triangle, 1)
    near(found_in(of_y, x, kind, False), np.linalg.solve(taken(triangle, op), 2 * x), kind, 40)
