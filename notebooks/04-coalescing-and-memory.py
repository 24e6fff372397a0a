# %% [markdown]
# # 4 Coalescing and the memory hierarchy
#
# A warp's load is one **request**. The hardware serves it in **sectors** of 32 bytes, four of which make a **line** of
# 128 bytes. Neighbouring lanes on neighbouring words share sectors: the access is *coalesced*. A sector that is not in
# L1 is fetched from L2, and one that is not there from DRAM. You pay for sectors, not for words.

# %%
import numpy as np
from classroom import measured, run, table
from numba import cuda

import gpusim
from gpusim import plot

LOADED = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
HITS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"
AT_L2 = "lts__t_sectors_srcunit_tex_op_read.sum"
FROM_DRAM = "dram__bytes_read.sum"

# %% [markdown]
# ## Change one number, see the sectors
#
# The kernel copies words that are `STRIDE` apart, from word `START` on. Change them and run the cell again.

# %%
STRIDE, START = 4, 0
N = 8192


def copy(src, dst, stride, start):
    i = cuda.grid(1)
    dst[i] = src[i * stride + start]


def launch(stride, start, trace=False):
    src, dst = np.arange(N * stride + start, dtype=np.int32), np.zeros(N, np.int32)
    result = gpusim.simulate(copy, N // 128, 128, (src, dst, np.int32(stride), np.int32(start)), trace=trace)
    assert np.array_equal(dst, src[start::stride][:N])
    return result


def load_of(result):
    """Index into the trace of the first load from global memory."""
    pc = next(k for k, each in enumerate(result.instructions) if each.text.startswith("LDG"))
    return result.trace.first_access(pc)


result = launch(STRIDE, START, trace=True)
plot.coalescing(result.trace, load_of(result));

# %% [markdown]
# A row is a line of memory, cut into four sectors; a number is the lane that wants the word. Pale words are moved
# because their sector is, and nobody wants them.

# %%
rows = []
for stride, start in ((1, 0), (1, 1), (1, 8), (2, 0), (4, 0), (8, 0), (16, 0)):
    each = launch(stride, start)
    rows.append({
        "stride": stride,
        "start": start,
        "sectors per request": each.metrics[LOADED] / each.metrics[REQUESTS],
        "L1 hit rate %": 100 * each.metrics[HITS] / each.metrics[LOADED],
        "DRAM KiB read": each.metrics[FROM_DRAM] / 1024,
        "KiB wanted": N * 4 / 1024,
        "cycles": each.cycles,
    })  # fmt: skip
table(rows)
ideal, shifted, stride8 = rows[0], rows[1], rows[5]
assert [row["sectors per request"] for row in (ideal, shifted, stride8)] == [4, 5, 32]

# %% [markdown]
# - Stride 1 is ideal: 32 words of 4 bytes are four sectors.
# - Starting one word off asks for a fifth sector, though a neighbouring warp has often brought it to L1 already.
# - From stride 8 on every lane has a sector of its own, and seven words of eight are moved in vain.
#
# ## Array of structures or structure of arrays?
#
# A record has eight fields, of which four are added. `records[i, 0]` puts the fields of one record side by side,
# `records[0, i]` the same field of all records. Which do the lanes of a warp like?

# %%
SIZE = 131_072
rows = []
for name in ("contiguous", "offset", "strided", "structures", "fields", "gather"):
    here, real = run(f"access/{name}", SIZE), measured(f"access/{name}", SIZE)
    assert here.metrics[LOADED] == real[LOADED]
    rows.append({
        "program": name,
        "sectors per request": here.metrics[LOADED] / here.metrics[REQUESTS],
        "sectors": here.metrics[LOADED],
        "the same, H200": real[LOADED],
        "DRAM KiB": here.metrics[FROM_DRAM] / 1024,
        "the same, H200 ": real[FROM_DRAM] / 1024,
        "cycles": here.cycles,
        "cycles, H200": real["gpc__cycles_elapsed.max"],
    })  # fmt: skip
table(rows)

# %% [markdown]
# These are the recorded counters of an H200 beside the simulation. Sectors per request are functions of the addresses,
# so they are exact; bytes from DRAM depend on the caches and are modelled.
#
# The first pass over `structures` asks for 32 sectors per request. L1 keeps them, so the other three fields come from
# there, but the fields that nobody wants have been fetched from DRAM too.
#
# ## The hierarchy, as latency
#
# A **pointer chase** loads one word after the other, each address out of the load before, so nothing overlaps and
# every load shows its full latency. The rings fit into L1, into L2, and into neither. 32 steps and 1,024 are run, and
# the difference divided by the steps between them, which takes out the launch.

# %%
rows = []
for level in ("l1", "l2", "dram"):
    name = f"pointer_chase/{level}"
    short, long = run(name, 32), run(name, 1024)
    real = [measured(name, steps)["gpc__cycles_elapsed.max"] for steps in (32, 1024)]
    rows.append({
        "ring": level,
        "cycles per load": (long.cycles - short.cycles) / (1024 - 32),
        "the same, H200": (real[1] - real[0]) / (1024 - 32),
    })  # fmt: skip
table(rows)
assert rows[0]["cycles per load"] < rows[1]["cycles per load"] < rows[2]["cycles per load"]

# %% [markdown]
# (The ring in L1 is read from DRAM in its first 128 steps, most of which lie in between, so its number is above the
# latency of a hit.)
#
# What to do about it? The advice names the line and what it costs:

# %%
structures = run("access/structures", SIZE, trace=True)
print(next(each.sentence for each in structures.advice if each.kind == "uncoalesced accesses"))
plot.coalescing(structures.trace, load_of(structures));

# %% [markdown]
# ## Exercises
#
# 1. Set `STRIDE = 1` and `START = 8`, then `START = 4`. Why is one of them as good as `START = 0` and the other not?
# 2. A matrix is stored by rows. In which of `m[i, k]` and `m[k, i]`, with *i* from `cuda.grid(1)`, are the loads
#    coalesced?
# 3. Copy with 8-byte words (`np.int64`). How many sectors does an ideal request have now? Is that worse?
#
# <details><summary>Answers</summary>
#
# 1. Eight words are 32 bytes, a whole sector: the warp's words begin at a sector and fill four. Four words are half of
#    one, so the warp's 128 bytes reach into a fifth sector.
# 2. In `m[k, i]`: neighbouring threads then want neighbouring columns of one row, which lie side by side.
# 3. Eight sectors for 32 lanes of 8 bytes. Not worse: it moves twice the data, and each sector is still used whole. The
#    cell below computes the share of the bytes that are used.
#
# </details>

# %%
src, dst = np.arange(N, dtype=np.int64), np.zeros(N, np.int64)
wide = gpusim.simulate(copy, N // 128, 128, (src, dst, np.int32(1), np.int32(0)))
sectors = wide.metrics[LOADED] / wide.metrics[REQUESTS]
print(f"{sectors:.0f} sectors per request, {32 * 8 / (sectors * 32):.0%} of the bytes used")
assert np.array_equal(src, dst) and sectors == 8
