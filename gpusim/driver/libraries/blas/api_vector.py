"""cuBLAS: products with vectors."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from gpusim.driver.caller import caller
from gpusim.driver.codes import ResultCode, fail_if, known
from gpusim.driver.libraries.blas.kernels import run
from gpusim.driver.libraries.blas.multiply import BF16, C32, C64, F16, F32, F64, KINDS, Scalars
from gpusim.driver.libraries.blas.state import Handle, routine
from gpusim.driver.objects import DEVICE
from gpusim.driver.state import Driver

LETTERS = {"S": F32, "D": F64, "C": C32, "Z": C64}
ONE = {
    F32: struct.pack("<f", 1),
    F64: struct.pack("<d", 1),
    C32: struct.pack("<2f", 1, 0),
    C64: struct.pack("<2d", 1, 0),
}
_THREADS, _ROWS, _ROWS_DOWN = 256, 8, 32
_MOST_BATCHES = 65535


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
    what = Sums(kind, (a[0], *steps), *where, (rows, columns), packed, strides, batches, operation == 2)
    _launch(driver, handle, what)


Vector = tuple[int, int]
"""Address of the first element in memory, and the step."""


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


for _letter, _kind in LETTERS.items():
    routine(f"cublas{_letter}gemv_v2", "i nn p pn pn p pn")(partial(_gemv, _kind))
    routine(f"cublas{_letter}gemvStridedBatched", "i nn p pnq pnq p pnq n")(partial(_gemv, _kind))
    for _suffix in ("u", "c") if _kind in (C32, C64) else ("",):
        routine(f"cublas{_letter}dot{_suffix}_v2", "n pn pn p")(partial(_dot, _kind, _suffix == "c"))


@routine("cublasDotEx", "n pin pin pi (i)")
def dot_ex(driver: Driver, handle: Handle, n: int, x: Sequence[int], y: Sequence[int], result: Vector) -> None:
    """Vectors and the result with their types."""
    kind = x[1]
    fail_if({kind, y[1]} != {result[1]} or kind not in (*ONE, F16, BF16), ResultCode.NOT_SUPPORTED)
    _dot(kind, False, driver, handle, n, (x[0], x[2]), (y[0], y[2]), result[0])
