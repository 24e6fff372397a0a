"""The kernel of a convolution, and the parameters that it takes (`conv.cu`).

More than 500 lines: what is chosen for a convolution, and what it is launched with, is one story.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from itertools import product
from typing import Any

import numpy as np

from gpusim.driver.attributes import compute_capability
from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.libraries.blas.choice import Macros, instruction
from gpusim.driver.libraries.blas.kernels import run
from gpusim.driver.libraries.blas.multiply import multiply
from gpusim.driver.libraries.blas.product import BF16, F16, F32, Matrix, MatrixProduct, Scalars
from gpusim.driver.libraries.dnn.graph import DATA, FILTER, FORWARD, TENSOR_CORES, TYPES, Convolution, Tensor
from gpusim.driver.state import Driver

_FILE, _TENSOR_FILE, _PACK_FILE = "../dnn/conv.cu", "../dnn/tensor.cu", "../dnn/pack.cu"
_WINOGRAD_FILE, _WINOGRAD_CHANNELS = "../dnn/winograd.cu", 128  # least of x and y
_WORTH_A_COPY = 1 << 25  # products of floats, from which a copy of the filter is
_TILES, _JOIN, _FEW, _GROUPED = range(4)
_FEW_CHANNELS, _MOST_FEW = 4, 12
"""Of a group of the result, up to which threads compute all of a place, not a tile; the second, not one of floats."""
_THREADS, _WIDE, _MOST_RUN, _MOST_TAPS = 256, 32, 64, 28
"""Of a block of those kernels; its channels of small groups, channels of a run, and numbers of a row of taps."""
_ROLES = {FORWARD: "forward", DATA: "data", FILTER: "filter"}
_RESULTS = {FORWARD: "y", DATA: "x", FILTER: "w"}
_KINDS = {0: F32, 2: F16, 9: BF16}
_MOST_PHASES, _MOST_BLOCKS = 8, 65535


def _moves(image: int, other: int, axis: int = 0, along: int = 0) -> np.ndarray:
    """What is added to the distance in the image, to that in the filter or in the tensor beside it, and to the
    coordinates in the image, x, y and z, of which one axis is moved along."""
    return np.array([image, other, *(along * (axis == each) for each in range(3))])


@dataclass(frozen=True)
class _Digit:
    """A digit of an index: its size, and what a unit of it adds."""

    size: int
    moves: np.ndarray

    def packed(self) -> bytes:
        size = max(self.size, 1)  # nothing is divided where there is nothing
        shift = (size - 1).bit_length()
        magic = ((1 << 32) * ((1 << shift) - size)) // size + 1
        return struct.pack("<2I6i", size, magic, shift, *self.moves)


@dataclass(frozen=True)
class _Index:
    """Digits, the fastest first, and what number 0 has."""

    digits: tuple[_Digit, ...]
    begin: np.ndarray

    @property
    def count(self) -> int:
        return math.prod(each.size for each in self.digits)

    def packed(self) -> bytes:
        digits = b"".join(each.packed() for each in self.digits).ljust(4 * 32, b"\0")
        return digits + struct.pack("<6i", self.count, *self.begin)


@dataclass(frozen=True)
class _Work:
    """A convolution as sums of products, which are those of `conv.cu`. free, red: of each phase. plain, out: distances
    from a channel to the next; groups: from a group of channels to the next, of plain, image and out. places, sums: of
    the largest phase."""

    free: tuple[_Index, ...]
    red: tuple[_Index, ...]
    channels: int
    plain: int
    out: int
    groups: tuple[int, int, int]
    places: int
    sums: int


def _axis(data: bool, axis: int, shift: int, of: Sequence[int]) -> tuple[_Digit, _Digit, np.ndarray, np.ndarray]:
    """Of a dimension of space: digits of pixels, which are places of y here, and of the filter's taps, and what the
    first of each has; or, of the data's gradient, pixels of x from a shift on, a stride apart, and the part of the taps
    that they meet. of: steps of x, w and y, their sizes, padding, stride and dilation."""
    dx, dw, dy, extent, tap, out, padding, stride, dilation = of
    if not data:
        moves = int(tap > 1 or padding > 0)  # else every place is inside
        pixels = _Digit(out, _moves(stride * dx, dy, axis, stride * moves))
        taps = _Digit(tap, _moves(dilation * dx, dw, axis, dilation * moves))
        return pixels, taps, _moves(-padding * dx, 0, axis, -padding), _moves(0, 0)
    chosen = [each for each in range(tap) if (shift + padding - each * dilation) % stride == 0]
    start, apart = chosen[0] if chosen else 0, stride // math.gcd(stride, dilation)
    begin, back = (shift + padding - start * dilation) // stride, -(apart * dilation) // stride
    pixels = _Digit(len(range(shift, extent, stride)), _moves(dy, dx * stride, axis, 1))
    taps = _Digit(len(chosen), _moves(back * dy, apart * dw, axis, back))
    return pixels, taps, _moves(begin * dy, shift * dx, axis, begin), _moves(0, start * dw)


def _work(what: Convolution, way: str) -> _Work:
    data, w, groups = what.role == DATA, what.w, what.groups
    image, other = (what.y, what.x) if data else (what.x, what.y)
    summed, made = (0, 1) if data else (1, 0)  # axes of the filter
    counts = w.sizes[0] // groups, w.sizes[1]
    channel = _Digit(counts[summed], _moves(image.steps[1], w.steps[summed]))
    batch = _Digit(image.sizes[0], _moves(image.steps[0], other.steps[0]))
    together = image.steps[1] == 1 or (way == "few" and what.role != FILTER)
    # Dimensions of space from the last to the first, x, y, z.
    columns = [each[:1:-1] for of in ("steps", "sizes") for each in (getattr(t, of) for t in (what.x, w, what.y))]
    space = [*zip(*columns, *(each[::-1] for each in (what.padding, what.strides, what.dilations)), strict=True)]
    space += [(0, 0, 0, 1, 1, 1, 0, 1, 1)] * (len(space) == 1)
    free, red = [], []
    for shifts in product(*(range(each[7] if data else 1) for each in space)):
        axes = [_axis(data, *each) for each in zip(range(3), shifts, space, strict=False)]
        pixels, taps, begins, starts = zip(*axes, strict=True)
        free.append(_Index((*pixels, batch), np.sum(begins, 0)))
        red.append(_Index((channel, *taps) if together else (*taps, channel), np.sum(starts, 0)))
    of_image, of_other = (_group(each, groups) for each in (image, other))
    plain, out = (w.steps[made], counts[0] * w.steps[0]), (other.steps[1], of_other)
    if what.role == FILTER:
        plain, out, free, red = out, plain, red, free
    most = (max(index.count for index in each) for each in (free, red))
    return _Work(tuple(free), tuple(red), counts[made], plain[0], out[0], (plain[1], of_image, out[1]), *most)


def _group(of: Tensor, groups: int) -> int:
    """The distance from a group of channels to the next."""
    return of.sizes[1] // groups * of.steps[1]


def _run(digits: Sequence[_Digit], image: bool) -> tuple[int, list[int]]:
    """How many numbers follow each other in memory from 0, within the same coordinates, and the other steps."""
    length, steps = 1, []
    for each in digits:
        step = each.moves[0 if image else 1]
        if each.size > 1 and step == length and not steps and not (image and any(each.moves[2:])):
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
        of_image += [length, *steps, *(each.moves[0] for each in across.digits if each.size > 1)]
        of_image += [free.begin[0], red.begin[0]]
        length, steps = _run(red.digits, False)
        steps = [length, *steps] if plain_along_k else [each.moves[1] for each in red.digits if each.size > 1]
        of_plain += [*steps, red.begin[1]]
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
    costs: tuple[float, ...] = field(default=(), kw_only=True)
    parts: int = 1
    memory: int = 1

    def grid(self, what: Convolution, work: _Work) -> tuple[int, int, int]:
        """The grid, for all phases."""
        turned, others = self.stages > 0 and what.role == FILTER, len(work.free) * self.parts * self.memory
        free, channels = (self.n, self.m) if turned else (self.m, self.n)
        if self.way != "grouped":
            return -(-work.places // free), -(-work.channels // channels), others * what.groups
        if what.role == FILTER:  # rows of its taps
            rows = work.places // math.prod(each.size for each in work.free[0].digits[:2])
        else:  # runs of places
            runs = [[-(-of.digits[0].size * 32 // self.m), *(each.size for each in of.digits[1:])] for of in work.free]
            rows = -(-max(map(math.prod, runs)) // 32)
        return rows, -(-what.groups * work.channels // self.n), others


@cache
def _tiles() -> tuple[_Tile, ...]:
    """Those that were measured, in `tiles.txt`."""
    lines = resources.files("gpusim.driver.libraries.dnn").joinpath("tiles.txt").read_text().splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return tuple(_Tile(row[0], *map(int, row[1:6]), costs=tuple(map(float, row[6:]))) for row in rows)


def _folded(what: Convolution) -> Convolution:
    """The same numbers with channels of all taps of the last axis as those of one, where taps there do not overlap."""
    x, w, taps = what.x, what.w, what.w.sizes[-1]
    count, apart = w.sizes[1] * taps, taps == what.strides[-1] and what.dilations[-1] == 1 and not what.padding[-1]
    lies = all((of.steps[1], of.steps[-1]) == (1, w.sizes[1]) for of in (x, w)) and x.sizes[-1] % taps == 0
    if taps == 1 or what.groups > 1 or not apart or not lies:
        return what
    x, w = (
        replace(of, sizes=(of.sizes[0], count, *of.sizes[2:-1], of.sizes[-1] // taps), steps=(*of.steps[:-1], count))
        for of in (x, w)
    )
    result = {FORWARD: what.result, DATA: x, FILTER: w}[what.role]
    return replace(what, x=x, w=w, result=result, strides=(*what.strides[:-1], 1))


def _lies(last: bool, *tensors: Tensor) -> bool:
    """Return whether tensors have no gaps, and channels are their last axis or, else, that behind the batch's."""
    space = range(2, len(tensors[0].sizes))
    axes = (0, *space, 1) if last else (0, 1, *space)
    inner = [(of, axis, axes[place + 1 :]) for of in tensors for place, axis in enumerate(axes) if of.sizes[axis] > 1]
    return all(of.steps[axis] == math.prod(of.sizes[each] for each in behind) for of, axis, behind in inner)


