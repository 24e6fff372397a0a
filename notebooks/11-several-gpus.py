# %% [markdown]
# # 11 Several GPUs
#
# One GPU is not enough for a large model. Then data must move between GPUs, and the question is what that costs and
# what of it can be hidden. Here eight simulated H200s stand in one machine: first a link, then a collective, then a
# step of training.

# %%
import json
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
from classroom import table

import gpusim
from gpusim import parallel, plot

plt.style.use("tableau-colorblind10")
node = gpusim.node.load_node("hgx_h200")
link = node.links[node.path("gpu0", "gpu1")[0]]
memory = gpusim.load_config("h200").dram.bandwidth_gb_s
print(f"{len(node.gpus)} GPUs; {link.name}: {link.bandwidth_gb_s:.0f} GB/s, the GPU's own memory: {memory} GB/s")
assert link.bandwidth_gb_s < memory / 10

# %% [markdown]
# ## A link
#
# Every GPU has 18 NVLinks to switches that reach all others. Together they carry a twelfth of what its own memory
# does: whatever lies on another GPU is far away. The time of a copy is a latency and bytes over bandwidth:

# %%
rows = []
for kib in (4, 64, 1024, 16384, 262144):
    system = gpusim.node.System("hgx_h200", gpus=2)
    system.copy(1, 0, kib << 10, system.stream(0))
    copied = system.run().copies[0]
    rows.append({"KiB": kib, "us": copied.duration_us, "GB/s": copied.bandwidth_gb_s})
table(rows)
assert rows[0]["GB/s"] < 10 < 350 < rows[-1]["GB/s"] < link.bandwidth_gb_s

# %% [markdown]
# Small copies are all latency, large ones all bandwidth. Which is which depends on the product of the two: change the
# sizes, and find the one that gets half of the bandwidth.
#
# ## A collective
#
# Training adds up the gradients of all GPUs: an *all-reduce*. In a ring every GPU passes on what it gets to its right
# neighbour. The data is cut into as many pieces as there are GPUs; after seven steps each GPU has the whole sum of one
# piece, after seven more everybody has all. So each sends 2 x 7/8 of the buffer, however many GPUs there are: that is
# what makes rings good.

# %%
result = gpusim.collective("all_reduce", 8 << 20, gpus=8, trace=True)
print(result)
sent = {each.name: each.bytes for each in result.links}["gpu0.nvlink>switch0"]
assert result.algorithm == "ring"
print(f"gpu0 sends {sent / (8 << 20):.2f} bytes for each byte of the buffer, with flags; 2 x 7/8 is {2 * 7 / 8}")

# %%
plot.collective_steps(result);

# %% [markdown]
# A row is one thread block of each GPU, a blue rectangle a slice that it gets, adds to its own, and sends on (in the
# second half: that it gets and sends on as it is). The first step (orange) and 13 blue ones send something: the
# ring's 14 steps. White is waiting for the neighbour. The same on the links:

# %%
plot.link_utilisation(result);

# %% [markdown]
# In the white stripes no link works. That is latency again: 14 steps have it 14 times. With a larger buffer every step
# is longer, and the stripes vanish. How large must it be?

# %%
SIZES = [1 << k for k in range(12, 31, 2)]
figure, axes = plt.subplots(figsize=(9, 3.6), layout="constrained")
reached = {}
for gpus in (2, 4, 8):
    results = [gpusim.collective("all_reduce", size, gpus) for size in SIZES]
    reached[gpus] = [each.bus_gb_s for each in results]
    axes.plot(SIZES, reached[gpus], marker="o", label=f"{gpus} GPUs")
axes.axhline(link.bandwidth_gb_s, color="black", linewidth=0.8, linestyle=":", label="the link")
axes.set_xscale("log", base=2)
axes.set(xlabel="bytes", ylabel="bus bandwidth, GB/s")
axes.legend(fontsize=8)
assert all(each == sorted(each) for each in reached.values())
assert reached[8][0] < 2 and reached[8][-1] > 0.75 * link.bandwidth_gb_s

# %% [markdown]
# *Bus bandwidth* counts the bytes that each link must have carried, so that rings of any number of GPUs can be
# compared. A megabyte on eight GPUs gets a small part of the link, a gigabyte most of it. Therefore nobody sums small
# tensors one by one: they are collected in *buckets*.
#
# ## A step of training
#
# Sixteen layers of a model, each a matrix product of 4,096 x 4,096 x 4,096. *Data parallel*: each GPU has the whole
# model and its own part of the batch; the backward pass makes gradients from the last layer to the first, and their
# sums over all GPUs must be there before the next step.

# %%
layers = [
    parallel.Layer(
        f"{k}", forward_us=185, backward_us=395, parameter_bytes=32 << 20, activation_bytes=32 << 20,
        forward_blocks=(512,), backward_blocks=(512, 512),
    )
    for k in range(16)
]  # fmt: skip
compute = sum(layer.forward_us + layer.backward_us for layer in layers)
after = parallel.data_parallel(layers, gpus=8, bucket_bytes=64 << 20, overlap=False)
print(f"compute alone {compute:,.0f} us, with sums after it {after.time_us:,.0f} us")
plot.training_timeline(after);

# %% [markdown]
# A quarter of the time is communication while every SM is idle. But the gradients of the last layers are there long
# before those of the first:

