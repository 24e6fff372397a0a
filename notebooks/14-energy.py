# %% [markdown]
# # 14 Where the energy of a matrix product goes, and what moving data costs
#
# A board that takes 700 W is built around what an operation costs in joules, no less than around what it costs in
# cycles. `result.energy` says where the joules of a launch go: so many events of each kind, so many picojoules (pJ, a
# millionth of a millionth of a joule) for each, and what the board takes all the time. The picojoules come from H100
# boards that ran one thing at a time for a second, so the machine here is an H100.

# %%
from dataclasses import replace
from statistics import median

import matplotlib.pyplot as plt
import numpy as np
from classroom import run, table

import gpusim
from gpusim.config import load_config
from gpusim.plot.colours import BLUE, GREEN, GREY, LIGHT, ORANGE, PURPLE, SKY, VERMILLION
from programs import images, registry
from validate.energy.command import measured
from validate.energy.kernels import by_name, kernel, recording, repeated, words
from validate.points import SEED, ProgramPoint

config = load_config("h100")
recorded = {}
for row in recording()["micro"]:
    recorded.setdefault(row["name"], []).append(row)

# %% [markdown]
# ## What it takes to do nothing
#
# No program, so that the clock goes down; no program, but a moment after one, at full clock; and a program all of whose
# warps sleep. Medians of the boards, which differ from each other by some percent:

# %%
def watts_of(name):
    return median(row["watts"] for row in recorded[name])


asleep = median(row["watts"] for row in recorded["idle"] if row["sm_mhz"] < config.gpu.clock_mhz)
static = watts_of("stay 132 SMs")
table([
    {"nothing": "no program, low clock", "W": asleep},
    {"nothing": "no program, full clock", "W": watts_of("rest")},
    {"nothing": "one sleeping warp on an SM", "W": static},
    {"nothing": "64 sleeping warps on an SM", "W": watts_of("stay 64 warps")},
])  # fmt: skip
assert asleep < 0.7 * static and abs(watts_of("stay 64 warps") / static - 1) < 0.05

# %% [markdown]
# Warps that sleep cost nothing; the clock that runs for them does. This **static** power is paid for every microsecond
# of a launch, whatever happens in it.
#
# ## What one operation costs
#
# The events and their picojoules stand in the configuration, two numbers for each: with operands that stay as they
# are, and what random ones add. A multiply-add of a lane is a product and a sum, three registers read, and a 32nd of an
# instruction that was fetched, decoded and issued. A word from memory has gone through L2 and L1 as well.


# %%
def cost(**events):
    """pJ of so many events: with values that stay, with random ones."""
    each = np.array([count * np.array(getattr(config.energy, f"{name}_pj")) for name, count in events.items()])
    still, more = each.sum(axis=0).tolist()
    return still, still + more


ISSUE = {"issue": 1 / 32}
L1 = ISSUE | {"access": 1 / 32, "l1_tag": 1 / 32, "l1_word": 1}
# Eight words are a sector, four sectors a request. Half of them lie in the far partition of L2.
L2 = L1 | {"l2_request": 1 / 32, "l2_read": 1 / 8, "fabric": 1 / 16}
COSTS = {
    "integer add": (SKY, cost(**ISSUE, operand=3, alu=1)),
    "multiply-add, FP32": (BLUE, cost(**ISSUE, operand=3, single_product=1)),
    "multiply-add, FP64": (BLUE, cost(**ISSUE, double_product=1)),
    "tensor core, FP64": (GREEN, cost(matrix_double=1)),
    "tensor core, TF32": (GREEN, cost(matrix_single=1)),
    "tensor core, FP16": (GREEN, cost(matrix_half=1)),
    "tensor core, INT8": (GREEN, cost(matrix_byte=1)),
    "wgmma, FP16": (GREEN, cost(group_half=1)),
    "wgmma, FP8": (GREEN, cost(group_fp8=1)),
    "word from shared memory": (
        VERMILLION, cost(**ISSUE, access=1 / 32, shared_wavefront=1 / 32, shared_word=1)),
    "word from L1": (VERMILLION, cost(**L1)),
    "word from L2": (VERMILLION, cost(**L2)),
    "word from memory": (VERMILLION, cost(**L2, dram_read=1 / 8)),
}  # fmt: skip
figure, axes = plt.subplots(figsize=(9, 4.4), layout="constrained")
for name, (colour, (still, random)) in COSTS.items():
    axes.barh(name, random, color=colour, alpha=0.4)
    axes.barh(name, still, color=colour)
    axes.text(1.08 * random, name, f"{random:.3g}", va="center", fontsize=9)
