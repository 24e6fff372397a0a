"""The kernel of a convolution, and the parameters that it takes (`conv.cu`)."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from itertools import product
from typing import Any

from gpusim.driver.attributes import compute_capability
from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.libraries.blas.choice import Macros, instruction
from gpusim.driver.libraries.blas.kernels import run
from gpusim.driver.libraries.dnn.graph import DATA, FILTER, FORWARD, TENSOR_CORES, TYPES, Convolution, Tensor
from gpusim.driver.state import Driver

_FILE, _TENSOR_FILE, _PACK_FILE = "../dnn/conv.cu", "../dnn/tensor.cu", "../dnn/pack.cu"
_TILES, _JOIN, _FEW, _GROUPED = range(4)
_FEW_CHANNELS = 4
"""Of a group, up to which a thread or a block computes an element of the result, instead of a tile."""
_THREADS, _WIDE = 256, 32  # of a block of those kernels, and its channels of small groups
_ROLES = {FORWARD: "forward", DATA: "data", FILTER: "filter"}
_RESULTS = {FORWARD: "y", DATA: "x", FILTER: "w"}
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
    of_image = {each.uid: each.sizes[1] // what.groups * each.steps[1] for each in (x, y)}
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
        groups = of_y * w.steps[0], of_image[y.uid], of_image[x.uid]
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
    of_w, of_x, per_group = of_y * w.steps[0], of_image[x.uid], of_image[y.uid]
    if what.role == FORWARD:
        return _Work((of_pixels,), (of_taps,), of_y, w.steps[0], y.steps[1], (of_w, of_x, per_group))
    return _Work((of_taps,), (of_pixels,), of_y, y.steps[1], w.steps[0], (per_group, of_x, of_w))


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


def _loads(work: _Work, role: int, nbytes: int, image: int, plain: int) -> Macros:
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


# --- tiles ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Tile:
    """A block's part of the sums, m x n: by tensor cores rows are free places (of a filter's gradient, channels), else
    free places by channels. way: half, tf32, those for a filter's gradient, fma, f64. each, slices: of multiply-adds,
    sums of a thread in a row, and threads that share a sum. stages: of tensor cores' ring. Microseconds on an H200:
    first, of a launch; more, of each further block of an SM; alone, beside: of 128 bytes along k in an SM's only block,
    and in each of several; join, joins: of a cluster that shares sums, once and for each of its parts in a block.
    parts: blocks of a cluster that share sums; memory: those whose sums are joined through memory."""

    way: str
    m: int
    n: int
    each: int
    slices: int
    stages: int
    first: float
    more: float
    alone: float
    beside: float
    join: float
    joins: float
    parts: int = 1
    memory: int = 1

    def grid(self, what: Convolution, work: _Work) -> tuple[int, int, int]:
        """The grid, for all phases."""
        turned = self.stages > 0 and what.role == FILTER
        free, channels = (self.n, self.m) if turned else (self.m, self.n)
        others = len(work.free) * what.groups * self.parts * self.memory
        return -(-work.places // free), -(-work.channels // channels), others


@cache
def _tiles() -> tuple[_Tile, ...]:
    """Those that were measured, in `tiles.txt`."""
    lines = resources.files("gpusim.driver.libraries.dnn").joinpath("tiles.txt").read_text().splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return tuple(_Tile(row[0], *map(int, row[1:6]), *map(float, row[6:])) for row in rows)


def _way(what: Convolution, engine: int) -> str:
    """How sums are made: by tiles of a kind, or for each element of a few channels, a group of one apart."""
    kind, chunk = TYPES[what.x.kind][0], 16 // TYPES[what.x.kind][1]
    of_y, of_x = what.w.sizes[0] // what.groups, what.w.sizes[1]
    given = what.result if what.role == DATA else what.x, what.result if what.role == FORWARD else what.y
    small = of_y == of_x and of_x in (1, 4) and what.groups > 1 and of_x * what.groups % 4 == 0
    if small and all(_fits(each, chunk) for each in given):
        return "grouped"
    if (of_x if what.role == DATA else of_y) <= _FEW_CHANNELS and (what.groups > 1 or engine != TENSOR_CORES):
        return "few"
    if engine == TENSOR_CORES:
        if what.role == FILTER:
            return "tf32_filter" if kind == "f32" else "half_filter"
        return "half" if kind != "f32" else "tf32_data" if what.role == DATA else "tf32"
    return "f64" if kind == "f64" else "fma"


def _choices(driver: Driver, what: Convolution, way: str) -> list[_Tile]:
    """Tiles of a way, and parts of a sum."""
    hopper = compute_capability(driver.config) == (9, 0)
    clusters = (1, 2, 4, 8) if way.startswith(("half", "tf32")) and hopper else (1,)
    return [
        replace(each, parts=parts, memory=memory)
        for each in _tiles()
        for parts in clusters
        for memory in (_PARTS if _divided(what) else (1,))
        if each.way == way and (memory == 1 or parts == clusters[-1]) and (hopper or each.n >= 64 or not each.stages)
    ]


def _divided(what: Convolution) -> bool:
    """Return whether parts of sums can be joined through memory, as floats."""
    dense = math.prod(what.result.sizes) == _span(what)
    return dense and TYPES[what.x.kind][0] != "f64" and what.bias is None and what.added is None and not what.relu


def _tile(driver: Driver, what: Convolution, way: str, work: _Work) -> _Tile:
    """The tile and parts that take the least time."""
    sms, nbytes = driver.config.sm.count, TYPES[what.x.kind][1]
    if way in ("few", "grouped"):
        grouped = way == "grouped"
        blocks = -(-what.groups * work.channels // _WIDE) if grouped else what.groups
        blocks *= work.places // work.channels if grouped and what.role == FILTER else -(-work.places // _WIDE)
        parts = max(1, min(_PARTS[-1], work.sums // _THREADS, 4 * sms // (blocks * len(work.free))))
        return _Tile(way, *(0,) * 11, memory=parts if _divided(what) else 1)

    def cost(tile: _Tile) -> float:
        steps = math.ceil(work.sums * nbytes / 128 / (tile.parts * tile.memory))
        each = -(-math.prod(tile.grid(what, work)) // sms)
        time = tile.first + tile.more * (each - 1) + steps * max(tile.alone, tile.beside * each)
        time += (tile.parts > 1) * (tile.join + tile.joins * tile.parts * each)
        return time + (tile.memory > 1) * (_JOIN_US + (tile.memory + 1) * _span(what) / sms / _JOINED)

    return min(_choices(driver, what, way), key=cost)


_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_JOIN_US, _JOINED = 1.7, 50_000
"""Of the kernel that adds parts, on an H200: microseconds, and elements of a part that an SM adds in one."""


def _span(what: Convolution) -> int:
    """Elements from the first of the result to behind the last."""
    return sum((size - 1) * step for size, step in zip(what.result.sizes, what.result.steps, strict=True)) + 1


# --- tensors for tensor cores -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Copy:
    """A tensor, and it in another place with its channels together, each group's rounded up. rows: a group's rows of a
    filter, before and behind that; offset: bytes in the workspace."""

    given: Tensor
    laid: Tensor
    groups: int
    rows: tuple[int, int]
    offset: int


def _fits(of: Tensor, chunk: int) -> bool:
    """Return whether channels lie together, and can be taken in chunks of 16 bytes."""
    others = [step for axis, (size, step) in enumerate(zip(of.sizes, of.steps, strict=True)) if axis != 1 and size > 1]
    return of.steps[1] == 1 and of.alignment % 16 == 0 and not any(step % chunk for step in others)


def _laid(what: Convolution) -> tuple[Convolution, list[_Copy], int]:
    """The convolution of tensors as tensor cores' kernels take them, which of them are copies, and bytes of these."""
    nbytes, of_y, of_x = TYPES[what.x.kind][1], what.w.sizes[0] // what.groups, what.w.sizes[1]
    chunk, offset, name = 16 // nbytes, 0, _RESULTS[what.role]
    tensors = {"x": what.x, "w": what.w, "y": what.y} | {name: what.result}
    copies: list[_Copy] = []
    for key, each in tensors.items():
        channels, groups = of_y if key == "y" else of_x, 1 if key == "w" else what.groups
        padded = -(-channels // chunk) * chunk
        rows = (of_y, -(-of_y // chunk) * chunk) if key == "w" and what.role == DATA else (1, 1)
        if padded == channels and rows[0] == rows[1] and _fits(each, chunk):
            continue
        sizes = (each.sizes[0] // rows[0] * rows[1], groups * padded, *each.sizes[2:])
        steps = [math.prod(sizes[axis + 1 :]) * sizes[1] for axis in range(2, len(sizes))]
        tensors[key] = Tensor(-1 - len(copies), each.kind, sizes, (math.prod(sizes[1:]), 1, *steps))
        copies.append(_Copy(each, tensors[key], groups, rows, offset))
        offset += -(-math.prod(sizes) * nbytes // 256) * 256
    inner = replace(what, x=tensors["x"], w=tensors["w"], y=tensors["y"], result=tensors[name])
    if inner.result != what.result:
        inner = replace(inner, alpha=1, beta=0, added=None, bias=None, relu=False)
    return inner, copies, offset


# --- launches ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ConvolutionPlan:
    """How a convolution is done. given: as it was asked for; what: of tensors that its kernels take, of which some are
    copies. Bytes of the workspace are those of copies, and of parts of sums behind them."""

    driver: Driver
    given: Convolution
    what: Convolution
    copies: list[_Copy]
    work: _Work
    tile: _Tile
    nbytes: tuple[int, int]


def plan(driver: Driver, given: Convolution, engine: int) -> ConvolutionPlan:
    """How this machine does a convolution."""
    way = _way(given, engine)
    what, copies, nbytes = _laid(given) if way.startswith(("half", "tf32")) else (given, [], 0)
    work = _work(what)
    tile = _tile(driver, what, way, work)
    sums = 4 * tile.memory * _span(what) if tile.memory > 1 else 0
    return ConvolutionPlan(driver, given, what, copies, work, tile, (nbytes, sums))


def workspace_bytes(driver: Driver, what: Convolution, engine: int) -> int:
    """Bytes that a convolution needs beside its tensors."""
    return sum(plan(driver, what, engine).nbytes)


def convolve(
    driver: Driver, stream: int, what: Convolution, engine: int, addresses: dict[int, int], workspace: int
) -> None:
    """Launch the kernels of a convolution in a stream by its handle. addresses: by the tensors' numbers. Raises
    INVALID_VALUE, NOT_SUPPORTED."""
    given = [what.y if what.role == DATA else what.x, what.y if what.role == FILTER else what.w, what.result]
    given += [each for each in (what.added, what.bias) if each is not None]
    how = plan(driver, what, engine)
    missing = any(not addresses.get(each.uid) for each in given) or (any(how.nbytes) and not workspace)
    fail_if(missing, ResultCode.INVALID_VALUE)
    addresses = addresses | {each.laid.uid: workspace + each.offset for each in how.copies}
    launch = _Launch(how, stream, addresses, workspace + how.nbytes[0])
    for each in how.copies:
        if each.given is not what.result:
            launch.copy(each)
    launch.compute()
    for each in how.copies:
        if each.given is what.result:
            launch.copy(each, what)


@dataclass(frozen=True)
class _Launch:
    """A plan under way: its stream, addresses of tensors, and of parts of sums."""

    plan: ConvolutionPlan
    stream: int
    addresses: dict[int, int]
    sums: int

    def run(self, file: str, name: str, grid: Sequence[int], threads: int, values: bytes, **more: Any) -> None:
        """more: macros, and bytes of shared memory."""
        given = self.plan.given
        fail_if(max(grid[1:]) > _MOST_BLOCKS, ResultCode.NOT_SUPPORTED)
        every: dict[str, Any] = {"T": TYPES[given.x.kind][0], "DIMS": max(len(given.padding), 2), **more}
        name = f"gpusim_conv_{name.replace('*', every['T'])}"
        run(self.plan.driver, self.stream, file, name, grid, threads, values, **every)

    def copy(self, copy: _Copy, back: Convolution | None = None) -> None:
        """Copy a tensor to its other place or, for what a convolution has there, back."""
        given, laid, channels = copy.given, copy.laid, copy.given.sizes[1] // copy.groups
        padded, at, there = laid.sizes[1] // copy.groups, self.addresses[given.uid], self.addresses[laid.uid]
        of_given, of_laid = (given.steps[1], channels * given.steps[1], given.steps[0]), (1, padded, laid.steps[0])
        places, rows, scalars, relu = [0, at, 0, 0, there, 0], copy.rows, (1.0, 0.0), 0
        if back:
            bias = self.addresses[back.bias.uid] if back.bias else 0
            places = [0, there, self.addresses[back.added.uid] if back.added else at, bias, at, 0]
            rows, scalars, relu = (1, 1), (back.alpha, back.beta), int(back.relu)
        (step, group, image), (to_step, to_group, to_image) = (of_laid, of_given) if back else (of_given, of_laid)
        numbers = [0, rows[0], 1, copy.groups, channels if back else padded, step, group, image, to_step, to_image]
        numbers += [channels, to_group, 0, relu, 0, rows[1]]
        space = zip(given.sizes, *((laid.steps, given.steps) if back else (given.steps, laid.steps)), strict=True)
        places_of = _Index(tuple(_Digit(*each) for each in list(space)[:1:-1]))
        together = 8 if padded <= 8 else 64 if places_of.count <= 32 else 32
        grid = laid.sizes[0] * copy.groups, -(-places_of.count * together // 2048), -(-padded // together)
        values = _parameters(places, numbers, scalars, (places_of,), ())
        macros = {"CHANNELS": together, "BACK": int(back is not None)}
        self.run(_PACK_FILE, f"{'unpack' if back else 'pack'}_*", grid, _THREADS, values, **macros)

    def compute(self) -> None:
        """Launch what makes the sums, a few phases at a time, and what adds their parts."""
        what, work, tile = self.plan.what, self.plan.work, self.plan.tile
        given = [what.y if what.role == DATA else what.x, what.y if what.role == FILTER else what.w, what.result]
        image, plain, out = (self.addresses[each.uid] for each in given)
        places = [plain, image, self.addresses[what.added.uid] if what.added else out]
        places += [self.addresses[what.bias.uid] if what.bias else 0, out, self.sums]
        extents = (*given[0].sizes[:1:-1], 1, 1)[:3]

        def values(part: _Work, parts: int) -> bytes:
            numbers = [_span(what), parts, len(part.free), what.groups, work.channels, work.plain, *work.groups[:2]]
            numbers += [work.out, work.groups[2], *extents, int(what.relu), what.w.steps[0], 1]
            return _parameters(places, numbers, (what.alpha, what.beta), part.free, part.red)

        for first in range(0, len(work.free), _MOST_PHASES):
            part = replace(work, free=work.free[first:][:_MOST_PHASES], red=work.red[first:][:_MOST_PHASES])
            if tile.stages:
                self._by_tensor_cores(part, values(part, tile.parts * tile.memory))
            elif tile.each:
                macros = _loads(part, what.role, TYPES[what.x.kind][1], image, plain)
                self._by_multiply_adds(part, values(part, tile.memory), macros)
            else:
                self._each(part, values(part, tile.memory))
        if tile.memory > 1:
            grid = -(-_span(what) // _THREADS), 1, 1
            self.run(_FILE, "sum_*", grid, _THREADS, values(part, tile.memory), MODE=_JOIN)

    def _by_tensor_cores(self, work: _Work, values: bytes) -> None:
        what, tile, config = self.plan.what, self.plan.tile, self.plan.driver.config
        rows, stage, kind = (
            what.role != FILTER,
            128 * (tile.m + max(tile.n, 64)),
            TYPES[what.x.kind][0].replace("f32", "tf32"),
        )
        stages = min(tile.stages, (config.sm.shared_bytes_per_block_max - (12 << 10)) // stage)
        macros: Macros = {"T": kind, "TILE_M": tile.m, "TILE_N": tile.n, "STAGES": stages, "PARTS": tile.parts}
        macros |= {"IMAGE_ROWS": int(rows), "IMAGE_ALONG_K": int(rows), "PLAIN_ALONG_K": int(what.role == FORWARD)}
        if compute_capability(config) == (9, 0):
            macros |= instruction((kind, kind), tile.n, (not rows, what.role != FORWARD))
        shared = max(stages * stage, tile.m * (4 * tile.n + 32)) + 1024
        name = f"{_ROLES[what.role]}_*_{tile.m}x{tile.n}"
        self.run(_TENSOR_FILE, name, tile.grid(what, work), 2 * tile.m, values, shared=shared, **macros)

    def _by_multiply_adds(self, work: _Work, values: bytes, loads: Macros) -> None:
        what, tile = self.plan.what, self.plan.tile
        rows = work.out == 1 and work.free[0].digits[0].other != 1
        m, n = (tile.m, tile.n) if rows else (tile.n, tile.m)
        macros = loads | {"MODE": _TILES, "IMAGE_ROWS": int(rows), "TILE_M": m, "TILE_N": n}
        macros |= {"EACH": tile.each, "SLICES": tile.slices}
        threads = tile.slices * m * n // tile.each**2
        self.run(_FILE, f"{_ROLES[what.role]}_*_{m}x{n}", tile.grid(what, work), threads, values, **macros)

    def _each(self, work: _Work, values: bytes) -> None:
        """An element in a thread, in a block, or several in both."""
        what, tile, role, phases = self.plan.what, self.plan.tile, self.plan.what.role, len(work.free)
        if tile.way == "grouped":
            rows = work.places // work.channels if role == FILTER else -(-work.places // 128)
            grid = rows, -(-what.groups * work.channels // _WIDE), phases * tile.memory
            macros = {"MODE": _GROUPED, "GROUP": work.channels, "OF_FILTER": int(role == FILTER)}
            self.run(_FILE, f"{_ROLES[role]}_*_grouped", grid, _THREADS, values, **macros)
            return
        grid = -(-work.places // 32), what.groups, phases * tile.memory
        macros = {"MODE": _FEW, "IMAGE_ALONG_K": int(work.red[0].digits[0].image == 1)}
        self.run(_FILE, f"{_ROLES[role]}_*_few", grid, _THREADS, values, **macros)


def _parameters(
    places: Sequence[int], numbers: Sequence[int], scalars: tuple[float, float], *of_phases: Sequence[_Index]
) -> bytes:
    """As `Conv` in `conv.cuh` has them. of_phases: free and red."""
    indices = (b"".join(index.packed() for index in each).ljust(_MOST_PHASES * 152, b"\0") for each in of_phases)
    return struct.pack("<6Q16i2d", *places, *numbers, *scalars) + b"".join(indices)
