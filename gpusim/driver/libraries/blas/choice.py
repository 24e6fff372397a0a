"""Which kernel does a product: its file, tile, launch and macros."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import ceil
from operator import itemgetter
from typing import TYPE_CHECKING

from gpusim.driver.attributes import compute_capability
from gpusim.driver.libraries.blas.product import C32, F32, F64, FP8, KINDS, LINE, MatrixProduct

if TYPE_CHECKING:  # programs choose kernels too, and need no models for it
    from gpusim.config import GPUConfig

Macros = dict[str, str | int]
MOST_BLOCKS = 65535
"""Of a grid in y and in z."""
_FEW, _MANY = 64, 128
THIN, _WARPS, _SMALL = 4, 8, 1 << 20
"""Rows or columns up to which a product is that of `thin.cu`, warps of its blocks, and numbers of the other factor up
to which it is faster than tensor cores even where it reads them more than once."""
_MOST_STAGES = 8
_COPY_US, _COPIED_PER_US = 3, 1 << 18
"""Microseconds of a kernel that copies a factor, and floats that it copies in one."""


@dataclass(frozen=True)
class KernelChoice:
    """A launch of a kernel. tile: of its name; shared: dynamic shared memory in bytes."""

    file: str
    tile: str
    grid: tuple[int, int, int]
    threads: int
    macros: Macros
    shared: int = 0


@dataclass(frozen=True)
class Tile:
    """A block's part of a product, m x n. way: wgmma, mma, dmma (of doubles) and fma by bulk copies (`bulk.cu`), simt
    without (`gemm.cu`).
    share: blocks of a cluster that copy the columns together. each, slices: as `gemm.cu` has them. parts: most blocks
    that share a sum over k. Microseconds on an H200: first, of a launch; more, of each further block of an SM; step, of
    128 bytes along k in a block; join and joins, of a cluster that shares a sum over k, once and for each of its parts
    in a block."""

    way: str
    m: int
    n: int
    share: int
    each: int
    slices: int
    parts: int
    first: float
    more: float
    step: float
    join: float
    joins: float

    def blocks(self, what: MatrixProduct) -> int:
        return ceil(what.m / (self.m * self.share)) * self.share * ceil(what.n / self.n) * what.batches

    def cost(self, what: MatrixProduct, parts: int, sms: int) -> float:
        """Microseconds of a product of which so many blocks share a sum."""
        per = ceil(self.blocks(what) * parts / sms)
        time = self.first + self.more * (per - 1) + self.step * per * ceil(what.steps / parts)
        return time + (parts > 1) * (self.join + self.joins * per * parts)


@cache
def tiles() -> tuple[Tile, ...]:
    """Those that were measured, in `tiles.txt`."""
    lines = resources.files("gpusim.driver.libraries.blas").joinpath("tiles.txt").read_text().splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return tuple(Tile(row[0], *map(int, row[1:7]), *map(float, row[7:])) for row in rows)


def way_of(config: GPUConfig, what: MatrixProduct, types: Macros) -> str:
    """How a product is done if its factors lie well: wgmma, mma, dmma, fma, or simt where there are no bulk copies."""
    capability, size = compute_capability(config), KINDS[what.a.kind][1]
    if what.pointers or not what.k or what.a.kind == C32 or size > 8 or 8 * what.batches > MOST_BLOCKS:
        return "simt"
    if capability < (9, 0) or config.sm.max_cluster_blocks == 1:
        return "simt"
    if size == 8:
        return "dmma"
    if types["MATRIX"] and size == 4:
        copied = [can_be_copied("wgmma", what, side) for side in (0, 1)]
        if capability != (9, 0):
            return "mma"
        by_warps, by_groups = (fastest(config, what, way)[2] for way in ("mma", "wgmma"))
        left = (rows for each, rows in zip(copied, (what.m, what.n), strict=True) if not each)
        copies = sum(rows * what.k * what.batches / _COPIED_PER_US for rows in left)
        return "wgmma" if all(copied) or by_groups + _COPY_US + copies < by_warps else "mma"
    return ("wgmma" if capability == (9, 0) else "simt") if types["MATRIX"] else "fma"


def choose(config: GPUConfig, what: MatrixProduct, types: Macros) -> KernelChoice:
    """The kernel of a product whose rows are contiguous. types: its types' macros."""
    way = way_of(config, what, types)
    bulk = by_bulk(config, way, what)
    copied = way in ("mma", "dmma", "fma") or (way == "wgmma" and bulk)
    few, length = min(what.m, what.n), max(what.m, what.n)
    along = not what.across[what.m <= what.n]
    if few <= THIN and (way != "wgmma" or not copied or (few == 1 and along) or length * what.k <= _SMALL):
        return _thin(config, what, along)
    if copied:
        return _copied(config, what, types, *fastest(config, what, way)[:2], bulk)
    size, each, slices, parts = _FEW, 4, 1, 1
    if types["MATRIX"]:
        many = ceil(what.m / _MANY) * ceil(what.n / _MANY) * what.batches >= config.sm.count
        size = _MANY if many and what.a.kind != F64 else _FEW
    elif what.a.kind == F32:
        tile, parts, _ = fastest(config, what, "simt")
        size, each, slices = tile.m, tile.each, tile.slices
    return by_threads(what, types, size, each, slices, parts)