# %%
overlapped = parallel.data_parallel(layers, gpus=8, bucket_bytes=64 << 20)
plot.training_timeline(overlapped)
print(overlapped)
assert compute < overlapped.time_us < after.time_us
assert overlapped.exposed_communication_us < 0.2 * after.exposed_communication_us

# %% [markdown]
# Only the last bucket is *exposed*: nothing is left to compute while it is summed. Yet the step takes more than compute
# and that bucket:

# %%
rest = overlapped.time_us - compute - overlapped.exposed_communication_us
print(f"{overlapped.time_us:,.0f} = {compute:,.0f} + {overlapped.exposed_communication_us:,.0f} + {rest:,.0f} us")
channels = gpusim.collective("all_reduce", 64 << 20, 8).channels
sms = gpusim.load_config("h200").sm.count
turns = {count: -(-512 // count) for count in (sms, sms - channels)}
print(f"the collective has {channels} blocks; turns that 512 blocks of a product take, by SMs: {turns}")
assert rest > 200

# %% [markdown]
# Overlap is not free. A collective is a kernel too; its blocks sit on SMs that the products would use. A real H200 does
# the same. Here are backward passes recorded on two and four of them, alone and with their sums beside them:

# %%
rows = []
for gpus in (2, 4):
    path = Path("..") / "validate" / "node" / "results" / f"training_{gpus}_h200.json"
    for case in json.loads(path.read_text())["data_parallel"]:
        alone, reduce, both = (max(case[key]) for key in ("backward_alone", "reduce_alone", "backward_overlapped"))
        exposed = reduce * case["bucket_layers"] / case["layers"]
        rows.append({"GPUs": gpus, "layers": case["layers"], "alone us": alone, "overlapped us": both,
                     "last bucket us": exposed, "lost besides us": both - alone - exposed})  # fmt: skip
table(rows)
assert all(row["lost besides us"] > 0.1 * row["alone us"] for row in rows)

# %% [markdown]
# `python -m validate node training` predicts these passes from the compute times alone; docs/parallel.md says how well.
#
# ## How large a bucket?
#
# For layers of half as many parameters, so that a bucket may hold less than 32 MiB:

# %%
halves = [replace(layer, parameter_bytes=16 << 20) for layer in layers]
figure, axes = plt.subplots(figsize=(9, 3.4), layout="constrained")
BUCKETS = (16, 32, 64, 128, 256)
times = [parallel.data_parallel(halves, gpus=8, bucket_bytes=size << 20).time_us for size in BUCKETS]
axes.plot(BUCKETS, times, marker="o")
axes.set_xscale("log", base=2)
axes.set_xticks(BUCKETS, BUCKETS)
axes.set(xlabel="MiB in a bucket", ylabel="us of a step")
best = BUCKETS[times.index(min(times))]
print(f"best of these: {best} MiB")
assert best not in (BUCKETS[0], BUCKETS[-1])

# %% [markdown]
# Small buckets pay latency and take SMs longer, large ones leave much to wait for at the end.
#
# ## A pipeline
#
# The other way to share a model: each GPU has some of the layers, and hands on activations instead of gradients. Then a
# GPU waits until the ones before it have something for it.

# %%
pipe = parallel.pipeline(layers, stages=4, micro_batches=8, schedule="1f1b")
plot.training_timeline(pipe, links=0)
print(f"bubble {pipe.bubble:.1%}; (stages - 1) / (micro-batches + stages - 1) is {3 / 11:.1%}")
assert pipe.bubble > 3 / 11

# %% [markdown]
# White is the *bubble*. With four stages and eight micro-batches it is 3/11 of the time at least, and transfers between
# the GPUs add to it.
#
# ## Exercises
#
# 1. How does the best bucket change when every layer computes twice as long? When the node has half the links:
#    `overrides=["nvlink.links=9"]`?
# 2. Halve the bubble of the pipeline without changing the number of stages. What does it cost?
# 3. `schedule="gpipe"` has the same bubble without transfers. What does 1F1B have that GPipe does not? Compare
#    `memory_peak_bytes`.
# 4. `parallel.fully_sharded` sends half as much again as `data_parallel`. Why would anybody want it?
#
# <details><summary>Answers</summary>
#
# 1. With more compute for each byte all but the last bucket hide anyway, so smaller ones win: less is left over at the
#    end. With half the links the sums may take longer than the backward pass; then all that counts is when they begin
#    and how long they take in all.
# 2. More micro-batches: `micro_batches=20` gives 3/23 at least. If the batch stays as it is, each of them is smaller,
#    and small products use a GPU badly; if it grows, so does the work of a step.
# 3. Memory: a stage of GPipe keeps the activations of all micro-batches, one of 1F1B its own and one more for each
#    stage after it.
# 4. Memory again: parameters, gradients and optimizer state are shared out over the GPUs. It is what lets a model be
#    larger than one GPU holds.
#
# </details>

# %%
gpipe = parallel.pipeline(layers, stages=4, micro_batches=8, schedule="gpipe")
sharded = parallel.fully_sharded(layers, gpus=8)
table([{"step": step.kind, "GB at most": max(step.memory_peak_bytes.values()) / 1e9, "us": step.time_us}
       for step in (overlapped, sharded, pipe, gpipe)])  # fmt: skip
assert max(pipe.memory_peak_bytes.values()) < max(gpipe.memory_peak_bytes.values())
assert max(sharded.memory_peak_bytes.values()) < 0.5 * max(overlapped.memory_peak_bytes.values())
