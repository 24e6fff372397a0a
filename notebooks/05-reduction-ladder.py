# %% [markdown]
# # 5 The reduction ladder, step by step
#
# The sum of an array, one partial sum for each block. Eight versions of it, each of which removes *one* cost of the one
# before: the classic by M. Harris (NVIDIA, 2007). On each step, guess first what costs most; then look.
#
# Each version is a few lines in the file `programs/reduction.py`; open it beside this notebook.

# %%
import inspect

import numpy as np
from classroom import lines, measured, run, table
from numba import cuda

import gpusim
from gpusim import plot
from programs import registry

SIZE = 65_536
EXCESS = "derived__memory_l1_wavefronts_shared_excessive"
LADDER = [variant.name for variant in registry.families()["reduction"]]


def step(name, cost):
    """Show a version, where its time goes by line, and the advice on a cost of it, which the next step removes."""
    result = run(name, SIZE, trace=True)
    print(inspect.getsource(registry.get(name).kernel))
    lines(result, "instructions", "threads_per_instruction", "shared_wavefronts_excessive", "cycles")
    print("\n" + next(finding.sentence for finding in result.advice if finding.kind == cost))
    return result


# %% [markdown]
# ## Step 1: every second thread adds

# %%
divergent = step("reduction/interleaved_divergent", "divergence")

# %% [markdown]
# In each round every second, fourth, eighth ... thread adds. The lanes that add are spread over *all* warps, so every
# warp goes through the addition in every round, more and more of its lanes switched off:

# %%
plot.lane_activity(divergent.trace, first=60, count=60);

# %% [markdown]
# ## Step 2: neighbouring threads add
#
# The threads that add are now 0, 1, 2 ...: whole warps add, and whole warps have nothing to do. But their words are
# `2 * step` apart.

# %%
conflicts = step("reduction/interleaved_conflicts", "bank conflicts")
assert conflicts.metrics["smsp__inst_executed.sum"] < divergent.metrics["smsp__inst_executed.sum"]
assert conflicts.metrics[EXCESS] > divergent.metrics[EXCESS] == 0
plot.bank_wavefronts(conflicts.trace);

# %% [markdown]
# ## Step 3: add two adjacent halves
#
# Neighbouring threads, neighbouring words: neither divergent warps nor conflicts, but for the last five rounds, where
# one warp is left.

# %%
sequential = step("reduction/sequential", "work per thread")
assert sequential.metrics[EXCESS] == 0

# %% [markdown]
# ## Steps 4 to 8
#
# 4. `first_add`: half of the threads never add anything after the load. Let each add two elements while it loads.
# 5. `unrolled_last_warp`: the last 32 threads are one warp, which needs no barrier of the block.
# 6. `unrolled`: with a constant block size the loop, its counter and its branches vanish.
# 7. `multiple`: each thread adds several elements first, so the tree is paid once for more work.
# 8. `shuffle`: lanes exchange registers instead of words in shared memory, and one barrier is enough.

# %%
results = dict(zip(LADDER, (divergent, conflicts, sequential), strict=False))
results |= {name: run(name, SIZE) for name in LADDER[3:]}
rows = []
for name, each in results.items():
    rows.append({
        "step": name.partition("/")[2],
        "warp instructions": each.metrics["smsp__inst_executed.sum"],
        "threads per instruction": each.metrics["smsp__thread_inst_executed_per_inst_executed.ratio"],
        "excessive wavefronts": each.metrics[EXCESS],
        "blocks": int(each.record.launch.blocks),
        "barrier cycles": each.stall_reasons["barrier"].cycles,
        "cycles": each.cycles,
    })  # fmt: skip
table(rows)
executed = [row["warp instructions"] for row in rows]
assert executed == sorted(executed, reverse=True), "each step executes less than the one before"

# %%
plot.stall_breakdown({name.partition("/")[2]: each for name, each in results.items()});

# %% [markdown]
# A bar is the mean time *between two instructions* of a warp. It can grow while the launch gets faster: what is left in
# the end is waiting for memory, and few instructions share it.
#
# The last two steps execute least and are not the fastest *here*: with eight elements for each thread the array makes
# so few blocks (see the table) that most of the 132 SMs have none. They need a larger array:
#
# ## What the real GPU says
#
# The same machine code as recorded on an H200, at a million elements. The instruction counts and the excessive
# wavefronts agree to the last digit, and the later step is faster, here and there.

# %%
BIG = 1 << 20
ENDS = ["interleaved_conflicts", "shuffle"]
rows = []
for name in [f"reduction/{end}" for end in ENDS]:
    here, real = run(name, BIG), measured(name, BIG)
    for metric in ("smsp__inst_executed.sum", EXCESS):
        assert here.metrics[metric] == real[metric]
    rows.append({
        "step": name.partition("/")[2],
        "warp instructions": here.metrics["smsp__inst_executed.sum"],
        "the same, H200": real["smsp__inst_executed.sum"],
        "excessive wavefronts": here.metrics[EXCESS],
        "the same, H200 ": real[EXCESS],
        "cycles": here.cycles,
        "cycles, H200": real["gpc__cycles_elapsed.max"],
    })  # fmt: skip
table(rows)
for column in ("cycles", "cycles, H200"):
    assert [row[column] for row in rows] == sorted((row[column] for row in rows), reverse=True)

# %% [markdown]
# ## Exercises
#
# 1. Which two lines of the first version would you change to get the second, and which of the third to get the fourth?
# 2. The second version has bank conflicts. With `step = 16`, how many lanes of a warp meet in a bank?
# 3. Write a ninth version: `shuffle`, with the last sum of the block added by an atomic to *one* result. What does it
#    save, what does it cost? The cell below does it.
#
# <details><summary>Answers</summary>
#
# 1. The condition that chooses who adds and the index of the word: `t % (2 * step) == 0` with `s[t]` becomes
#    `k = 2 * step * t` with `s[k]`. From three to four: the load, which adds a second element half a grid-block on.
# 2. Words are 32 apart: all lanes that add meet in one bank. Of 256 threads 256 / 32 = 8 add in that round, so eight.
# 3. It saves the array of partial sums and a second launch to add them. Atomics on one address are done one after the
#    other at L2, one for each block: cheap as long as there are few blocks.
#
# </details>


# %%
def ninth(x, total):
    s = cuda.shared.array(8, np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    mine = np.float32(0)
    while i < x.size:
        mine += x[i]
        i += cuda.gridsize(1)
    for k in (16, 8, 4, 2, 1):
        mine += cuda.shfl_down_sync(0xFFFFFFFF, mine, k)
    if cuda.laneid == 0:
        s[t >> 5] = mine
    cuda.syncthreads()
    if t < 32:
        mine = s[t] if t < 8 else np.float32(0)
        for k in (4, 2, 1):
            mine += cuda.shfl_down_sync(0xFFFFFFFF, mine, k)
        if t == 0:
            cuda.atomic.add(total, 0, mine)


x = np.random.default_rng(1).random(SIZE, np.float32)
total = np.zeros(1, np.float32)
atomic = gpusim.simulate(ninth, SIZE // (8 * 256), 256, (x, total))
assert np.isclose(total[0], x.sum(dtype=np.float64), rtol=1e-5)
table([
    {"version": "shuffle", "results": SIZE // (8 * 256), "cycles": results["reduction/shuffle"].cycles},
    {"version": "ninth", "results": 1, "cycles": atomic.cycles},
])