def _single(what: Convolution, engine: int, at: Mapping[int, int]) -> MatrixProduct | None:
    """The product of matrices, or one for each of a batch, that a filter of one tap makes. at: addresses."""
    (of_y, of_x, *taps), (batches, _, *space), kind = what.w.sizes, what.x.sizes, _KINDS.get(what.x.kind, F32)
    last = _is_bare(what) and _lies(True, what.x, what.y, what.w)
    pixels, batches = (batches * math.prod(space), 1) if last else (math.prod(space), batches)
    fits = last or (_is_bare(what) and _lies(False, what.x, what.y, what.w) and (what.role != FILTER or batches == 1))
    rows = of_x, of_y if last else pixels  # contiguous: tensor cores take those that bulk copies can
    copied = engine == TENSOR_CORES and any(each * TYPES[what.x.kind][1] % 16 for each in rows)
    if not fits or {*taps} != {1} or any(what.padding) or copied or min(of_y, of_x) <= _FEW_CHANNELS:
        return None
    x, y = (
        Matrix(at.get(each.uid, 0), kind, count if last else pixels, count * pixels, by_rows=last)
        for each, count in ((what.x, of_x), (what.y, of_y))
    )
    w = Matrix(at.get(what.w.uid, 0), kind, of_x, by_rows=True)
    a, b, c = {FORWARD: (x, w, y), DATA: (y, w, x), FILTER: (y, x, w)}[what.role]
    m, n, k = {FORWARD: (pixels, of_y, of_x), DATA: (pixels, of_x, of_y), FILTER: (of_y, of_x, pixels)}[what.role]
    a, b = replace(a, operation=int(what.role == FILTER)), replace(b, operation=int(what.role == FORWARD))  # transposed
    return MatrixProduct(m, n, k, a, b, c, c, Scalars(F32, plain=True), batches, tf32=engine == TENSOR_CORES)


