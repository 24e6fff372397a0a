# %% [markdown]
# # 7 Occupancy and latency hiding
#
# A load from memory takes hundreds of cycles. A GPU does not make that shorter; it keeps other warps ready to run
# meanwhile. How many fit on an SM, its **occupancy**, depends on what a block asks for: threads, registers and shared
# memory. This notebook changes each of them, and shows when more warps help and when they do not.

# %%
import numpy as np
from classroom import measured, run, table
from numba import cuda

import gpusim
from gpusim import plot
from gpusim.config import load_config
from gpusim.launch.occupancy import occupancy

H200 = load_config("h200")

# %% [markdown]
# ## What fits on an SM?
#
# Change the three numbers and run the cell again.

# %%
THREADS_PER_BLOCK, REGISTERS, SHARED_BYTES = 256, 40, 0

fit = occupancy(H200, THREADS_PER_BLOCK, REGISTERS, SHARED_BYTES)
table([{"resource": name, "blocks it has room for": blocks} for name, blocks in fit.limits.items()])
print(f"\n{fit.blocks_per_sm} blocks of {fit.warps_per_block} warps: {fit.theoretical:.0%} of {H200.sm.max_warps}")
print(f"limited by {', '.join(fit.limiters)}")
plot.occupancy_calculator(H200, THREADS_PER_BLOCK, REGISTERS, SHARED_BYTES);

# %% [markdown]
# ## More warps, less waiting
#
# Each warp follows a chain of loads, one after the other, so alone it can only wait. The block's dynamic shared memory
# is not used; it only decides how many blocks an SM has room for.

# %%
LINE, WORDS, STEPS = 32, 1 << 18, 8


def chase(follow, out):
    i = cuda.grid(1)
    at = np.int32(i & (WORDS - 1))
    k = 0
    while k < STEPS:
        at = follow[at]
        k += 1
    out[i] = at


after = np.random.default_rng(0).permutation(WORDS // LINE).astype(np.int32)
follow = (after[:, None] * LINE + np.arange(LINE, dtype=np.int32)).ravel()
BLOCKS = 132 * 16


def chased(shared_bytes, **options):
    out = np.zeros(BLOCKS * 128, np.int32)
    return gpusim.simulate(chase, BLOCKS, 128, (follow, out), shared_bytes=shared_bytes, **options)


rows, by_warps = [], {}
for resident in (1, 2, 4, 8, 16):
    shared_bytes = 0 if resident == 16 else H200.sm.shared_bytes // resident // 1024 * 1024 - 1024
    each = chased(shared_bytes)
    assert each.occupancy.blocks_per_sm == resident
    by_warps[f"{4 * resident} warps"] = each
    rows.append({
        "shared bytes per block": shared_bytes,
        "warps on an SM": each.occupancy.warps_per_sm,
        "achieved occupancy %": each.metrics["sm__warps_active.avg.pct_of_peak_sustained_active"],
        "issue slots used %": each.metrics["smsp__issue_active.avg.pct_of_peak_sustained_active"],
        "cycles": each.cycles,
        "speed-up": rows[0]["cycles"] / each.cycles if rows else 1.0,
    })  # fmt: skip
table(rows)
assert [row["cycles"] for row in rows] == sorted((row["cycles"] for row in rows), reverse=True)
assert rows[1]["speed-up"] > 1.7

# %% [markdown]
# With few warps twice as many take nearly half the time. Later it is less: the loads compete for L1 and L2, and where
# throughput is the limit more warps only wait longer each:

# %%
plot.stall_breakdown(by_warps);

# %% [markdown]
# A scheduler with few warps, and with many. Green is an instruction issued; where no row is green, nothing can be:

# %%
few = chased(H200.sm.shared_bytes // 2 - 2048, trace=gpusim.TraceOptions(blocks=(), limit=4000))
plot.scheduler_timeline(few.trace, start=4500, cycles=2500);

# %%
many = chased(0, trace=gpusim.TraceOptions(blocks=(), limit=20_000))
plot.scheduler_timeline(many.trace, start=4500, cycles=2500);

# %% [markdown]
# ## Little's law
#
# To keep a unit busy, the work in flight must be its *throughput times its latency*. Here it is for memory, from the
# configuration of the GPU:

# %%
bytes_per_cycle = H200.dram_bytes_per_cycle
latency = H200.l2.latency_near_cycles + H200.dram_miss_cycles  # to L2 and back, and on to DRAM
in_flight = bytes_per_cycle * latency
per_warp = 32 * 4
print(f"{bytes_per_cycle:,.0f} B/cycle x {latency:,.0f} cycles = {in_flight / 1024:,.0f} KiB in flight,")
print(f"{in_flight / H200.sm.count / per_warp:.0f} loads of {per_warp} bytes on each SM at any time")

# %% [markdown]
# That can be many warps with a load each, or fewer warps with several **independent** loads each. The latter is
# *instruction-level parallelism*: a kernel of low occupancy may be fast.
#
# ## What the real GPU says
#
# The bundled `occupancy` does the same experiment. Recorded on an H200, and simulated:

# %%
rows = []
for resident in (4, 8, 16):
    here, real = run(f"occupancy/{resident}", 528), measured(f"occupancy/{resident}", 528)
    big = measured(f"occupancy/{resident}", 4224)
    rows.append({
        "blocks per SM": resident,
        "cycles, 528 blocks": here.cycles,
        "the same, H200": real["gpc__cycles_elapsed.max"],
        "4,224 blocks, H200": big["gpc__cycles_elapsed.max"],
    })  # fmt: skip
table(rows)
assert rows[0]["4,224 blocks, H200"] > rows[1]["4,224 blocks, H200"] > rows[2]["4,224 blocks, H200"]

# %% [markdown]
# With 528 blocks, four for each SM, room for more is of no use: there is nothing to put there. With 4,224 it is.
#
# ## Exercises
#
# 1. In the first cell: how many registers may a thread have at 256 threads per block before occupancy falls below
#    100 %? And below 50 %?
# 2. A block of 1,024 threads with 40 registers: how many fit, and why is it a bad choice?
# 3. Give each thread two independent chains. What happens to the time for 4 warps, and for 64? The cell below does it.
#
# <details><summary>Answers</summary>
#
# 1. 65,536 registers for 2,048 threads are 32 each. For half of the threads it is 64.
# 2. One: two would need more registers than there are, so half of the SM stays empty. Small blocks fill it better.
# 3. With few warps twice the loads take hardly more time, since the second is under way while the first is waited for.
#    With many warps the SM was busy already, and it gains much less.
#
# </details>


# %%
def two_chains(follow, out):
    i = cuda.grid(1)
    at = np.int32(i & (WORDS - 1))
    other = np.int32((i + WORDS // 2) & (WORDS - 1))
    k = 0
    while k < STEPS:
        at = follow[at]
        other = follow[other]
        k += 1
    out[i] = at ^ other


rows = []
for resident, shared_bytes in ((1, H200.sm.shared_bytes - 2048), (16, 0)):
    out = np.zeros(BLOCKS * 128, np.int32)
    double = gpusim.simulate(two_chains, BLOCKS, 128, (follow, out), shared_bytes=shared_bytes)
    single = by_warps[f"{4 * resident} warps"]
    rows.append({
        "warps on an SM": double.occupancy.warps_per_sm,
        "cycles, one chain": single.cycles,
        "two chains": double.cycles,
        "time for twice the loads": double.cycles / single.cycles,
    })  # fmt: skip
table(rows)
assert rows[0]["time for twice the loads"] < rows[1]["time for twice the loads"]
