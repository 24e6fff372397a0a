# %% [markdown]
# # 9 Designing a GPU
#
# What if it had twice the SMs, or half the bandwidth? On a simulator that is one line: `overrides=` changes any number
# of the configuration. Here you are the architect, with a handful of programs as customers.

# %%
from itertools import pairwise

import matplotlib.pyplot as plt
from classroom import run, table

from gpusim.config import diff, load_config

plt.style.use("tableau-colorblind10")
base = load_config("h200")
print(f"{base.sm.count} SMs at {base.gpu.clock_mhz} MHz, {base.dram.bandwidth_gb_s} GB/s of memory")

# %% [markdown]
# `gpusim config keys` lists all numbers that can be changed, and each says where it comes from:

# %%
for key in ("sm.count", "dram.bandwidth_gb_s", "shared.wavefront_cycles", "l1.latency_cycles"):
    print(f"{key}: {base.source(key)}")

# %% [markdown]
# ## The customers and the designs
#
# Change the designs, or add your own.

# %%
CUSTOMERS = {
    "vector_add": 1 << 18,
    "matmul/tiled": 64,
    "bank_conflict/32": 1 << 15,
    "pointer_chase/dram": 32,
    "mandelbrot": 96,
}
DESIGNS = {
    "half the SMs": {"sm.count": 66},
    "half the bandwidth": {"dram.bandwidth_gb_s": 2400},
    "twice the bandwidth": {"dram.bandwidth_gb_s": 9600},
    "slow shared memory": {"shared.wavefront_cycles": 2},
    "no launch overhead": {"launch.overhead_cycles": 0},
}
results = {
    (design, name): run(name, size, overrides=overrides)
    for design, overrides in ({"as it is": {}} | DESIGNS).items()
    for name, size in CUSTOMERS.items()
}
speed = {(design, name): results["as it is", name].cycles / each.cycles for (design, name), each in results.items()}
table([{"design": design} | {name: speed[design, name] for name in CUSTOMERS} for design in DESIGNS])

# %% [markdown]
# A number is the speed against the H200 as it is: 1 is no change, 0.5 half as fast.

# %%
figure, axes = plt.subplots(figsize=(9, 3.6), layout="constrained")
width = 0.8 / len(CUSTOMERS)
for k, name in enumerate(CUSTOMERS):
    places = [place + k * width for place in range(len(DESIGNS))]
    axes.bar(places, [speed[design, name] for design in DESIGNS], width, label=name)
axes.axhline(1, color="black", linewidth=0.8)
axes.set_xticks([place + 0.4 - width / 2 for place in range(len(DESIGNS))], list(DESIGNS))
axes.set_ylabel("speed, H200 = 1")
axes.legend(fontsize=8);

# %% [markdown]
# Before you read on: which customer pays for which part?

# %%
assert speed["half the bandwidth", "vector_add"] < 0.95 and speed["twice the bandwidth", "vector_add"] >= 1
assert abs(speed["half the bandwidth", "pointer_chase/dram"] - 1) < 0.02
assert speed["slow shared memory", "bank_conflict/32"] < speed["slow shared memory", "matmul/tiled"] < 0.98
assert abs(speed["half the bandwidth", "matmul/tiled"] - 1) < 0.05
assert abs(speed["half the SMs", "pointer_chase/dram"] - 1) < 0.05

# %% [markdown]
# - `vector_add` misses every byte of bandwidth that is taken away. Twice as much gives it hardly anything: a launch
#   this short is mostly start and latency, and memory is not the limit any more.
# - `pointer_chase` is one warp that waits for one load after the other: neither bandwidth nor SMs help, only latency.
# - `bank_conflict` occupies the data pipe of shared memory, and needs that to be fast; so does `matmul/tiled`, but
#   less.
# - The launch overhead is a constant, and the shorter a program, the more it gains without it.
#
# ## How many SMs?
#
# Speed by the number of SMs, everything else as it is. A straight line would be perfect scaling.

# %%
COUNTS = (33, 66, 132)
figure, axes = plt.subplots(figsize=(9, 3.6), layout="constrained")
rows = []
for name in ("vector_add", "mandelbrot", "bank_conflict/32"):
    quarter = run(name, CUSTOMERS[name], overrides={"sm.count": COUNTS[0]})
    cycles = [quarter.cycles, results["half the SMs", name].cycles, results["as it is", name].cycles]
    axes.plot(COUNTS, [cycles[0] / each for each in cycles], marker="o", label=name)
    rows.append({"program": name} | {f"{count} SMs": each for count, each in zip(COUNTS, cycles, strict=True)})
axes.plot(COUNTS, [count / COUNTS[0] for count in COUNTS], color="grey", linestyle=":", label="perfect")
axes.set(xlabel="SMs", ylabel=f"speed, {COUNTS[0]} SMs = 1")
axes.legend(fontsize=8)
table(rows)
assert all(more <= 1.01 * few for row in rows for few, more in pairwise(list(row.values())[1:]))

# %% [markdown]
# Each bends for a reason of its own. `bank_conflict` has 128 blocks of equal length to share out evenly, and comes
# nearest to the line. `mandelbrot` ends with its longest block, however many SMs the others have. On all
# of them the launch overhead, which no SM shortens, weighs more and more: that is Amdahl's law.
#
# ## Designs that were really built
#
# An H100 is nearly the same machine with another memory. These are the numbers in which the two configurations differ:

# %%
for key, (ours, theirs) in diff(base, load_config("h100")).items():
    print(f"{key}: {ours} -> {theirs}")

# %%
rows = []
for name, size in CUSTOMERS.items():
    h100 = run(name, size, gpu="h100")
    rows.append({"program": name, "H200 us": results["as it is", name].time_us, "H100 us": h100.time_us,
                 "H100 slower by": h100.time_us / results["as it is", name].time_us})  # fmt: skip
table(rows)
assert all(row["H100 slower by"] < 1.25 for row in rows)

# %% [markdown]
# At these sizes hardly any customer notices the narrower memory: what the shortest ones notice is that an H100 takes
# longer to launch them, and the pointer chase, which waits for one line at a time, notices only its latency. Would you
# have bought by the data sheet?
#
# ## Exercises
#
# 1. When does `vector_add` begin to gain from twice the bandwidth? Raise its size to `1 << 21`, and compare.
# 2. What is the cheapest design, in SMs, that makes none of the customers more than 10 % slower?
# 3. Halve the clock: `{"gpu.clock_mhz": 990}`. Cycles of `vector_add` at `1 << 21` *fall*, and yet it gets slower. Why?
#
# <details><summary>Answers</summary>
#
# 1. The longer the launch, the less its start weighs, and the more of the time is bandwidth. A design is judged by
#    its customers *and* by the sizes that they run.
# 2. Try `sm.count` from 132 downwards; programs with few blocks do not notice until blocks must share an SM.
# 3. Memory keeps its bytes per *second*, so an SM clock cycle, now twice as long, brings twice the bytes. Times in
#    cycles are good for seeing what a machine is busy with, times in microseconds for comparing machines.
#
# </details>

# %%
normal, slow_clock = (run("vector_add", 1 << 21, overrides={"gpu.clock_mhz": clock}) for clock in (1980, 990))
table([{"clock": "as it is", "cycles": normal.cycles, "us": normal.time_us},
       {"clock": "half", "cycles": slow_clock.cycles, "us": slow_clock.time_us}])  # fmt: skip
assert slow_clock.cycles < normal.cycles and slow_clock.time_us > normal.time_us