axes.set(xscale="log", xlim=(0.1, 1500), xlabel="pJ; dark: values that stay, light: random values", axisbelow=True)
axes.invert_yaxis()
axes.grid(axis="x", alpha=0.3)
axes.set_title("one operation of a lane or of a tensor core, one word of 32 bits", loc="left", fontsize=11);

# %%
pj = {name: random for name, (_, (_, random)) in COSTS.items()}
parts = {"issue": cost(**ISSUE), "registers": cost(operand=3), "product and sum": cost(single_product=1)}
print("FP32 multiply-add, pJ:", ", ".join(f"{name} {each[1]:.1f}" for name, each in parts.items()))
word = pj["word from memory"]
print(f"a word from memory: {word:.0f} pJ, {word / pj['word from shared memory']:.0f} words from shared memory, "
      f"{word / pj['multiply-add, FP32']:.0f} multiply-adds of a lane, "
      f"{word / pj['wgmma, FP16']:.0f} of wgmma")  # fmt: skip
assert parts["product and sum"][1] < 0.5 * pj["multiply-add, FP32"] < pj["word from shared memory"]
assert word > 1.5 * pj["word from L2"] > 1.5 * 4 * pj["word from L1"]
assert word > 15 * pj["multiply-add, FP32"] and word > 100 * pj["wgmma, FP16"]

# %% [markdown]
# Of a multiply-add the arithmetic is less than half: the rest is to say what to do and to bring three numbers from next
# door. A word from shared memory or L1 costs somewhat more than to use it; one from memory more than fifteen times as
# much. And a tensor core, which is told once for thousands of multiply-adds and keeps its operands close, does one for
# a fraction of what a lane takes. That is why the ladder of matrix products ends there.
#
# ## Values matter
#
# A wire takes energy when it changes. So the same instructions cost more with random values than with zeros. These are
# the microbenchmarks that the boards ran, and the watts that they took:

