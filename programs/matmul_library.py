"""Matrix product as a library does it, a ladder of ten: the kernels of this project's stand-in for cuBLAS themselves.

The sources are the library's, `gemm.cu`, `bulk.cu` and `thin.cu` in `gpusim/driver/libraries/blas`, compiled with the
macros and launched with the structures that the library gives them. `a` is stored by rows, `b` by columns, and a block
makes one tile of the result. Floats, 512 x 512 of them, which the FMA pipe multiplies:

1. `threads`: threads copy the next tiles through their registers while they multiply, as on GPUs before Hopper. Each
   has 8 x 8 sums, and two groups of 64 threads share a tile's sum over k.
2. `bulk`: one warp asks for tiles by tensor maps, for a ring of six stages; four warps only multiply, and mbarriers are
   all that they exchange.
3. `split`: 64 tiles leave half of 132 SMs idle. Two blocks, a cluster, share the sum over k of a tile; each joins half
   of its rows, for which it reads the other's sums out of the other SM's shared memory.

The same floats on tensor cores, which take 11 of their 24 bits (tf32):

4. `fragments`: warps load fragments from shared memory to registers for `mma.sync`.
5. `two_stages`: `wgmma` reads shared memory itself, and is done before the next of two stages has come.
6. `ring`: with eight stages, copies are asked for as long before as they take.

Halves, 2048 x 2048 of them, with as many stages as there is room for:

7. `halves`: the best tile at 1024, 64 x 128, is too small here: all of `a` comes from L2 16 times, all of `b` 32 times.
8. `large`: two groups of warps use the same columns, and `b` comes half as often.
9. `cluster`: two blocks each copy half of the columns that both need to both.
10. `wide`: 128 x 256 outputs, as many as registers hold.

`thin` is apart: with four columns there is nothing to keep, and a warp reads each row of `a` once, past shared memory.

The library chooses `ring` at 512, `halves` at 1024 and `wide` at 2048 on an H200, and `split` for floats that are not
one product but several, by the times that `tiles.txt` has measured (`choice.py`).

Tolerance: as in `matmul` for floats, n = 2048; tf32 rounds both factors, 2**-11 each; as in `matmul_hopper` for halves.
"""

from __future__ import annotations

import numpy as np

from gpusim.driver.libraries.blas import choice
from gpusim.driver.libraries.blas.product import F16, F32, KINDS, Matrix, MatrixProduct, Scalars
from gpusim.launch import CudaSource, Launch, Struct
from programs.variant import Kernel, Rung, Size, ceil_div, ladder, step

