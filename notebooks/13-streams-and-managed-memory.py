# %% [markdown]
# # 13 Streams, copies and managed memory
#
# So far a kernel had the GPU for itself, and its data was there. In a program the data must come first, results must go
# back, and small kernels leave most of the GPU idle. Here the host puts work into *streams*, and three things happen
# side by side: kernels, copies, and the host itself. Then memory moves by itself, and at last L2 keeps what it is told.
#
# Arrays are small, so that each cell takes seconds. So is the GPU in the first half: an H200 with 4 of its 132 SMs, and
# all of its memory and links. Managed memory has a whole H200, and L2 at the end the machine `tiny`.

# %%
import matplotlib.pyplot as plt
import numpy as np
from classroom import table
from numba import cuda

import gpusim
from gpusim import plot
from programs import registry

plt.style.use("tableau-colorblind10")
FOUR = ["sm.count=4", "sm.gpcs=1"]


def smooth(x, y, rounds):
    i = cuda.grid(1)
    value = x[i]
    for _ in range(rounds):
        value = value * np.float32(0.5) + np.float32(1)
    y[i] = value


def spans(device, kind):
    """What streams have done of a kind: kernel, copy, prefetch; in the order of their starts."""
    return sorted((each for each in device.timeline().spans if each.kind == kind), key=lambda each: each.start)


# %% [markdown]
# ## Kernels side by side
#
# What is in one stream happens in order. What is in different streams may happen at the same time, if there is room.
# Two equal kernels, each of `blocks` blocks of 128 threads, first in one stream, then in two:


# %%
def two_kernels(blocks, streams):
    """Microseconds from the start of the first to the end of the second, and the timeline."""
    with gpusim.Device("h200", overrides=FOUR) as device:
        made = [device.stream() for _ in range(streams)]
        arrays = [device.device_array(blocks * 128, np.float32) for _ in range(4)]
        for k in range(2):
            device.launch(smooth, blocks, 128, (*arrays[2 * k :][:2], 500), stream=made[k % streams])
        device.synchronize()
        first, second = spans(device, "kernel")
        return second.end - first.start, device.timeline()


rows, beside = [], {}
for blocks in (2, 16, 64):
    one, (two, beside[blocks]) = two_kernels(blocks, 1)[0], two_kernels(blocks, 2)
    rows.append({"blocks": blocks, "one stream us": one, "two streams us": two, "gain": one / two})
table(rows)
gains = [row["gain"] for row in rows]
assert gains[0] > 1.5 and gains[1] < 1.3 and gains[2] < 1.1

# %% [markdown]
# Two blocks sit on two of four SMs; the second kernel finds the other two free, and only the host's next call delays
# it. With 16 blocks both kernels are on all SMs, and the gain is small though there is much room: they share the
# schedulers of each SM, which had enough to do before. 64 blocks are all that four SMs hold, sixteen each. Then the
# second kernel gets its first place when a block of the first one ends: it fills the *tail*, no more. Streams give
# permission; room decides when a kernel begins, and the pipes of an SM how fast it is then.

# %%
plot.streams_timeline(beside[2], links=0)
plot.streams_timeline(beside[64], links=0);

# %% [markdown]
# A bar begins when the GPU takes the kernel up, not when its first block starts: the second one of 64 blocks seems to
# run all the time, and waits.

# %% [markdown]
# ## Priorities
#
# A long kernel of many blocks runs. Then a short one arrives that is urgent. Without a priority it waits until all
# blocks of the long one have *started*. With a priority it gets every place that comes free. Nothing is ever taken away
# from a block that runs:


# %%
def urgent(priority, blocks=128):
    with gpusim.Device("h200", overrides=FOUR) as device:
        low, high = device.stream(), device.stream(priority)
        x, y, a, b = (device.device_array(n, np.float32) for n in (blocks * 256, blocks * 256, 1024, 1024))
        device.launch(smooth, blocks, 256, (x, y, 150), stream=low)
        device.launch(smooth, 4, 256, (a, b, 50), stream=high)
        device.synchronize()
        long, short = spans(device, "kernel")
        return {"priority": priority, "the short one ends after us": short.end - short.start,
                "the long one us": long.end - long.start}, device.timeline()  # fmt: skip


plain, first = urgent(0), urgent(-5)
table([plain[0], first[0]])
plot.streams_timeline(first[1], links=0)
assert first[0]["the short one ends after us"] < 0.4 * plain[0]["the short one ends after us"]
assert first[0]["the long one us"] < 1.05 * plain[0]["the long one us"]

