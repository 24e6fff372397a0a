# %% [markdown]
# # 16 A program on several GPUs
#
# Lesson 11 took links, collectives and training steps one by one. Here is a program as people write it: a process for
# each GPU, NCCL between them, and gradients that are summed while others are still computed. It runs as it is, on two
# simulated GPUs, and what it does to them is read from the tables.

# %%
import json
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
from classroom import table

plt.style.use("tableau-colorblind10")
print(Path("several_gpus/buckets.py").read_text())

# %% [markdown]
# `run` starts the processes and gives each a communicator (`several_gpus/ranks.py` has NCCL's interface for Numba's
# arrays, in 90 lines). The loop is the backward pass: a kernel makes the gradients of a bucket in one stream; an event
# lets the other stream go on when they are there, and that one sums them over the GPUs. All buckets together are four
# megabytes, however many they are. `gpusim exec --gpus 2` gives the program two GPUs; with `--json` it tells what both
# did:


# %%
def run(buckets, gpus=2, node="hgx_h200"):
    """What each GPU did, and what they did together."""
    program = [sys.executable, "several_gpus/buckets.py", str(buckets)]
    command = [sys.executable, "-m", "gpusim.cli", "exec", "--json", "--gpus", str(gpus), "--node", node, *program]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


whole = run(1)
table(whole["collectives"])
table(whole["gpus"])

# %% [markdown]
# One bucket: the sum can begin only when all gradients are there, and nothing is left to be computed meanwhile. All of
# it is *exposed*: the GPU communicates and no kernel runs. Now in pieces:

# %%
runs = {1: whole, 4: run(4)}

# %%
runs[16] = run(16)
rows = []
for buckets, told in runs.items():
    gpu, joint = told["gpus"][0], told["collectives"][0]
    rows.append({"buckets": buckets, "protocol": joint["how"], "us of one": joint["time_us"] / joint["calls"],
                 "kernels us": gpu["kernels_us"], "collectives us": gpu["collectives_us"],
                 "exposed us": gpu["exposed_us"]})  # fmt: skip
table(rows)
all_us = {row["buckets"]: row["kernels us"] + row["exposed us"] for row in rows}
assert all_us[4] < min(all_us[1], all_us[16])

# %%
figure, axes = plt.subplots(figsize=(8, 2.6), layout="constrained")
names = [str(row["buckets"]) for row in rows]
axes.barh(names, [row["kernels us"] for row in rows], label="kernels")
left = [row["kernels us"] for row in rows]
axes.barh(names, [row["exposed us"] for row in rows], left=left, label="exposed communication")
axes.set(xlabel="us of a backward pass", ylabel="buckets")
axes.legend(fontsize=8)
# %% [markdown]
# With four of them sums hide behind the kernels of later ones, and little more than the last one is exposed. A sum is
# a kernel too, whose blocks need room. The SMs are divided for the blocks of `backward`, which want L1 and no shared
# memory, and a block of NCCL has 100 KB of it; so a sum that comes while such a kernel runs begins when that ends.
# Sixteen buckets are too many: a sum has a latency that does not shrink with it, so all of them together take longer
# than the kernels, and those, a few thousand elements each, no longer fill the GPU and take longer in all. The best
# number lies between, and depends on both.
#
# ## Another machine, the same program
#
# Without NVLink the GPUs reach each other through the PCIe tree:

# %%
slow = run(4, node="pcie")
for name, told in (("NVLink", runs[4]), ("PCIe", slow)):
    gpu, joint = told["gpus"][0], told["collectives"][0]
    each_us = joint["time_us"] / joint["calls"]
    print(f"{name}: {each_us:.0f} us a sum over {joint['link']}, {gpu['exposed_us']:.0f} us exposed")
assert slow["gpus"][0]["exposed_us"] > 2 * runs[4]["gpus"][0]["exposed_us"]

# %% [markdown]
# ## Exercises
#
# 1. What is the least that can be exposed, whatever the number of buckets? Which row of the table comes near?
# 2. Four GPUs instead of two: does a sum of the same bytes take twice as long?
# 3. The last bucket is always exposed. Which bucket would you make smaller than the others, and what does DDP in
#    PyTorch do?
#
# <details><summary>Answers</summary>
#
# 1. The sum of the last bucket, since nothing is computed after it: at best its latency.
# 2. No. A ring sends 2 (n - 1) / n of the bytes over each link, 1 for two GPUs and 1.5 for four, but has three times
#    the steps; small sums are latency, so they grow with the steps:
# 3. The last one to be computed, which holds the first layers' gradients. PyTorch's DDP has a bucket of 1 MB that is
#    ready first, so that communication begins early; that at the end is as large as the others.
#
# </details>

# %%
four = run(4, gpus=4)["collectives"][0]
two = runs[4]["collectives"][0]
ratio = (four["time_us"] / four["calls"]) / (two["time_us"] / two["calls"])
print(f"four GPUs: {ratio:.2f} times as long as two")
assert 1 < ratio < 2
