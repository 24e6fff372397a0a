"""cuBLAS: products with vectors; what is done element by element with vectors and matrices; sums and places of absolute
values."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from gpusim.driver.caller import caller, read
from gpusim.driver.codes import ResultCode, fail_if, known
from gpusim.driver.libraries.blas.kernels import run
from gpusim.driver.libraries.blas.product import BF16, C32, C64, F16, F32, F64, KINDS, Scalars
from gpusim.driver.libraries.blas.state import Handle, routine
from gpusim.driver.objects import DEVICE
from gpusim.driver.state import Driver

LETTERS = {"S": F32, "D": F64, "C": C32, "Z": C64}
ONE = {
    F32: struct.pack("<f", 1), F64: struct.pack("<d", 1), C32: struct.pack("<2f", 1, 0), C64: struct.pack("<2d", 1, 0),
}  # fmt: skip
_THREADS, _ROWS, _ROWS_DOWN = 256, 8, 32
_MOST_BATCHES, _MOST_BLOCKS = 65535, 4096


Vector = tuple[int, int]
"""Address of the first element in memory, and the step."""


@dataclass(frozen=True)
class Sums:
    """y = alpha A x + beta y, for each of a batch. a: address, elements to the next row and column. x, y: first
    element, elements to the next. extents: rows and columns. scalars: packed. strides: elements to the batch's next of
    A, x and y. rows: of a block, None for as many as suit A."""

    kind: int
    a: tuple[int, int, int]
    x: tuple[int, int]
    y: tuple[int, int]
    extents: tuple[int, int]
    scalars: bytes
    strides: Sequence[int] = (0, 0, 0)
    batches: int = 1
    conjugated: bool = False
    rows: int | None = None


def _launch(driver: Driver, handle: Handle, what: Sums) -> None:
    fail_if(what.batches > _MOST_BATCHES, ResultCode.NOT_SUPPORTED)
    rows = what.rows or (_ROWS_DOWN if what.a[1] == 1 else _ROWS)
    kinds = KINDS[what.kind][0], KINDS[what.kind if what.kind in ONE else F32][0]
    values = struct.pack("<3Q", what.a[0], what.x[0], what.y[0]) + what.scalars
    values += struct.pack("<7q", *what.a[1:], what.x[1], what.y[1], *what.strides)
    values += struct.pack("<4i", *what.extents, rows, int(what.conjugated))
    name = f"gpusim_{'dot' if rows == 1 else 'gemv'}_{kinds[0]}"
    grid = -(-what.extents[0] // rows), what.batches, 1
    run(driver, handle.stream, "gemv.cu", name, grid, _THREADS, values, T=kinds[0], TS=kinds[1])


def start(address: int, count: int, step: int, nbytes: int) -> int:
    """Return where the first element of a vector lies: with a negative step it goes backwards from its end."""
    return address if step > 0 else address - (count - 1) * step * nbytes


def _gemv(
    kind: int, driver: Driver, handle: Handle, operation: int, extents: Sequence[int], alpha: int, *given: Any
) -> None:
    """given: A (address, leading extent and, in a batch, stride), x (address, step, stride), beta, y, and of a batch
    their number."""
    a, x, beta, y, *count = given
    (m, n), batches = extents, count[0] if count else 1
    wrong = min(m, n, batches) < 0 or a[1] < max(1, m) or 0 in (x[1], y[1], alpha, beta) or operation not in (0, 1, 2)
    fail_if(wrong, ResultCode.INVALID_VALUE)
    if not (m and n and batches):
        return
    rows, columns = (n, m) if operation else (m, n)
    steps = (a[1], 1) if operation else (1, a[1])
    size = KINDS[kind][1]
    where = (start(x[0], columns, x[1], size), x[1]), (start(y[0], rows, y[1], size), y[1])
    packed = Scalars(kind, alpha, beta, on_device=bool(handle.pointer_mode)).packed()
    strides = [each[2] if count else 0 for each in (a, x, y)]
    what = Sums(kind, (a[0], steps[0], steps[1]), *where, (rows, columns), packed, strides, batches, operation == 2)
    _launch(driver, handle, what)


def _dot(
    kind: int, conj: bool, driver: Driver, handle: Handle, n: int, first: Vector, second: Vector, result: int
) -> None:
    """A matrix of one row times a vector."""
    size = KINDS[kind][1]
    scalars = bytes(16) + ONE.get(kind, ONE[F32]).ljust(16, b"\0") + bytes(16)
    (x, step), y = ((start(each[0], n, each[1], size), each[1]) for each in (first, second))
    with result_on_device(driver, handle, result, size) as there:
        where = (x, 0, step), y, (there, 1)
        _launch(driver, handle, Sums(kind, *where, (1, max(n, 0)), scalars, conjugated=conj, rows=1))


@contextmanager
def result_on_device(driver: Driver, handle: Handle, result: int, nbytes: int) -> Iterator[int]:
    """Yield the device address for a kernel's result; one for the host is copied there after. Raises INVALID_VALUE."""
    fail_if(not result, ResultCode.INVALID_VALUE)
    if handle.pointer_mode:
        yield result
        return
    stream = driver.stream_of(handle.stream).not_capturing()
    there = driver.allocate(nbytes, DEVICE)
    try:
        yield there
        driver.wait_for(stream)
        caller().move(result, there, nbytes, 1, 0, 0)
    finally:
        driver.free(known(driver.buffer_at(there)))