BLAS = "../gpusim/driver/libraries/blas"
A, B, D = 0, 32, 88
"""Offsets of the matrices' addresses in `Gemm` of `product.cuh`."""
RTOL = {"f32": 2048 * 2.0**-24, "tf32": 2.0**-10 + 2048 * 2.0**-24, "f16": 2.0**-10 + 2048 // 16 * 18 * 2.0**-23}
_THIN: choice.Macros = {"FEW": choice.THIN, "TALL": 1, "PARTS": 1}


def _product(n: int, kind: int, way: str) -> MatrixProduct:
    columns = choice.THIN if way == "thin" else n
    a, b, d = Matrix(0, kind, n, by_rows=True), Matrix(0, kind, n), Matrix(0, kind, columns, by_rows=True)
    return MatrixProduct(n, columns, n, a, b, d, d, Scalars(F32, plain=True))


def _types(kind: int, way: str) -> choice.Macros:
    number, matrix = KINDS[kind][0], way in ("mma", "wgmma")
    factor = "tf32" if matrix and kind == F32 else number
    return {"TA": factor, "TB": factor, "TC": number, "TD": number, "TS": "f32", "MATRIX": int(matrix), "EPILOGUE": 0}


def _chosen(what: MatrixProduct, types: choice.Macros, way: str, tile: tuple[int, ...]) -> choice.KernelChoice:
    """The library's launch. way, tile: see `_rung`."""
    if way == "thin":
        return choice.KernelChoice("thin.cu", way, (ceil_div(what.m, 8), 1, 1), 256, _THIN)
    *sides, parts, stages = tile
    (row,) = (each for each in choice.tiles() if [each.way, each.m, each.n, each.share] == [way, *sides])
    if way == "simt":
        return choice.by_threads(what, types, row.m, row.each, row.slices, parts)
    return choice.by_copies(what, types, row, parts, stages, bulk=True)


def _rung(name: str, n: int, kind: int, way: str, tile: tuple[int, ...], teaches: str) -> Rung:
    """n: the default size. way, tile: a row of `tiles.txt` by its way, rows, columns and blocks of a cluster that share
    these; then blocks that share a sum over k, and stages of the ring."""
    types = _types(kind, way)
    chosen = _chosen(_product(n, kind, way), types, way, tile)
    options = tuple(f"-D{key}={value}" for key, value in (types | chosen.macros | {"NAME": name}).items())
    arch = "sm_90a" if way == "wgmma" else None  # what no later architecture has
    kernel = CudaSource(__name__, f"{BLAS}/{chosen.file}", name, arch, options)
    changes = {"default_size": n, "outputs": (2 * ("BULK" in chosen.macros),), "rtol": RTOL[str(types["TA"])]}
    return step(kernel, teaches, kind, way, tile, **changes)


def make(kernel: Kernel, n: int, rng: np.random.Generator, kind: int, way: str, tile: tuple[int, ...]) -> Launch:
    what, types = _product(n, kind, way), _types(kind, way)
    chosen = _chosen(what, types, way, tile)
    dtype = np.float16 if kind == F16 else np.float32
    a, b = (rng.random((rows, n), np.float32).astype(dtype) for rows in (what.m, what.n))
    maps = choice.tensor_maps(what, types | chosen.macros)
    gemm = Struct(what.packed(), {A: a, B: b, D: np.full((what.m, what.n), np.nan, dtype)})
    args = (*(Struct(each, {0: factor}) for each, factor in zip(maps, (a, b), strict=False)), gemm)
    return Launch(kernel, chosen.grid, chosen.threads, args, chosen.shared)


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    a, b, d = launch.args[-1].arrays.values()
    return ((a.astype(np.float64) @ b.T.astype(np.float64)).astype(d.dtype),)


VARIANTS = ladder(
    Size("n (matrix side)", (256, 2048), default=512, test=128, multiple=64, maximum=1 << 13),
    _rung("thin", 2048, F32, "thin", (), "With four columns each number is read once, and its way is all that counts."),
    _rung("threads", 512, F32, "simt", (64, 64, 1, 1, 0), "Threads copy the next tiles through their registers."),
    _rung("bulk", 512, F32, "fma", (64, 64, 1, 1, 6), "A warp fills a ring of stages by tensor maps for four others."),
    _rung("split", 512, F32, "fma", (64, 64, 1, 2, 6), "Two blocks share a sum over k, and join it across SMs."),
    _rung("fragments", 512, F32, "mma", (64, 64, 1, 2, 6), "Tensor cores take 11 bits of floats in registers."),
    _rung("two_stages", 512, F32, "wgmma", (64, 32, 1, 1, 2), "Tensor cores read shared memory, and wait for copies."),
    _rung("ring", 512, F32, "wgmma", (64, 32, 1, 1, 8), "Eight stages are asked for as long before as copies take."),
    _rung("halves", 2048, F16, "wgmma", (64, 128, 1, 1, 8), "Tiles that are too small for a large product."),
    _rung("large", 2048, F16, "wgmma", (128, 128, 1, 1, 6), "Two groups of warps use the same columns."),
    _rung("cluster", 2048, F16, "wgmma", (128, 128, 2, 1, 6), "Two blocks each copy half of the columns to both."),
    _rung("wide", 2048, F16, "wgmma", (128, 256, 2, 1, 4), "As many outputs for each column as registers hold."),
    recorded=False,
    image=False,
)
