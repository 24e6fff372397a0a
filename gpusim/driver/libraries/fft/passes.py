"""Fourier transforms as passes over memory, each a launch of a kernel of `fft.cu`.

A transform along one dimension is one pass where a block can hold a line, and otherwise a pass along columns of what is
seen as a matrix, whose results are multiplied by roots of unity, and passes along its rows. Lengths with a prime factor
above 13 go by Bluestein's convolution with a length that has none.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from gpusim.driver.libraries.blas.kernels import run
from gpusim.driver.state import Driver

IN, OUT, WORK = range(3)  # numbers of buffers; those from WORK on are in the work area
COMPLEX, REAL, HALF, PAIRS, ALIGNED_PAIRS, PACKED = range(6)  # fft.cu
BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}
_TRANSFORM, _COPY, _FIRST_CHIRP, _FILTER, _LAST_CHIRP = range(-1, 4)  # fft.cu
_MOST_RADIX, _MOST_COLUMN, _LINE, _SECTOR, _MOST_THREADS, _MAP_THREADS = 16, 1024, 128, 32, 1024, 256


@dataclass(frozen=True)
class FourierLines:
    """Lines of numbers in a buffer. mode: what lies there (fft.cu). steps: from a line to the next in each dimension of
    lines, and last from a number to the next, or of PAIRS from a pair to the next; between: the numbers of a pair. In
    reals where these lie there, otherwise in complex numbers."""

    buffer: int
    mode: int
    steps: tuple[int, ...]
    between: int = 0

    def columns(self, sizes: Sequence[int]) -> bool:
        """Lines are nearer to each other than numbers of a line."""
        return any(size > 1 and step < self.steps[-1] for size, step in zip(sizes, self.steps, strict=False))

    def mode_at(self, address: int, nbytes: int) -> int:
        """The mode with the buffer at an address. nbytes: of a number."""
        aligned = self.between == 1 and not (address // nbytes | math.gcd(*self.steps)) % 2
        return ALIGNED_PAIRS if self.mode == PAIRS and aligned else self.mode


@cache
def is_smooth(n: int) -> bool:
    """Return whether no prime factor is above 13."""
    return n == 1 or any(n % prime == 0 and is_smooth(n // prime) for prime in (2, 3, 5, 7, 11, 13))


def _factors(n: int, count: int, most: int) -> Iterator[tuple[int, ...]]:
    if count == 1 and n <= most:
        yield (n,)
    for first in range(most, 1, -1) if count > 1 else ():
        if n % first == 0 and first**count >= n:
            yield from ((first, *rest) for rest in _factors(n // first, count - 1, first))


@cache
def stages(n: int, unit: int) -> tuple[tuple[int, ...], int, int]:
    """Radices of a line's stages, as few and as equal as can be; threads, of which few wait while others have a
    butterfly; and after how many numbers there is a gap in shared memory: `unit`, if every stage can do with that."""
    choices = next(found for count in (2, 1, *range(3, 32)) if (found := list(_factors(n, count, _MOST_RADIX))))
    radices = min(choices, key=lambda each: each[0] - each[-1])
    threads = min({n // each for each in radices}, key=lambda t: t * sum(-(-n // r // t) * r for r in radices))
    if n <= _MOST_RADIX:  # threads beside each other take numbers beside each other
        threads = n // radices[-1]
    done, gap = 1, unit
    for radix in radices:
        after = done * radix
        fits = n // radix % unit == 0 and (done % unit == 0 or (unit % done == 0 and 0 in (after % unit, unit % after)))
        done, gap = after, gap if fits else n + 1
    return radices if gap == unit else tuple(sorted(radices, key=lambda each: each & -each)), threads, gap


@dataclass
class Passes:
    """The passes of a transform, collected. kind: of a number in memory, as in `BYTES`. shared: most bytes of shared
    memory of a block. rooms: complex numbers in each buffer of the work area. filters: of Bluestein's convolutions.
    launches: each takes the driver, a stream, the addresses of buffers and filters, and -1 for a backward transform."""

    kind: str
    shared: int
    launches: list[Callable[[Driver, int, dict[int, int], list[int], int], None]] = field(default_factory=list)
    rooms: dict[int, int] = field(default_factory=dict)
    filters: list[np.ndarray] = field(default_factory=list)
    signed: bool = True

    @property
    def bytes_each(self) -> tuple[int, int]:
        """Bytes of a complex number in memory and in shared memory."""
        return 2 * BYTES[self.kind], max(2 * BYTES[self.kind], 8)

    def room(self, sizes: Sequence[int], like: Sequence[int], number: int = 0) -> FourierLines:
        """A buffer of the work area, a new one or of a number, with its dimensions in the order of other steps."""
        number = number or max(self.rooms, default=WORK) + 1
        steps, step = [0] * len(sizes), 1
        for each in sorted(range(len(sizes)), key=lambda each: like[each]):
            steps[each], step = step, step * sizes[each]
        self.rooms[number] = max(self.rooms.get(number, 0), step)
        return FourierLines(number, COMPLEX, tuple(steps))

    def add(self, n: int, sizes: tuple[int, ...], source: FourierLines, target: FourierLines) -> None:
        """Transform lines; of real numbers and half of their transform, n is that of the real ones."""
        packed = REAL in (source.mode, target.mode) and n % 2 == 0 and is_smooth(n // 2)
        if not packed and not is_smooth(n):
            return self._convolve(n, sizes, source, target)
        if packed:  # half as many pairs
            n //= 2
            source, target = (
                replace(each, mode=PAIRS, between=each.steps[-1], steps=(*each.steps[:-1], 2 * each.steps[-1]))
                if each.mode == REAL
                else replace(each, mode=PACKED)
                for each in (source, target)
            )
        if source.mode == target.mode or self._fits(n, sizes, source, target):
            return self._transform(n, sizes, source, target)
        middle = self.room((*sizes, n), source.steps)
        if source.mode in (HALF, PACKED):
            self._launch(n, sizes, source, middle, chirp=_COPY, length=n)
            return self._transform(n, sizes, middle, target)
        self._transform(n, sizes, source, middle)
        return self._launch(n, sizes, middle, target, chirp=_COPY, length=n)

    def _convolve(self, n: int, sizes: tuple[int, ...], source: FourierLines, target: FourierLines) -> None:
        """Bluestein's way: numbers times a chirp, convolved with its conjugate, times the chirp."""
        longer = next(each for each in range(2 * n - 1, 4 * n) if is_smooth(each))
        k = np.arange(n, dtype=np.int64)
        chirp = np.exp(1j * np.pi / n * (k * k % (2 * n)))
        self.filters.append(np.fft.fft(np.concatenate([chirp, np.zeros(longer - 2 * n + 1), chirp[:0:-1]])) / longer)
        if self._fits(longer, sizes, source, target):
            return self._launch(longer, sizes, source, target, length=n)
        middle = self.room((*sizes, longer), source.steps)
        self._launch(longer, sizes, source, middle, chirp=_FIRST_CHIRP, length=n)
        self.signed = False
        self._transform(longer, sizes, middle, middle)
        self._launch(longer, sizes, middle, middle, chirp=_FILTER, length=n)
        self._transform(longer, sizes, middle, middle)
        self.signed = True
        return self._launch(n, sizes, middle, target, chirp=_LAST_CHIRP, length=n)

    def _line(self, n: int) -> tuple[tuple[int, ...], int, int, int]:
        """Stages of a line, and its bytes in shared memory."""
        found = stages(n, _LINE // self.bytes_each[1])
        return *found, self.bytes_each[1] * (n + n // found[-1] | 1)

    def _fits(self, n: int, sizes: Sequence[int], source: FourierLines, target: FourierLines) -> bool:
        """Return whether a block can hold as many lines as have to be side by side."""
        lines = _SECTOR // self.bytes_each[0] if source.columns(sizes) or target.columns(sizes) else 1
        _, threads, _, pitch = self._line(n)
        return lines * pitch <= self.shared and lines * threads <= _MOST_THREADS

    def _transform(self, n: int, sizes: tuple[int, ...], source: FourierLines, target: FourierLines) -> None:
        """Transform complex numbers. Number rest * i + j of a long line is in column j of a matrix, whose rows are
        transformed when its columns are."""
        if self._fits(n, sizes, source, target):
            return self._launch(n, sizes, source, target)
        passes = next(count for count in range(2, 9) if n <= _MOST_COLUMN**count)
        divisors = (each for each in range(2, _MOST_COLUMN + 1) if n % each == 0)
        first = min(divisors, key=lambda each: abs(passes * math.log(each) - math.log(n)))
        rest = n // first
        columns = middle = replace(source, steps=(*source.steps, source.steps[-1] * rest))
        if source.buffer != WORK:
            middle = self.room((*sizes, rest, first), columns.steps, WORK)
        self._launch(first, (*sizes, rest), columns, middle, of=n)
        rows = replace(middle, steps=(*middle.steps[:-2], middle.steps[-1], middle.steps[-2]))
        made = replace(target, steps=(*target.steps, target.steps[-1] * first))
        return self._transform(rest, (*sizes, first), rows, made)

    def _launch(
        self, n: int, sizes: Sequence[int], *ends: FourierLines, chirp: int = _TRANSFORM, length: int = 0, of: int = 0
    ) -> None:
        """Transform lines, or do something else to n numbers of each (chirp). length: Bluestein's, or that of what is
        copied. of: length of a longer transform, whose first pass this is."""
        count, (source, target) = math.prod(sizes), ends
        transforms, convolves = chirp == _TRANSFORM, chirp == _FILTER or (chirp == _TRANSFORM and length > 0)
        columns = [each.columns(sizes) for each in ends]
        macros: dict[str, str | int] = {"T": self.kind, "CHIRP": chirp, "LENGTH": length if transforms else 0}
        if transforms:
            (radices, each, gap, pitch), stored = self._line(n), self.bytes_each[0]
            columns[0] = columns[0 if len(radices) > 1 else 1]
            lines = _LINE // stored if any(columns) else 1
            while lines > _SECTOR // stored and (2 * lines * pitch > self.shared or 2 * lines * each > _MOST_THREADS):
                lines //= 2
            while lines < count and lines * each < _LINE and 4 * lines * pitch <= self.shared:
                lines *= 2
            macros |= {"N": n, "RADICES": ",".join(map(str, radices)), "EACH_LINE": each, "LINES": lines}
            macros |= {"IN_COLUMNS": int(columns[0]), "TWIDDLE": int(of > 0), "PADDED": gap}
            blocks, threads, shared = -(-count // lines), lines * each, lines * pitch
        else:
            numbers = n // 2 + 1 if PACKED in (source.mode, target.mode) else n
            blocks, threads, shared = -(-count * numbers // _MAP_THREADS), _MAP_THREADS, 0
        macros["OUT_COLUMNS"] = int(columns[1])
        macros |= {
            f"{side}_STEP": each.steps[-1] * (each.steps[-1] < 3)
            for side, each in zip(("IN", "OUT"), ends, strict=True)
        }
        order = [each for each in range(len(sizes)) if sizes[each] > 1]
        order.sort(key=lambda each: ends[columns[1]].steps[each])
        head = struct.pack("<3q", *(each.steps[-1] for each in ends), source.between or target.between)
        head += struct.pack("<d3I", of / 2, count, len(order), order.index(len(sizes) - 1) if of else 0)
        digits = b"".join(struct.pack("<3q", sizes[each], source.steps[each], target.steps[each]) for each in order)
        tail = digits.ljust(6 * 24, b"\0") + struct.pack("<2q", length, n)
        table = len(self.filters) - 1 if convolves else -1
        signed = self.signed and chirp not in (_COPY, _FILTER)
        name = f"gpusim_fft_{self.kind}_{(length or n) if transforms else 'map'}"

        def launch(driver: Driver, stream: int, places: dict[int, int], tables: list[int], sign: int) -> None:
            at = [places[each.buffer] for each in ends]
            load, store = (each.mode_at(place, BYTES[self.kind]) for each, place in zip(ends, at, strict=True))
            values = struct.pack("<3Q", *at, tables[table] if convolves else 0) + head
            values += struct.pack("<i", sign if signed else 1) + (tail[:-16] if transforms else tail)
            given = "../fft/fft.cu", name, (blocks, 1, 1), threads, values, shared
            run(driver, stream, *given, LOAD=load, STORE=store, **macros)

        self.launches.append(launch)