def by_threads(what: MatrixProduct, types: Macros, size: int, each: int, slices: int, parts: int) -> KernelChoice:
    """The kernel whose threads copy. size: of a square tile; each, slices, parts: as `gemm.cu` has them."""
    macros: Macros = {"TILE_M": size, "TILE_N": size, "EACH": each, "SLICES": slices, "PARTS": parts}
    threads = 2 * size if types["MATRIX"] else slices * (size // each) ** 2
    grid = ceil(what.n / size), ceil(what.m / size), min(what.batches, MOST_BLOCKS) * parts
    return KernelChoice("gemm.cu", f"{size}x{size}", grid, threads, macros)


def fastest(config: GPUConfig, what: MatrixProduct, way: str) -> tuple[Tile, int, float]:
    """The tile of a way that does a product soonest, how many blocks share a sum over k, and its microseconds."""
    # A part of the columns that is copied across k is as wide as a swizzle reaches.
    across = what.across[1] and (way == "wgmma" or (way == "fma" and by_bulk(config, way, what)))
    most = _most_parts(config, what)
    return min(
        (
            (tile, parts, tile.cost(what, parts, config.sm.count))
            for tile in tiles()
            if tile.way == way and not (across and tile.n % (64 * tile.share))
            for parts in (1, 2, 4, 8)
            if parts <= max(min(tile.parts, what.steps), 1) and parts * tile.share <= most
        ),
        key=itemgetter(2),
    )


def _most_parts(config: GPUConfig, what: MatrixProduct) -> int:
    """Blocks of the largest cluster that is used."""
    from gpusim.launch.occupancy import cluster_groups

    if compute_capability(config) < (9, 0) or 8 * what.batches > MOST_BLOCKS:
        return 1
    return min(8, config.sm.max_cluster_blocks, max(cluster_groups(config)))


def _thin(config: GPUConfig, what: MatrixProduct, along: bool) -> KernelChoice:
    """along: k is contiguous in the large factor."""
    sms, most = config.sm.count, _most_parts(config, what)
    few, length = min(what.m, what.n), max(what.m, what.n)
    blocks = ceil(length / (_WARPS if along else 32 * max(4 // KINDS[what.a.kind][1], 1)))
    batches, parts = min(what.batches, MOST_BLOCKS), 1
    while not along and 2 * parts <= most and 64 * parts < what.k and blocks * batches * parts < 4 * sms:
        parts *= 2
    macros: Macros = {"FEW": 1 if few == 1 else THIN, "TALL": int(what.m > what.n), "PARTS": parts}
    return KernelChoice("thin.cu", "thin", (blocks, 1, batches * parts), 32 * _WARPS, macros)


# --- by bulk copies ---------------------------------------------------------------------------------------------------


def can_be_copied(way: str, what: MatrixProduct, *sides: int) -> bool:
    """Return whether bulk copies can take these factors, 0 or 1, or both, and a way reads them as they lie."""
    size = KINDS[what.a.kind][1]
    for side in sides or (0, 1):
        each = (what.a, what.b)[side]
        numbers = each.address, each.leading * size, each.stride * size * (what.batches > 1)
        if any(number % 16 for number in numbers) or (way == "wgmma" and size != 2 and what.across[side]):
            return False
    return True


def by_bulk(config: GPUConfig, way: str, what: MatrixProduct) -> bool:
    """Return whether bulk copies bring both factors: those were measured on Hopper alone."""
    return compute_capability(config) == (9, 0) and can_be_copied(way, what)


def is_worth_copies(way: str, what: MatrixProduct) -> bool:
    """Return whether a factor that bulk copies cannot take is copied to where they can."""
    return min(what.m, what.n) > THIN and way == "wgmma" and what.steps > 1


def _copied(config: GPUConfig, what: MatrixProduct, types: Macros, tile: Tile, parts: int, bulk: bool) -> KernelChoice:
    """As many stages as find room beside those of the other blocks of an SM."""
    stage, sm, blocks = (tile.m + tile.n) * LINE, config.sm, tile.blocks(what) * parts
    if tile.share * parts > 1:
        blocks += blocks // 4  # clusters leave SMs of a GPC empty, where a second block can go
    room = sm.shared_bytes_per_block_max
    for together in range(1, min(ceil(blocks / sm.count), 3 if stage <= 2 * 64 * LINE else 2) + 1):
        share = sm.shared_bytes // together - sm.shared_reserved_bytes
        room = share if share >= 3 * stage + 2048 else room
    stages = min((min(room, sm.shared_bytes_per_block_max) - 2048) // stage, _MOST_STAGES)
    return by_copies(what, types, tile, parts, stages, bulk)


def by_copies(what: MatrixProduct, types: Macros, tile: Tile, parts: int, stages: int, bulk: bool) -> KernelChoice:
    """The kernel with a ring of stages that asynchronous copies fill, and bulk copies where `bulk` says so."""
    macros: Macros = {"TILE_M": tile.m, "TILE_N": tile.n, "STAGES": stages, "SHARE": tile.share, "PARTS": parts}
    macros |= {f"ACROSS_{x}": int(bulk and each) for x, each in zip("AB", what.across, strict=True)}
    macros |= {"BULK": int(bulk), "PROMOTE": int(what.a.kind in FP8 and not what.fast)}
    if tile.way == "wgmma":
        macros |= instruction((str(types["TA"]), str(types["TB"])), tile.n, what.across)
    grid = ceil(what.n / tile.n), ceil(what.m / (tile.m * tile.share)) * tile.share, what.batches * parts
    threads = 2 * tile.m + (32 if bulk else 128)
    shared = max(stages * (tile.m + tile.n) * LINE, tile.m * (max(4, KINDS[what.a.kind][1]) * tile.n + 32)) + 1024
    return KernelChoice("bulk.cu", f"{tile.m}x{tile.n}", grid, threads, macros, shared)


def tensor_maps(what: MatrixProduct, macros: Macros) -> list[bytes]:
    """The maps of both factors, which are the first parameters of a kernel whose macros say that it takes them."""
    if not macros.get("BULK"):
        return []
    from gpusim.launch.tensor_map import encode_tiled

    maps, names = [], {"f16": "float16", "bf16": "bfloat16", "tf32": "tfloat32"}
    for x, each, rows in (("A", what.a, what.m), ("B", what.b, what.n)):  # columns of the second factor
        size, across = KINDS[each.kind][1], macros[f"ACROSS_{x}"]
        dtype = names.get(str(macros[f"T{x}"]), f"float{8 * size}" if size > 1 else "uint8")
        extents, pitch = (rows, what.k) if across else (what.k, rows), each.leading * size
        far = each.stride * size if each.stride and what.batches > 1 else pitch * extents[1]
        shape = (*extents, what.batches if each.stride else 1)
        box = int(macros["TILE_M"]) if x == "A" else int(macros["TILE_N"]) // int(macros["SHARE"])
        lines = (LINE // size, LINE // size if across else min(box, ceil(rows / 8) * 8), 1)
        made = encode_tiled(dtype, each.address, shape, (pitch, far), lines, swizzle="128B", promotion=2)
        maps.append(made.tobytes())
    return maps


def instruction(kinds: Sequence[str], n: int, across: Sequence[bool]) -> Macros:
    """Macros of wgmma with n columns: its name, its registers, and which way the factors lie."""
    whole, count = kinds[0] == "i8", n // 2
    size = {"f16": 2, "bf16": 2, "tf32": 4}.get(kinds[0], 1)
    letter, of_factors = "r" if whole else "f", ".".join(kinds).replace("i8", "s8")
    factors = f"%{count}, %{count + 1}, p" + ", 1, 1" * (not whole)
    ways = "".join(f", {int(each)}" for each in across) if size == 2 else ""
    return {
        "TYPES": f'"m64n{n}k{32 // size}.{"s32" if whole else "f32"}.{of_factors}"', "LETTER": f'"{letter}"',
        "REGISTERS": '"' + ",".join(f"%{i}" for i in range(count)) + '"', "FACTORS": f'"{factors}{ways}"',
        "ADD": f'"%{count + 2}"', "SUMS": ", ".join(f'"+{letter}"(d[{i}])' for i in range(count)),
    }  # fmt: skip