# %% [markdown]
# The urgent one still waits until the blocks that run have ended. Long blocks are bad neighbours.

# %% [markdown]
# ## Copy in, compute, copy out
#
# The textbook example: an array comes from the host, a kernel works on it, the result goes back. The bus carries both
# directions at once, and the SMs need neither. So cut the array into chunks, and let the streams take turns:


# %%
def pipeline(count, chunks=4, pinned=True, n=1 << 19):
    """Microseconds for all of it, and the timeline."""
    with gpusim.Device("h200", overrides=FOUR) as device:
        make = device.pinned_array if pinned else np.zeros
        host_in, host_out = make(n, np.float64), make(n, np.float64)
        x, y = (device.device_array(n, np.float64) for _ in range(2))
        streams = [device.stream() for _ in range(count)]
        start = device.now_cycles
        for k in range(chunks):
            part, stream = slice(k * n // chunks, (k + 1) * n // chunks), streams[k % count]
            x[part].copy_to_device(host_in[part], stream)
            device.launch(smooth, n // chunks // 256, 256, (x[part], y[part], 8), stream=stream)
            y[part].copy_to_host(host_out[part], stream)
        device.synchronize()
        return device.config.time_us(device.now_cycles - start), device.timeline()


ways = {"one chunk": (1, 1), "four chunks, one stream": (1,), "four chunks, four streams": (4,),
        "16 chunks, four streams": (4, 16), "four chunks, four streams, pageable": (4, 4, False)}  # fmt: skip
done = {name: pipeline(*how) for name, how in ways.items()}
table([{"how": name, "us": time} for name, (time, _) in done.items()])
whole, one, four, many, pageable = (time for time, _ in done.values())
assert four < 0.7 * whole < whole < one and many > four and pageable > 3 * four

# %% [markdown]
# Chunks in one stream are worse than no chunks: every copy and launch has its own latency. In four streams they pay, as
# the picture shows: while one chunk is computed, the next comes and the one before leaves. The slowest of the three
# sets the pace, not their sum. More chunks are worse again: then the host, which needs some microseconds for every
# call, is the slowest.

# %%
for name in ("four chunks, one stream", "four chunks, four streams", "four chunks, four streams, pageable"):
    plot.streams_timeline(done[name][1]).set_ylabel(name.removeprefix("four chunks, "), fontsize=8)

# %% [markdown]
# The last picture has ordinary, *pageable* memory. A copy engine cannot reach that, since the operating system may move
# it; the driver copies it through a buffer of its own, and the call returns only when that is done. So no two copies
# overlap, and each is slower. Memory for copies in streams must be *pinned*: `device.pinned_array`, `cudaHostAlloc`.

# %% [markdown]
# ## Managed memory
#
# Copies by hand are work. *Managed* memory has one address for host and kernels, and moves to whoever touches it, by
# page faults. `device.managed_array` is such memory, `x.host(write=True)` says that the host touches all of it. What
# happens when one thread walks through 4 MiB that the host has written, a word of each page of 4 KiB?


# %%
def walk(x, stride):
    for k in range(x.size // stride):
        x[k * stride] += np.float32(1)


def scale(x):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        x[i] *= np.float32(2)


MIB = 1 << 20
with gpusim.Device("h200") as device:
    x = device.managed_array(4 * MIB // 4, np.float32)
    x[:] = 1
    one = device.launch(walk, 1, 1, (x, 1024))
    by_one = [each for each in x.faults if each.to == "gpu"]
    x.host(write=True)
    seen = len(x.faults)
    whole = device.launch(scale, 264, 256, (x,))
    by_all = x.faults[seen:]
    again = device.launch(scale, 264, 256, (x,))
table([{"kernel": name, "us": result.time_us, "faults": faults} for name, result, faults in
       (("one thread", one, len(by_one)), ("the whole GPU", whole, len(by_all)), ("once more", again, 0))])  # fmt: skip
print("KiB that came by each fault of the one thread:", [64 * each.leaves for each in by_one])
assert [each.leaves for each in by_one] == 2 * [1, 1, 2, 4, 8, 16] and again.time_us < 0.02 * whole.time_us

# %% [markdown]
# A thousand pages, twelve faults: a fault brings 64 KiB, and more as soon as more than half of what lies around is
# there, up to a block of 2 MiB. The thread knows nothing of that; it waits. The whole GPU asks for many pages at once,
# the driver serves them in one batch, and saves some of the waiting. Still it takes a hundred times as long as when the
# data is there.

# %%
figure, axes = plt.subplots(figsize=(9, 3.2), layout="constrained")
for faults, name in ((by_one, "one thread"), (by_all, "the whole GPU")):
    start, ordered = faults[0].cycle, sorted(faults, key=lambda each: each.ready)
    ready = [0] + [(each.ready - start) / device.config.gpu.clock_mhz for each in ordered]
    come = np.cumsum([0] + [64 * each.leaves / 1024 for each in ordered])  # leaves of a range may be there before
    axes.step(ready, np.minimum(come, x.nbytes / MIB), where="post", label=name)
axes.set(xlabel="us since the first fault", ylabel="MiB that have come")
axes.legend(fontsize=8);

# %% [markdown]
# Each step is what a fault has brought; its width is what the fault took.
#
# ## What a program can say beforehand
#
# A *prefetch* moves the array before anybody asks. *Advice* says how it will be used; here, that it stays on the host,
# and the kernel reads and writes it there over the bus.

# %%
def managed(act, nbytes=2 * MIB):
    with gpusim.Device("h200") as device:
        x, stream = device.managed_array(nbytes // 4, np.float32), device.stream()
        x[:] = 1
        start = device.now_cycles
        act(device, x, stream)
        device.launch(scale, 264, 256, (x,), stream=stream)
        device.synchronize()
        us, mine = device.config.time_us(device.now_cycles - start), [each for each in x.faults if each.to == "gpu"]
        return us, len(mine), x.on_device_bytes / MIB, device.timeline(), start


advice = {
    "nothing": lambda device, x, stream: None,
    "prefetch": lambda device, x, stream: device.prefetch(x, stream=stream),
    "stays on the host": lambda device, x, stream: device.advise(x, preferred="host"),
}
said = {name: managed(act) for name, act in advice.items()}
table([{"said": name, "us": us, "faults": faults, "MiB on the GPU": there}
       for name, (us, faults, there, *_) in said.items()])  # fmt: skip
assert said["prefetch"][0] < 0.5 * said["nothing"][0] and said["prefetch"][1] == said["stays on the host"][1] == 0

# %% [markdown]
# To stay on the host is best here, because the kernel touches each word once: it needs no more than the bus carries,
# and moves nothing twice. A kernel that comes again would pay again; what has been prefetched is there (exercise 3).

# %%
for name in ("nothing", "prefetch"):
    *_, timeline, start = said[name]
    plot.streams_timeline(timeline, start=start / device.config.gpu.clock_mhz)

# %% [markdown]
# The row of faults shows one bar for each that is served, one after the other; the kernel waits all the time. A
# prefetch is one piece of work in its stream, and the kernel behind it is done in microseconds.
#
# ## More than there is room for
#
# Managed memory may be larger than the GPU's. Here the GPU has 5 MiB, in which two blocks of 2 MiB have room:

# %%
rows = []
for mib in (4, 6):
    with gpusim.Device("h200", memory_bytes=5 * MIB) as device:
        x = device.managed_array(mib * MIB // 4, np.float32)
        x[:] = 1
        passes = [device.launch(scale, 264, 256, (x,)) for _ in range(2)]
        rows.append({"MiB": mib, "first pass us": passes[0].time_us, "second us": passes[1].time_us,
                     "faults": len([each for each in x.faults if each.to == "gpu"]),
                     "MiB on the GPU": x.on_device_bytes / MIB})  # fmt: skip
table(rows)
assert rows[1]["second us"] > 100 * rows[0]["second us"] and rows[1]["faults"] > 3 * rows[0]["faults"]

# %% [markdown]
# What fits is there the second time. What does not fit by a third is never there: the block that came longest ago
# leaves for the next one, and is just what will be asked for soonest. The second pass is even slower, since something
# must leave for all that comes. A cache that is read in order, again and again, and is slightly too small, might as
# well not be there.
#
# ## L2 keeps what it is told
#
# The same happens to L2, and there a program can do something about it. `persisting` reads a table four times, and
# after each time a stream twice as large that nobody reads again. The table is a third of all reads, so at best a
# quarter of all reads hits: the table's second, third and fourth time. The machine `tiny` has an L2 of 1 MiB, of which
# 640 KiB may be set aside for lines that *persist*. A *window* says which addresses these are, and `hit_ratio` which
# share of their lines.

# %%
variants = registry.families()["persisting"]


def hits(variant, kib, ratio=None):
    """Share of L2's reads that hit; with a window over the table if there is a ratio."""
    launch = variant.make(kib, 0)
    with gpusim.Device("tiny") as device:
        held, stream, out = (device.to_device(each) for each in launch.args[:3])
        if ratio is not None:
            device.set_aside_l2(device.config.l2.persisting_max_bytes)
            device.access_policy(held, ratio, miss="normal")
        device.flush_l2()
        result = device.launch(launch.kernel, min(kib // 32, 16), launch.block, (held, stream, out, launch.args[3]))
    read = result.metrics["lts__t_sectors_srcunit_tex_op_read.sum"]
    return result.metrics["lts__t_sectors_srcunit_tex_lookup_hit.sum"] / read


KIB = (256, 512, 768, 1024)
aside = gpusim.load_config("tiny").l2.persisting_max_bytes / 1024
curves = {
    "no window": [hits(variants[0], kib) for kib in KIB],
    "a window on all of the table": [hits(variants[0], kib, 1.0) for kib in KIB],
    "a window on as much as is set aside": [hits(variants[0], kib, min(1.0, aside / kib)) for kib in KIB],
    "the stream leaves first": [hits(variants[3], kib) for kib in KIB],
}
figure, axes = plt.subplots(figsize=(9, 3.6), layout="constrained")
for (name, shares), marker in zip(curves.items(), "osx^", strict=True):
    axes.plot(KIB, shares, marker=marker, label=name)
axes.axvline(aside, color="black", linewidth=0.8, linestyle=":")
axes.axvline(1024, color="black", linewidth=0.8, linestyle=":")
axes.set(xlabel="KiB of the table; dotted: set aside, and all of L2", ylabel="share of reads that hit L2")
axes.legend(fontsize=8)
table([{"KiB": kib} | {name: curve[k] for name, curve in curves.items()} for k, kib in enumerate(KIB)])
at = {name: dict(zip(KIB, shares, strict=True)) for name, shares in curves.items()}
assert at["no window"][512] < 0.01 and at["a window on all of the table"][512] > 0.24
assert at["a window on all of the table"][1024] < 0.01 < 0.05 < at["a window on as much as is set aside"][1024]
assert at["the stream leaves first"][768] > 0.24

# %% [markdown]
# Without a window the table is lost as soon as it does not fit together with its stream. With one it stays up to what
# is set aside. Beyond that a window on all of it fails as L2 does without: lines that persist push each other out. With
# `hit_ratio` such that the chosen lines fit, these stay; that is what `hit_ratio` is for. And if the *stream* says that
# it is one (loads with evict_first, `persisting/passing`), the table needs no reserve, and may have nearly all of L2.
#
# What of this was measured on an H200, and how well the simulator agrees: docs/streams.md.
#
# ## Exercises
#
# 1. `smooth` is limited by the schedulers. Write a kernel that waits for memory most of the time, such as a chase
#    through an array. How do two of them share the SMs?
# 2. Which number of chunks is best for the pipeline in four streams? What if the array is twice as large?
# 3. After how many passes of `scale` is a prefetch better than an array that stays on the host?
# 4. The host writes an array once, and then host and kernels read it in turn. What does `device.advise(x,
#    read_mostly=True)` change?
# 5. Set aside only 320 KiB: where does the table begin to be lost, with a window on all of it?
#
# <details><summary>Answers</summary>
#
# 1. Far better: while the warps of one wait, the schedulers are free for the other. It is what occupancy does
#    within one kernel (notebook 7).
# 2. Three to six, and four to ten for twice the array: with fewer chunks the first copy in and the last one out
#    stand alone for longer, with more the host's calls take longer than what they ask for.
# 3. A pass over the bus takes as long every time, one on the GPU a few microseconds: the cell below counts.
# 4. Reads make copies, so after the first pass of each side both have the data, and nothing moves any more. A write
#    takes the copy of the other side away, page by page, and is slow.
# 5. Soon after 320 KiB, as the curve above does after 640.
#
# </details>

# %%
after = {}
for name in ("prefetch", "stays on the host"):
    with gpusim.Device("h200") as device:
        x = device.managed_array(MIB, np.float32)
        x[:] = 1
        start, after[name] = device.now_cycles, []
        advice[name](device, x, None)
        for _ in range(2):
            device.launch(scale, 264, 256, (x,))
            after[name].append(device.config.time_us(device.now_cycles - start))
table([{"passes": k + 1} | {f"{name} us": times[k] for name, times in after.items()} for k in range(2)])
assert [here > there for here, there in zip(*after.values(), strict=True)] == [True, False]
