"""Driver API: tensor maps (`gpusim.launch.tensor_map` writes them)."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from gpusim.driver.attributes import compute_capability
from gpusim.driver.caller import caller, get_pointers, read
from gpusim.driver.codes import DriverError, ResultCode, fail_if
from gpusim.driver.registry import entry
from gpusim.driver.state import Driver
from gpusim.errors import ArgumentError
from gpusim.launch.tensor_map import MOST_DIMENSIONS, SLOTS, SWIZZLES, TYPES, encode_im2col, encode_tiled

_TYPES, _INTERLEAVES, _SWIZZLES = tuple(TYPES), tuple(SLOTS), tuple(SWIZZLES)


def _tensor(kind: int, rank: int, address: int, extents: int, strides: int) -> tuple[Any, ...]:
    """The tensor as the encoders take it. Raises INVALID_VALUE."""
    wrong = not kind < len(_TYPES) or not 0 < rank <= MOST_DIMENSIONS
    fail_if(wrong or not extents or (rank > 1 and not strides), ResultCode.INVALID_VALUE)
    return _TYPES[kind], address, get_pointers(extents, rank), get_pointers(strides, rank - 1)


def _words(address: int, count: int, letter: str = "I") -> tuple[int, ...]:
    """32-bit integers that lie one after the other. Raises INVALID_VALUE for a null pointer."""
    fail_if(not address, ResultCode.INVALID_VALUE)
    return struct.unpack(f"<{count}{letter}", read(address, 4 * count))


def _manner(interleave: int, swizzle: int, promotion: int, fill: int) -> dict[str, Any]:
    wrong = not (interleave < len(_INTERLEAVES) and swizzle < len(_SWIZZLES) and promotion < 4 and fill < 2)
    fail_if(wrong, ResultCode.INVALID_VALUE)
    names = {"interleave": _INTERLEAVES[interleave], "swizzle": _SWIZZLES[swizzle]}
    return {**names, "promotion": promotion, "nan_fill": bool(fill)}


def _put(driver: Driver, place: int, encode: Any, *what: Any, **manner: Any) -> None:
    newer = what[0] in _TYPES[13:] or manner["swizzle"] in _SWIZZLES[4:]  # than compute capability 9.0
    fail_if(not place or (newer and compute_capability(driver.config) < (10, 0)), ResultCode.INVALID_VALUE)
    try:
        made: np.void = encode(*what, **manner)
    except ArgumentError as error:
        raise DriverError(ResultCode.INVALID_VALUE, str(error)) from None
    caller().write(place, made.tobytes())


@entry("cuTensorMapEncodeTiled 12000", "p u u p p p p p u u u u", anytime=True)
def encode(driver: Driver, place: int, kind: int, rank: int, *rest: int) -> None:
    """rest: address, extents, strides, box, element strides, and the manner."""
    address, extents, strides, box, steps, *manner = rest
    tensor = _tensor(kind, rank, address, extents, strides)
    _put(driver, place, encode_tiled, *tensor, _words(box, rank), _words(steps, rank), **_manner(*manner))


@entry("cuTensorMapEncodeIm2col 12000", "p u u p p p p p u u p u u u u", anytime=True)
def encode_columns(driver: Driver, place: int, kind: int, rank: int, *rest: int) -> None:
    """rest: address, extents, strides, lower and upper corner, channels, pixels, element strides, and the manner."""
    address, extents, strides, lower, upper, channels, pixels, steps, *manner = rest
    tensor = _tensor(kind, rank, address, extents, strides)
    corners = [_words(corner, max(rank - 2, 0), "i") for corner in (lower, upper)]
    _put(driver, place, encode_im2col, *tensor, *corners, channels, pixels, _words(steps, rank), **_manner(*manner))


@entry("cuTensorMapReplaceAddress 12000", "p p", anytime=True)
def replace_address(driver: Driver, place: int, address: int) -> None:
    fail_if(not place or not address or address % 16, ResultCode.INVALID_VALUE)
    caller().write(place, struct.pack("<Q", address))