def _way(what: Convolution, engine: int) -> str:
    """How sums are made: by products, by tiles of a kind, or for each place of a few channels, or of small groups."""
    if _single(what, engine, {}):
        return "product"
    wide = what.role == FILTER and what.w.sizes[2:] == (3, 3) and min(what.w.sizes[:2]) >= _WINOGRAD_CHANNELS
    if wide and engine != TENSOR_CORES and _is_bare(what) and _lies(False, what.x, what.y, what.w):
        return "winograd"
    kind, chunk = TYPES[what.x.kind][0], 16 // TYPES[what.x.kind][1]
    way = "f64" if kind == "f64" else "fma"
    if engine == TENSOR_CORES:
        way = ("tf32" if kind == "f32" else "half") + "_filter" * (what.role == FILTER)
        way += "_data" * (way == "tf32" and what.role == DATA)
    of_y, of_x = what.w.sizes[0] // what.groups, what.w.sizes[1]
    given = what.result if what.role == DATA else what.x, what.result if what.role == FORWARD else what.y
    small = of_y == of_x and of_x in (1, 4) and what.groups > 1 and of_x * what.groups % 4 == 0
    if small and 1 < what.w.sizes[-1] <= _MOST_TAPS // of_x and all(_fits(each, chunk) for each in given):
        return "grouped"
    most = _MOST_FEW if way == "fma" and what.role != FILTER else _FEW_CHANNELS
    some = what.role == FILTER and what.groups == 1 and engine == TENSOR_CORES
    return way if some or (of_x if what.role == DATA else of_y) > most else "few"


