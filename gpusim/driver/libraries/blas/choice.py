"""Which kernel does a product: its file, tile, launch and macros."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import ceil

from gpusim.config import GPUConfig
from gpusim.driver.attributes import compute_capability
from gpusim.driver.libraries.blas.product import F32, F64, FP8, I8, KINDS, LINE, Matrix, MatrixProduct
from gpusim.launch.tensor_map import encode_tiled

Macros = dict[str, str | int]
MOST_BLOCKS = 65535
"""Of a grid in y and in z."""
_FEW, _MANY = 64, 128
THIN, _WARPS, _SMALL = 4, 8, 1 << 20
"""Rows or columns up to which a product is that of `thin.cu`, warps of its blocks, and numbers of the other factor up
to which it is faster than tensor cores even where it reads them more than once."""
_MOST_STAGES = 8


@dataclass(frozen=True)
class KernelChoice:
    """A launch of a kernel. tile: of its name; shared: dynamic shared memory in bytes; maps: tensor maps, which are its
    first parameters."""

    file: str
    tile: str
    grid: tuple[int, int, int]
    threads: int
    macros: Macros
    shared: int = 0
    maps: bytes = b""


@dataclass(frozen=True)
class Tile:
    """A block's part of a product, m x n. way: wgmma and fma by bulk copies (`bulk.cu`), simt without (`gemm.cu`).
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
    """How a product is done if its factors lie well: wgmma, fma, or simt where there are no bulk copies for it."""
    if what.pointers or not what.k or KINDS[what.a.kind][1] > 4 or 8 * what.batches > MOST_BLOCKS:
        return "simt"
    if types["MATRIX"]:
        return "wgmma" if compute_capability(config) == (9, 0) else "simt"
    has_copies = compute_capability(config) >= (9, 0) and config.sm.max_cluster_blocks > 1
    return "fma" if types["TA"] == "f32" and has_copies else "simt"


