"""Which SM a block goes to where other grids' blocks are, and whether it may join them."""

from __future__ import annotations

import itertools
import random
import time
from ctypes import c_uint64
from typing import Any

import numpy as np

from validate.streams.driver import CARVEOUT
from validate.streams.lab import FULL, Lab, brief, us, whole

KB = 1 << 10
THREADS = (32, 64, 128, 256, 512, 1024)
SHARED = (0, 1, 3, 7, 15, 31, 63, 99)
"""KB; each block has one more of its own, so that these are just within the splits that there are."""
Grid = tuple[int, int, int]
"""Threads, KB and preferred split in percent (-1: the driver's choice) of a grid's blocks."""


def pause(microseconds: float) -> None:
    """Wait on the host."""
    until = time.perf_counter() + microseconds * 1e-6
    while time.perf_counter() < until:
        pass


def join(lab: Lab, first: Grid, second: Grid) -> list[int]:
    """One block of `first` on every SM, then `second` of four blocks for each SM: how many start beside, and how many
    at most on one SM."""
    lab.begin()
    lab.driver.set_function("spin", CARVEOUT, first[2])
    lab.spin("first", lab.stream(0), 132, 450, threads=first[0], shared=first[1] * KB)
    other = lab.stream(1)
    lab.open()
    pause(120)
    lab.driver.set_function("spin", CARVEOUT, second[2])
    lab.spin("second", other, 528, 200, threads=second[0], shared=second[1] * KB)
    stamps = lab.finish()
    beside = stamps["second"][stamps["second"][:, 1] < stamps["first"][:, 2].min()]
    at_once = beside[beside[:, 1] < beside[:, 1].min() + 100_000] if len(beside) else beside
    return [len(at_once), int(np.bincount(at_once[:, 0]).max()) if len(at_once) else 0]


def splits(lab: Lab) -> dict[str, Any]:
    """Every pair of grids: [first, second, [blocks beside, at most on one SM]]."""
    plain = [(threads, shared, -1) for threads in THREADS for shared in SHARED]
    few = [(threads, shared) for threads in (64, 256, 1024) for shared in (0, 7, 31, 99)]
    wished = [(*grid, prefers) for grid in few for prefers in (0, 10, 25, 50, 75, 100)]
    found: dict[str, Any] = {}
    for name, firsts, seconds in (
        ("plain", plain, plain),
        ("first wishes", wished, plain),
        ("second wishes", plain, wished),
    ):
        found[name] = [[a, b, join(lab, a, b)] for a, b in itertools.product(firsts, seconds)]
    lab.driver.set_function("spin", CARVEOUT, -1)
    return found


def targets(lab: Lab) -> dict[str, Any]:
    """The split that a grid brings to an empty SM by itself, by its registers (14, 20, 32, 40, 64 and 128), threads
    and KB: which of grids that want 8, 16, 32, 64, 100, 132, 164, 196 and 228 KB join it, in 0 and 1."""
    lab.driver.set_function("spin", CARVEOUT, -1)
    probes = (3, 7, 15, 31, 49, 65, 81, 97, 113)
    found: dict[str, Any] = {}
    for values, most in ((0, 1024), (5, 1024), (18, 1024), (26, 1024), (50, 1024), (114, 512)):
        for threads in (32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640, 768, 896, 1024):
            for shared in (0, 1, 2, 3, 5, 7, 11, 15, 23, 31, 47, 63):
                if threads <= most:
                    name = f"{values} values, {threads} threads, {shared} KB"
                    found[name] = "".join(
                        str(int(_joins(lab, values, threads, shared, probe))) for probe in probes
                    )
    return found


def _joins(lab: Lab, values: int, threads: int, shared: int, probe: int) -> bool:
    lab.begin()
    stream, other = lab.stream(0), lab.stream(1)
    if values:
        more = us(200), c_uint64(lab.scratch)
        lab.launch("first", stream, f"spin_{values}", 132, threads, shared * KB, *more)
    else:
        lab.spin("first", stream, 132, 200, threads=threads, shared=shared * KB)
    lab.open()
    pause(60)
    lab.spin("second", other, 132, 20, threads=1024, shared=probe * KB)
    stamps = lab.finish()
    return bool(stamps["second"][:, 1].min() < stamps["first"][:, 2].min())


def places(lab: Lab) -> dict[str, Any]:
    """Four grids one after the other that all stay: which SMs each block goes to, with every block of each."""
    found = {}
    lab.driver.set_function("spin", CARVEOUT, 100)
    for seed in range(40):
        draw = random.Random(seed)
        sizes, threads_of, shared_of = (20, 66, 100, 132, 200), (64, 128, 256, 512), (0, 0, 10, 30, 50)
        grids = [tuple(draw.choice(each) for each in (sizes, threads_of, shared_of)) for _ in range(4)]
        lab.begin()
        streams = [lab.stream(k) for k in range(4)]
        lab.open()
        for k, (blocks, threads, shared) in enumerate(grids):
            pause(60)
            lab.spin(f"{k}", streams[k], blocks, 1500, threads=threads, shared=shared * KB)
        found[f"seed {seed}"] = {
            "grids": grids,
            "blocks": {name: whole(each) for name, each in lab.finish().items()},
        }
    lab.driver.set_function("spin", CARVEOUT, -1)
    return found


def held_free(lab: Lab) -> dict[str, Any]:
    """Whether a grid that comes first but has no room keeps others, which would have room, from starting: A of two
    blocks on every SM, of uneven lengths; then B, perhaps of another priority, of larger blocks; C of small ones."""
    found = {}
    for name, b_level, c_level in (("B higher", -5, 0), ("equal", 0, 0), ("B higher, C between", -5, -2)):
        for b_shared in (110 * KB, 160 * KB, FULL):
            rows = []
            for turn in range(3):
                lab.begin()
                a, b, c = lab.stream(0), lab.stream(1, b_level), lab.stream(2, c_level)
                lab.open()
                pause(60)
                lab.spin("A", a, 132 * 8, 100, shared=100 * KB, step_us=15, modulus=7)
                pause(150)
                lab.spin("B", b, 40, 50, shared=b_shared)
                pause(60)
                lab.spin("C", c, 40, 50)
                found_now = lab.finish()
                rows.append({label: (brief if turn else whole)(each) for label, each in found_now.items()})
            found[f"{name}, B {b_shared >> 10}KB"] = rows
    return found


def in_turn(lab: Lab) -> dict[str, Any]:
    """Kernels that want another split than the one that runs, by real lengths: what the second loses."""
    found = {}
    for first, second in itertools.product(((256, 0), (256, 16), (1024, 0), (64, 0)), repeat=2):
        for gap in (0, 60):

            def plan(
                first: tuple[int, int] = first, second: tuple[int, int] = second, gap: int = gap
            ) -> None:
                a, b = lab.stream(0), lab.stream(1)
                lab.open()
                pause(60)
                lab.spin("A", a, 132, 100, threads=first[0], shared=first[1] * KB)
                pause(gap)
                lab.spin("B", b, 132, 100, threads=second[0], shared=second[1] * KB)

            found[f"{first} then {second}, {gap} us later"] = lab.repeat(plan, 3)
    return found
