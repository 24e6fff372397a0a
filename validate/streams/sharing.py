"""How grids of several streams share the SMs."""

from __future__ import annotations

import itertools
import random
from ctypes import c_int
from typing import Any

from validate.streams.driver import CARVEOUT
from validate.streams.lab import FULL, Lab

KB = 1 << 10
LOW, HIGH = 0, -5
"""Priorities: less comes first."""


def one_kernel(lab: Lab) -> dict[str, Any]:
    """A grid alone: which SMs its blocks go to, at several occupancies."""
    found = {}
    for grid, threads, shared in itertools.product((66, 132, 264, 528), (64, 1024), (0, 100 * KB, FULL)):

        def plan(grid: int = grid, threads: int = threads, shared: int = shared) -> None:
            lab.spin("A", lab.stream(0), grid, 50, threads=threads, shared=shared)

        found[f"{grid}x{threads} {shared >> 10}KB"] = lab.repeat(plan, 3)
    return found


def two_kernels_fit(lab: Lab) -> dict[str, Any]:
    """Two grids that fit side by side (but for the last two cases): to which SMs the second one goes."""
    found = {}
    cases = [(a, b, 64) for a, b in itertools.product((66, 132, 264), repeat=2)]
    cases += [(20, 20, 64), (8, 132, 64), (200, 66, 64), (132, 264, 1024), (264, 66, 1024)]
    for a, b, threads in cases:

        def plan(a: int = a, b: int = b, threads: int = threads) -> None:
            lab.spin("A", lab.stream(0), a, 100, threads=threads)
            lab.spin("B", lab.stream(1), b, 100, threads=threads)

        found[f"{a}+{b} of {threads} threads"] = lab.repeat(plan, full=2)
    return found


def leftover(lab: Lab) -> dict[str, Any]:
    """A fills the GPU, in waves of uneven blocks; B comes behind it, or before it, at the same priority."""
    found = {}
    fills = {"shared": (64, FULL), "threads": (1024, 0)}
    for (fill, (threads, shared)), waves, b_shared, first in itertools.product(
        fills.items(), (1, 3), (0, 100 * KB, FULL), ("A", "B")
    ):

        def plan(threads: int = threads, shared: int = shared, waves: int = waves, b_shared: int = b_shared,
                 first: str = first) -> None:  # fmt: skip
            for each in (first, "B" if first == "A" else "A"):
                if each == "A":
                    per_sm = 2 if threads == 1024 else 1
                    lab.spin("A", lab.stream(0), 132 * waves * per_sm, 100, threads=threads, shared=shared, step_us=15,
                             modulus=7)  # fmt: skip
                else:
                    lab.spin("B", lab.stream(1), 8, 40, shared=b_shared)

        found[f"A fills {fill}, {waves} waves, B {b_shared >> 10}KB, {first} first"] = lab.repeat(plan, 3)
    for count, waves in ((2, 1), (2, 3), (3, 2)):

        def equals(count: int = count, waves: int = waves) -> None:
            for k in range(count):
                lab.spin("ABC"[k], lab.stream(k), 132 * waves + 40, 100, shared=FULL, step_us=15, modulus=7)

        found[f"{count} equal grids of {waves} waves and 40 blocks"] = lab.repeat(equals, 3)
    return found


def priority(lab: Lab) -> dict[str, Any]:
    """A of many waves, then B of another priority 300 us later."""
    found = {}
    for name, a_level, b_level in (
        ("higher", LOW, HIGH),
        ("equal", LOW, LOW),
        ("lower", HIGH, LOW),
        ("one", LOW, -1),
    ):
        for blocks, shared in ((8, FULL), (132, FULL), (300, FULL), (8, 0), (8, 100 * KB)):

            def plan(a: int = a_level, b: int = b_level, blocks: int = blocks, shared: int = shared) -> None:
                lab.spin("A", lab.stream(0, a), 132 * 8, 100, shared=FULL, step_us=15, modulus=7)
                later = lab.stream(1, b)
                lab.spin("delay", later, 1, 300, threads=32)
                lab.spin("B", later, blocks, 50, shared=shared)

            found[f"B {name}, {blocks} blocks, {shared >> 10}KB"] = lab.repeat(plan, 3)

    def levels() -> None:
        lab.spin("blocker", lab.stream(9, HIGH), 132, 300, shared=FULL)
        for level in (0, -1, -2, -3, -4, -5):
            lab.spin(f"level {level}", lab.stream(1, level), 132, 50, shared=FULL)

    found["six levels, lowest submitted first"] = lab.repeat(levels, 3)
    return found