def choose(config: GPUConfig, what: MatrixProduct, types: Macros) -> KernelChoice:
    """The kernel of a product whose rows are contiguous. types: its types' macros."""
    sm, way = config.sm, way_of(config, what, types)
    lie_well = (can_be_copied(*each, what) for each in zip((what.a, what.b), what.across, strict=True))
    copied = way != "simt" and all(lie_well)
    clusters = compute_capability(config) >= (9, 0) and 8 * what.batches <= MOST_BLOCKS
    most = min(8, sm.max_cluster_blocks, sm.count // sm.gpcs) if clusters else 1
    few, length = min(what.m, what.n), max(what.m, what.n)
    along = not what.across[what.m <= what.n]
    if few <= THIN and (way != "wgmma" or not copied or (few == 1 and along) or length * what.k <= _SMALL):
        return _thin(what, sm.count, most, along)
    if copied:
        tile, parts = fastest(way, sm.count, most, what)
        return _copied(config, what, types, tile, parts)
    size, each, slices, parts = _FEW, 4, 1, 1
    if types["MATRIX"]:
        many = ceil(what.m / _MANY) * ceil(what.n / _MANY) * what.batches >= sm.count
        size = _MANY if many and what.a.kind != F64 else _FEW
    elif what.a.kind == F32:
        tile, parts = fastest("simt", sm.count, most, what)
        size, each, slices = tile.m, tile.each, tile.slices
    macros: Macros = {"TILE_M": size, "TILE_N": size, "EACH": each, "SLICES": slices, "PARTS": parts}
    threads = 2 * size if types["MATRIX"] else slices * (size // each) ** 2
    grid = ceil(what.n / size), ceil(what.m / size), min(what.batches, MOST_BLOCKS) * parts
    return KernelChoice("gemm.cu", f"{size}x{size}", grid, threads, macros)


def fastest(way: str, sms: int, most: int, what: MatrixProduct) -> tuple[Tile, int]:
    """The tile of a way that does a product soonest, and how many blocks share a sum over k. most: blocks of a
    cluster."""
    across = way != "simt" and what.across[1]  # a copied part of the columns is as wide as a swizzle reaches
    return min(
        (
            (tile, parts)
            for tile in tiles()
            if tile.way == way and not (across and tile.n < 64 * tile.share)
            for parts in (1, 2, 4, 8)
            if parts <= max(min(tile.parts, what.steps), 1) and parts * tile.share <= most
        ),
        key=lambda each: each[0].cost(what, each[1], sms),
    )


def _thin(what: MatrixProduct, sms: int, most: int, along: bool) -> KernelChoice:
    """along: k is contiguous in the large factor."""
    few, length = min(what.m, what.n), max(what.m, what.n)
    blocks = ceil(length / (_WARPS if along else 32 * max(4 // KINDS[what.a.kind][1], 1)))
    batches, parts = min(what.batches, MOST_BLOCKS), 1
    while not along and 2 * parts <= most and 64 * parts < what.k and blocks * batches * parts < 4 * sms:
        parts *= 2
    macros: Macros = {"FEW": 1 if few == 1 else THIN, "TALL": int(what.m > what.n), "PARTS": parts}
    return KernelChoice("thin.cu", "thin", (blocks, 1, batches * parts), 32 * _WARPS, macros)


# --- by bulk copies ---------------------------------------------------------------------------------------------------


def can_be_copied(each: Matrix, across: bool, what: MatrixProduct) -> bool:
    """Return whether bulk copies can take a factor, and multiply-adds or tensor cores read it as it lies."""
    size = KINDS[each.kind][1]
    numbers = each.address, each.leading * size, each.stride * size * (what.batches > 1)
    return not any(number % 16 for number in numbers) and (not across or size == 2 or (size == 4 and not what.tf32))


def _copied(config: GPUConfig, what: MatrixProduct, types: Macros, tile: Tile, parts: int) -> KernelChoice:
    """As many stages as find room beside those of the other blocks of an SM."""
    stage, sm, blocks = (tile.m + tile.n) * LINE, config.sm, tile.blocks(what) * parts
    if tile.share * parts > 1:
        blocks += blocks // 4  # clusters leave SMs of a GPC empty, where a second block can go
    room = sm.shared_bytes_per_block_max
    for together in range(1, min(ceil(blocks / sm.count), 3 if stage <= 2 * 64 * LINE else 2) + 1):
        share = sm.shared_bytes // together - sm.shared_reserved_bytes
        room = share if share >= 3 * stage + 2048 else room
    stages = min((min(room, sm.shared_bytes_per_block_max) - 2048) // stage, _MOST_STAGES)
    across = [int(each) for each in what.across]
    macros: Macros = {"TILE_M": tile.m, "TILE_N": tile.n, "STAGES": stages, "SHARE": tile.share, "PARTS": parts}
    macros |= {"ACROSS_A": across[0], "ACROSS_B": across[1], "PROMOTE": int(what.a.kind in FP8 and not what.fast)}
    if types["MATRIX"]:
        macros |= _instruction(types, tile, what)
    maps = _tensor_map(str(types["TA"]), what, what.a, across[0], what.m, tile.m)
    maps += _tensor_map(str(types["TB"]), what, what.b, across[1], what.n, tile.n // tile.share)
    grid = ceil(what.n / tile.n), ceil(what.m / (tile.m * tile.share)) * tile.share, what.batches * parts
    shared = max(stages * stage, tile.m * (4 * tile.n + 32)) + 1024
    return KernelChoice("bulk.cu", f"{tile.m}x{tile.n}", grid, 2 * tile.m + 32, macros, shared, maps)


def _tensor_map(kind: str, what: MatrixProduct, each: Matrix, across: int, rows: int, box: int) -> bytes:
    """A factor's map. rows: of the first factor, columns of the second; box: how many of them a copy takes."""
    size = KINDS[each.kind][1]
    dtype = {"f16": "float16", "bf16": "bfloat16", "tf32": "tfloat32", "f32": "float32"}.get(kind, "uint8")
    extents, pitch = (rows, what.k) if across else (what.k, rows), each.leading * size
    far = each.stride * size if each.stride and what.batches > 1 else pitch * extents[1]
    shape = (*extents, what.batches if each.stride else 1)
    lines = (LINE // size, LINE // size if across else box, 1)
    return encode_tiled(dtype, each.address, shape, (pitch, far), lines, swizzle="128B", promotion=2).tobytes()


def _instruction(types: Macros, tile: Tile, what: MatrixProduct) -> Macros:
    """Of wgmma: its name, its registers, and which way the factors lie."""
    letter, count, size = "r" if what.a.kind == I8 else "f", tile.n // 2, KINDS[what.a.kind][1]
    of_factors = ".".join("s8" if types[each] == "i8" else str(types[each]) for each in ("TA", "TB"))
    of_sums = "s32" if what.a.kind == I8 else "f32"
    factors = f"%{count}, %{count + 1}, p" + ", 1, 1" * (what.a.kind != I8)
    ways = "".join(f", {int(each)}" for each in what.across) if size == 2 else ""
    return {
        "TYPES": f'"m64n{tile.n}k{32 // size}.{of_sums}.{of_factors}"', "LETTER": f'"{letter}"',
        "REGISTERS": '"' + ",".join(f"%{i}" for i in range(count)) + '"', "FACTORS": f'"{factors}{ways}"',
        "ADD": f'"%{count + 2}"', "SUMS": ", ".join(f'"+{letter}"(d[{i}])' for i in range(count)),
    }  # fmt: skip
