# %% [markdown]
# # 8 The roofline, and what limits you
#
# A kernel cannot do more operations a second than the arithmetic units allow, nor than memory delivers the bytes for:
#
# $$\text{operations/s} \le \min(\text{peak},\ \text{operations per byte} \times \text{bytes/s})$$
#
# The second part is a slanted roof, the first a flat one. Where a kernel lies tells which of them it can run into, and
# how far it is from it.

# %%
import numpy as np
from classroom import measured, run, table
from numba import cuda

import gpusim
from gpusim import plot

# %% [markdown]
# ## Change the arithmetic, move along the roof
#
# A polynomial by Horner's rule: eight bytes of traffic for each element, and two operations for each of its `DEGREE`
# coefficients. The degree is a constant of the kernel, so the loop is unrolled.

# %%
N = 1 << 19
x = np.random.default_rng(0).random(N, np.float32)


def polynomial(degree):
    def kernel(x, y):
        i = cuda.grid(1)
        v = x[i]
        total = np.float32(1)
        for _ in range(degree):
            total = total * v + np.float32(0.5)
        y[i] = total

    return kernel


def evaluate(degree, **options):
    y = np.zeros_like(x)
    result = gpusim.simulate(polynomial(degree), N // 256, 256, (x, y), **options)
    expected = np.ones(N)
    for _ in range(degree):
        expected = expected * x + 0.5
    assert np.allclose(y, expected, rtol=1e-4)
    return result


rows, results = [], {}
for degree in (1, 4, 16, 128):
    each = results[degree] = evaluate(degree)
    rows.append({
        "degree": degree,
        "FLOP per DRAM byte": each.roofline.intensity("DRAM"),
        "GFLOP/s": each.roofline.operations_per_s / 1e9,
        "lowest roof": each.roofline.roof,
        "% of it": 100 * each.roofline.share_of_roof,
        "cycles": each.cycles,
        "limited by": each.limiter.kind,
    })  # fmt: skip
table(rows)
rates = [row["GFLOP/s"] for row in rows]
assert rates == sorted(rates) and rows[-1]["lowest roof"] == "compute"

# %%
plot.roofline(results[4]);

# %%
plot.roofline(results[128]);

# %% [markdown]
# From degree 1 to 16 the work grows sixteenfold and the time hardly: arithmetic in the shadow of memory is free. Where
# the slanted and the flat roof meet, at the **ridge**, that ends:

# %%
peaks = results[1].roofline
ridge = peaks.peak_operations_per_s["FP32"] / peaks.peak_bytes_per_s["DRAM"]
print(f"{peaks.peak_operations_per_s['FP32'] / 1e12:.1f} TFLOP/s / {peaks.peak_bytes_per_s['DRAM'] / 1e12:.1f} TB/s "
      f"= {ridge:.1f} operations per byte")  # fmt: skip
assert rows[0]["FLOP per DRAM byte"] < ridge < rows[-1]["FLOP per DRAM byte"]

# %% [markdown]
# ## Why is it not *on* the roof?
#
# The roof is a bound, no promise. A launch starts up, the last blocks end alone, and someone may wait. With more
# elements the start weighs less:

# %%
overhead = results[1].record.config.launch.overhead_cycles
rows = []
for elements in (10_000, 1 << 20):
    here, real = run("vector_add", elements), measured("vector_add", elements)
    moved = real["dram__bytes_read.sum"] + real["dram__bytes_write.sum"]
    rows.append({
        "elements": elements,
        "cycles": here.cycles,
        "cycles, H200": real["gpc__cycles_elapsed.max"],
        "start-up %": 100 * overhead / here.cycles,
        "GB/s": here.roofline.bytes["DRAM"] / here.roofline.seconds / 1e9,
        "GB/s, H200": moved / real["gpu__time_duration.sum"],
        "% of the roof": 100 * here.roofline.share_of_roof,
    })  # fmt: skip
table(rows)
assert rows[1]["% of the roof"] > rows[0]["% of the roof"]

# %% [markdown]
# ## A limit is not always bandwidth
#
# `result.limiter` names what limits a launch, with the number that says so. Five programs:

# %%
SIZES = {
    "matmul/naive": 128,
    "bank_conflict/32": 1 << 15,
    "divergence/32": 32_768,
    "pointer_chase/dram": 256,
}
programs = {"vector_add": here} | {name: run(name, size) for name, size in SIZES.items()}
for name, each in programs.items():
    print(f"{name}: {each.limiter.sentence}\n")

# %% [markdown]
# And what to do about it? That is `result.advice`: all causes, each with its share of the time.

# %%
conflicts = programs["bank_conflict/32"]
table([{"share %": 100 * each.share, "kind": each.kind, "line": each.line or 0} for each in conflicts.advice])
assert "bank conflicts" in [each.kind for each in conflicts.advice[:2]]

# %% [markdown]
# ## Exercises
#
# 1. Which degree lies at the ridge? Compute it from the number of operations per byte, then run it.
# 2. Let `polynomial` load and store `float64`. How do both coordinates move, and which roof is lower now?
# 3. A friend halves the operations of a kernel that reaches 80 % of the DRAM roof. How much faster does it get?
#
# <details><summary>Answers</summary>
#
# 1. Two operations for each coefficient and eight bytes for each element: degree = ridge x 8 / 2. If the stores are
#    still in L2 when the launch ends, DRAM sees four bytes only, and half the degree is enough. The cell below runs it.
# 2. Twice the bytes for the same operations: to the left. And half the peak, since an H200 has half as many FP64 lanes.
# 3. Not at all, in this picture. Bytes are what it has to save; the point moves left and down along the roof.
#
# </details>

# %%
at_ridge = results[1].roofline.bytes["DRAM"] / N * ridge / 2
found = evaluate(round(at_ridge))
print(f"degree {at_ridge:.0f}: {found.roofline.intensity('DRAM'):.1f} operations per byte, ridge at {ridge:.1f}; "
      f"lowest roof {found.roofline.roof}, {found.roofline.share_of_roof:.0%} of it")  # fmt: skip
assert abs(found.roofline.intensity("DRAM") / ridge - 1) < 0.1
