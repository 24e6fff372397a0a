"""cuFFT: plans, and transforms by them (cufft.h, cufftXt.h)."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import count
from typing import Any

from gpusim.driver.caller import read
from gpusim.driver.codes import ResultCode, fail_if, known
from gpusim.driver.libraries.blas.state import find, objects
from gpusim.driver.libraries.fft.passes import COMPLEX, HALF, IN, OUT, REAL, FourierLines, Passes
from gpusim.driver.objects import DEVICE
from gpusim.driver.registry import entries, entry, nothing
from gpusim.driver.state import Driver

_BOTH_COMPLEX, _TO_COMPLEX, _TO_REAL = (COMPLEX, COMPLEX), (REAL, HALF), (HALF, REAL)
_MODES = {0: _BOTH_COMPLEX, 1: _TO_COMPLEX, 3: _TO_REAL}
_TYPES: dict[Any, tuple[str, tuple[int, int]]] = {
    first + more: (kind, modes) for kind, first in (("f32", 0x29), ("f64", 0x69)) for more, modes in _MODES.items()
}
"""Of a number in memory, and what lines have before and after, by cufftType, or by cudaDataType before, after and of
what is computed."""
for _kind, _real, _complex in (("f32", 0, 4), ("f64", 1, 5), ("f16", 2, 6), ("bf16", 14, 15)):
    _TYPES[_complex, _complex, _complex] = _kind, _BOTH_COMPLEX
    _TYPES[_real, _complex, _complex] = _kind, _TO_COMPLEX
    _TYPES[_complex, _real, _complex] = _kind, _TO_REAL
_INVERSE, _MOST_DIMENSIONS, _MOST_NUMBERS, _ROOM, _MOST_SHARED = 1, 3, 1 << 31, 256, 144 << 10


@dataclass(frozen=True)
class Transform:
    """kind: of a number in memory. modes: what lines have before and after. n: of each dimension. layouts: extents,
    step and distance of batches before and after; none where there are no gaps."""

    kind: str
    modes: tuple[int, int]
    n: tuple[int, ...]
    batch: int = 1
    layouts: tuple[tuple[tuple[int, ...], int, int], ...] = ()

    def steps(self, side: int, in_place: bool) -> tuple[int, ...]:
        """Steps of the batch and each dimension, before (0) or after (1)."""
        half = self.n[-1] // 2 + 1
        last = {HALF: half, REAL: 2 * half if in_place else self.n[-1]}.get(self.modes[side], self.n[-1])
        extents: tuple[int, ...] = (*self.n[:-1], last)
        extents, step, distance = self.layouts[side] if self.layouts else (extents, 1, math.prod(extents))
        return distance, *(step * math.prod(extents[each:]) for each in range(1, len(self.n) + 1))


@dataclass
class FourierPlan:
    """A cufftHandle's. owned: the work area, if the library has allocated it. tables: addresses of filters."""

    what: Transform | None = None
    stream: int = 0
    allocates: bool = True
    work: int = 0
    owned: int = 0
    tables: list[int] = field(default_factory=list)


@cache
def _passes_of(what: Transform, in_place: bool, shared: int) -> Passes:
    """The passes of a transform, of real numbers in the last dimension first, to real numbers in it last."""
    found, last, sizes = Passes(what.kind, shared), len(what.n), [what.batch, *what.n]
    sizes[-1] = sizes[-1] if what.modes == _BOTH_COMPLEX else sizes[-1] // 2 + 1

    def moved(each: Sequence[int], axis: int) -> tuple[int, ...]:
        return *each[:axis], *each[axis + 1 :], each[axis]

    buffer, steps = IN, what.steps(0, in_place)
    axes = [axis for axis in range(last, 0, -1) if axis == last or what.n[axis - 1] > 1]
    for axis in reversed(axes) if what.modes == _TO_REAL else axes:
        modes = what.modes if axis == last else _BOTH_COMPLEX
        source = FourierLines(buffer, modes[0], moved(steps, axis))
        if what.modes != _TO_REAL or axis == last:
            buffer, steps = OUT, what.steps(1, in_place)
        elif buffer == IN:
            room = found.room(sizes, steps)
            buffer, steps = room.buffer, room.steps
        found.add(what.n[axis - 1], moved(sizes, axis)[:-1], source, FourierLines(buffer, modes[1], moved(steps, axis)))
    return found


