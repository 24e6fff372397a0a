# %% [markdown]
# # 1 The execution model: threads, warps, blocks, SMs
#
# You write a kernel for **one thread**. The GPU runs it for thousands, and not one by one: 32 neighbouring threads of a
# block are a **warp**, and a warp executes *one* instruction for all its lanes at once. Blocks are handed out to the
# **SMs** (streaming multiprocessors), and each SM's four schedulers pick, every cycle, a warp that is ready.
#
# Nothing here needs a GPU. The kernels are compiled by the vendor's tool chain to the machine code of an H200, and that
# machine code is simulated: counters are exact, time is a model (notebook 10 says how good it is).

# %%
import numpy as np
from classroom import beside, lines, measured, run, table
from numba import cuda

import gpusim
from gpusim import plot

# %% [markdown]
# ## One thread, one element

# %%
BLOCKS, THREADS = 64, 256


def saxpy(a, x, y):
    i = cuda.grid(1)  # blockIdx.x * blockDim.x + threadIdx.x
    if i < y.size:
        y[i] = a * x[i] + y[i]


x = np.arange(BLOCKS * THREADS, dtype=np.float32)
y = np.ones_like(x)
result = gpusim.simulate(saxpy, BLOCKS, THREADS, (np.float32(2), x, y), trace=True)
assert np.array_equal(y, 2 * x + 1)  # the machine code was executed, so the result is there
print(str(result).partition("\nSimulation")[0])  # without how long the simulator itself took

# %% [markdown]
# *Source lines* says what each line cost. The few lines become the machine instructions counted
# below; every warp executes each of them once, whatever its 32 lanes hold:

# %%
warps = BLOCKS * THREADS // 32
executed = result.metrics["smsp__inst_executed.sum"]
threads = result.metrics["smsp__thread_inst_executed.sum"]
print(f"{warps} warps x {executed / warps:.0f} instructions = {executed:,} warp instructions")
print(f"which stand for {threads:,} thread instructions, {threads / executed:.0f} for each")
assert threads == 32 * executed
lines(result, "instructions", "thread_instructions")

# %% [markdown]
# ## A warp, instruction by instruction
#
# The trace holds every instruction of the first block. A row below is an instruction that warp 0 issues, a column a
# lane. Time runs downwards; all lanes are lit, since all do the same.

# %%
plot.lane_activity(result.trace, warp=0);

# %% [markdown]
# ## A scheduler and its warps
#
# A warp that waits for memory is not in anybody's way: its scheduler takes another one. A row below is a warp, green is
# an instruction that it issues, the other colours say what it waits for.

# %%
first = int(result.trace.issues["cycle"].min())
plot.scheduler_timeline(result.trace, start=first, cycles=result.trace.cycles - first);

# %% [markdown]
# Most of a warp's life is *long_scoreboard*, waiting for a load from memory. A GPU does not make that wait short. It
# keeps many warps, so that another one has something to do meanwhile (notebook 7).
#
# ## Blocks on SMs
#
# Each block runs on one SM from its beginning to its end. Which one, nobody promises.

# %%
plot.sm_residency(result.trace);

# %% [markdown]
# ## What happens when blocks are not whole warps?
#
# The same number of threads in blocks of different sizes. Change the list and run the cell again.

# %%
rows = []
for threads_per_block in (16, 32, 48, 64, 256):
    y = np.ones(4800, np.float32)
    blocks = -(-y.size // threads_per_block)
    shape = gpusim.simulate(saxpy, blocks, threads_per_block, (np.float32(2), y.copy(), y))
    assert (y == 3).all()
    rows.append({
        "threads per block": threads_per_block,
        "blocks": blocks,
        "warp instructions": shape.metrics["smsp__inst_executed.sum"],
        "threads per instruction": shape.metrics["smsp__thread_inst_executed_per_inst_executed.ratio"],
        "cycles": shape.cycles,
    })  # fmt: skip
table(rows)
assert rows[0]["warp instructions"] == 2 * rows[1]["warp instructions"]

# %% [markdown]
# Half a warp costs as many instructions as a whole one: 16 threads per block need twice the instructions of 32, and 48
# waste every fourth lane.
#
# ## What the real GPU says
#
# A recorded run of the bundled `saxpy` on an H200, beside the simulation of the same machine code. The first counters
# are exact, and cycles are predicted:

# %%
size = 10_000
saxpy_run = run("saxpy", size)
real = measured("saxpy", size)
COUNTERS = [
    "smsp__inst_executed.sum",
    "smsp__thread_inst_executed.sum",
    "smsp__sass_branch_targets_threads_divergent.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
]
beside(saxpy_run, real, [*COUNTERS, "gpc__cycles_elapsed.max"])
assert all(saxpy_run.metrics[name] == real[name] for name in COUNTERS)

# %% [markdown]
# ## Exercises
#
# 1. Give `saxpy` one element less than there are threads: `y = y[:-1]` and `x = x[:-1]`, with the grid as it was. How
#    many thread instructions are missing, and how many warp instructions?
# 2. How many warp instructions does the first launch need with 512 blocks of 32 threads instead of 64 of 256? First
#    guess, then run it.
# 3. Look at the scheduler timeline again: how many warps does a scheduler have here, and how many could it have (an SM
#    holds 64 warps)? What would more of them change?
#
# <details><summary>Answers</summary>
#
# 1. The last warp still executes everything up to the test; one of its lanes leaves early. Thread instructions fall by
#    those behind the test, warp instructions stay as they are: a warp goes on while a single lane does. The cell below
#    shows it.
# 2. The same number: the warps are the same, only grouped otherwise. What changes is how blocks spread over SMs.
# 3. A block of 256 threads is eight warps, two for each scheduler, and there is one block on an SM, since 64 blocks
#    spread over 132 SMs. A scheduler has room for 16. With more warps the same waiting would be shared by more work.
#
# </details>

# %%
y = np.ones(BLOCKS * THREADS - 1, np.float32)
shorter = gpusim.simulate(saxpy, BLOCKS, THREADS, (np.float32(2), y.copy(), y))
fewer = {name: result.metrics[name] - shorter.metrics[name] for name in COUNTERS[:2]}
table([{"metric": name, "fewer": fewer[name]} for name in fewer])
assert fewer["smsp__inst_executed.sum"] == 0 < fewer["smsp__thread_inst_executed.sum"] < 32
