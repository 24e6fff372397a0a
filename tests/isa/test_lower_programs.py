"""Every instruction of the bundled programs is in the opcode table, and the table agrees with the compiler's waits."""

import pytest

from isa import NO_BARRIER
from isa import microops as m
from isa.lower import lower
from programs import images


@pytest.mark.parametrize("name", [entry["variants"][0] for entry in images.index()["images"]])
def test_program_lowers(name):
    program = images.image(name)
    lowered = lower(program)
    code = lowered.code
    assert len(code) == len(program.instructions)
    # A result that a scoreboard announces is one of variable latency.
    announced = code[:, m.COL_WBAR] != NO_BARRIER
    assert code[announced, m.COL_VARIABLE].all()
    rows = code[:, [m.COL_DST, m.COL_A, m.COL_B, m.COL_C]]
    assert rows.max() < lowered.sink_row + 4
    assert (~rows[rows < 0]).max(initial=0) < len(lowered.const_rows)
