# %% [markdown]
# # 3 Shared memory and its banks
#
# Shared memory is a small memory on the SM that the threads of a block share. It has 32 **banks**, each four bytes
# wide: word *w* lies in bank *w* mod 32. In one **wavefront** each bank delivers one word. If the lanes of a warp want
# different words of one bank, a **bank conflict**, the access takes several wavefronts, one after the other.

# %%
import numpy as np
from classroom import lines, measured, run, table
from numba import cuda

import gpusim
from gpusim import plot

# %% [markdown]
# ## Change one number, see the banks
#
# Each thread stores a word and loads another, `STRIDE` words from that of its neighbour. Change `STRIDE` and run the
# two cells again. Good ones to try: 1, 2, 3, 8, 32, 33.

# %%
STRIDE = 8
WORDS = 2048


def strided(data, out, stride):
    words = cuda.shared.array(WORDS, np.int32)
    t = cuda.threadIdx.x
    k = t
    while k < WORDS:
        words[k] = data[k]
        k += cuda.blockDim.x
    cuda.syncthreads()
    out[t] = words[(t * stride) & (WORDS - 1)]


def launch(stride, trace=False):
    data, out = np.arange(WORDS, dtype=np.int32), np.zeros(32, np.int32)
    result = gpusim.simulate(strided, 1, 32, (data, out, np.int32(stride)), trace=trace)
    assert np.array_equal(out, np.arange(32) * stride % WORDS)
    return result


result = launch(STRIDE, trace=True)
trace = result.trace
loads = [k for k, row in enumerate(trace.issues) if row["wavefronts"] and trace.instructions[row["pc"]].opcode == "LDS"]
plot.bank_wavefronts(trace, loads[-1]);

# %% [markdown]
# A row is a wavefront, a column a bank, the number in a cell the lane that is served. Two cells in one column are a
# conflict. Every row but the first is a wavefront that the conflicts cost.
#
# ## All strides
#
# How many wavefronts does the load need for each stride? Lanes that are `stride` apart reach 32 / gcd(stride, 32)
# banks, so gcd(stride, 32) of them meet in each:

# %%
rows = []
for stride in (0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 33):
    each = launch(stride)
    load = next(line for line in each.source_lines if line.text.startswith("out[t] ="))
    rows.append({"stride": stride, "wavefronts": load.shared_wavefronts, "gcd(stride, 32)": int(np.gcd(stride, 32))})
table(rows)
assert all(row["wavefronts"] == (row["gcd(stride, 32)"] if row["stride"] else 1) for row in rows)

# %% [markdown]
# Odd strides are free, powers of two are worst. Stride 0 is one wavefront as well: all lanes want *the same* word,
# which is a **broadcast** and no conflict.
#
# ## Where are they in the source?
#
# A transpose through a tile of 32 x 32 words, first with conflicts. Rows of the tile are stored, columns are loaded.

# %%
SIZE = 256
tiled = run("transpose/tiled", SIZE, trace=True)
lines(tiled, "instructions", "shared_wavefronts", "shared_wavefronts_excessive")
worst = max(tiled.source_lines, key=lambda line: line.shared_wavefronts_excessive)
assert worst.shared_wavefronts == 32 * (worst.shared_wavefronts - worst.shared_wavefronts_excessive)
print("\nadvice:", next(each.sentence for each in tiled.advice if each.kind == "bank conflicts"))

# %%
plot.bank_wavefronts(tiled.trace);

# %% [markdown]
# A column of the tile lies in one bank: 32 wavefronts for one load. The cure is one word of **padding** in each row,
# `(TILE, TILE + 1)`: the next row begins one bank further, and a column touches every bank once.

# %%
padded = run("transpose/padded", SIZE, trace=True)
tile_load = next(line for line in padded.source_lines if line.text.startswith("dst["))
pc = next(k for k, each in enumerate(padded.instructions) if each.text.startswith("LDS"))
plot.bank_wavefronts(padded.trace, padded.trace.first_access(pc))
assert tile_load.shared_wavefronts_excessive == 0

# %% [markdown]
# ## What the real GPU says
#
# Both programs as an H200 ran them. Wavefronts are functions of the addresses alone, so they are exact.

# %%
EXCESS = "derived__memory_l1_wavefronts_shared_excessive"
rows = []
for name, here in (("transpose/tiled", tiled), ("transpose/padded", padded)):
    real = measured(name, SIZE)
    assert here.metrics[EXCESS] == real[EXCESS]
    rows.append({
        "program": name,
        "excessive wavefronts": here.metrics[EXCESS],
        "the same, H200": real[EXCESS],
        "cycles": here.cycles,
        "cycles, H200": real["gpc__cycles_elapsed.max"],
    })  # fmt: skip
table(rows)

# %% [markdown]
# And the bundled `bank_conflict`, which does nothing but load with a stride. As soon as the data pipe of the SM is
# full, time follows the wavefronts:

# %%
def main_stall(result):
    return next(reason for reason in result.stall_reasons if reason != "selected")


rows = []
for stride in (1, 2, 4, 8, 16, 32):
    here, real = run(f"bank_conflict/{stride}", 10_000), measured(f"bank_conflict/{stride}", 10_000)
    assert here.metrics[EXCESS] == real[EXCESS]
    rows.append({
        "stride": stride,
        "excessive wavefronts": here.metrics[EXCESS],
        "the same, H200": real[EXCESS],
        "cycles": here.cycles,
        "cycles, H200": real["gpc__cycles_elapsed.max"],
        "main stall": main_stall(here),
    })  # fmt: skip
table(rows)

# %% [markdown]
# ## Exercises
#
# 1. In the kernel above, let lane *t* load `words[(t * t) & (WORDS - 1)]`. How many wavefronts do you expect? Which
#    banks do squares reach?
# 2. Load `words[t // 2]`, so that two lanes share each word. Conflict or broadcast?
# 3. A tile of 32 x 32 *doubles* is stored by rows and loaded by columns. Does a padding of one double help? (A lane
#    asks for two banks, and a warp is served in two halves of 16 lanes.)
#
# <details><summary>Answers</summary>
#
# 1. The squares of 0 to 31 leave few remainders mod 32 (0, 1, 4, 9, 16, 17, 25), and equal remainders of different
#    words conflict. The cell below counts them without the simulator, and then with it.
# 2. Broadcast: one wavefront, since lanes that share a bank want the same word there.
# 3. Yes. Without padding all doubles of a column lie in the same two banks. With one, the row is 66 words long, and
#    16 lanes, two banks further each, touch 32 banks once.
#
# </details>


# %%
def squares(data, out):
    words = cuda.shared.array(WORDS, np.int32)
    t = cuda.threadIdx.x
    k = t
    while k < WORDS:
        words[k] = data[k]
        k += cuda.blockDim.x
    cuda.syncthreads()
    out[t] = words[(t * t) & (WORDS - 1)]


data, out = np.arange(WORDS, dtype=np.int32), np.zeros(32, np.int32)
counted = gpusim.simulate(squares, 1, 32, (data, out))
load = next(line for line in counted.source_lines if line.text.startswith("out[t] ="))
wanted = {int(word) for word in np.arange(32) ** 2 % WORDS}
by_hand = int(np.bincount([word % 32 for word in wanted]).max())
print(f"{load.shared_wavefronts} wavefronts; the fullest bank is asked for {by_hand} different words")
assert load.shared_wavefronts == by_hand