@routine("cublasDotEx", "n pin pin pi (i)")
def dot_ex(driver: Driver, handle: Handle, n: int, x: Sequence[int], y: Sequence[int], result: Vector) -> None:
    """Vectors and the result with their types."""
    kind = x[1]
    fail_if({kind, y[1]} != {result[1]} or kind not in (*ONE, F16, BF16), ResultCode.NOT_SUPPORTED)
    _dot(kind, False, driver, handle, n, (x[0], x[2]), (y[0], y[2]), result[0])


_NOTHING = 0, 0, 0
_REAL = {F32: F32, F64: F64, C32: F32, C64: F64}
_LEFT, _RIGHT = 0, 1  # cublasSideMode_t

Operand = tuple[int, int, int]
"""First element, elements to the next row and to the next column; nothing if all are 0."""


def _elements(
    driver: Driver, handle: Handle, name: str, kind: int, extents: tuple[int, int], operands: tuple[Operand, ...],
    alpha: int = 0, beta: int = 0, conjugated: int = 0, scalars: int | None = None,
) -> None:  # fmt: skip
    """D = alpha A X + beta B. operands: A, X, B, D. alpha, beta: addresses, 0 for 1. scalars: their type."""
    scalars = kind if scalars is None else scalars
    fail_if(min(extents) < 0, ResultCode.INVALID_VALUE)
    if not min(extents):
        return
    at, values = [], b""
    for address in (alpha, beta):
        on_device = bool(address and handle.pointer_mode)
        at.append(address if on_device else 0)
        value = bytes(16) if on_device else read(address, KINDS[scalars][1]) if address else ONE[scalars]
        values += value.ljust(16, b"\0")
    given = b"".join(struct.pack("<Q2q", *each) for each in operands) + struct.pack("<2Q", *at) + values
    given += struct.pack("<3i", *extents, conjugated)
    types = {"T": KINDS[kind][0], "TS": KINDS[scalars][0]}
    grid = min(-(-extents[0] * extents[1] // _THREADS), _MOST_BLOCKS), 1, 1
    run(driver, handle.stream, "elements.cu", f"gpusim_{name}_{types['T']}", grid, _THREADS, given, **types)


def _vector(given: Vector, count: int, kind: int, across: bool = False) -> Operand:
    """A vector as a column, or as a row."""
    address, step = given
    first = start(address, count, step, KINDS[kind][1])
    return (first, 0, step) if across else (first, step, 0)


def _matrix(given: Vector, rows: int, operation: int = 0) -> Operand:
    """op() of a matrix of so many rows, at an address with a leading extent. Raises INVALID_VALUE."""
    address, leading = given
    fail_if(leading < max(1, rows) or operation not in (0, 1, 2), ResultCode.INVALID_VALUE)
    return (address, leading, 1) if operation else (address, 1, leading)


def _norm(kind: int, of: int, name: str, driver: Driver, handle: Handle, n: int, given: Vector, to: int) -> None:
    x, step = given
    size = KINDS[_REAL[kind]][1] if of < 2 else 4
    count = max(n, 0) if step > 0 else 0
    with result_on_device(driver, handle, to, size) as there:
        types: dict[str, Any] = {"T": KINDS[kind][0], "OF": of}
        values = struct.pack("<QqQi", x, step, there, count)
        run(driver, handle.stream, "norm.cu", f"gpusim_{name}_{types['T']}", (1, 1, 1), _THREADS, values, **types)


def _declare(letter: str, kind: int) -> None:
    def axpy(driver: Driver, handle: Handle, n: int, alpha: int, given: Vector, to: Vector) -> None:
        x, y = _vector(given, n, kind), _vector(to, n, kind)
        _elements(driver, handle, "axpy", kind, (max(n, 0), 1), (x, _NOTHING, y, y), alpha)

    def copy(driver: Driver, handle: Handle, n: int, given: Vector, to: Vector) -> None:
        x, y = _vector(given, n, kind), _vector(to, n, kind)
        _elements(driver, handle, "copy", kind, (max(n, 0), 1), (x, _NOTHING, _NOTHING, y))

    def scal(scalars: int, driver: Driver, handle: Handle, n: int, alpha: int, given: Vector) -> None:
        x = *given, 0
        operands = x, _NOTHING, _NOTHING, x
        _elements(driver, handle, "scal", kind, (max(n, 0) if x[1] > 0 else 0, 1), operands, alpha, scalars=scalars)

    def ger(conjugated: int, driver: Driver, handle: Handle, extents: Vector, alpha: int, *given: Vector) -> None:
        m, n = extents
        x, y, a = _vector(given[0], m, kind), _vector(given[1], n, kind, across=True), _matrix(given[2], m)
        _elements(driver, handle, "ger", kind, (m, n), (x, y, a, a), alpha, conjugated=conjugated)

    def geam(driver: Driver, handle: Handle, operations: Vector, extents: Vector, *given: Any) -> None:
        (of_a, of_b), (m, n), (alpha, first, beta, second, to) = operations, extents, given
        a, b = _matrix(first, n if of_a else m, of_a), _matrix(second, n if of_b else m, of_b)
        conjugated = (of_a == 2) + 4 * (of_b == 2)
        _elements(driver, handle, "geam", kind, (m, n), (a, _NOTHING, b, _matrix(to, m)), alpha, beta, conjugated)

    def dgmm(driver: Driver, handle: Handle, side: int, extents: Vector, *given: Vector) -> None:
        (m, n), (first, vector, to) = extents, given
        fail_if(side not in (_LEFT, _RIGHT), ResultCode.INVALID_VALUE)
        x = _vector(vector, n if side else m, kind, across=bool(side))
        _elements(driver, handle, "dgmm", kind, (m, n), (_matrix(first, m), x, _NOTHING, _matrix(to, m)))

    plain, real = f"cublas{letter}", _REAL[kind]
    routine(f"{plain}gemv_v2", "i nn p pn pn p pn")(partial(_gemv, kind))
    routine(f"{plain}gemvStridedBatched", "i nn p pnq pnq p pnq n")(partial(_gemv, kind))
    for suffix in ("",) if real == kind else ("u", "c"):
        routine(f"{plain}dot{suffix}_v2", "n pn pn p")(partial(_dot, kind, suffix == "c"))
    routine(f"{plain}axpy_v2", "n p pn pn")(axpy)
    routine(f"{plain}copy_v2", "n pn pn")(copy)
    routine(f"{plain}scal_v2", "n p pn")(partial(scal, kind))
    routine(f"{plain}geam", "ii nn p pn p pn pn")(geam)
    routine(f"{plain}dgmm", "i nn pn pn pn")(dgmm)
    of_reals = letter if real == kind else {"C": "Sc", "Z": "Dz"}[letter]
    for of, name in enumerate(("asum", "nrm2")):
        routine(f"cublas{of_reals}{name}_v2", "n pn p")(partial(_norm, kind, of, name))
    for of, name in enumerate(("amax", "amin"), 2):
        routine(f"cublasI{letter.lower()}{name}_v2", "n pn p")(partial(_norm, kind, of, name))
    if real == kind:
        routine(f"{plain}ger_v2", "nn p pn pn pn")(partial(ger, 0))
    else:
        routine(f"{plain}{'sd'[real]}scal_v2", "n p pn")(partial(scal, real))
        routine(f"{plain}geru_v2", "nn p pn pn pn")(partial(ger, 0))
        routine(f"{plain}gerc_v2", "nn p pn pn pn")(partial(ger, 2))


for _letter, _kind in LETTERS.items():
    _declare(_letter, _kind)
