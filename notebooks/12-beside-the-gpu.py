# %% [markdown]
# # 12 Beside the GPU
#
# A GPU runs warps: 32 lanes, one instruction. What that costs shows where lanes wait for each other; what it buys shows
# beside machines that are built otherwise. First a lock, on a GPU of today and on one as they were before 2017. Then a
# TPU and a CPU at the same matrix product.

# %%
import numpy as np
from classroom import run, table
from numba import cuda

import gpusim
from gpusim import beside, plot
from gpusim.errors import SpinDeadlock

STACK = ["issue.reconvergence=stack"]

# %% [markdown]
# ## A lock between lanes
#
# Each of 32 lanes takes the same lock, adds one, and lets it go. One has the lock, 31 spin.


# %%
def count(lock, total):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    total[0] += 1
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


lock, total = np.zeros(1, np.int32), np.zeros(1, np.int32)
result = gpusim.simulate(count, grid=1, block=32, args=(lock, total))
instructions = result.metrics["smsp__inst_executed.sum"]
print(f"{total[0]} lanes have counted in {result.cycles:,} cycles and {instructions:,.0f} warp instructions")
assert total[0] == 32 and lock[0] == 0

# %% [markdown]
# That it ends is no matter of course. The 31 that spin and the one that has the lock are the same warp, and a warp
# issues one instruction at a time, for lanes that stand at the same place. Since Volta every lane has a program counter
# of its own, and lanes that spin give way to the others (the compiler puts a `YIELD` into the loop). Before, a warp had
# one program counter and a stack: the 31 went round the loop first, and the one with the lock waited behind the loop
# for them. `issue.reconvergence` is that one property of a GPU:

# %%
try:
    gpusim.simulate(count, 1, 32, (lock, total), overrides=STACK)
    raise AssertionError("it ended")
except SpinDeadlock as error:
    print(f"deadlock at cycle {error.cycle:,}:", *error.waiting, sep="\n- ")
    assert error.spinning.bit_count() == 31 and error.parked.bit_count() == 1

# %% [markdown]
# The simulator does not wait for a limit: it says so when nothing can change any more. All that is left goes round one
# loop with the same registers, and nobody writes. A warp that waits for *another* warp is left alone, since that one
# may still do it.
#
# Then how were locks written? So that a lane never waits for another of its warp: they take turns. That ends on both.

# %%
rows = []
for name in ("spin_lock/lanes", "spin_lock/in_turn"):
    for machine, overrides in (("lanes", []), ("stack", STACK)):
        try:
            cycles = run(name, overrides=overrides).cycles
        except SpinDeadlock:
            cycles = "never ends"
        rows.append({"program": name, "reconvergence": machine, "cycles": cycles})
table(rows)
assert [isinstance(row["cycles"], str) for row in rows] == [False, True, False, False]

# %% [markdown]
# In turn it is even faster with the stack: there a lane that spins never gives way to lanes of its warp, which have
# nothing to do but to wait for it.
#
# ## A machine without warps
#
# Google's TPU has no warps, no caches and no threads. It has *systolic arrays*: 128 x 128 cells, each of which holds a
# weight, takes an input from the left and a sum from above, multiplies, adds, and hands both on. Nothing is fetched or
# decoded in between. Here is such an array of 3 x 3, cycle by cycle:

# %%
a = np.array([[1, 2, 3], [4, 5, 6]])
weights = np.array([[1, 0, 2], [0, 1, 0], [3, 0, 1]])
inputs, sums, left = np.zeros((3, 3), int), np.zeros((3, 3), int), []
for cycle in range(len(a) + 3 + 3 - 2):
    # Row r gets its part of an input r cycles late, so that it meets the sum that comes down.
    enters = [a[cycle - r, r] if 0 <= cycle - r < len(a) else 0 for r in range(3)]
    inputs = np.hstack([np.array(enters)[:, None], inputs[:, :-1]])
    sums = np.vstack([np.zeros(3, int), sums[:-1]]) + inputs * weights
    left.append(sums[-1].copy())
    print(f"cycle {cycle}: sums that leave {sums[-1]}")
