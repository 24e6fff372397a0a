"""How long lies between the end of one kernel and the start of the next that waits for it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from ctypes import byref, c_int, c_uint64, c_void_p
from typing import Any

from validate.streams.driver import CARVEOUT, HostFunction
from validate.streams.lab import FULL, Lab, brief, us

COUNT = 8
GRIDS = ((1, 0), (1, 20), (132, 0), (132, 20), (1056, 5))
"""Blocks and microseconds of each."""


def same_stream_gap(lab: Lab) -> dict[str, Any]:
    """Eight kernels, each after the one before, linked in every way there is."""
    found: dict[str, Any] = {}
    between: dict[str, Callable[[int], None]] = {
        "stream": lambda k: None,
        "event recorded": lambda k: lab.driver.call("cuEventRecord", events[k], lab.stream(0)),
        "small memset": lambda k: lab.driver.copy("memset", lab.scratch, 0, 4, lab.stream(0)),
        "small copy in": lambda k: lab.driver.copy("HtoD", lab.scratch, lab.opened + 512, 4, lab.stream(0)),
        "small copy out": lambda k: lab.driver.copy("DtoH", lab.opened + 512, lab.scratch, 4, lab.stream(0)),
        "host function": lambda k: lab.driver.call(
            "cuLaunchHostFunc", lab.stream(0), nothing, c_void_p(None)
        ),
    }
    events = [lab.driver.event() for _ in range(COUNT)]
    nothing = HostFunction(lambda data: None)
    for grid, length in GRIDS:
        for name, link in between.items():

            def plan(grid: int = grid, length: float = length, link: Callable[[int], None] = link) -> None:
                for k in range(COUNT):
                    lab.spin(f"{k}", lab.stream(0), grid, length)
                    link(k)

            found[f"{name}, {grid} blocks of {length} us"] = lab.repeat(plan, full=0)

        def across(grid: int = grid, length: float = length) -> None:
            for k in range(COUNT):
                stream = lab.stream(k % 2)
                if k:
                    lab.driver.wait(stream, events[k - 1])
                lab.spin(f"{k}", stream, grid, length)
                lab.driver.record(events[k], stream)

        found[f"event across streams, {grid} blocks of {length} us"] = lab.repeat(across, full=0)
        for early in (0, 1):

            def dependent(grid: int = grid, length: float = length, early: int = early) -> None:
                for k in range(COUNT):
                    lab.launch(f"{k}", lab.stream(0), "spin_dependent", grid, 64, 0, us(length), c_int(early),
                               programmatic=k > 0)  # fmt: skip

            name = f"dependent launch, {'early' if early else 'at exit'}, {grid} blocks of {length} us"
            found[name] = lab.repeat_waits(dependent)
    return found


def graphs(lab: Lab) -> dict[str, Any]:
    """Graphs captured from streams: kernels in line, branches side by side, and graphs one after the other."""
    found = {}
    for grid, length in GRIDS:
        for name in ("in line", "four branches of two", "one node", "fork of eight"):
            found[f"{name}, {grid} blocks of {length} us"] = graph(lab, name, grid, length)
    return found


def forks(lab: Lab) -> dict[str, Any]:
    """Graphs of a kernel, some that wait for it, and one that waits for these."""
    return {f"1 to {count}, {grid} blocks of {length} us": graph(lab, f"1 to {count}", grid, length)
            for count in range(2, 13) for grid, length in ((1, 20), (132, 20))}  # fmt: skip


def small_copies(lab: Lab) -> dict[str, Any]:
    """Copies of few bytes out of pinned memory, between kernels: which of them go with the commands."""
    found = {}
    for nbytes in (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048):

        def plan(nbytes: int = nbytes) -> None:
            for k in range(COUNT):
                lab.spin(f"{k}", lab.stream(0), 132, 20)
                lab.driver.copy("HtoD", lab.scratch, lab.opened + 512, nbytes, lab.stream(0))

        found[f"{nbytes} bytes"] = lab.repeat(plan, full=0)
    return found


def graph(lab: Lab, shape: str, grid: int, length: float) -> list[dict[str, Any]]:
    """Launch a graph of this shape twice in one stream; kernels of the second launch overwrite the stamps of the first,
    but for `one node`, which is launched eight times and whose stamps are of the last; so a spin before and after say
    when it began and ended."""
    driver = lab.driver
    origin, *others = (driver.stream() for _ in range(13))
    fork, joins = driver.event(False), [driver.event(False) for _ in others]

    def capture() -> None:
        driver.call("cuStreamBeginCapture_v2", origin, c_int(2))
        count = {"in line": COUNT, "one node": 1}.get(shape, 0)
        for k in range(count):
            lab.spin(f"{k}", origin, grid, length)
        if not count:
            branches, each = {"four branches of two": (4, 2), "fork of eight": (7, 1)}.get(shape) or (int(shape[5:]), 1)
            lab.spin("root", origin, grid, length)
            driver.record(fork, origin)
            for branch in range(branches):
                driver.wait(others[branch], fork)
                for turn in range(each):
                    lab.spin(f"{branch}.{turn}", others[branch], grid, length)
                driver.record(joins[branch], others[branch])
            for branch in range(branches):
                driver.wait(origin, joins[branch])
            lab.spin("join", origin, grid, length)

    def labels() -> None:
        """The same stamps again in a later run."""
        for label, _, blocks in captured:
            lab.reserve(label, blocks)

    lab.begin()
    lab.open()
    capture()
    captured = lab.kernels[1:]
    drawn = _end_capture(lab, origin)
    executable = driver.get(c_void_p, "cuGraphInstantiateWithFlags", drawn, c_uint64(0))
    driver.call("cuGraphUpload", executable, origin)
    lab.finish()

    def plan() -> None:
        labels()
        stream = lab.stream(0)
        lab.spin("before", stream, 1, 5)
        for _ in range(COUNT if shape == "one node" else 1):
            driver.call("cuGraphLaunch", executable, stream)
        lab.spin("after", stream, 1, 5)

    rows = lab.repeat(plan, full=0)
    driver.call("cuGraphExecDestroy", executable)
    driver.call("cuGraphDestroy", drawn)
    return rows


def _end_capture(lab: Lab, stream: c_void_p) -> c_void_p:
    drawn = c_void_p()
    lab.driver.call("cuStreamEndCapture", stream, byref(drawn))
    return drawn


def split_change(lab: Lab) -> dict[str, Any]:
    """Two kernels in line that want the same or another split of L1 and shared memory."""
    found = {}
    sizes = 0, 16 << 10, 100 << 10, FULL
    for first, second, blocks in itertools.product(sizes, sizes, (1, 132)):

        def plan(first: int = first, second: int = second, blocks: int = blocks) -> None:
            lab.driver.set_function("spin", CARVEOUT, -1)
            for k in range(4):
                lab.spin(f"{k}", lab.stream(0), blocks, 20, shared=(first, second)[k % 2])

        found[f"{first >> 10}KB then {second >> 10}KB, {blocks} blocks"] = lab.repeat(plan, 3, full=0)
    return found


def submission(lab: Lab) -> dict[str, Any]:
    """Kernels launched one by one with nothing held back: what the host takes for a launch, and the pace at which
    empty kernels then run."""
    import time

    found: dict[str, Any] = {}
    for count in (1, 10, 100, 500):
        rows = []
        for _ in range(5):
            lab.begin()
            lab.finish()
            first, last = lab.driver.event(), lab.driver.event()
            stream = lab.stream(0)
            lab.driver.record(first, stream)
            start = time.perf_counter()
            for k in range(count):
                lab.spin(f"{k}", stream, 1, 0)
            submitted = time.perf_counter()
            lab.driver.record(last, stream)
            lab.driver.synchronize()
            done = time.perf_counter()
            rows.append({"submit_us": (submitted - start) * 1e6, "all_us": (done - start) * 1e6,
                         "event_us": lab.driver.elapsed_us(first, last)})  # fmt: skip
        found[f"{count} kernels"] = rows
    for streams in (1, 2, 4):
        events: list[c_void_p] = []

        def pairs(streams: int = streams, events: list[c_void_p] = events) -> None:
            events.clear()
            for k in range(4 * streams):
                stream = lab.stream(k % streams)
                events.append(lab.driver.record(lab.driver.event(), stream))
                lab.spin(f"{k}", stream, 1, 20)
                events.append(lab.driver.record(lab.driver.event(), stream))

        marked: list[dict[str, Any]] = []
        for _ in range(3):
            lab.begin()
            pairs()
            stamps = lab.finish()
            marked.append({"kernels": {label: brief(each) for label, each in stamps.items()},
                         "event_us": [lab.driver.elapsed_us(events[0], each) for each in events]})  # fmt: skip
        found[f"events around kernels in {streams} streams"] = marked
    return found
