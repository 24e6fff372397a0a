"""Whole runs of few instructions: lines that several warps want, errors."""

import numpy as np
import pytest

from gpusim.errors import KernelError, MemoryAccessError
from tests.gpusim import sass

IN = f"c[0x0][{sass.PARAMETERS + 8:#x}]"


@pytest.mark.parametrize("warps", [2, 11, 12, 32])
def test_warps_that_want_one_line_wait_for_one_request(warps):
    """All warps load one word: the first asks L2, all others wait for its reply. Each sector is a hit or a miss."""
    out, data = np.zeros(32 * warps, np.uint32), np.array([77], np.uint32)
    text = f"MOV R2, {IN}\nMOV R3, c[0x0][{sass.PARAMETERS + 12:#x}]\nLDG.E R6, desc[UR4][R2.64]\n@RETURN"
    result = sass.run(text, out, data, block=32 * warps, overrides=["l2.coalesced_reads=1"])
    assert (out == 77).all()
    sectors = result.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    hits = result.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"]
    read = result.metrics["lts__t_sectors_srcunit_tex_op_read.sum"]
    assert sectors == warps and hits + read == warps
    assert read == 1


def test_no_l1():
    """A cache without a line holds nothing: every warp asks L2, with the same values."""
    out, data = np.zeros(64, np.uint32), np.array([77], np.uint32)
    text = f"MOV R2, {IN}\nMOV R3, c[0x0][{sass.PARAMETERS + 12:#x}]\nLDG.E R6, desc[UR4][R2.64]\n@RETURN"
    result = sass.run(text, out, data, block=64, overrides=["l1.reserved_lines=65536", "l2.coalesced_reads=1"])
    assert (out == 77).all()
    assert result.metrics["lts__t_sectors_srcunit_tex_op_read.sum"] == 2


def test_one_load_of_a_line_twice():
    """A second load of what is on its way waits for the same reply, also from within one warp."""
    out, data = np.zeros(32, np.uint32), np.arange(32, dtype=np.uint32)
    text = f"S2R R0, SR_TID.X\nIMAD.WIDE.U32 R2, R0, 0x4, {IN}\n"
    text += "LDG.E R8, desc[UR4][R2.64]\nLDG.E R9, desc[UR4][R2.64]\nIADD3 R6, R8, R9, RZ\n@RETURN"
    result = sass.run(text, out, data)
    assert out.tolist() == [2 * k for k in range(32)]
    assert result.metrics["lts__t_sectors_srcunit_tex_op_read.sum"] == 4


def test_memory_without_any_allocation():
    with pytest.raises(MemoryAccessError, match="out of bounds"):
        sass.run("MOV R2, RZ\nMOV R3, 0x1\nLDG.E R6, [R2.64]")


def test_constant_banks_that_are_not_modelled():
    with pytest.raises(KernelError, match="not modelled"):
        sass.run("LDC R6, c[0x7][R2]")
