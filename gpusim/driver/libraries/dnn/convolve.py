"""The kernel of a convolution, and the parameters that it takes (`conv.cu`)."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.libraries.blas.kernels import run
from gpusim.driver.libraries.dnn.graph import DATA, FILTER, FORWARD, TENSOR_CORES, TYPES, Convolution
from gpusim.driver.state import Driver

_FILE = "../dnn/conv.cu"
_TILES, _JOIN, _THREADS_EACH, _BLOCKS_EACH = range(4)
_FEW_CHANNELS = 4
"""Of a group, up to which a thread or a block computes an element of the result, instead of a tile."""
_THREADS = 256  # of a block of those kernels
_ROLES = {FORWARD: "forward", DATA: "data", FILTER: "filter"}
_MOST_PHASES, _MOST_BLOCKS = 8, 65535


@dataclass(frozen=True)
class _Digit:
    """A digit of an index: its size, and what a unit of it adds to the distance in the image, to that in the filter or
    in the tensor beside it, and to a coordinate in the image, (x, y, z)."""

    size: int
    image: int
    other: int
    coordinates: tuple[int, int, int] = (0, 0, 0)

    def packed(self) -> bytes:
        size = max(self.size, 1)  # nothing is divided where there is nothing
        shift = (size - 1).bit_length()
        magic = ((1 << 32) * ((1 << shift) - size)) // size + 1
        return struct.pack("<2I6i", size, magic, shift, self.image, self.other, *self.coordinates)


@dataclass(frozen=True)
class _Index:
    """Digits, the fastest first, and what number 0 has."""

    digits: tuple[_Digit, ...]
    image: int = 0
    other: int = 0
    coordinates: tuple[int, int, int] = (0, 0, 0)

    @property
    def count(self) -> int:
        return math.prod(each.size for each in self.digits)

    def packed(self) -> bytes:
        digits = b"".join(each.packed() for each in self.digits).ljust(4 * 32, b"\0")
        return digits + struct.pack("<6i", self.count, self.image, self.other, *self.coordinates)


@dataclass(frozen=True)
class _Work:
    """A convolution as sums of products, which are those of `conv.cu`. free, red: of each phase. plain, out: distances
    from a channel to the next; groups: from a group of channels to the next, of plain, image and out."""

    free: tuple[_Index, ...]
    red: tuple[_Index, ...]
    channels: int
    plain: int
    out: int
    groups: tuple[int, int, int]

    @property
    def places(self) -> int:
        return max(each.count for each in self.free)

    @property
    def sums(self) -> int:
        return max(each.count for each in self.red)


def _axis(number: int, value: int) -> tuple[int, int, int]:
    x, y, z = (value * (number == each) for each in range(3))
    return x, y, z


def _work(what: Convolution) -> _Work:
    x, w, y = what.x, what.w, what.y
    last = (y if what.role == DATA else x).steps[1] == 1 and w.sizes[1] > 1  # channels are contiguous
    of_y, of_x = w.sizes[0] // what.groups, w.sizes[1]
    # Dimensions of space from the last to the first, x, y, z: steps, sizes, and how the filter moves.
    columns = [each[:1:-1] for each in (x.steps, w.steps, y.steps, x.sizes, w.sizes, y.sizes)]
    space = [*zip(*columns, *(each[::-1] for each in (what.padding, what.strides, what.dilations)), strict=True)]
    space += [(0, 0, 0, 1, 1, 1, 0, 1, 1)] * (len(space) == 1)

    def in_order(channel: _Digit, places: list[_Digit]) -> tuple[_Digit, ...]:
        return (channel, *places) if last else (*places, channel)

    if what.role == DATA:
        free, red = [], []
        for shifts in product(*(range(each[7]) for each in space)):
            pixels, of_filter, begin, image, out, first = [], [], [0, 0, 0], 0, 0, 0
            for axis, (shift, (dx, dw, dy, extent, tap, _, padding, stride, dilation)) in enumerate(
                zip(shifts, space, strict=True)
            ):
                chosen = [each for each in range(tap) if (shift + padding - each * dilation) % stride == 0]
                start = chosen[0] if chosen else 0
                apart = stride // math.gcd(stride, dilation)
                begin[axis] = (shift + padding - start * dilation) // stride
                back = -(apart * dilation) // stride
                pixels.append(_Digit(len(range(shift, extent, stride)), dy, dx * stride, _axis(axis, 1)))
                of_filter.append(_Digit(len(chosen), back * dy, apart * dw, _axis(axis, back)))
                image, out, first = image + begin[axis] * dy, out + shift * dx, first + start * dw
            batch = _Digit(y.sizes[0], y.steps[0], x.steps[0])
            free.append(_Index((*pixels, batch), image, out, (begin[0], begin[1], begin[2])))
            red.append(_Index(in_order(_Digit(of_y, y.steps[1], w.steps[0]), of_filter), 0, first))
        groups = of_y * w.steps[0], of_y * y.steps[1], of_x * x.steps[1]
        return _Work(tuple(free), tuple(red), of_x, w.steps[1], x.steps[1], groups)
    pixels, of_filter, begin, image = [], [], [0, 0, 0], 0
    for axis, (dx, dw, dy, _, tap, out, padding, stride, dilation) in enumerate(space):
        moves = int(tap > 1 or padding > 0)  # else every place is inside
        pixels.append(_Digit(out, stride * dx, dy, _axis(axis, stride * moves)))
        of_filter.append(_Digit(tap, dilation * dx, dw, _axis(axis, dilation * moves)))
        begin[axis], image = -padding, image - padding * dx
    batch = _Digit(x.sizes[0], x.steps[0], y.steps[0])
    of_pixels = _Index((*pixels, batch), image, 0, (begin[0], begin[1], begin[2]))
    of_taps = _Index(in_order(_Digit(of_x, x.steps[1], w.steps[1]), of_filter))
    of_w, of_image, per_group = of_y * w.steps[0], of_x * x.steps[1], of_y * y.steps[1]
    if what.role == FORWARD:
        return _Work((of_pixels,), (of_taps,), of_y, w.steps[0], y.steps[1], (of_w, of_image, per_group))
    return _Work((of_taps,), (of_pixels,), of_y, y.steps[1], w.steps[0], (per_group, of_image, of_w))


def _run(digits: Sequence[_Digit], image: bool) -> tuple[int, list[int]]:
    """How many numbers follow each other in memory from 0, within the same coordinates, and the other steps."""
    length, steps = 1, []
    for each in digits:
        step = each.image if image else each.other
        if each.size > 1 and step == length and not steps and not (image and any(each.coordinates)):
            length *= each.size
        elif each.size > 1:
            steps.append(step)
    return length, steps


def _loads(work: _Work, role: int, nbytes: int, image: int, plain: int) -> dict[str, int]:
    """How tiles are loaded: macros of `conv.cu`. nbytes: of an element; image, plain: addresses."""
    (of_free, _), (of_red, _) = _run(work.free[0].digits, True), _run(work.red[0].digits, True)
    along_k = of_red > of_free or (of_red == of_free and role == FILTER)
    rows = work.channels if work.plain == 1 else 1
    plain_along_k = _run(work.red[0].digits, False)[0] >= rows
    # Each chunk is as long as the run that it is of, where all chunks begin at multiples of its length.
    of_image = [16 // nbytes, image // nbytes, work.groups[1]]
    of_plain = [16 // nbytes, plain // nbytes, work.groups[0], work.plain if plain_along_k else rows]
    for free, red in zip(work.free, work.red, strict=True):
        along, across = (red, free) if along_k else (free, red)
        length, steps = _run(along.digits, True)
        of_image += [length, *steps, *(each.image for each in across.digits if each.size > 1), free.image, red.image]
        length, steps = _run(red.digits, False)
        steps = [length, *steps] if plain_along_k else [each.other for each in red.digits if each.size > 1]
        of_plain += [*steps, red.other]
    return {
        "IMAGE_ALONG_K": int(along_k), "IMAGE_WIDTH": math.gcd(*of_image),
        "PLAIN_ALONG_K": int(plain_along_k), "PLAIN_WIDTH": math.gcd(*of_plain),
    }  # fmt: skip


@dataclass(frozen=True)
class _Shape:
    """Tile: free places, channels. each: sums of a thread in a row; slices: threads that share a sum or, of tensor
    cores, times 64 bytes of a step. alone, beside: cycles of a step of an SM's only block, and of each of several
    (of this machine's model of an H200; 3x3 filters of 64 channels). parts: blocks that share a sum."""

    free: int
    channels: int
    each: int
    slices: int
    alone: int
    beside: int
    parts: int = 1


_TENSOR_SHAPES = _Shape(128, 128, 0, 1, 2600, 2200), _Shape(128, 64, 0, 1, 2100, 1500), _Shape(64, 64, 0, 2, 2500, 1700)
_FLOAT_SHAPES = (
    *(_Shape(128, 128, 8, 1, 5200, 5000), _Shape(128, 64, 8, 1, 3300, 2950)),
    *(_Shape(64, 64, 8, 2, 4000, 3250), _Shape(32, 32, 4, 4, 3000, 1900)),
)
_DOUBLE_SHAPES = (_Shape(64, 64, 4, 1, 4000, 3250),)
_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_BEGIN, _JOIN_CYCLES, _JOINED = 3000, 8000, 10
"""Cycles around a tile's steps and of the kernel that adds parts, and elements of a part that an SM adds in one."""


def _shape(driver: Driver, what: Convolution, work: _Work, engine: int) -> _Shape:
    """The tile and parts that take the fewest cycles."""
    sms, (kind, nbytes) = driver.config.sm.count, TYPES[what.x.kind]
    shapes = _TENSOR_SHAPES if engine == TENSOR_CORES else _DOUBLE_SHAPES if kind == "f64" else _FLOAT_SHAPES
    dense = math.prod(what.result.sizes) == _span(what)
    divided = dense and kind != "f64" and what.bias is None and what.added is None and not what.relu

    def cost(shape: _Shape) -> float:
        steps = math.ceil(work.sums * nbytes / (64 * shape.slices * shape.parts))
        each = -(-math.prod(_grid(what, work, shape)) // sms)
        join = _JOIN_CYCLES + shape.parts * _span(what) / sms / _JOINED if shape.parts > 1 else 0
        return steps * max(shape.alone, shape.beside * each) + _BEGIN + join

    parts = _PARTS if divided else (1,)
    return min((replace(shape, parts=each) for shape in shapes for each in parts), key=cost)


def _span(what: Convolution) -> int:
    """Elements from the first of the result to behind the last."""
    return sum((size - 1) * step for size, step in zip(what.result.sizes, what.result.steps, strict=True)) + 1


def _grid(what: Convolution, work: _Work, shape: _Shape) -> tuple[int, int, int]:
    """The grid, for all phases."""
    others = len(work.free) * what.groups * shape.parts
    return -(-work.places // shape.free), -(-work.channels // shape.channels), others


def workspace_bytes(driver: Driver, what: Convolution, engine: int) -> int:
    """Bytes that a convolution needs beside its tensors."""
    work = _work(what)
    if work.channels <= _FEW_CHANNELS:
        return 0
    parts = _shape(driver, what, work, engine).parts
    return 4 * parts * _span(what) if parts > 1 else 0


def convolve(
    driver: Driver, stream: int, what: Convolution, engine: int, addresses: dict[int, int], workspace: int
) -> None:
    """Launch the kernels of a convolution in a stream by its handle. addresses: by the tensors' numbers. Raises
    INVALID_VALUE, NOT_SUPPORTED."""
    work = _work(what)
    kind, nbytes = TYPES[what.x.kind]
    given = [what.y if what.role == DATA else what.x, what.y if what.role == FILTER else what.w, what.result]
    given += [each for each in (what.added, what.bias) if each is not None]
    fail_if(any(not addresses.get(each.uid) for each in given), ResultCode.INVALID_VALUE)
    image, plain, out = (addresses[each.uid] for each in given[:3])
    added = addresses[what.added.uid] if what.added else out
    bias = addresses[what.bias.uid] if what.bias else 0
    few = work.channels <= _FEW_CHANNELS
    shape = _Shape(*(0,) * 6) if few else _shape(driver, what, work, engine)
    fail_if(shape.parts > 1 and not workspace, ResultCode.INVALID_VALUE)
    extents = (*(what.y if what.role == DATA else what.x).sizes[:1:-1], 1, 1)[:3]
    macros: dict[str, str | int] = {"T": kind, "DIMS": max(len(what.padding), 2)}
    name = f"gpusim_conv_{_ROLES[what.role]}_{kind}"
    for first in range(0, len(work.free), _MOST_PHASES):
        part = replace(work, free=work.free[first:][:_MOST_PHASES], red=work.red[first:][:_MOST_PHASES])
        values = b"".join(
            (
                struct.pack("<6Q", plain, image, added, bias, out, workspace),
                struct.pack("<5i", _span(what), shape.parts, len(part.free), what.groups, work.channels),
                struct.pack("<5i", work.plain, *work.groups[:2], work.out, work.groups[2]),
                struct.pack("<4i2d", *extents, int(what.relu), what.alpha, what.beta),
                b"".join(each.packed() for each in part.free).ljust(_MOST_PHASES * 152, b"\0"),
                b"".join(each.packed() for each in part.red).ljust(_MOST_PHASES * 152, b"\0"),
            )
        )
        if few:
            count = work.channels * what.groups * part.places
            mode = _BLOCKS_EACH if part.sums > _THREADS and count < part.sums else _THREADS_EACH
            grid = -(-count // (_THREADS if mode == _THREADS_EACH else 1)), 1, len(part.free)
            per_channel = work.groups[2] if work.channels == 1 else work.out
            more = macros | {"MODE": mode, "CHANNELS_FIRST": int(per_channel == 1 and what.groups > 1)}
            run(driver, stream, _FILE, f"{name}_direct", grid, _THREADS, values, 0, **more)
            continue
        rows = work.out == 1 and part.free[0].digits[0].other != 1
        tensor = engine == TENSOR_CORES
        tile = (shape.free, shape.channels) if rows else (shape.channels, shape.free)
        more = macros | _loads(part, what.role, nbytes, image, plain)
        more |= {"MODE": _TILES, "TENSOR": int(tensor), "IMAGE_ROWS": int(rows), "TILE_M": tile[0], "TILE_N": tile[1]}
        more |= {"EACH": shape.each, "SLICES": shape.slices}
        more["T"] = "tf32" if tensor and kind == "f32" else kind
        grid = _grid(what, part, shape)
        fail_if(max(grid[1:]) > _MOST_BLOCKS, ResultCode.NOT_SUPPORTED)
        threads = 2 * tile[1] if tensor else shape.slices * tile[0] * tile[1] // shape.each**2
        named = f"{name.replace(kind, str(more['T']))}_{tile[0]}x{tile[1]}"
        run(driver, stream, _FILE, named, grid, threads, values, 0, **more)
    if shape.parts > 1:
        grid = -(-_span(what) // _THREADS), 1, 1
        run(driver, stream, _FILE, f"gpusim_conv_sum_{kind}", grid, _THREADS, values, 0, **macros, MODE=_JOIN)