def _divided(what: Convolution) -> bool:
    """Return whether parts of sums can be joined through memory, as floats."""
    plain = TYPES[what.x.kind][0] != "f64" and what.bias is None and what.added is None and not what.relu
    return math.prod(what.result.sizes) == _span(what) and plain


def _is_bare(what: Convolution) -> bool:
    """Return whether there is nothing but sums, of neighbours."""
    one = what.groups == 1 and {*what.strides, *what.dilations} == {1}
    return one and what.alpha == 1 and what.beta == 0 and _divided(what)


def _tile(driver: Driver, what: Convolution, way: str, work: _Work) -> _Tile:
    """The tile and parts that take the least time."""
    sms, nbytes = driver.config.sm.count, TYPES[what.x.kind][1]
    if way in ("product", "winograd"):  # a channel's tiles of 2 x 2 places, in whole chunks
        tiles = what.y.sizes[0] * math.prod(-(-each // 2) for each in what.y.sizes[2:])
        return _Tile(way, -(-tiles // 4) * 4 if way == "winograd" else 0, *(0,) * 4)
    if way in ("few", "grouped"):
        far = what.role == FORWARD and what.strides[-1] > 1  # fewer places share what their taps meet
        sizes = (128, 64, 32) if way == "few" else (64,) if far else (256,)
        tiles = [_Tile(way, m, work.channels if way == "few" else _WIDE, *(0,) * 3) for m in sizes]
        tile = next((each for each in tiles if 2 * math.prod(each.grid(what, work)) >= sms), tiles[-1])
        of_part = _THREADS if way == "few" else tile.m if what.role == FILTER else work.sums
        parts = max(1, min(_PARTS[-1], work.sums // of_part, 4 * sms // math.prod(tile.grid(what, work))))
        return replace(tile, memory=parts if _divided(what) else 1)

    def cost(tile: _Tile) -> float:
        first, more, alone, beside, join, joins = tile.costs
        steps = math.ceil(work.sums * nbytes / 128 / (tile.parts * tile.memory))
        each = -(-math.prod(tile.grid(what, work)) // sms)
        time = first + more * (each - 1) + steps * max(alone, beside * each)
        time += (tile.parts > 1) * (join + joins * tile.parts * each)
        return time + (tile.memory > 1) * (_JOIN_US + (tile.memory + 1) * _span(what) / sms / _JOINED)

    hopper = compute_capability(driver.config) == (9, 0)
    clusters = (1, 2, 4, 8) if way.startswith(("half", "tf32")) and hopper else (1,)
    shared = [(parts, 1) for parts in clusters] + [(clusters[-1], each) for each in _PARTS[1:] if _divided(what)]
    tiles = [each for each in _tiles() if each.way == way and (hopper or each.n >= 64 or not each.stages)]
    return min((replace(tile, parts=parts, memory=memory) for tile in tiles for parts, memory in shared), key=cost)


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


def _laid(what: Convolution, keys: str) -> tuple[Convolution, list[_Copy], int]:
    """The convolution of tensors, of which those of these keys have channels in chunks of 16 bytes; which of them are
    copies, and bytes of these."""
    nbytes, of_y, of_x = TYPES[what.x.kind][1], what.w.sizes[0] // what.groups, what.w.sizes[1]
    chunk, offset, name = 16 // nbytes, 0, _RESULTS[what.role]
    tensors = {"x": what.x, "w": what.w, "y": what.y} | {name: what.result}
    copies: list[_Copy] = []
    for key, each in tensors.items():
        channels, groups = of_y if key == "y" else of_x, 1 if key == "w" else what.groups
        padded = -(-channels // chunk) * chunk
        rows = (of_y, -(-of_y // chunk) * chunk) if key == "w" and what.role == DATA else (1, 1)
        if key not in keys or (padded == channels and rows[0] == rows[1] and _fits(each, chunk)):
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
    given = _folded(given)
    way = _way(given, engine)
    even = way == "fma" and given.role == DATA and not any(each % 4 for each in given.w.sizes[:2])
    large = even and math.prod(given.w.sizes[1:]) * math.prod(given.y.sizes) >= _WORTH_A_COPY
    what, copies, nbytes = _laid(given, "xwy" if way.startswith(("half", "tf32")) else "w" * large)
    work = _work(what, way)
    tile = _tile(driver, what, way, work)
    sums = 4 * tile.memory * _span(what) if tile.memory > 1 else 0
    if way == "winograd":
        sums = 64 * (sum(what.w.sizes[:2]) * tile.m + math.prod(what.w.sizes[:2]))
    return ConvolutionPlan(driver, given, what, copies, work, tile, (nbytes, sums))


def convolve(
    driver: Driver, stream: int, what: Convolution, engine: int, addresses: dict[int, int], workspace: int
) -> None:
    """Launch the kernels of a convolution in a stream by its handle. addresses: by the tensors' numbers. Raises
    INVALID_VALUE, NOT_SUPPORTED."""
    what = (how := plan(driver, what, engine)).given
    given = [what.y if what.role == DATA else what.x, what.y if what.role == FILTER else what.w, what.result]
    given += [each for each in (what.added, what.bias) if each is not None]
    missing = any(not addresses.get(each.uid) for each in given) or (any(how.nbytes) and not workspace)
    fail_if(missing, ResultCode.INVALID_VALUE)
    if product_of := _single(what, engine, addresses):
        return multiply(driver, stream, product_of)
    addresses = addresses | {each.laid.uid: workspace + each.offset for each in how.copies}
    launch = _Launch(how, stream, addresses, workspace + how.nbytes[0])
    for each in how.copies:
        if each.given is not what.result:
            launch.copy(each)
    launch.transform() if how.tile.way == "winograd" else launch.compute()
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
        (source, target), rows = ((copy.laid, copy.given), (1, 1)) if back else ((copy.given, copy.laid), copy.rows)
        at, to, groups = self.addresses[source.uid], self.addresses[target.uid], copy.groups
        places, scalars, relu = [0, at, 0, 0, to, 0], (1.0, 0.0), 0
        if back:
            bias, added = (self.addresses[each.uid] if each else 0 for each in (back.bias, back.added))
            places, scalars, relu = [0, at, added or to, bias, to, 0], (back.alpha, back.beta), int(back.relu)
        channels, padded = (each.sizes[1] // groups for each in (copy.given, copy.laid))
        numbers = [0, rows[0], 1, groups, target.sizes[1] // groups, source.steps[1], _group(source, groups)]
        numbers += [source.steps[0], target.steps[1], target.steps[0], channels, _group(target, groups), 0, relu, 0]
        space = zip(copy.given.sizes[2:], source.steps[2:], target.steps[2:], strict=True)
        places_of = _Index(tuple(_Digit(size, _moves(*steps)) for size, *steps in space)[::-1], _moves(0, 0))
        together = 8 if padded <= 8 else 64 if places_of.count <= 32 else 32
        grid = copy.laid.sizes[0] * groups, -(-places_of.count * together // 2048), -(-padded // together)
        values = _parameters(places, [*numbers, rows[1]], scalars, (places_of,), ())
        macros = {"CHANNELS": together, "BACK": int(back is not None)}
        self.run(_PACK_FILE, f"{'unpack' if back else 'pack'}_*", grid, _THREADS, values, **macros)

    def transform(self) -> None:
        """Launch what makes the gradient of a filter from products for 16 points (`winograd.cu`)."""
        what, pitch, room, at = self.plan.what, self.plan.tile.m, self.sums, self.addresses
        (of_y, of_x, *_), places = what.w.sizes, [at[each.uid] for each in (what.x, what.y, what.w)]
        numbers = [what.x.sizes[0], of_y, of_x, *what.x.sizes[2:], *what.y.sizes[2:], *what.padding, pitch]
        values = struct.pack("<4Q10i", *places, room, *numbers)
        for size, grid in ((2, (-(-pitch // _THREADS), of_y, 1)), (4, (-(-pitch // _THREADS), of_x, 1))):
            self.run(_WINOGRAD_FILE, f"winograd_{size}", grid, _THREADS, values, SIZE=size)
        y = Matrix(room, F32, pitch, of_y * pitch, by_rows=True)
        x = Matrix(room + 64 * of_y * pitch, F32, pitch, of_x * pitch, 1, by_rows=True)  # transposed
        sums = Matrix(x.address + 64 * of_x * pitch, F32, of_x, of_y * of_x, by_rows=True)
        every = MatrixProduct(of_y, of_x, pitch, y, x, sums, sums, Scalars(F32, plain=True), 16)
        multiply(self.plan.driver, self.stream, every)
        self.run(_WINOGRAD_FILE, "winograd_3", (-(-of_y * of_x // _THREADS), 1, 1), _THREADS, values, SIZE=3)

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
        rows, stage = what.role != FILTER, 128 * (tile.m + max(tile.n, 64))
        kind = TYPES[what.x.kind][0].replace("f32", "tf32")
        stages = min(tile.stages, (config.sm.shared_bytes_per_block_max - (12 << 10)) // stage)
        macros: Macros = {"T": kind, "TILE_M": tile.m, "TILE_N": tile.n, "STAGES": stages, "PARTS": tile.parts}
        macros["NEAR"] = int(work.red[0].digits[0].size * TYPES[what.x.kind][1] < 64 and rows)
        macros |= {"IMAGE_ROWS": int(rows), "IMAGE_ALONG_K": int(rows), "PLAIN_ALONG_K": int(what.role == FORWARD)}
        if compute_capability(config) == (9, 0):
            macros |= instruction((kind, kind), tile.n, (not rows, what.role != FORWARD))
        shared = max(stages * stage, tile.m * (4 * tile.n + 32)) + 1024
        name = f"{_ROLES[what.role]}_*_{tile.m}x{tile.n}"
        self.run(_TENSOR_FILE, name, tile.grid(what, work), 2 * tile.m, values, shared=shared, **macros)

    def _by_multiply_adds(self, work: _Work, values: bytes, loads: Macros) -> None:
        what, tile = self.plan.what, self.plan.tile
        rows = work.out == 1 and work.free[0].digits[0].moves[1] != 1
        m, n = (tile.m, tile.n) if rows else (tile.n, tile.m)
        macros = loads | {"MODE": _TILES, "IMAGE_ROWS": int(rows), "TILE_M": m, "TILE_N": n}
        macros |= {"EACH": tile.each, "SLICES": tile.slices}
        threads = tile.slices * m * n // tile.each**2
        self.run(_FILE, f"{_ROLES[what.role]}_*_{m}x{n}", tile.grid(what, work), threads, values, **macros)

    def _each(self, work: _Work, values: bytes) -> None:
        """Several places in a thread."""
        what, tile, role = self.plan.what, self.plan.tile, self.plan.what.role
        pixels, taps = (work.red, work.free) if role == FILTER else (work.free, work.red)
        first, chunk = work.red[0].digits[0], 16 // TYPES[what.x.kind][1]
        aligned = _fits(what.y if role == DATA else what.x, chunk) and first.size % chunk == 0
        if tile.way == "grouped":
            macros: Macros = {"MODE": _GROUPED, "GROUP": work.channels, "OF_FILTER": int(role == FILTER)}
            macros |= {"TAPS": max(each.digits[1].size for each in taps), "TAP_STEP": taps[0].digits[1].moves[2]}
            macros |= {"STEP": pixels[0].digits[0].moves[2], "RUN": tile.m // 32}
        else:
            width = chunk if role != FILTER and aligned else 1
            runs = (each for each in range(_MOST_RUN, 0, -1) if first.size % each == 0 and each % width == 0)
            macros = {"MODE": _FEW, "IMAGE_ALONG_K": int(first.moves[0] == 1), "CHANNELS": work.channels}
            macros |= {"EACH": tile.m // 32, "WIDTH": width, "RUN": 1 if role == FILTER else next(runs)}
        self.run(_FILE, f"{_ROLES[role]}_*_{tile.way}", tile.grid(what, work), _THREADS, values, **macros)


def _parameters(
    places: Sequence[int], numbers: Sequence[int], scalars: tuple[float, float], *of_phases: Sequence[_Index]
) -> bytes:
    """As `Conv` in `conv.cuh` has them. of_phases: free and red."""
    indices = (b"".join(index.packed() for index in each).ljust(_MOST_PHASES * 152, b"\0") for each in of_phases)
    return struct.pack("<6Q16i2d", *places, *numbers, *scalars) + b"".join(indices)
