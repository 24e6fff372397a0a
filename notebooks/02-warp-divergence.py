# %% [markdown]
# # 2 Warp divergence
#
# A warp has one instruction for its 32 lanes. At an `if` that some lanes take and others do not, it goes both ways, one
# **after** the other, each time with the other lanes switched off. This notebook shows the lanes, the tree of paths
# and the price, and then the same work without it.

# %%
import numpy as np
from classroom import lines, measured, run, table
from numba import cuda

import gpusim
from gpusim import plot

# %% [markdown]
# ## Two ways through a kernel
#
# Threads halve `x` until it is below one, and count. Even threads go in steps of a half, odd ones in steps of a
# quarter, which are two different loops. The line marked **change me** decides who takes which.

# %%
N = 1024


def halve(x, out):
    i = cuda.grid(1)
    v = x[i]
    count = 0
    if (i & 1) == 0:  # change me, for example to (i & 32) == 0
        while v >= np.float32(1):
            v *= np.float32(0.5)
            count += 1
    else:
        while v >= np.float32(1):
            v *= np.float32(0.25)
            count += 2
    out[i] = count


x = np.full(N, 200, np.float32)
out = np.zeros(N, np.int32)
result = gpusim.simulate(halve, N // 128, 128, (x, out), trace=True)
assert (out == 8).all()
lines(result, "instructions", "threads_per_instruction", "divergent_branches")

# %% [markdown]
# A row below is an instruction that warp 0 issues; coloured cells are lanes that execute it, pale ones lanes that
# are elsewhere. After the branch every row has only half of the lanes: first come the rows of one loop, then those of
# the other.

# %%
plot.lane_activity(result.trace, warp=0, count=60);

# %% [markdown]
# The same as a tree: a bar is a group of lanes that runs together, a black stroke the place where groups meet again
# (they **reconverge**).

# %%
plot.divergence_tree(result.trace, warp=0);

# %% [markdown]
# ## The same work without divergence
#
# Who shares a warp decides. If whole warps go the same way (`(i & 32) == 0`: even warps one way, odd warps the other)
# nobody waits for anybody. The bit is now an argument, so the machine code is the same for each of them.


# %%
def halve_by(x, out, bit):
    i = cuda.grid(1)
    v = x[i]
    count = 0
    if (i & bit) == 0:
        while v >= np.float32(1):
            v *= np.float32(0.5)
            count += 1
    else:
        while v >= np.float32(1):
            v *= np.float32(0.25)
            count += 2
    out[i] = count


rows = []
for bit in (1, 2, 4, 8, 16, 32, 64):
    out = np.zeros(N, np.int32)
    grouped = gpusim.simulate(halve_by, N // 128, 128, (x, out, np.int32(bit)))
    assert (out == 8).all()
    rows.append({
        "neighbours that go together": bit,
        "warp instructions": grouped.metrics["smsp__inst_executed.sum"],
        "thread instructions": grouped.metrics["smsp__thread_inst_executed.sum"],
        "threads per instruction": grouped.metrics["smsp__thread_inst_executed_per_inst_executed.ratio"],
        "divergent branches": grouped.metrics["smsp__sass_branch_targets_threads_divergent.sum"],
        "cycles": grouped.cycles,
    })  # fmt: skip
table(rows)
assert rows[0]["warp instructions"] > rows[5]["warp instructions"]
assert rows[0]["divergent branches"] > 0 == rows[5]["divergent branches"]

# %% [markdown]
# Whether 1 or 16 neighbours go together makes no difference: a warp with *any* lane on a path runs that path. From 32
# on whole warps agree, and divergence is gone.
#
# ## 1, 2, 4 ... 32 ways, and the real GPU
#
# The bundled program `divergence` sends the lanes of each warp through up to 32 different loops. Here it is beside the
# counters that an H200 recorded of the same machine code:

# %%
SIZE = 32_768
rows = []
for ways in (1, 2, 4, 8, 16, 32):
    here, real = run(f"divergence/{ways}", SIZE), measured(f"divergence/{ways}", SIZE)
    for metric in ("smsp__inst_executed.sum", "smsp__sass_branch_targets_threads_divergent.sum"):
        assert here.metrics[metric] == real[metric]
    rows.append({
        "ways": ways,
        "warp instructions": here.metrics["smsp__inst_executed.sum"],
        "the same, H200": real["smsp__inst_executed.sum"],
        "threads per instruction": here.metrics["smsp__thread_inst_executed_per_inst_executed.ratio"],
        "cycles": here.cycles,
        "cycles, H200": real["gpc__cycles_elapsed.max"],
    })  # fmt: skip
table(rows)

# %% [markdown]
# Warp instructions are equal to the last digit. The time grows with the ways, here and there.
#
# What would you be told if you did not know the cause? `result.advice` names what costs time, and the line:

# %%
worst = run("divergence/32", SIZE)
for finding in worst.advice[:2]:
    print(f"{finding.share:.0%} of the time: {finding.kind}. {finding.sentence}\n")
assert worst.advice[0].kind == "divergence"

# %% [markdown]
# A small `if` may cost nothing: the compiler turns it into instructions with a guard (**predication**) or a select.
# All lanes issue them, and there is no branch that could diverge.


# %%
def clamp(x, out):
    i = cuda.grid(1)
    v = x[i]
    if v > np.float32(100):
        v = np.float32(100)
    out[i] = v


mixed = np.arange(N, dtype=np.float32)
clamped = np.zeros_like(mixed)
guarded = gpusim.simulate(clamp, N // 128, 128, (mixed, clamped))
assert np.array_equal(clamped, np.minimum(mixed, 100))
print(guarded.metrics["smsp__sass_branch_targets_threads_divergent.sum"], "divergent branches; the code of the if:")
row = next(each for each in guarded.source_lines if "v > np" in each.text)
print("\n".join(each.text for each in guarded.instructions if each.address in row.addresses))
assert guarded.metrics["smsp__sass_branch_targets_threads_divergent.sum"] == 0

# %% [markdown]
# ## Exercises
#
# 1. In the first kernel change `(i & 1) == 0` to `i < 16`, then to `(i & 32) == 0`. Which of them diverge, in which
#    warps? Look at the lanes of warp 0 again.
# 2. Give the threads of one warp different amounts of work: `x = np.exp2(np.arange(N) % 32)`. Which lane decides how
#    long the warp takes? What if `x` is sorted first?
# 3. Write a kernel in which lane *k* of each warp does *k* rounds of a loop. How many threads are active on average?
#    What is the formula?
#
# <details><summary>Answers</summary>
#
# 1. `i < 16` diverges in warp 0 of the grid only: the others agree. `(i & 32) == 0` diverges nowhere.
# 2. The slowest lane: the others have left the loop and wait, pale cells in the picture. Sorted, lanes of one warp have
#    nearly the same work, and the sum of the slowest lanes falls. The cell below shows it.
# 3. The loop runs for the longest lane, so of 32 x 31 lane slots 0 + 1 + ... + 31 = 496 are used: half.
#
# </details>


# %%
def count_halvings(x, out):
    i = cuda.grid(1)
    v = x[i]
    count = 0
    while v >= np.float32(1):
        v *= np.float32(0.5)
        count += 1
    out[i] = count


uneven = np.exp2(np.arange(N) % 32).astype(np.float32)
rows = []
for order, values in (("mixed", uneven), ("sorted", np.sort(uneven))):
    out = np.zeros(N, np.int32)
    each = gpusim.simulate(count_halvings, N // 128, 128, (values, out))
    assert np.array_equal(out, np.log2(values) + 1)
    rows.append({
        "order": order,
        "warp instructions": each.metrics["smsp__inst_executed.sum"],
        "threads per instruction": each.metrics["smsp__thread_inst_executed_per_inst_executed.ratio"],
        "cycles": each.cycles,
    })  # fmt: skip
table(rows)
assert rows[1]["warp instructions"] < rows[0]["warp instructions"]