# %%
KERNELS = {  # name: operations of a thread in a round of the loop
    "iadd3": ("u32", 64),
    "ffma": ("f32", 64),
    "dfma": ("f64", 64),
    "lds": ("u32", 32),
    "mma_f16": ("f16", 16 * 16 * 8 * 16 // 32),
    "wgmma_f16": ("f16", 8 * 64 * 256 * 16 // 128),
}


def named(name, fill):
    """Tensor cores on a part of the SMs only: on all of them they would take more than the board may."""
    blocks = " 33 blocks" if name.startswith("wgmma") else " 66 blocks" if "mma" in name else ""
    return f"{name} {fill}{blocks}"


rows = []
for name, (random, _) in KERNELS.items():
    zeros, changing = watts_of(named(name, "zeros")), watts_of(named(name, random))
    rows.append({"kernel": name, "W, zeros": zeros, "W, random values": changing})
    assert changing > 1.3 * zeros
table(rows)

# %% [markdown]
# And simulated: the same machine code on eight blocks, with 2 rounds of its loop and with 6. What the longer launch has
# more, static power left out, is four rounds. The boards' joules of an operation are the watts above static power, by
# the time.


# %%
def simulated_pj(name, fill, operations):
    each = replace(by_name()[named(name, fill)], grid=8)
    joules = []
    for rounds in (2, 6):
        arrays = words(fill, 1 << 16), np.zeros(1 << 18, np.uint32)
        arguments = (*arrays, np.uint32(rounds), np.uint32(each.a), np.uint32(each.b))
        shape = {"grid": each.grid, "block": each.block, "shared_bytes": each.shared_bytes}
        launch = gpusim.simulate(kernel(each.entry), args=arguments, gpu="h100", **shape)
        joules.append(launch.energy.instruction_j.sum())
    return 1e12 * (joules[1] - joules[0]) / (4 * each.grid * each.block * operations)


def measured_pj(name, fill, operations):
    each, rows = by_name()[named(name, fill)], recorded[named(name, fill)]
    of_a_round = median(1e-6 * row["us"] * (row["watts"] - static) / row["rounds"] for row in rows)
    return 1e12 * of_a_round / (each.grid * each.block * operations)


rows = []
for name, (random, operations) in KERNELS.items():
    for values, fill in (("zeros", "zeros"), ("random", random)):
        here, real = simulated_pj(name, fill, operations), measured_pj(name, fill, operations)
        rows.append({"kernel": name, "values": values, "pJ": here, "pJ, H100": real})
table(rows)

# %%
figure, axes = plt.subplots(figsize=(9, 3.4), layout="constrained")
for values, colour, shift in (("zeros", LIGHT, -0.2), ("random", BLUE, 0.2)):
    chosen = [row for row in rows if row["values"] == values]
    places = np.arange(len(chosen)) + shift
    axes.bar(places, [row["pJ"] for row in chosen], 0.38, color=colour, label=f"simulated, {values}")
    axes.plot(places, [row["pJ, H100"] for row in chosen], "D", color=VERMILLION, markersize=5,
              label="H100" if shift > 0 else None)  # fmt: skip
axes.set_xticks(range(len(KERNELS)), list(KERNELS))
axes.set(yscale="log", ylabel="pJ for an operation")
axes.legend(loc="upper right", fontsize=9, frameon=False)
for zeros, random in zip(rows[::2], rows[1::2], strict=True):
    assert random["pJ"] > 1.4 * zeros["pJ"] and random["pJ, H100"] > 1.4 * zeros["pJ, H100"]
assert all(0.6 < row["pJ"] / row["pJ, H100"] < 1.6 for row in rows)

# %% [markdown]
# That they agree proves little: the picojoules were fitted to such kernels. What was not fitted are programs, and they
# come next. Keep for the laboratory: who measures power with matrices of zeros measures too little.
#
# ## The ladder of products
#
# Steps at one size that each of them takes, 256 x 256 x 256: up to `matmul_register` in single precision, from
# `matmul_tensor` on with factors of half precision. Each is launched again and again, as the boards did it, so that the
# matrices lie in L2 and launches follow each other closely; what counts is one launch of many.

# %%
LADDER = (
    "matmul/tiled",
    "matmul_register/double_buffered",
    "matmul_tensor/asynchronous",
    "matmul_hopper/multistage",
    "matmul_hopper/wgmma",
    "matmul_hopper/persistent",
)
N = 256
GROUPS = {  # what of the parts of an energy has one colour
    "static": (LIGHT, ("static",)),
    "launch, issue": (GREY, ("launch", "issue", "constants")),
    "registers": (PURPLE, ("registers",)),
    "integer units": (SKY, ("integer units",)),
    "floating point units": (BLUE, ("floating point units",)),
    "tensor cores": (GREEN, ("tensor cores",)),
    "shared memory, L1": (ORANGE, ("shared memory and L1",)),
    "L2, memory": (VERMILLION, ("L2", "memory")),
}


def parts_of(name, size):
    """pJ for a multiply-add, by group, and the microseconds from one launch to the next."""
    period_us, energy = repeated(ProgramPoint.parse(f"{name}@{size}"))
    joules = dict(energy.parts)
    joules["static"] += energy.sustained(period_us).energy_j - energy.energy_j  # until the next one ends
    grouped = {group: 1e12 * sum(joules[part] for part in of) / size**3 for group, (_, of) in GROUPS.items()}
    return grouped, period_us


ladder = {name: parts_of(name, N) for name in LADDER}
totals = {name: sum(of.values()) for name, (of, _) in ladder.items()}
table([{"step": name, "us": us, "pJ/multiply-add": totals[name], "without static": totals[name] - of["static"]}
       for name, (of, us) in ladder.items()])  # fmt: skip

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained", sharey=True, width_ratios=(3, 2))
for axes, share in ((left, False), (right, True)):
    start = np.zeros(len(LADDER))
    for group, (colour, _) in GROUPS.items():
        if share and group == "static":
            continue
        wide = np.array([of[group] / ((totals[name] - of["static"]) / 100 if share else 1)
                         for name, (of, _) in ladder.items()])  # fmt: skip
        axes.barh(LADDER, wide, left=start, color=colour, label=None if share else group)
        start += wide
real = 1e12 * measured()[f"{LADDER[0]}@{N}"][1] / N**3
left.plot(real, LADDER[0], "D", color="black", markersize=5, label="H100")
left.invert_yaxis()
left.set_xlabel("pJ for a multiply-add")
right.set(xlabel="% of what is not static", xlim=(0, 100))
figure.legend(loc="outside lower center", ncols=5, fontsize=9, frameon=False)

first, last = LADDER[0], LADDER[-1]
moving = {name: totals[name] - of["static"] for name, (of, _) in ladder.items()}
print(f"from {first} to {last}: {totals[first] / totals[last]:.0f} times less in all, "
      f"{moving[first] / moving[last]:.0f} times less without static power")  # fmt: skip
assert totals[first] > 5 * totals[last] and moving[first] > 25 * moving[last]
arithmetic = {name: of["floating point units"] + of["tensor cores"] for name, (of, _) in ladder.items()}
print(f"arithmetic: {arithmetic[first] / moving[first]:.0%} of what is not static in {first}, "
      f"{arithmetic[last] / moving[last]:.0%} in {last}")  # fmt: skip
assert arithmetic[first] < 0.1 * moving[first] and arithmetic[last] > 0.5 * moving[last]
assert ladder[last][0]["static"] > 0.7 * totals[last]

# %% [markdown]
# In the first step arithmetic hardly shows in what it takes: the joules go into loads, the instructions around them and
# registers. Each step takes some of that away, and at the end most of what moves at all moves in tensor cores. What a
# multiply-add takes, static power left out, falls some thirty times.
#
# Then static power is nearly all that is left. At this size most SMs have nothing to do, and the larger the tiles the
# fewer SMs have one. A larger product spreads static power over more work. The boards ran most steps at other sizes,
# each at its own, so this is no comparison of steps:

# %%
points = ("matmul/naive@256", "matmul/tiled@256", "matmul_register/double_buffered@512",
          "matmul_tensor/asynchronous@1024", "matmul_hopper/persistent@2048")  # fmt: skip
of_boards = {}
for point in points:
    us, joules = measured()[point]
    of_boards[point] = 1e12 * joules / int(point.partition("@")[2]) ** 3
    print(f"{point:36} {us:6.2f} us {joules / us * 1e6:5.0f} W {of_boards[point]:7.2f} pJ/multiply-add, H100")
assert of_boards[points[0]] > 100 * of_boards[points[-1]]

# %% [markdown]
# The first step at this size is simulated above as well:

# %%
us, joules = measured()[f"{first}@{N}"]
table([{"program": f"{first}@{N}", "us": ladder[first][1], "us, H100": us,
        "pJ": totals[first], "pJ, H100": 1e12 * joules / N**3}])  # fmt: skip
assert abs(totals[first] * N**3 / (1e12 * joules) - 1) < 0.3
large = parts_of(last, 4 * N)[0]
for size, of in ((N, ladder[last][0]), (4 * N, large)):
    print(f"{last}, {size}: static power is {of['static'] / sum(of.values()):.0%}")
assert large["static"] / sum(large.values()) < 0.6 < ladder[last][0]["static"] / totals[last]

# %% [markdown]
# ## Race to halt, or slow down?
#
# With the clock the voltage falls, and with the square of the voltage what an event takes. But a launch that takes
# longer pays static power for longer. Two programs at four clocks: `gemv`, whose 16 MiB come from memory, and a product
# large enough to keep the tensor cores busy.

# %%
CLOCKS = (1980, 1635, 1290, 990)
WORK = {"gemv/vectorised": 2048, "matmul_hopper/persistent": 768}
sweep = {name: [run(name, size, gpu="h100", overrides={"gpu.clock_mhz": clock}) for clock in CLOCKS]
         for name, size in WORK.items()}  # fmt: skip
rows = []
for name, results in sweep.items():
    for clock, each in zip(CLOCKS, results, strict=True):
        rows.append({"program": name, "MHz": clock, "us": each.time_us, "uJ": 1e6 * each.energy_j,
                     "W": each.power_w, "uJ x us": 1e6 * each.energy_j * each.time_us})  # fmt: skip
table(rows)

# %%
figure, panels = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained", sharex=True)
for column, (axes, title) in enumerate(zip(panels, ("time", "energy", "energy x time"), strict=True)):
    for (name, results), colour in zip(sweep.items(), (VERMILLION, GREEN), strict=True):
        values = [(each.time_us, each.energy_j, each.energy_j * each.time_us)[column] for each in results]
        label = name if column == 0 else None
        axes.plot(CLOCKS, [value / values[0] for value in values], "o-", color=colour, label=label)
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel("MHz")
    axes.grid(alpha=0.3)
panels[0].set_ylabel(f"at {CLOCKS[0]} MHz = 1")
figure.legend(loc="outside lower center", ncols=2, fontsize=9, frameon=False)

memory, compute = ([each for each in rows if each["program"] == name] for name in WORK)
assert memory[2]["us"] < 1.45 * memory[0]["us"] and compute[2]["us"] > 1.4 * compute[0]["us"]
assert memory[2]["uJ"] < 0.9 * memory[0]["uJ"] and compute[2]["uJ"] < 0.85 * compute[0]["uJ"]
assert all(each[3]["uJ"] > each[2]["uJ"] for each in (memory, compute))
assert memory[1]["uJ x us"] < 1.1 * memory[0]["uJ x us"] and compute[3]["uJ x us"] > 1.2 * compute[0]["uJ x us"]

# %% [markdown]
# The memory does not care for the clock of the SMs, so `gemv` loses less time at first than the product and gains
# joules: it wants to be slowed down. The product is slower by as much as the clock. It takes fewer joules as well,
# since the voltage falls; how good a bargain that is depends on what its time is worth. At 1290 MHz the voltage has
# reached its least value, and below, both lose: the same joules for each event, and static power for longer. From there
# on, race. (The least voltage is an assumption: below 80 % of the clock no board was measured. And here L2 and the ways
# to memory slow down with the SMs; a board's L2 has a clock of its own, and `gemv` would keep its time even longer.)
#
# But what about the time that is won? A board that is done sooner may go to sleep. All within the time of the slowest,
# with the watts of "no program, low clock" for the rest of it:

# %%
for name, results in sweep.items():
    deadline = results[-1].time_us
    print(f"{name}, {deadline:.0f} us:", ", ".join(
        f"{clock} MHz {1e6 * each.energy_j + asleep * (deadline - each.time_us):,.0f} uJ"
        for clock, each in zip(CLOCKS, results, strict=True)))  # fmt: skip
    total = [1e6 * each.energy_j + asleep * (deadline - each.time_us) for each in results]
    assert total[0] > 1.1 * total[2] and total[2] < 1.05 * min(total)

# %% [markdown]
# Even if it could fall asleep at once, racing at full clock does not pay here: the least voltage is a good place to be,
# and to go far below it gains next to nothing.
#
# ## 700 W
#
# A board may not take more than its limit. A product large enough for all SMs would:

# %%
large = run("matmul_hopper/persistent", 2048, gpu="h100")
held = large.energy.sustained()
us, joules = measured()["matmul_hopper/persistent@2048"]
table([
    {"2048 x 2048 x 2048": "once, at full clock", "MHz": config.gpu.clock_mhz, "us": large.time_us,
     "mJ": 1e3 * large.energy_j, "W": large.power_w},
    {"2048 x 2048 x 2048": "again and again", "MHz": held.clock_mhz, "us": held.time_us,
     "mJ": 1e3 * held.energy_j, "W": held.power_w},
    {"2048 x 2048 x 2048": "again and again, H100", "MHz": "", "us": us, "mJ": 1e3 * joules, "W": 1e6 * joules / us},
])  # fmt: skip
limit = config.energy.limit_w
assert large.power_w > limit and held.power_w < 1.01 * limit and abs(1e6 * joules / (us * limit) - 1) < 0.05
assert held.clock_mhz < 0.99 * config.gpu.clock_mhz and held.energy_j < large.energy_j
assert abs(held.energy_j / joules - 1) < 0.3

# %% [markdown]
# One launch is over before anything can regulate. Repeated, the board lowers the clock until it takes what it may, and
# then a product takes longer *and* fewer joules. (The simulated one begins with cold caches each time, the board's with
# warm ones.) So a benchmark of a second and one of a launch tell of two different machines, and on the first a kernel
# gets faster by taking fewer joules.
#
# ## Line by line
#
# `source_lines` has the joules of what each line does. Static power is nobody's, and is left out.

# %%
tiled = run("matmul/tiled", 256, gpu="h100")
found = sorted((each for each in tiled.source_lines if each.line), key=lambda each: -each.energy_j)[:6]
of_lines = sum(each.energy_j for each in tiled.source_lines)
executed = sum(each.instructions for each in tiled.source_lines)
figure, axes = plt.subplots(figsize=(9, 3.4), layout="constrained")
places = np.arange(len(found))
for shift, colour, what, values in (
    (-0.19, GREEN, "% of the joules", [100 * each.energy_j / of_lines for each in found]),
    (0.19, LIGHT, "% of the instructions", [100 * each.instructions / executed for each in found]),
):
    bars = axes.barh(places + shift, values, 0.36, color=colour, label=what)
    axes.bar_label(bars, fmt="%.1f", padding=3, fontsize=9)
axes.set_yticks(places, [f"{each.text.strip()}  {each.line}" for each in found], family="monospace", fontsize=9)
axes.invert_yaxis()
axes.set(xlabel="%", xlim=(0, 1.15 * max(axes.get_xlim())))
axes.legend(loc="lower right", fontsize=9, frameon=False)
print(f"{1e6 * of_lines:.0f} uJ of {1e6 * tiled.energy_j:.0f} uJ are what instructions do")
assert "total +=" in found[0].text and found[0].energy_j > 0.45 * of_lines
fetch = sum(each.energy_j for each in found if "_tile[ty, tx] =" in each.text)
assert fetch > 0.25 * of_lines

# %% [markdown]
# The multiply-adds are the dearest line, since each of them reads two words of shared memory. The two lines that fetch
# the tiles follow, a sixteenth as many words but from further away. And one instruction deeper:

# %%
most = sorted(tiled.instructions, key=lambda each: -each.energy_j)[:200]
kinds = {}
for each in most:
    kind = each.text.split()[0] if not each.text.startswith("@") else each.text.split()[1]
    joules, times = kinds.get(kind, (0, 0))
    kinds[kind] = joules + each.energy_j, times + each.instructions
table([{"instruction": kind, "executed": times, "uJ": 1e6 * joules, "pJ each": 1e12 * joules / times}
       for kind, (joules, times) in list(sorted(kinds.items(), key=lambda item: -item[1][0]))[:6]])  # fmt: skip

# %% [markdown]
# ## Exercises
#
# 1. How many multiply-adds must a lane do with a word from memory before arithmetic takes as much as fetching it? And
#    from shared memory? And `wgmma`, with a word of two FP16 numbers?
# 2. Multiply matrices of zeros by `matmul/tiled`. Which parts of the energy fall, and which do not?
# 3. Somebody offers you a memory that takes half as much for a byte (`energy.memory_scale`). Which of `gemv/vectorised`
#    and `matmul_hopper/persistent` gains more, and why not half?
#
# <details><summary>Answers</summary>
#
# 1. Divide the picojoules, as the cell below does: more than fifteen, one or two, more than a hundred. That is the
#    ridge of a roofline of joules.
# 2. What adds for random values: registers, floating point units, shared memory and L2 fall, since hardly a bit
#    changes. Static power and the issue of instructions stay as they are, and the time does, too.
# 3. `gemv`, which fetches every word to use it once. Even of its joules memory is only a part: each word goes
#    through L2 and L1 too, and the board waits meanwhile.
#
# </details>

# %%
for name, each in (("memory", word), ("shared memory", pj["word from shared memory"])):
    print(f"a word from {name}: {each / pj['multiply-add, FP32']:.1f} multiply-adds of a lane")
print(f"a word from memory: {word / pj['wgmma, FP16']:.0f} multiply-adds of wgmma\n")

variant = registry.get("matmul/tiled")
launch = variant.make(256, SEED)
a, b, c = launch.args
zeros = gpusim.simulate(images.image("matmul/tiled"), launch.grid, launch.block, (0 * a, 0 * b, c), gpu="h100")
table([{"part": part, "uJ, random": 1e6 * joules, "uJ, zeros": 1e6 * zeros.energy.parts[part]}
       for part, joules in tiled.energy.parts.items()])  # fmt: skip
assert zeros.cycles == tiled.cycles and zeros.energy.parts["issue"] == tiled.energy.parts["issue"]
assert zeros.energy.parts["floating point units"] < 0.5 * tiled.energy.parts["floating point units"]

print()
for name, size in WORK.items():
    half, whole = run(name, size, gpu="h100", overrides={"energy.memory_scale": 0.5}), sweep[name][0]
    share = whole.energy.parts["memory"] / whole.energy_j
    print(f"{name}: memory is {share:.0%} of the joules, {1 - half.energy_j / whole.energy_j:.0%} saved")
    assert abs(1 - half.energy_j / whole.energy_j - share / 2) < 0.01 and share < 0.6
