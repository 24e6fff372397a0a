"""Errors: one message that names the place, fields a script can read, and safe passage between processes."""

import pickle
from typing import Any

import pytest

from gpusim.errors import (
    BarrierError,
    ConfigError,
    CyclesExceeded,
    DeadlockError,
    MemoryAccessError,
    SimulationError,
    UnsupportedInstruction,
)

PLACE: dict[str, Any] = {
    "kernel": "saxpy",
    "file": "saxpy.py",
    "line": 7,
    "block": (1, 0, 0),
    "thread": (31, 2, 0),
    "instruction": "LDG.E R2, [R4.64]",
    "instruction_address": 0x120,
}
WHERE = " [kernel 'saxpy', saxpy.py:7, block (1, 0, 0), thread (31, 2, 0), instruction 'LDG.E R2, [R4.64]' at 0x0120]"

CASES = [
    (
        MemoryAccessError(
            "out of bounds",
            address=0x7F0000002000,
            size=4,
            access="read",
            allocation="just past the end of 'c'",
            **PLACE,
        ),
        "out of bounds: global read of 4 bytes at address 0x7f0000002000, just past the end of 'c'" + WHERE,
    ),
    (
        MemoryAccessError("misaligned", address=0x11, size=8, access="write", space="shared", kernel="k", line=3),
        "misaligned: shared write of 8 bytes at address 0x11, which is not a multiple of 8 [kernel 'k', line 3]",
    ),
    (
        BarrierError(barrier=0, arrived=32, expected=64, kernel="k", block=(0, 0, 0)),
        "barrier 0 is never completed: 32 of 64 threads arrived and the others have exited or wait elsewhere "
        "[kernel 'k', block (0, 0, 0)]",
    ),
    (
        DeadlockError(cycle=12345, waiting=["warp 0: BSYNC B0", "b", "c", "d", "e", "f"], instruction_address=16),
        "deadlock at cycle 12,345: warp 0: BSYNC B0; b; c; d; and 2 more [instruction at 0x0010]",
    ),
    (
        CyclesExceeded(1000000, finished_blocks=3, total_blocks=5),
        "not finished after max_cycles = 1,000,000 cycles (3 of 5 blocks done)",
    ),
    (ConfigError("unknown key", key="a.b", suggestion="a.c"), "a.b: unknown key; did you mean 'a.c'?"),
]


@pytest.mark.parametrize(("error", "message"), CASES, ids=lambda case: type(case).__name__)
def test_messages(error, message):
    assert str(error) == message
    assert isinstance(error, SimulationError)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error) and str(copy) == message and vars(copy) == vars(error)


def test_fields_and_one_base_class():
    error = CASES[0][0]
    assert {name: getattr(error, name) for name in PLACE} == PLACE
    assert (error.problem, error.space, error.access) == ("out of bounds", "global", "read")
    assert (error.address, error.size) == (0x7F0000002000, 4)
    assert issubclass(UnsupportedInstruction, SimulationError)
