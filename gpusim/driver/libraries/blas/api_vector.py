"""cuBLAS: products with vectors."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gpusim.driver.api.launch import describe
from gpusim.driver.caller import caller
from gpusim.driver.codes import ResultCode, fail_if, known
from gpusim.driver.libraries.blas.kernels import kernel
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
    found = kernel(driver, "gemv.cu", name, T=kinds[0], TS=kinds[1])
    grid = -(-what.extents[0] // rows), what.batches, 1
    launch = describe(driver, found, grid, (_THREADS, 1, 1), 0, values=values)
    driver.enqueue(driver.stream_of(handle.stream), launch)


def start(address: int, count: int, step: int, nbytes: int) -> int:
    """Where the first element of a vector lies: with a negative step it goes backwards from its end."""
    return address if step > 0 else address - (count - 1) * step * nbytes


def _gemv(
    driver: Driver,
    handle: Handle,
    kind: int,
    operation: int,
    extents: Sequence[int],
    scalars: tuple[int, int],
    matrices: Sequence[Sequence[int]],
    batches: int = 1,
) -> None:
    """matrices: address, leading extent or step, stride, of A, x and y."""
    m, n = extents
    a, x, y = matrices
    wrong = min(m, n, batches) < 0 or a[1] < max(1, m) or 0 in (x[1], y[1], *scalars) or operation not in (0, 1, 2)
    fail_if(wrong, ResultCode.INVALID_VALUE)
    if not (m and n and batches):
        return
    rows, columns = (n, m) if operation else (m, n)
    steps = (a[1], 1) if operation else (1, a[1])
    size = KINDS[kind][1]
    where = (start(x[0], columns, x[1], size), x[1]), (start(y[0], rows, y[1], size), y[1])
    packed = Scalars(kind, *scalars, on_device=bool(handle.pointer_mode)).packed()
    strides = a[2], x[2], y[2]
    what = Sums(kind, (a[0], *steps), *where, (rows, columns), packed, strides, batches, operation == 2)
    _launch(driver, handle, what)


def _dot(
    driver: Driver, handle: Handle, kind: int, n: int, vectors: Sequence[Sequence[int]], result: int, conj: bool = False
) -> None:
    """A matrix of one row times a vector. vectors: address, step."""
    size = KINDS[kind][1]
    scalars = bytes(16) + ONE.get(kind, ONE[F32]).ljust(16, b"\0") + bytes(16)
    (x, step), y = ((start(each[0], n, each[1], size), each[1]) for each in vectors)
    with result_on_device(driver, handle, result, size) as there:
        where = (x, 0, step), y, (there, 1)
        _launch(driver, handle, Sums(kind, *where, (1, max(n, 0)), scalars, conjugated=conj, rows=1))


@contextmanager
def result_on_device(driver: Driver, handle: Handle, result: int, nbytes: int) -> Iterator[int]:
    """Where a kernel is to write a result: one for the host goes through the device. Raises INVALID_VALUE."""
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


def _declare(letter: str, kind: int) -> None:
    def gemv(driver: Driver, handle: Handle, *x: int) -> None:
        matrices = (*x[4:6], 0), (*x[6:8], 0), (*x[9:11], 0)
        _gemv(driver, handle, kind, x[0], x[1:3], (x[3], x[8]), matrices)

    def strided(driver: Driver, handle: Handle, *x: int) -> None:
        _gemv(driver, handle, kind, x[0], x[1:3], (x[3], x[10]), (x[4:7], x[7:10], x[11:14]), x[14])

    routine(f"cublas{letter}gemv_v2", "i nn p pn pn p pn")(gemv)
    routine(f"cublas{letter}gemvStridedBatched", "i nn p pnq pnq p pnq n")(strided)
    for suffix in ("u", "c") if kind in (C32, C64) else ("",):

        def dot(driver: Driver, handle: Handle, *x: int, conj: bool = suffix == "c") -> None:
            _dot(driver, handle, kind, x[0], (x[1:3], x[3:5]), x[5], conj)

        routine(f"cublas{letter}dot{suffix}_v2", "n pn pn p")(dot)


for _letter, _kind in LETTERS.items():
    _declare(_letter, _kind)


@routine("cublasDotEx", "n pin pin pi (i)")
def dot_ex(driver: Driver, handle: Handle, *x: Any) -> None:
    kinds = {x[2], x[5], x[8]}
    fail_if(len(kinds) > 1 or x[2] not in (*ONE, F16, BF16), ResultCode.NOT_SUPPORTED)
    _dot(driver, handle, x[2], x[0], ((x[1], x[3]), (x[4], x[6])), x[7])


