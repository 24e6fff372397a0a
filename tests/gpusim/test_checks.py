"""What is checked in every run and on request: each mistake is found, with kernel, line, block and thread; programs
without mistakes are left alone, in their cycles too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusim
from gpusim.cli import main
from gpusim.errors import (
    CheckError,
    DataRaceError,
    IllegalInstruction,
    KernelError,
    MemoryAccessError,
    SynchronizationError,
    UninitializedReadError,
)
from programs import registry
from tests.gpusim import bundled
from tests.gpusim.kernels import Kernels

# A line that makes a mistake ends with a comment that a test looks for.
SOURCE = Path(__file__).parent / "data" / "checks.cu"

INTS = np.arange(64, dtype=np.int32)


@pytest.fixture(autouse=True)
def _needs_toolchain(toolchain):
    pass


KERNELS = Kernels(SOURCE.read_text("utf-8"), "sm_90", str(SOURCE))


def line_of(comment: str) -> int:
    lines = [k for k, line in enumerate(SOURCE.read_text("utf-8").splitlines(), 1) if line.endswith(f"// {comment}")]
    assert len(lines) == 1
    return lines[0]


def run(name: str, *args: Any, block: Any = 64, grid: Any = 1, **options: Any) -> np.ndarray:
    out = np.zeros(128, np.int32)
    gpusim.simulate(KERNELS[name], grid, block, (out, *args), "tiny", threads=1, **options)
    return out


def caught(kind: type[KernelError], name: str, *args: Any, **options: Any) -> Any:
    with pytest.raises(kind) as found:
        run(name, *args, **options)
    return found.value


# --- memcheck ---------------------------------------------------------------------------------------------------------
# 3-D block (5, 3, 4): 60 threads, the last warp partial; the bad thread is the last one.
ACCESSES = [
    ("store_far", (), "put", "global", "write", 4),
    ("load_far", (), "get", "global", "read", 4),
    ("load_wide", (np.uint64(0x7FFF_FFFF_FFFF_FFF0),), "wide", "global", "read", 16),
    ("add_far", (), "add", "global", "atomic", 4),
    ("reduce_far", (), "reduce", "global", "atomic", 4),
    ("shared_far", (80,), "shared", "shared", "write", 4),
    ("shared_far", (-1,), "shared", "shared", "write", 4),
    ("dynamic_far", (16,), "dynamic", "shared", "read", 4),
    ("shared_atomic_far", (80,), "shared atomic", "shared", "atomic", 4),
    ("generic_far", (1000,), "generic", "shared", "write", 4),
    ("stack_far", (1000,), "stack", "local", "write", 4),
    ("constant_far", (1 << 20,), "constant", "constant", "read", 4),
]


@pytest.mark.parametrize(("name", "args", "comment", "space", "access", "size"), ACCESSES)
def test_accesses_out_of_bounds(name, args, comment, space, access, size):
    error = caught(MemoryAccessError, name, *args, np.int32(59), block=(5, 3, 4), grid=(1, 2), shared_bytes=64)
    assert (error.problem, error.space, error.access, error.size) == ("out of bounds", space, access, size)
    assert (error.kernel, error.line, error.thread) == (name, line_of(comment), (4, 2, 3))
    assert error.file.endswith("checks.cu") and error.block in ((0, 0, 0), (0, 1, 0))


def test_an_address_at_the_end_of_the_address_space_is_no_address():
    for pointer in (0x7FFF_FFFF_FFFF_FFF0, 0xFFFF_FFFF_FFFF_FFF0, 0x8000_0000_0000_0000, 0x7F00_0000_0000, 1 << 46):
        error = caught(MemoryAccessError, "load_wide", np.uint64(pointer), np.int32(0))
        assert error.address & (1 << 64) - 1 == pointer


def test_the_place_of_an_error_in_every_block_shape():
    for block, thread in ((33, (32, 0, 0)), ((16, 4), (0, 2, 0)), ((3, 5, 2), (2, 3, 1)), ((1, 1, 64), (0, 0, 63))):
        x, y = (*np.atleast_1d(block), 1)[:2]
        where = thread[0] + x * (thread[1] + y * thread[2])
        error = caught(MemoryAccessError, "store_far", np.int32(where), block=block)
        assert error.thread == thread and error.address % 512 == 4000 % 512


def test_null_and_misaligned_pointers():
    error = caught(MemoryAccessError, "load_wide", np.uint64(0), np.int32(3))
    assert "a null pointer" in str(error) and error.line == line_of("wide")
    error = caught(MemoryAccessError, "load_wide", np.uint64(0x7F00_0000_1008), np.int32(3))
    assert (error.problem, error.size, error.thread) == ("misaligned", 16, (3, 0, 0))


def test_use_after_free_by_a_pointer_that_was_kept():
    with gpusim.Device("tiny", threads=1) as device:
        out, old = device.to_device(INTS), device.to_device(INTS, "old")
        device.free(old)
        with pytest.raises(MemoryAccessError) as found:
            device.launch(KERNELS["copy"], 1, 64, (out, np.uint64(old.address)))
    assert found.value.problem == "use after free" and "'old' (256 bytes, freed)" in str(found.value)
    # The first lane of whichever warp goes first.
    assert found.value.line == line_of("copy") and found.value.thread in ((0, 0, 0), (32, 0, 0))


def test_generic_accesses_of_one_instruction_may_mean_different_spaces():
    out = run("generic_mixed")
    assert (out[:64] == np.where(INTS % 2, 100 + INTS, INTS)).all()


def test_running_past_the_end_of_the_code():
    from dataclasses import replace

    program = KERNELS["copy"]
    last = next(k for k, each in enumerate(program.instructions) if each.opcode == "EXIT")
    with pytest.raises(KernelError, match="past the end of the kernel's code"):
        gpusim.simulate(replace(program, instructions=program.instructions[:last]), 1, 32, (INTS, INTS), "tiny")


# --- initcheck --------------------------------------------------------------------------------------------------------
def test_device_memory_that_nothing_has_written():
    with gpusim.Device("tiny", threads=1, check="initcheck") as device:
        out, array = device.device_array(64, np.int32), device.device_array(64, np.int32)
        array.memory.fill(array.address, 4 * 40)
        with pytest.raises(UninitializedReadError) as found:
            device.launch(KERNELS["copy"], 1, 64, (out, array))
        error = found.value
        assert (error.line, error.thread, error.space) == (line_of("copy"), (40, 0, 0), "global")
        assert error.address == array.address + 160 and "byte 160" in str(error)
        with pytest.raises(UninitializedReadError):  # the failed launch has written nothing
            device.launch(KERNELS["copy"], 1, 32, (array, out))
        array.copy_to_device(INTS)
        device.launch(KERNELS["copy"], 1, 64, (out, array))
        device.launch(KERNELS["copy"], 1, 64, (array, out))  # written by a kernel
        fresh = device.device_array(64, np.int32)
        assert not device.free(array) and fresh.address != array.address
        with pytest.raises(UninitializedReadError):
            device.launch(KERNELS["copy"], 1, 64, (out, fresh))


def test_shared_memory_that_nothing_has_written():
    assert run("partly", np.int32(64), check="initcheck")[:64].all()
    error = caught(UninitializedReadError, "partly", np.int32(33), check="initcheck", grid=8)
    assert (error.space, error.line, error.thread) == ("shared", line_of("partly"), (33, 0, 0))
    assert error.address == 0x400 + 4 * 33 and not run("partly", np.int32(33))[33]


def test_a_later_block_does_not_inherit_what_an_earlier_one_wrote():
    error = caught(UninitializedReadError, "partly", np.int32(0), check="initcheck", grid=300)
    assert error.line == line_of("partly")
    run("partly", np.int32(64), check="initcheck", grid=300)


def test_stack_that_nothing_has_written():
    run("stack_partly", np.int32(8), check="initcheck")
    error = caught(UninitializedReadError, "stack_partly", np.int32(6), check="initcheck")
    assert (error.space, error.line, error.thread) == ("local", line_of("stack partly"), (6, 0, 0))


# --- racecheck --------------------------------------------------------------------------------------------------------
def test_read_after_write():
    error = caught(DataRaceError, "neighbour", np.int32(0), check="racecheck")
    assert (error.hazard, error.access, error.other_access) == ("read after write", "read", "write")
    assert (error.line, error.other_line) == (line_of("read"), line_of("written"))
    first = error.thread[0]  # lane of whichever warp goes first
    assert first in (0, 32)
    assert (error.thread, error.other_thread, error.address) == ((first, 0, 0), (first + 1, 0, 0), 0x404 + 4 * first)
    for mode in (1, 2):
        assert (run("neighbour", np.int32(mode), check="racecheck")[:64] == INTS ^ 1).all()


def test_write_after_read():
    error = caught(DataRaceError, "read_then_write", np.int32(0), check="racecheck")
    assert error.hazard == "write after read"
    assert (error.line, error.other_line) == (line_of("late"), line_of("early"))
    assert error.thread[0] + error.other_thread[0] == 63
    run("read_then_write", np.int32(1), check="racecheck")


def test_write_after_write_matters_if_the_values_differ():
    error = caught(DataRaceError, "one_flag", np.int32(0), check="racecheck")
    assert error.hazard == "write after write" and error.line == error.other_line == line_of("flag")
    assert run("one_flag", np.int32(1), check="racecheck")[:64].all()


def test_neighbouring_bytes_are_different_places():
    run("bytes", check="racecheck")


def test_atomics_do_not_race_with_each_other_but_with_others():
    run("counted", np.int32(1), check="racecheck")
    error = caught(DataRaceError, "counted", np.int32(0), check="racecheck")
    assert (error.line, error.access, error.other_access) == (line_of("total"), "read", "atomic")


def test_lanes_that_are_synchronised_in_groups():
    run("halves", block=32, check=("racecheck", "initcheck", "synccheck"))


def test_producers_that_arrive_and_consumers_that_wait():
    out = run("pipe", np.int32(1), check="racecheck")
    assert (out[32:64] == 31 - np.arange(32)).all()
    error = caught(DataRaceError, "pipe", np.int32(0), check="racecheck")
    assert {error.line, error.other_line} == {line_of("produced"), line_of("consumed")}


def test_a_lock_orders_what_it_protects():
    assert run("locked", check="racecheck")[0] == 63 * 32


# --- synccheck --------------------------------------------------------------------------------------------------------
def test_barriers_in_branches():
    run("branch_barrier", np.int32(32), check="synccheck")  # whole warps
    error = caught(SynchronizationError, "branch_barrier", np.int32(20), check="synccheck")
    assert error.problem == "divergent threads" and error.barrier == 0
    assert error.line in (line_of("some"), line_of("others"))


def test_a_barrier_for_a_broken_number_of_warps():
    error = caught(SynchronizationError, "odd_barrier", np.int32(48), check="synccheck")
    assert (error.problem, error.barrier, error.line) == ("thread count", 1, line_of("odd"))


def test_masks_of_warps():
    run("named_mask", np.uint32(0xFFFFFFFF), np.int32(-1), np.int32(64), check="synccheck", block=48)  # a partial warp
    arguments = (np.uint32(0xFF), np.int32(-1), np.int32(64))
    error = caught(IllegalInstruction, "named_mask", *arguments)
    assert error.mask == 0xFF
    assert error.thread in ((8, 0, 0), (40, 0, 0)), "of whichever warp comes first"
    arguments = (np.uint32(0xFFFFFFFF), np.int32(5), np.int32(64))
    error = caught(SynchronizationError, "named_mask", *arguments, check="synccheck")
    assert error.problem == "exited thread in mask" and "lane 5" in str(error) and error.line == line_of("mask")


@pytest.mark.parametrize("apart", [0, 1])
@pytest.mark.parametrize("op", range(8))
def test_a_lane_that_its_mask_does_not_name_is_an_illegal_instruction(op, apart):
    """An H100 (driver 580) stopped and ran on as here, with this machine code."""
    right = {0: [1, 2, 3], 1: [1, 1, 1], 2: [0xFFFF] * 3, 3: [120] * 3, 4: [0xAAAA] * 3, 5: [3, 3, 12], 6: [0, 1, 2]}
    for mask, n in ((0xFFFF, 16), (0xFFFFFFFF, 16), (0xFF, 16), (0xFFFE, 16), (0, 16), (0x7FFFFFFF, 32), (0xFF, 8)):
        arguments = [np.int32(each) for each in (op, np.uint32(mask).astype(np.int32), n, apart)]
        named = 0xFF if op == 7 else mask
        if ((1 << n) - 1) & ~named:
            assert caught(IllegalInstruction, "of_warp", *arguments, block=32, mode="functional").mask == named
        else:
            out = run("of_warp", *arguments, block=32, mode="functional")
            assert n != 16 or op == 7 or out[32:35].tolist() == right[op]


# --- what checks do not do --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", sorted(family[-1].name for family in registry.families().values())[::2])
def test_bundled_programs_are_clean_and_as_fast_as_without_checks(name):
    plain, watched = (bundled.checked(name, check=each) for each in ((), ("initcheck", "racecheck", "synccheck")))
    assert plain.cycles == watched.cycles and dict(plain.metrics) == dict(watched.metrics)
    assert plain.record.counters.tobytes() == watched.record.counters.tobytes()


def test_names_of_checks():
    assert set(gpusim.CHECKS) == {"memcheck", "initcheck", "racecheck", "synccheck"}
    with pytest.raises(CheckError, match="'leakcheck'; known are memcheck"):
        run("bytes", check="leakcheck")
    with pytest.raises(CheckError):
        gpusim.Device("tiny", check=("initcheck", "x"))


def test_command_line(capsys):
    options = ["run", "reduction/shuffle", "--size", "2000", "--gpu", "tiny", "--json"]
    assert main([*options, "--check", "initcheck, racecheck"]) == 0
    assert main([*options, "--check", "helgrind"]) == 2
    assert "no check 'helgrind'" in capsys.readouterr().err
