"""Stalls of code for a machine whose pipes are slower or faster than the compiler thought, on small pieces of code."""

from dataclasses import replace
from itertools import pairwise

import pytest

from gpusim.config import load_config, shipped_names
from gpusim.engine.retime import changes, compiled_latency, retimed
from isa import microops as M
from isa.instruction import Control
from isa.lower import lower
from tests.gpusim import bundled, sass
from tests.gpusim.parameter_kernels import run


def lowered(*lines):
    """Rows of (text, stall) lines and an EXIT; a line that ends in a colon is a label."""
    program = sass.assemble("\n".join(text for text, _ in lines))
    stalls = [stall for text, stall in lines if not text.endswith(":")]
    stalls += [1] * (len(program.instructions) - len(stalls))
    timed = (
        replace(each, control=Control(stall, False, 7, 7, 0, 0))
        for each, stall in zip(program.instructions, stalls, strict=True)
    )
    return lower(replace(program, instructions=tuple(timed)))


def stalls(code, **by):
    """Stalls of all but the EXIT with results `by` cycles later, by the pipe's name."""
    units = {"fma": M.UNIT_FMA, "alu": M.UNIT_ALU, "imad": M.UNIT_FMAHEAVY, "vote": -1}
    return retimed(code, {units[name]: cycles for name, cycles in by.items()}).code[:-1, M.COL_STALL].tolist()


CHAIN = (
    ("FFMA R2, R1, R1, R1", 4),
    ("FFMA R3, R2, R2, R2", 4),
    ("FFMA R4, R3, R3, R3", 4),
)


def test_a_chain_is_as_much_slower_or_faster_as_its_pipe():
    code = lowered(*CHAIN, ("FFMA R5, R4, R4, R4", 1))
    assert stalls(code, fma=5) == [9, 9, 9, 1]
    assert stalls(code, fma=-3) == [1, 1, 1, 1]
    assert stalls(code, alu=5) == [4, 4, 4, 1]


def test_what_needs_nothing_goes_on_at_once():
    code = lowered(
        ("FFMA R2, R1, R1, R1", 1),
        ("FFMA R3, R1, R1, R1", 1),
        ("MOV R9, R1", 2),
        ("FFMA R4, R2, R2, R2", 4),
        ("FFMA R5, R4, R4, R4", 1),
    )
    # The first result is four cycles old when it is read, and would be three too young.
    assert stalls(code, fma=3) == [1, 1, 5, 7, 1]
    assert stalls(code, fma=-1) == [1, 1, 1, 3, 1]


def test_results_of_other_pipes_stay_where_they_are():
    code = lowered(("MOV R2, R1", 4), ("FFMA R3, R2, R1, R1", 4), ("MOV R4, R3", 1))
    assert stalls(code, fma=4) == [4, 8, 1]
    assert stalls(code, alu=-2) == [2, 4, 1]


def test_predicates_are_results_too():
    code = lowered(("ISETP.LT.U32.AND P0, PT, R0, 0x8, PT", 13), ("@P0 FFMA R2, R1, R1, R1", 1))
    assert stalls(code, alu=6) == [19, 1]


def test_a_register_that_is_overwritten_is_waited_for_no_more():
    code = lowered(("FFMA R2, R1, R1, R1", 2), ("MOV R2, R1", 4), ("FADD R3, R2, R1", 1))
    assert stalls(code, fma=20) == [2, 4, 1]


def test_a_result_is_waited_for_at_a_branch_as_its_pipe_is_slower():
    """The first IMAD's result is read long after it; that the second one's may be read after the branch costs no more
    than the pipe's latency, of which a branch takes most."""
    work = (("FFMA R3, R1, R1, R1", 4),) * 12
    code = lowered(
        ("IMAD R2, R1, R1, R1", 1),
        *work,
        ("FADD R4, R2, R1", 1),
        ("IMAD R5, R1, R1, R1", 1),
        ("BRA `(end)", 5),
        ("end:", 0),
    )
    assert stalls(code, imad=3)[12:] == [4, 1, 1]
    assert stalls(code, imad=20)[12:] == [4, 1, 17]


@pytest.mark.parametrize("pipe", ["fma", "imad", "alu"])
def test_a_slower_pipe_never_makes_a_program_faster(pipe):
    changes_of_pipe = ({f"pipes.{pipe}.latency_cycles": latency} for latency in (2, 4, 8, 16))
    cycles = [bundled.checked("nbody/naive", overrides=each, seed=1).cycles for each in changes_of_pipe]
    assert all(later >= 0.998 * earlier for earlier, later in pairwise(cycles))
    # What a pipe's latency is for: sums need the one before; the index that IMAD computes does not.
    assert (cycles[-1] > 1.2 * cycles[0]) == (pipe != "imad")


def test_code_is_left_alone_where_the_machine_is_what_the_compiler_thought():
    for name in ("h200", "h100", "a100", "v100", "b200", "tiny"):
        config = load_config(name)
        assert changes(config, config.gpu.arch) == {}
    code = lowered(*CHAIN)
    assert retimed(code, {}) is code


def test_what_the_compiler_counts_on_is_known_for_every_shipped_architecture():
    for name in shipped_names():
        for key in ("pipes.fma", "pipes.fp64", "pipes.tensor", "memory_instruction.vote_latency_cycles"):
            assert compiled_latency(key, load_config(name).gpu.arch) > 0
    assert compiled_latency("pipes.tensor", "sm_90a") == 24
    assert compiled_latency("pipes.tensor", "sm_103") == 20


@pytest.mark.parametrize("latency", [2, 8, 12])
def test_cycles_of_a_chain(latency):
    """Four rounds of 16 FFMA of which each needs the one before it; a branch lies between the rounds."""
    before, after = (run("fma", {"pipes.fma.latency_cycles": each}).cycles for each in (4, latency))
    assert after - before == pytest.approx(4 * 15 * (latency - 4), rel=0.15)