def carveout(lab: Lab) -> dict[str, Any]:
    """Whether a grid that needs another split of L1 and shared memory starts beside one that runs."""
    found = {}
    for before, a_shared, b_shared, a_prefers in itertools.product(
        ("L1", "shared"), (0, 16 * KB, FULL), (0, 16 * KB, 100 * KB, 180 * KB, FULL), (-1, 0, 50, 100)
    ):
        if a_shared + b_shared > 226 * KB:
            continue

        def plan(before: str = before, a_shared: int = a_shared, b_shared: int = b_shared, prefers: int = a_prefers
                 ) -> None:  # fmt: skip
            lab.driver.set_function("spin", CARVEOUT, 0 if before == "L1" else 100)
            lab.spin("before", lab.stream(0), 132, 20, shared=0 if before == "L1" else FULL)
            lab.driver.set_function("spin", CARVEOUT, prefers)
            lab.spin("A", lab.stream(0), 132, 500, threads=128, shared=a_shared)
            lab.driver.set_function("spin", CARVEOUT, -1)
            lab.spin("delay", lab.stream(1), 1, 150, threads=32)
            lab.spin("B", lab.stream(1), 132, 50, shared=b_shared)

        name = f"was {before}, A {a_shared >> 10}KB prefers {a_prefers}, B {b_shared >> 10}KB"
        found[name] = lab.repeat(plan, 2, full=0)
    return found


def many_grids(lab: Lab) -> dict[str, Any]:
    """Grids of one block, each in its own stream: how many run at once, and when each starts. The number of connections
    is the environment's."""
    found = {}
    for count in (1, 2, 4, 8, 9, 16, 32, 33, 64, 127, 128, 129, 132, 160):

        def plan(count: int = count) -> None:
            for k in range(count):
                lab.spin(f"{k}", lab.stream(k), 1, 500)

        found[f"{count} grids"] = starts(lab.repeat(plan, 3, full=0))
    for order, count in itertools.product(("depth", "breadth"), (4, 8, 16, 32, 64, 128)):

        def twice(order: str = order, count: int = count) -> None:
            turns = [(k, turn) for k in range(count) for turn in range(2)]
            if order == "breadth":
                turns.sort(key=lambda each: each[1])
            for k, turn in turns:
                lab.spin(f"{k}.{turn}", lab.stream(k), 1, 300)

        found[f"{count} streams of two, {order} first"] = starts(lab.repeat(twice, 3, full=0))
    return found


def starts(rows: list[dict[str, Any]]) -> list[dict[str, list[int]]]:
    """For every repetition the start and end of all grids, in the order they were submitted."""
    return [
        {
            key: [each[key] for name, each in row.items() if name != "late"]
            for key in ("first_start", "last_end")
        }
        for row in rows
    ]


def mixed(lab: Lab) -> dict[str, Any]:
    """Schedules drawn at random, to judge a model by: several streams of grids of all sizes."""
    found = {}
    for seed in range(8):
        draw = random.Random(seed)
        kernels = []
        for k in range(draw.choice((8, 12, 16))):
            stream, priority = draw.randrange(4), 0
            if seed >= 6:
                priority = (0, 0, -1, -5)[stream]
            kernels.append({
                "label": f"{k}", "stream": stream, "priority": priority, 
                "grid": draw.choice((4, 20, 66, 132, 200, 400)),
                "threads": draw.choice((64, 256, 1024)), "shared": draw.choice((0, 0, 20, 60, 110, 220)) * KB,
                "length_us": draw.choice((20, 50, 120)), "step_us": draw.choice((0, 5)), "modulus": 5,
            })  # fmt: skip

        def plan(kernels: list[dict[str, Any]] = kernels) -> None:
            for kernel in kernels:
                rest = dict(kernel)
                stream = lab.stream(rest.pop("stream"), rest.pop("priority"))
                lab.spin(rest.pop("label"), stream, rest.pop("grid"), rest.pop("length_us"), **rest)

        found[f"seed {seed}"] = {"kernels": kernels, "runs": lab.repeat(plan, 3)}
    return found


def timer(lab: Lab) -> dict[str, Any]:
    """The steps of globaltimer as one thread sees them, and what a spin's cycles are in ns."""
    from ctypes import c_size_t, c_uint64, c_void_p

    import numpy as np

    count = 4096
    values = np.zeros((count, 2), np.int64)
    memory = lab.driver.device_memory(values.nbytes)
    lab.driver.launch("timer", 1, 1, 0, lab.gate_stream, [c_uint64(memory), c_int(count)])
    lab.driver.synchronize()
    lab.driver.call(
        "cuMemcpyDtoH_v2", c_void_p(values.ctypes.data), c_uint64(memory), c_size_t(values.nbytes)
    )
    steps, counts = np.unique(np.diff(values[:, 0]), return_counts=True)
    return {
        "steps_ns": {int(step): int(many) for step, many in zip(steps, counts, strict=True)},
        "cycles_per_ns": float(np.diff(values[[0, -1], 1])[0] / np.diff(values[[0, -1], 0])[0]),
    }
