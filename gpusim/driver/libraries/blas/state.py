"""Objects behind cuBLAS's handles, and the declaration of its functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from gpusim.driver.caller import constant_text, put_int
from gpusim.driver.codes import ResultCode, fail_if, known
from gpusim.driver.objects import new_handle
from gpusim.driver.registry import entry
from gpusim.driver.state import Driver

_Run = TypeVar("_Run", bound=Callable[..., Any])
_Kept = TypeVar("_Kept")
_SIGN = 1 << 63


@dataclass
class Handle:
    """A cublasHandle_t, which is a cublasLtHandle_t too. stream: its handle. From `atomics` on: what is only given
    back."""

    stream: int = 0
    pointer_mode: int = 0
    math_mode: int = 0
    atomics: int = 0
    sm_count_target: int = 0
    emulation: int = 0


@dataclass
class Descriptor:
    """A descriptor of cuBLASLt: the bytes of its attributes by their numbers."""

    attributes: dict[int, bytes] = field(default_factory=dict)

    def number(self, attribute: int, default: int = 0) -> int:
        """An attribute's value, with its sign."""
        value = self.attributes.get(attribute)
        return default if value is None else int.from_bytes(value, "little", signed=True)

    def address(self, attribute: int) -> int:
        """An attribute's value, if it is a pointer."""
        return int.from_bytes(self.attributes.get(attribute, b""), "little")


def objects(driver: Driver) -> dict[int, Any]:
    """Return the objects that exist, by handle."""
    found: dict[int, Any] = driver.kept.setdefault(__name__, {})
    return found


def add(driver: Driver, made: object) -> int:
    """The handle of something new."""
    handle = new_handle()
    objects(driver)[handle] = made
    return handle


def find(driver: Driver, handle: int, kind: type[_Kept]) -> _Kept:
    """Return the object of a handle. Raises INVALID_VALUE where there is no such descriptor, INVALID_HANDLE else."""
    found = objects(driver).get(handle)
    code = ResultCode.INVALID_VALUE if issubclass(kind, Descriptor) else ResultCode.INVALID_HANDLE
    return known(found if isinstance(found, kind) else None, code)


def destroy(kind: type[object], driver: Driver, handle: int) -> None:
    """Forget an object of a kind."""
    find(driver, handle, kind)
    del objects(driver)[handle]


def set_stream(driver: Driver, handle: int, stream: int) -> None:
    """Set the stream of a library's handle."""
    find(driver, handle, Handle).stream = driver.stream_of(stream).handle


def tell_property(version: tuple[int, int, int], driver: Driver, kind: int, place: int) -> None:
    """A part of a version (libraryPropertyType)."""
    fail_if(kind not in range(3) or not place, ResultCode.INVALID_VALUE)
    put_int(place, version[kind])


def status_text(library: str, driver: Driver, status: int) -> int:
    """The name of a status, as `statuses.txt` has it."""
    lines = Path(__file__).with_name("statuses.txt").read_text("utf-8").splitlines()
    names = {number: name for of, number, name in map(str.split, lines) if of == library}
    return constant_text(f"{library}_STATUS_{names[str(status)]}" if str(status) in names else "<unknown>")


def routine(name: str, signature: str) -> Callable[[_Run], _Run]:
    """Declare a function whose first argument is a handle, given as `Handle`, and its variant with 64-bit sizes.
    signature: as for `entry`, without the handle; n is a size, 32 bits here and 64 there. Letters that stand together
    are given as one tuple, such as a matrix's address and leading extent."""

    def declare(run: _Run) -> _Run:
        for symbol, letter in ((name, "i"), (f"{name}_64", "q")):
            letters = signature.replace("n", letter)
            groups = [each for each in letters.split() if "(" not in each]
            entry(symbol, f"p{letters}")(partial(_call, run, groups))
        return run

    return declare


def _call(run: Callable[..., Any], groups: list[str], driver: Driver, handle: int, *given: int) -> Any:
    of_blas, values = find(driver, handle, Handle), iter(given)
    grouped = [tuple(_signed(letter, next(values)) for letter in group) for group in groups]
    return run(driver, of_blas, *(each[0] if len(each) == 1 else each for each in grouped))


def _signed(letter: str, value: int) -> int:
    return value - 2 * _SIGN if letter == "q" and value >= _SIGN else value
