"""Control flow of real kernels against an H200's counters: every branch, exit, loop, call, lock and warp barrier.

One warp (or warps that do not depend on each other), so nothing here depends on timing. `data/h200_flow.zip` holds the
program images, the arguments and the counts; `data/h200_groups.zip` random programs in which every lane notes where it
is and when, and the groups that ran. Their provenance says how they were measured.
"""

import dataclasses
import json
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import gpusim
from gpusim.engine.state import layout as L
from gpusim.launch.memory import BASE, GUARD_BYTES
from isa import Program

ARCHIVE = zipfile.ZipFile(Path(__file__).parent / "data/h200_flow.zip")
LAUNCHES = json.loads(ARCHIVE.read("launches.json"))["launches"]
GROUPS = zipfile.ZipFile(Path(__file__).parent / "data/h200_groups.zip")
GROUP_LAUNCHES = json.loads(GROUPS.read("launches.json"))["launches"]
NOTES, NOTHING = 256, 0xFFFFFFFF
COUNTERS = (L.COUNT_EXECUTED, L.COUNT_THREADS, L.COUNT_PRED_ON, L.COUNT_BRANCHES, L.COUNT_DIVERGENT)
OFFSETS_BANK, POINTERS_BANK = 3, 4


@cache
def image(name):
    return Program.from_bytes(ARCHIVE.read(f"{name}.gpuprog"), name)


def argument(described):
    dtype = np.dtype(described["dtype"])
    if "value" in described:
        return dtype.type(described["value"])
    return np.array(described["array"], dtype) if "array" in described else np.zeros(described["zeros"], dtype)


def linked(launch, arguments):
    """The program with the constants that the host sets before the launch.

    A kernel that calls through a table of functions finds the table by a pointer in a constant bank; here it lies in
    the first array, which is the first thing in device memory.
    """
    program = image(launch["program"])
    banks = dict(program.constant_banks)
    if "constants" in launch and OFFSETS_BANK in banks:
        words = np.array(launch["constants"], np.uint32).tobytes()
        banks[OFFSETS_BANK] = words + banks[OFFSETS_BANK][len(words) :]
    if "table" in launch:
        first, entries = launch["table"]
        table = arguments[0].view(np.int64)
        table[first : first + len(entries)] = entries
        pointer = np.uint64(BASE + GUARD_BYTES + 8 * first).tobytes()
        banks[POINTERS_BANK] = pointer + banks[POINTERS_BANK][len(pointer) :]
    # Everything is in its place: there is nothing left to link, and the images hold no cubin to do it from.
    return dataclasses.replace(program, constant_banks=banks, relocations=())


def replay(launch):
    """(counters per instruction, arguments after the run)."""
    arguments = [argument(described) for described in launch["arguments"]]
    result = gpusim.simulate(
        linked(launch, arguments),
        launch["grid"],
        launch["block"],
        tuple(arguments),
        gpu="tiny",
        shared_bytes=launch.get("shared_bytes", 0),
        threads=1,
    )
    return result.record.counters, arguments


@pytest.mark.parametrize("program", sorted({launch["program"] for launch in LAUNCHES}))
def test_counts_equal_the_hardware(program):
    """Instructions, threads, predicated threads, branch targets and divergent branches of every launch."""
    for launch in LAUNCHES:
        if launch["program"] != program:
            continue
        line, arguments = replay(launch)
        found = [int(line[:, field].sum()) for field in COUNTERS]
        assert found == launch["counts"], launch
        if "executed" in launch:
            executed = launch["executed"]
            assert line[: len(executed), L.COUNT_EXECUTED].tolist() == executed
        if "result" in launch:
            assert arguments[1].tolist() == launch["result"][: len(arguments[1])]


def test_sides_run_in_the_hardware_order():
    """Clocks that the lanes read as they entered their side of a branch, as ranks."""
    ordered = [launch for launch in LAUNCHES if "order" in launch]
    assert len(ordered) == 30
    for launch in ordered:
        _, arguments = replay(launch)
        column = 0 if launch["program"] == "order_nested" else 1
        clocks = arguments[0][:96].reshape(32, 3)[:, column]
        assert np.unique(clocks, return_inverse=True)[1].tolist() == launch["order"], launch


def groups_of(notes):
    """(place, lanes) of each group in the order in which they ran, from (place, clock) that each lane noted."""
    lanes = {}
    for lane, noted in enumerate(notes.tolist()):
        for place, clock in noted:
            if place != NOTHING:
                lanes[clock, place] = lanes.get((clock, place), 0) | 1 << lane
    return [[place, lanes[clock, place]] for clock, place in sorted(lanes)]


@pytest.mark.parametrize("program", sorted({launch["program"] for launch in GROUP_LAUNCHES}, key=int)[::12])
def test_groups_run_as_on_the_hardware(program):
    """Which lanes run together, and when: loops that give way, ways out of several loops, barriers used twice."""
    launches = [launch for launch in GROUP_LAUNCHES if launch["program"] == program]
    loaded = Program.from_bytes(GROUPS.read(f"{program}.gpuprog"), program)
    for launch in launches:
        notes = np.full((32, NOTES, 2), NOTHING, np.uint32)
        bits = np.array(launch["bits"], np.uint32)
        result = gpusim.simulate(loaded, 1, 32, (notes, bits), gpu="tiny", threads=1)
        assert groups_of(notes) == launch["groups"]
        if "counts" in launch:
            line = result.record.counters
            found = [int(line[:, field].sum()) for field in (L.COUNT_EXECUTED, L.COUNT_THREADS)]
            assert found == launch["counts"], launch["bits"]