def _passes(driver: Driver, what: Transform, in_place: bool) -> Passes:
    padded = in_place and what.modes != _BOTH_COMPLEX and not what.layouts
    return _passes_of(what, padded, min(driver.config.sm.shared_bytes_per_block_max, _MOST_SHARED))


def _places(made: Passes, work: int) -> dict[int, int]:
    """Addresses of a work area's buffers, and of its end at -1."""
    found = {}
    for number, numbers in made.rooms.items():
        found[number] = work
        work += -(-numbers * made.bytes_each[0] // _ROOM) * _ROOM
    return {**found, -1: work}


def _create(driver: Driver) -> int:
    handle = next(each for each in count(1) if each not in objects(driver))  # cufftHandle is an int
    objects(driver)[handle] = FourierPlan()
    return handle


def _destroy(driver: Driver, handle: int) -> None:
    plan = find(driver, handle, FourierPlan)
    for address in filter(None, (plan.owned, *plan.tables)):
        driver.free(known(driver.buffer_at(address)))
    del objects(driver)[handle]


def _size(driver: Driver, what: Transform) -> int:
    """Bytes of the work area."""
    return max(_places(_passes(driver, what, in_place), 0)[-1] for in_place in (False, True))


def _size_of(driver: Driver, handle: int, what: Transform | None = None) -> int:
    of_plan = find(driver, handle, FourierPlan).what
    return _size(driver, known(what or of_plan))


def _make(driver: Driver, handle: int, what: Transform) -> int:
    """Raises INVALID_HANDLE, OUT_OF_MEMORY."""
    plan, nbytes = find(driver, handle, FourierPlan), _size(driver, what)
    fail_if(plan.what is not None, ResultCode.INVALID_HANDLE)
    for table in _passes(driver, what, False).filters:
        values = table.astype("c16" if what.kind == "f64" else "c8")
        plan.tables.append(driver.allocate(values.nbytes, DEVICE))
        driver.device.memory.write(plan.tables[-1], values.dtype, values.shape, values.strides, values)
    if plan.allocates and nbytes:
        plan.work = plan.owned = driver.allocate(nbytes, DEVICE)
    plan.what = what
    return nbytes


def _new(driver: Driver, what: Transform) -> int:
    handle = _create(driver)
    _make(driver, handle, what)
    return handle


def _set(name: str, convert: Callable[[Driver, int], Any], driver: Driver, handle: int, value: int) -> None:
    setattr(find(driver, handle, FourierPlan), name, convert(driver, value))


def _execute(type_of: int, driver: Driver, handle: int, source: int, target: int, direction: int = _INVERSE) -> None:
    """type_of: the cufftType that it has to be, 0 for any."""
    plan = find(driver, handle, FourierPlan)
    what = known(plan.what)
    wrong = not source or not target or direction not in (-1, 1)
    fail_if(wrong or (type_of and _TYPES[type_of] != (what.kind, what.modes)), ResultCode.INVALID_VALUE)
    made = _passes(driver, what, source == target)
    fail_if(made.rooms and not plan.work, ResultCode.INVALID_VALUE)
    places = {IN: source, OUT: target, **_places(made, plan.work)}
    backward = what.modes == _TO_REAL or (what.modes == _BOTH_COMPLEX and direction == _INVERSE)
    for launch in made.launches:
        launch(driver, plan.stream, places, plan.tables, -1 if backward else 1)


# --- the ways to say what a plan does ---------------------------------------------------------------------------------


def _checked(kind: Any, n: tuple[int, ...], batch: int = 1, *layouts: tuple[tuple[int, ...], int, int]) -> Transform:
    """Raises INVALID_IMAGE (CUFFT_INVALID_TYPE), INVALID_CONFIGURATION (CUFFT_INVALID_SIZE), NOT_SUPPORTED."""
    made = Transform(*known(_TYPES.get(kind), ResultCode.INVALID_IMAGE), n, batch, layouts)
    fail_if(min(*n, batch) < 1, ResultCode.INVALID_CONFIGURATION)
    many = max(math.prod(n), math.prod(n) // max(n) * batch) >= _MOST_NUMBERS
    fail_if(many, ResultCode.NOT_SUPPORTED, "transforms of 2^31 numbers or lines are not supported")
    return made


def _many(letter: str, rank: int, n: int, *given: Any) -> Transform:
    """given: before and after, the address of extents, the step and the distance; the type; how many. letter: of sizes
    in arrays."""
    fail_if(not 1 <= rank <= _MOST_DIMENSIONS or not n, ResultCode.INVALID_VALUE)

    def taken(place: int) -> tuple[int, ...]:
        return struct.unpack(f"<{rank}{letter}", read(place, rank * struct.calcsize(letter)))

    layouts = [(taken(at), *steps) for at, *steps in (given[:3], given[3:6])] if given[0] and given[3] else ()
    return _checked(given[6], taken(n), given[7], *layouts)


def _typed(rank: int, n: int, *given: int) -> Transform:
    return _many("q", rank, n, *given[:3], *given[4:7], (given[3], given[7], given[9]), given[8])


def _with(form: Callable[..., Transform], run: Callable[..., int], first: int, driver: Driver, *given: int) -> int:
    """first: how many arguments stand before those that describe a transform."""
    return run(driver, *given[:first], form(*given[first:]))


for _name, _letters, _form in (
    ("1d", "i i i *p", lambda n, *more: _checked(more[0], (n,), more[1])),
    ("2d", "i i i *p", lambda *given: _checked(given[2], given[:2])),
    ("3d", "i i i i *p", lambda *given: _checked(given[3], given[:3])),
    ("Many", "i p p i i p i i i i *p", partial(_many, "i")),
    ("Many64", "i p p q q p q q i q *p", partial(_many, "q")),
    ("XtMany", "i p p q q i p q q i q *p i", _typed),
):
    for _what, _run in (("MakePlan", _make), ("GetSize", _size_of)):
        _symbol = f"cufftXt{_what}Many" if _name == "XtMany" else f"cufft{_what}{_name}"
        entry(_symbol, f"i {_letters}")(partial(_with, _form, _run, 1))
    if _name in ("1d", "2d", "3d", "Many"):
        entry(f"cufftPlan{_name}", f"*i {_letters[:-3]}")(partial(_with, _form, _new, 0))
        entry(f"cufftEstimate{_name}", _letters)(partial(_with, _form, _size, 0))
for _version, _parts in (("@11", (11, 4, 1)), ("@12", (12, 0, 0))):
    entries(
        (f"cufftGetVersion{_version}", "*i", lambda driver, of=_parts: of[0] * 1000 + of[1] * 100 + of[2]),
        (f"cufftGetProperty{_version}", "i *i", lambda driver, kind, of=_parts: of[kind]),
        anytime=True,
    )
for _name, _type in (("C2C", 0x29), ("R2C", 0x2A), ("C2R", 0x2C), ("Z2Z", 0x69), ("D2Z", 0x6A), ("Z2D", 0x6C)):
    entry(f"cufftExec{_name}", "i p p i" if _name in ("C2C", "Z2Z") else "i p p")(partial(_execute, _type))
entries(
    ("cufftXtExec", "i p p i", partial(_execute, 0)),
    ("cufftCreate", "*i", _create),
    ("cufftDestroy", "i", _destroy),
    ("cufftGetSize", "i *p", _size_of),
    ("cufftSetAutoAllocation", "i i", partial(_set, "allocates", lambda driver, value: bool(value))),
    ("cufftSetStream", "i p", partial(_set, "stream", lambda driver, value: driver.stream_of(value).handle)),
    ("cufftSetWorkArea", "i p", partial(_set, "work", lambda driver, value: value)),
    ("cufftSetPlanPropertyInt64 cufftResetPlanProperty", "", nothing),
)
