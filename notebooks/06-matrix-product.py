# %% [markdown]
# # 6 The matrix product, from naive to tiled
#
# `c = a @ b` does 2 n^3 operations on 3 n^2 numbers: each number is used n times. Whether it is *fetched* n times is up
# to the kernel. This notebook takes the naive product, finds what limits it, and moves the reuse into shared memory.

# %%
import numpy as np
from classroom import lines, measured, run, table
from numba import cuda

import gpusim
from gpusim import plot

N = 64
rng = np.random.default_rng(0)
A, B = rng.random((N, N), np.float32), rng.random((N, N), np.float32)
REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
AT_L2 = "lts__t_sectors_srcunit_tex_op_read.sum"
EXECUTED = "smsp__inst_executed.sum"

# %% [markdown]
# ## Naive: one thread, one element
#
# A thread walks along a row of `a` and down a column of `b`. (`while` and not `range`: the state of Numba's range over
# a bound that is known at run time only would cost more than the work.)


# %%
def naive(a, b, c):
    col, row = cuda.grid(2)
    total = np.float32(0)
    k = 0
    while k < a.shape[1]:
        total += a[row, k] * b[k, col]
        k += 1
    c[row, col] = total


def product(kernel, tile, **options):
    c = np.zeros((N, N), np.float32)
    result = gpusim.simulate(kernel, (N // tile, N // tile), (tile, tile), (A, B, c), **options)
    assert np.allclose(c, A @ B, rtol=1e-5)
    return result


first = product(naive, 16, trace=True)
lines(first, "instructions", "requests", "sectors", "cycles")
multiply_adds = N**3 // 32
print(f"\n{first.metrics[REQUESTS] / multiply_adds:.2f} load requests for each multiply-add of a warp")
assert first.metrics[REQUESTS] == 2 * multiply_adds

# %% [markdown]
# Two loads for each multiply-add. L1 serves nearly all of them, but each occupies the load pipe, and around them are
# the instructions that compute addresses.
#
# ## Tiled: fetch once, use 16 times
#
# The block fetches a tile of `a` and one of `b` to shared memory, each thread one word of either. Then all its threads
# use these. The tile's size is a constant of the kernel; `tiled(TILE)` makes one. Change the sizes and run again.


# %%
def tiled(tile):
    def kernel(a, b, c):
        a_tile = cuda.shared.array((tile, tile), np.float32)
        b_tile = cuda.shared.array((tile, tile), np.float32)
        tx = cuda.threadIdx.x
        ty = cuda.threadIdx.y
        col, row = cuda.grid(2)
        total = np.float32(0)
        first = 0
        while first < a.shape[1]:
            a_tile[ty, tx] = a[row, first + tx]
            b_tile[ty, tx] = b[first + ty, col]
            cuda.syncthreads()
            for k in range(tile):
                total += a_tile[ty, k] * b_tile[k, tx]
            cuda.syncthreads()
            first += tile
        c[row, col] = total

    return kernel


rows = []
for tile in (8, 16, 32):
    for name, each in (("naive", product(naive, tile)), ("tiled", product(tiled(tile), tile))):
        rows.append({
            "kernel": name,
            "block or tile": tile,
            "load requests": each.metrics[REQUESTS],
            "sectors from L2": each.metrics[AT_L2],
            "shared wavefronts": each.metrics["memory_l1_wavefronts_shared"],
            "warp instructions": each.metrics[EXECUTED],
            "cycles": each.cycles,
        })  # fmt: skip
table(rows)
assert all(slow["load requests"] == fast["block or tile"] * fast["load requests"]
           for slow, fast in zip(rows[::2], rows[1::2], strict=True))  # fmt: skip

# %% [markdown]
# A tile of 16 needs a 16th of the load requests. What used to be a load is now a shared-memory access, and there are
# barriers: threads must not read a tile before it is there, nor overwrite it while others still read.
#
# Is there a bank conflict? `b_tile[k, tx]` is a row of words side by side, and `a_tile[ty, k]` the same word for
# 16 lanes, a broadcast:

# %%
best = product(tiled(16), 16, trace=True)
assert best.metrics["derived__memory_l1_wavefronts_shared_excessive"] == 0
lines(best, "instructions", "shared_wavefronts", "shared_wavefronts_excessive", "cycles")
plot.stall_breakdown({"naive": first, "tiled": best});

# %% [markdown]
# ## What the real GPU says
#
# The bundled `matmul` is the same pair of kernels, as run on an H200:

# %%
rows = []
for size in (64, 256):
    for name in ("matmul/naive", "matmul/tiled"):
        here, real = run(name, size), measured(name, size)
        for metric in (EXECUTED, REQUESTS):
            assert here.metrics[metric] == real[metric]
        rows.append({
            "program": name,
            "n": size,
            "load requests": here.metrics[REQUESTS],
            "the same, H200": real[REQUESTS],
            "cycles": here.cycles,
            "cycles, H200": real["gpc__cycles_elapsed.max"],
            "GFLOP/s": here.roofline.operations_per_s / 1e9,
        })  # fmt: skip
        last = here
table(rows)

# %% [markdown]
# And under the roofline? The points of a kernel lie at its operations for each byte, once for each level of memory:
# tiling moves the L1 point to the right, because it asks L1 for less.

# %%
plot.roofline(last);

# %% [markdown]
# It is still far below every roof: these matrices are too small to occupy the GPU, and each thread does little between
# two barriers. The next steps are more elements per thread (`matmul_register`), then the tensor cores
# (`matmul_tensor`): `gpusim list` names them, and `gpusim run matmul_tensor` runs them.
#
# ## Six steps on Hopper
#
# How libraries write it today: `matmul_hopper` computes in half precision, each step by another way to bring the tiles
# (`cp.async`, then TMA), to multiply them (`mma.sync`, then `wgmma`) and to share the work among warps and blocks.

# %%
STEPS = ("multistage", "tma", "wgmma", "specialised", "persistent", "cluster")
ladder = {step: run(f"matmul_hopper/{step}", 512) for step in STEPS}
rows = []
for step, each in ladder.items():
    real = measured(f"matmul_hopper/{step}", 512)
    rows.append({
        "step": step,
        "warp instructions": each.metrics[EXECUTED],
        "cycles": each.cycles,
        "cycles, H200": real["gpc__cycles_elapsed.max"],
    })  # fmt: skip
table(rows)
plot.stall_breakdown(ladder);

# %% [markdown]
# One thread that asks for a whole tile replaces hundreds that compute addresses, and one instruction that reads shared
# memory itself replaces those that fill registers: what is executed falls to a quarter. The bars grow, because the few
# warps that are left wait for copies and products most of the time; that is what they are for. A block for each SM and
# pairs of blocks (the last two) pay where there are more tiles than SMs: `gpusim run` them with `--size 2048`.
#
# ## On Blackwell: sums leave the registers
#
# `wgmma` reads its factors out of shared memory, but its sums are registers: 128 x 128 of them in a block of four
# warps are 128 for each thread, and all four warps have to be there for each product. A B200 has *tensor memory* for
# them, 256 KB beside the tensor core, and one thread starts a product. `matmul_blackwell/tensor_memory` is
# `matmul_hopper/wgmma` written so: the same tiles, the same copies. These are the instructions that have to do with
# sums:

# %%
pair = {name: run(name, 512) for name in ("matmul_hopper/wgmma", "matmul_blackwell/tensor_memory")}
for name, each in pair.items():
    found = {}
    for one in each.record.program.instructions:
        if one.opcode in ("HGMMA", "UTCHMMA", "UTCBAR", "LDTM"):
            found.setdefault(one.opcode, one.text.split(", gsb")[0])
    print(name, *found.values(), sep="\n    ")

# %% [markdown]
# `HGMMA` names registers (`R88` is the first of 64) as what it adds to. `UTCHMMA` names a place in tensor memory
# (`tmem`, in a uniform register, as one thread says it for all); `UTCBAR` asks for an mbarrier to be told when all
# products are done, and only then `LDTM` loads 32 sums at a time, to be rounded and stored. What does that leave of
# registers, and of instructions?

# %%
rows = []
for name in (*pair, "matmul_hopper/persistent", "matmul_blackwell/persistent", "matmul_blackwell/pair"):
    each = pair.get(name) or run(name, 512)
    threads = each.metrics["launch__block_size"]
    registers = each.metrics["launch__registers_per_thread"]
    rows.append({
        "program": name,
        "threads": threads,
        "registers per thread": registers,
        "of a block": threads * registers,
        "warp instructions": each.metrics[EXECUTED],
    })  # fmt: skip
table(rows)
hopper, blackwell = rows[:2]
assert blackwell["registers per thread"] < 0.5 * hopper["registers per thread"]
assert blackwell["warp instructions"] < 0.5 * hopper["warp instructions"]

# %% [markdown]
# Less than half of either. The registers that are left hold 32 sums on their way out. In the steps that stay on an
# SM, tensor memory has the sums of two tiles (twice 256 columns): products of the next one run while this one is
# converted and stored. On Hopper a second group of warps, with registers of its own, would have to take turns for
# that. `pair` multiplies with two SMs at once. There are no cycles in the table, because no B200 was at hand: results
# are held to NumPy, times of tensor memory to what others have published ([known gaps](../docs/known_gaps.md)).
#
# ## The top: what a library launches
#
# Few programs have a kernel of their own for products: they call cuBLAS. On the simulated GPU a stand-in answers, whose
# kernels are sources of this project, and `matmul_library` runs *these* kernels, from the same files with the same
# macros. First 512 x 512 floats:
#
# * `threads`: what the library launches on a GPU before Hopper. Threads copy the next tiles while they multiply.
# * `bulk`: a warp copies by TMA, four others multiply (the roles of `matmul_hopper/specialised`, for floats).
# * `split`: 64 tiles are work for 64 of 132 SMs. Two blocks share the sums of each tile, and each joins half of
#   the rows, for which it reads the other's shared memory.
# * `fragments`, `two_stages`, `ring`: the tensor cores, which take 11 of 24 bits of each float (tf32), by `mma.sync`
#   and then by `wgmma`; the last two differ in nothing but the number of stages, two and eight.

# %%
FLOATS = ("threads", "bulk", "split", "fragments", "two_stages", "ring")
top = {step: run(f"matmul_library/{step}", 512) for step in FLOATS}
rows = []
for step, each in top.items():
    rows.append({
        "step": step,
        "blocks": each.metrics["launch__grid_size"],
        "warp instructions": each.metrics[EXECUTED],
        "cycles": each.cycles,
        "TFLOP/s": 2 * 512**3 / each.time_us / 1e6,
    })  # fmt: skip
table(rows)
assert top["threads"].cycles > top["bulk"].cycles > 1.4 * top["split"].cycles
assert top["two_stages"].cycles > 2 * top["ring"].cycles
plot.stall_breakdown({step: top[step] for step in ("split", "two_stages", "ring")});

# %% [markdown]
# Two stages and eight execute the same: what falls away is the wait for copies (`long_scoreboard`). With two, a copy is
# asked for when the product that read its place is over, and each step takes as long as a copy from L2 or memory.
#
# Which tile is best? Halves, and two of the library's tiles at two sizes: `halves` makes 64 x 128 outputs in a block;
# `wide` 128 x 256, and two blocks copy half of what both need of `b` to both.

# %%
rows = []
for size in (1024, 2048):
    for step in ("halves", "wide"):
        each = run(f"matmul_library/{step}", size)
        rows.append({"step": step, "n": size, "blocks": each.metrics["launch__grid_size"], "cycles": each.cycles})
table(rows)
assert rows[0]["cycles"] < rows[1]["cycles"] and rows[2]["cycles"] > rows[3]["cycles"]

# %% [markdown]
# Each at its size. Large tiles fetch less, but 32 of them leave 100 SMs idle; small ones occupy all SMs, and fetch all
# of `a` again for every 128 columns. So a library has many kernels and a rule that chooses: here `choice.py` in
# `gpusim/driver/libraries/blas`, by times that were measured on an H200 (`tiles.txt` there).
#
# ## Exercises
#
# 1. In `naive` swap the roles: `row, col = cuda.grid(2)`. What happens to the sectors per request, and why?
# 2. Why does a tile of 8 need more sectors from L2 than one of 16?
# 3. Remove the second `syncthreads` from `tiled`. Does the result still agree? Ask
#    `gpusim.simulate(..., check="racecheck")`.
# 4. `matmul_library/split` reads sums out of another SM. Why is it slower than `bulk` at `--size 1024`?
#
# <details><summary>Answers</summary>
#
# 1. Neighbouring threads are then in neighbouring *rows*: `a[row, k]` touches a line for each of them and
#    `b[k, col]` is a broadcast. Loads that were coalesced no longer are. The cell below shows the sectors.
# 2. A tile of *t* x *t* fetches each number n / *t* times. Twice the tile, half the traffic, as long as L1 has not seen
#    the number before.
# 3. By chance it may, since the warps run nearly in step. It is a race all the same, and racecheck reports it.
# 4. 256 tiles are enough for all SMs. With twice as many blocks nothing is idle that was, and sums have to be joined.
#
# </details>


# %%
def swapped(a, b, c):
    row, col = cuda.grid(2)
    total = np.float32(0)
    k = 0
    while k < a.shape[1]:
        total += a[row, k] * b[k, col]
        k += 1
    c[row, col] = total


SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
other = product(swapped, 16)
rows = []
for name, each in (("naive", first), ("swapped", other)):
    sectors = each.metrics[SECTORS] / each.metrics[REQUESTS]
    rows.append({"kernel": name, "sectors per request": sectors, "cycles": each.cycles})
table(rows)
assert rows[1]["sectors per request"] > 2 * rows[0]["sectors per request"]
