"""Every instruction of the bundled programs is in the opcode table, and the table agrees with the compiler's waits."""

import numba
import pytest

from isa import NO_BARRIER, ToolchainMissing, compile_kernel
from isa import microops as m
from isa.lower import lower
from programs import registry

KERNELS = {registry.get(name).kernel: name for name in reversed(registry.names())}


@pytest.mark.parametrize("name", sorted(KERNELS.values()))
def test_program_lowers(name):
    variant = registry.get(name)
    launch = variant.make(variant.sizes[0], 0)
    try:
        program = compile_kernel(variant.kernel, tuple(numba.typeof(value) for value in launch.args))
    except ToolchainMissing as missing:
        pytest.skip(str(missing))
    code = lower(program).code
    assert len(code) == len(program.instructions)
    # A result that a scoreboard announces is one of variable latency.
    announced = code[:, m.COL_WBAR] != NO_BARRIER
    assert code[announced, m.COL_VARIABLE].all()
    rows = code[:, [m.COL_DST, m.COL_A, m.COL_B, m.COL_C]]
    assert rows.max() < lower(program).sink_row + 4
    assert (~rows[rows < 0]).max(initial=0) < len(lower(program).const_rows)