product = [[left[m + 2 + c][c] for c in range(3)] for m in range(len(a))]
assert (np.array(product) == a @ weights).all()
print("product:", np.array(product).tolist())

# %% [markdown]
# Two rows of inputs took 2 + 3 + 3 - 2 cycles. A thousand would take 1,004: filling and draining the array hardly
# counts then. With one row nearly all of it is filling and draining, and fetching weights. That is the machine's law:

# %%
for rows_of_inputs in (1, 16, 128, 1024, 4096):
    print(beside.matrix_product("tpu_v4", rows_of_inputs, 1024, 1024))

# %% [markdown]
# ## Three kinds of machine, one product
#
# The H200's times are simulated, instruction by instruction; those of the TPU and the CPU follow from models of an
# array and of a blocked product ([docs/beside.md](../docs/beside.md)).

# %%
STEPS = {64: "matmul_tensor/asynchronous", 256: "matmul_hopper/specialised", 1024: "matmul_hopper/cluster"}
rows = []
for n, program in STEPS.items():
    rows.append({"machine": "H200", "n": n, "time_us": run(program, n).time_us})
for n in (16, 64, 256, 1024):
    for name in ("tpu_v4", "xeon_8480_amx", "xeon_8480"):
        found = beside.matrix_product(name, n, n, n)
        rows.append({"machine": found.machine, "n": n, "time_us": 1e6 * found.seconds})
plot.latency_and_throughput(rows);

# %%
fastest = {n: min((row for row in rows if row["n"] == n), key=lambda row: row["time_us"]) for n in (16, 64, 256, 1024)}
table([{"n": n, "fastest": row["machine"], "us": row["time_us"]} for n, row in fastest.items()])
assert [fastest[n]["machine"].split()[0] for n in fastest] == ["Xeon", "TPU", "TPU", "H200"]

# %% [markdown]
# The CPU is built for *latency*: one core has the smallest product done before a GPU has launched a kernel. The GPU is
# built for *throughput*: it needs a product large enough for 132 SMs, and is then far ahead. The TPU lies between:
# little stands between its memory and its array, but the array has one size.
#
# ## Exercises
#
# 1. The arrays have 128 columns. How long does `tpu_v4` take for 1024 x 129 x 1024, beside 128 and 256 columns?
# 2. With which batch does the first TPU come from "waiting for memory" to "inputs stream"? Compute it from the
#    configuration before you try.
# 3. Half of a warp waits for a flag that the last thread of the block sets behind it. Does that end with the stack, in
#    a block of 64 threads and in one of 32?
#
# <details><summary>Answers</summary>
#
# 1. As long as for 256, less some bytes: a tile with one column takes as long as a full one. The second tile lies in
#    another array beside the first, so neither takes much longer than 128 columns.
# 2. While a byte of weights comes from 34 GB/s of memory, the array does 1,349 multiply-adds. A weight is used once
#    for each row of inputs, so from 1,350 rows on the array is the limit.
# 3. With 64 it ends: the thread is in another warp, with a program counter of its own. With 32 it hangs.
#
# </details>

# %%
for n in (128, 129, 256):
    print(beside.matrix_product("tpu_v4", 1024, n, 1024))

v1 = beside.load_machine("tpu_v1")
limits = {batch: beside.matrix_product(v1, batch, 2048, 2048).limit for batch in (256, 1024, 1350, 2048)}
print(f"{v1.peak_macs_per_s / (v1.memory.bandwidth_gb_s * 1e9):.0f} multiply-adds per byte:", limits)
assert limits[256] == "waiting for memory" and limits[1350] == "inputs stream"


# %%
def until(flag):
    t = cuda.threadIdx.x
    if t < 16:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
    if t == cuda.blockDim.x - 1:
        cuda.atomic.max(flag, 0, 1)


gpusim.simulate(until, 1, 64, (np.zeros(1, np.int32),), overrides=STACK)
gpusim.simulate(until, 1, 32, (np.zeros(1, np.int32),))
try:
    gpusim.simulate(until, 1, 32, (np.zeros(1, np.int32),), overrides=STACK)
    raise AssertionError("it ended")
except SpinDeadlock as error:
    print(f"lanes {error.spinning:#010x} spin, lanes {error.parked:#010x} wait")
