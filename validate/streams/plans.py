"""Plans of grids and copies in several streams: how they share the GPU, and what lies between one and the next.

Each function gives the plans of an experiment, by the names of their cases, for a lab.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gpusim.node.streams import Event, Stream
from validate.streams.lab import FULL, Lab, Plan, us

KB = 1 << 10
LOW, HIGH = 0, -5
"""Priorities: less comes first."""
COUNT = 8
GRIDS = ((1, 0), (1, 20), (132, 0), (132, 20), (1056, 5))
"""Blocks and microseconds of kernels in line."""
COPY_BYTES, TILE = 128 << 20, 16 << 10
Plans = dict[str, Plan]


def together(*work: Plan) -> Plan:
    """One plan of several."""

    def plan() -> None:
        for each in work:
            each()

    return plan


def spin(lab: Lab, label: str, stream: int, *shape: Any, priority: int = 0, **more: Any) -> Plan:
    """A grid that spins, in a stream by number."""
    return lambda: lab.spin(label, lab.stream(stream, priority), *shape, **more)


def two_kernels_fit(lab: Lab) -> Plans:
    """Two grids that fit side by side (but for the last two cases): to which SMs the second one goes."""
    cases = [(a, b, 64) for a, b in itertools.product((66, 132, 264), repeat=2)]
    cases += [(20, 20, 64), (8, 132, 64), (200, 66, 64), (132, 264, 1024), (264, 66, 1024)]
    return {
        f"{a}+{b} of {threads} threads": together(
            spin(lab, "A", 0, a, 100, threads=threads), spin(lab, "B", 1, b, 100, threads=threads)
        )
        for a, b, threads in cases
    }


def leftover(lab: Lab) -> Plans:
    """A fills the GPU, in waves of uneven blocks; B comes behind it, or before it, at the same priority."""
    found = {}
    uneven: dict[str, Any] = {"step_us": 15, "modulus": 7}
    fills = {"shared": (64, FULL, 1), "threads": (1024, 0, 2)}
    for (fill, (threads, shared, per_sm)), waves, b_shared, first in itertools.product(
        fills.items(), (1, 3), (0, 100 * KB, FULL), ("A", "B")
    ):
        a = spin(lab, "A", 0, 132 * waves * per_sm, 100, threads=threads, shared=shared, **uneven)
        b = spin(lab, "B", 1, 8, 40, shared=b_shared)
        case = f"A fills {fill}, {waves} waves, B {b_shared >> 10}KB, {first} first"
        found[case] = together(*((a, b) if first == "A" else (b, a)))
    for count, waves in ((2, 1), (2, 3), (3, 2)):
        grids = [spin(lab, "ABC"[k], k, 132 * waves + 40, 100, shared=FULL, **uneven) for k in range(count)]
        found[f"{count} equal grids of {waves} waves and 40 blocks"] = together(*grids)
    return found


def priority(lab: Lab) -> Plans:
    """A of many waves, then B of another priority 300 us later; and six levels of priority."""
    found = {}
    for name, a_level, level in (("higher", LOW, HIGH), ("equal", LOW, LOW), ("lower", HIGH, LOW), ("one", LOW, -1)):
        for blocks, shared in ((8, FULL), (132, FULL), (300, FULL), (8, 0), (8, 100 * KB)):
            found[f"B {name}, {blocks} blocks, {shared >> 10}KB"] = together(
                spin(lab, "A", 0, 132 * 8, 100, priority=a_level, shared=FULL, step_us=15, modulus=7),
                spin(lab, "delay", 1, 1, 300, priority=level, threads=32),
                spin(lab, "B", 1, blocks, 50, priority=level, shared=shared),
            )
    found["six levels, lowest submitted first"] = together(
        spin(lab, "blocker", 9, 132, 300, priority=HIGH, shared=FULL),
        *(spin(lab, f"level {k}", 1, 132, 50, priority=k, shared=FULL) for k in (0, -1, -2, -3, -4, -5)),
    )
    return found


def mixed(lab: Lab) -> Plans:
    """Schedules drawn at random, to judge a model by: several streams of grids of all sizes."""
    found = {}
    for seed in range(8):
        draw, kernels = random.Random(seed), []
        for k in range(draw.choice((8, 12, 16))):
            stream = draw.randrange(4)
            level = (0, 0, -1, -5)[stream] if seed >= 6 else 0
            grid = draw.choice((4, 20, 66, 132, 200, 400))
            threads, shared = draw.choice((64, 256, 1024)), draw.choice((0, 0, 20, 60, 110, 220)) * KB
            length, step = draw.choice((20, 50, 120)), draw.choice((0, 5))
            more = {"priority": level, "threads": threads, "shared": shared, "step_us": step, "modulus": 5}
            kernels.append(spin(lab, f"{k}", stream, grid, length, **more))
        found[f"seed {seed}"] = together(*kernels)
    return found


# --- real kernels -----------------------------------------------------------------------------------------------------


def _works(lab: Lab) -> Callable[[str, str, int, int, int], Plan]:
    """A function (label, name, stream, grid, threads) that plans a kernel of some 50 to 200 us, bound by arithmetic,
    memory or shared memory."""
    memory = [lab.device.memory.alloc(COPY_BYTES) for _ in range(4)]
    scratch = np.uint64(lab.scratch)

    def work(label: str, name: str, stream: int, grid: int, threads: int) -> Plan:
        to, of = memory[2:] if label == "B" else memory[:2]
        shared, words = {
            "fma_chain": (0, (scratch, np.int32(8000))),
            "stream_copy": (0, (np.uint64(to), np.uint64(of), np.int64(COPY_BYTES // 16))),
            "shared_work": (TILE, (scratch, np.int32(2000), np.int32(TILE // 4))),
        }[name]
        return lambda: lab.launch(label, lab.stream(stream), name, grid, threads, shared, *words)

    return work


def pairs(lab: Lab) -> Plans:
    """Each kernel alone, and with another in a second stream: what each loses to the other."""
    work, found = _works(lab), Plans()
    sizes = [(66, 66), (132, 132), (264, 264), (132, 264), (1056, 1056), (66, 1056), (2112, 132)]
    names = [("fma_chain", "stream_copy"), ("fma_chain", "shared_work"), ("stream_copy", "stream_copy"),
             ("fma_chain", "fma_chain"), ("shared_work", "shared_work"), ("shared_work", "stream_copy")]  # fmt: skip
    for threads, (a, b) in itertools.product((256, 1024), sizes):
        for name, grid in itertools.product(("fma_chain", "stream_copy", "shared_work"), {a, b}):
            found[f"{name} alone, {grid}x{threads}"] = work("A", name, 0, grid, threads)
        for first, second in names:
            both = work("A", first, 0, a, threads), work("B", second, 1, b, threads)
            found[f"{first} {a} + {second} {b}, x{threads}"] = together(*both)
    return found


def fillers(lab: Lab) -> Plans:
    """A long kernel of 100 blocks that each take an SM, and twelve small ones in four streams."""
    work, found = _works(lab), Plans()
    for shared in (0, FULL):
        small = (spin(lab, f"{k}", k % 4, 8 * (1 + k % 4), 40 + 10 * (k % 3), shared=shared) for k in range(12))
        case = f"spins, small ones of {shared >> 10}KB"
        found[case] = together(spin(lab, "long", 9, 100, 1000, shared=FULL), *small)
    names = ("fma_chain", "shared_work", "stream_copy")
    small = (work(f"{k}", names[k % 3], k % 4, 8 * (1 + k % 4), 256) for k in range(12))
    found["real kernels"] = together(work("long", "fma_chain", 9, 1056, 256), *small)
    return found


# --- one after the other ----------------------------------------------------------------------------------------------


def same_stream_gap(lab: Lab) -> Plans:
    """Eight kernels, each after the one before, linked in every way there is."""
    events = [lab.device.event() for _ in range(COUNT)]
    between: dict[str, Callable[[int], object]] = {
        "stream": lambda k: None,
        "event recorded": lambda k: events[k].record(lab.stream(0)),
        "small memset": lambda k: lab.copy("memset", 4, lab.stream(0)),
        "small copy in": lambda k: lab.copy("HtoD", 4, lab.stream(0)),
        "small copy out": lambda k: lab.copy("DtoH", 4, lab.stream(0)),
        "host function": lambda k: lab.stream(0).call(lambda: None),
    }

    def line(grid: int, length: float, link: Callable[[int], object]) -> None:
        for k in range(COUNT):
            lab.spin(f"{k}", lab.stream(0), grid, length)
            link(k)

    def across(grid: int, length: float) -> None:
        for k in range(COUNT):
            stream = lab.stream(k % 2)
            if k:
                stream.wait_event(events[k - 1])
            lab.spin(f"{k}", stream, grid, length)
            events[k].record(stream)

    def dependent(grid: int, length: float, early: int) -> None:
        for k in range(COUNT):
            words = us(length), np.int32(early)
            lab.launch(f"{k}", lab.stream(0), "spin_dependent", grid, 64, 0, *words, programmatic=k > 0)

    found = Plans()
    for grid, length in GRIDS:
        shape = f"{grid} blocks of {length} us"
        found |= {f"{name}, {shape}": partial(line, grid, length, link) for name, link in between.items()}
        found[f"event across streams, {shape}"] = partial(across, grid, length)
        for early, when in ((0, "at exit"), (1, "early")):
            found[f"dependent launch, {when}, {shape}"] = partial(dependent, grid, length, early)
    return found


def small_copies(lab: Lab) -> Plans:
    """Copies of few bytes out of pinned memory, between kernels: which of them go with the commands."""

    def plan(nbytes: int) -> None:
        for k in range(COUNT):
            lab.spin(f"{k}", lab.stream(0), 132, 20)
            lab.copy("HtoD", nbytes, lab.stream(0))

    return {f"{nbytes} bytes": partial(plan, nbytes) for nbytes in (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)}


SHAPES = {"in line": (1, COUNT - 1), "four branches of two": (4, 2), "fork of eight": (7, 1)}
"""Graphs: branches behind the root, and kernels of each; more branches than one are joined."""


def graphs(lab: Lab) -> Plans:
    """Graphs of kernels in line and of branches side by side."""
    cases = itertools.product(GRIDS, SHAPES)
    return {f"{shape}, {grid} blocks of {length} us": _graph(lab, shape, grid, length)
            for (grid, length), shape in cases}  # fmt: skip


def _graph(lab: Lab, shape: str, grid: int, length: float) -> Plan:
    branches, each = SHAPES[shape]
    graph, nodes = lab.device.graph(), dict[str, Any]()

    def add(label: str, *after: str) -> None:
        put = partial(lab.spin, label, grid=grid, length_us=length)
        nodes[label] = graph.add(lambda stream: put(stream=stream), [nodes[each] for each in after])

    add("root")
    for branch in range(branches):
        for turn in range(each):
            add(f"{branch}.{turn}", f"{branch}.{turn - 1}" if turn else "root")
    if branches > 1:
        add("join", *(f"{branch}.{each - 1}" for branch in range(branches)))
    return lambda: graph.start(lab.stream(0))


# --- copies, timed by events ------------------------------------------------------------------------------------------


class CopyBench:
    """Memory for the kernels between copies, and plans that set marks: events by name."""

    def __init__(self, lab: Lab, nbytes: int = 64 << 20) -> None:
        self.lab = lab
        self.x, self.y = (np.uint64(lab.device.memory.alloc(nbytes)) for _ in range(2))
        self.marks: list[Event] = []

    def mark(self, stream: Stream) -> None:
        """Add an event."""
        self.marks.append(stream.record())

    def kernel(self, stream: Stream, nbytes: int, iterations: int, offset: int, label: str) -> None:
        """saxpy_chunk from what HtoD brings to what DtoH takes."""
        count, start = nbytes // 4, np.uint64(offset)
        words = self.y + start, self.x + start, np.int32(count), np.int32(iterations)
        self.lab.launch(label, stream, "saxpy_chunk", min(1056, -(-count // 256)), 256, 0, *words)

    def one(self, kind: str, nbytes: int) -> None:
        """A copy between two marks."""
        stream = self.lab.stream(0)
        self.mark(stream)
        self.lab.copy(kind, nbytes, stream)
        self.mark(stream)

    def loop(self, nbytes: int, iterations: int, chunks: int, streams: int, order: str) -> None:
        """The textbook's loop over several streams: copy a chunk in, compute, copy it out. Breadth first: of all
        streams one step, then of all the next; each round of chunks by itself."""
        size, lab = nbytes // chunks, self.lab
        steps: list[Callable[[int], None]] = [
            lambda k: lab.copy("HtoD", size, lab.stream(k % streams)),
            lambda k: self.kernel(lab.stream(k % streams), size, iterations, k * size, f"{k}"),
            lambda k: lab.copy("DtoH", size, lab.stream(k % streams)),
        ]
        origin = lab.stream(0)
        self.mark(origin)
        for other in range(1, streams):
            lab.stream(other).wait_event(self.marks[0])
        together = streams if order == "breadth" else 1
        for first in range(0, chunks, together):
            for step in steps:
                for k in range(first, min(chunks, first + together)):
                    step(k)
                    if chunks == 4:  # the recorded loops marked each step of these
                        self.mark(lab.stream(k % streams))
        for other in range(1, streams):
            origin.wait_event(lab.stream(other).record())
        self.mark(origin)

    def timed_us(self, plan: Plan) -> float:
        """Run a plan once: microseconds from its first mark to its last."""
        self.lab.begin()
        self.marks.clear()
        plan()
        self.lab.finish()
        return 1000 * self.marks[0].elapsed_ms(self.marks[-1])
