"""A run that is stopped at a cycle or before an instruction, and what is told there."""

import numpy as np
import pytest

import gpusim
from gpusim.cli import main
from gpusim.errors import ModeError
from isa.compile import compile_cuda
from isa.listing import programs_from_cubin

THREADS, BLOCKS = 64, 5
SOURCE = r"""
extern "C" __global__ void scale(int *out, int factor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = out[i] * factor + i;
}
"""


@pytest.fixture(scope="module")
def program():
    return next(iter(programs_from_cubin(compile_cuda(SOURCE, "sm_90")).values()))


def _run(program, **options):
    out = np.arange(THREADS * BLOCKS, dtype=np.int32)
    gpusim.simulate(program, BLOCKS, THREADS, [out, np.int32(7)], **options)
    return out


def _store(program):
    """(address of the kernel's store, the register that it stores)."""
    text = next(each for each in program.instructions if each.opcode.startswith("STG"))
    return text.address, text.text.rsplit(", ", 1)[1]


@pytest.mark.parametrize("mode", ["detailed", "functional"])
@pytest.mark.parametrize(("block", "warp"), [(3, 1), (0, 0), (4, None)])
def test_a_warp_stops_before_an_instruction(program, mode, block, warp):
    """It has computed what the instruction stores, for the threads of this warp, and nothing has been stored."""
    pc, register = _store(program)
    out = np.arange(THREADS * BLOCKS, dtype=np.int32)
    stop = gpusim.Stop(pc=pc, block=block, warp=warp)
    with pytest.raises(gpusim.Stopped, match=f"warp {warp or 0} of block {block} .*STOPPED") as stopped:
        gpusim.simulate(program, BLOCKS, THREADS, [out, np.int32(7)], mode=mode, stop=stop)
    threads = block * THREADS + 32 * (warp or 0) + np.arange(32)
    assert stopped.value.registers[register].tolist() == (8 * threads).tolist()
    assert "STG" in str(stopped.value) and f"{8 * threads[-1]:08x}" in str(stopped.value)
    assert np.array_equal(out, np.arange(THREADS * BLOCKS)), "a run that was stopped leaves its arrays alone"


def test_a_run_stops_at_a_cycle(program):
    """Exactly there, wherever windows would end: nothing has been issued later, and the next cycle goes on from it."""
    load = next(each for each in program.instructions if each.opcode.startswith("LDG"))
    texts = []
    for cycle in (2700, 2701, 3300):
        with pytest.raises(gpusim.Stopped, match=f"^cycle {cycle:,}\n") as stopped:
            _run(program, stop=gpusim.Stop(cycle=cycle, sm=1))
        texts.append(str(stopped.value))
    waiting = texts[2]
    assert "warp 1 of block 1 (1, 0, 0)" in waiting and "WAIT_SCOREBOARD (long_scoreboard)" in waiting, load.text
    assert "memory instructions in flight: 2" in waiting and "replies to come: 2" in waiting
    assert int(waiting.split("since ")[1].split(",")[0]) <= 3301


def test_a_run_that_ends_before_is_as_any_other(program):
    """Neither a cycle behind the end nor a warp that is not there changes anything."""
    plain = np.arange(THREADS * BLOCKS) * 8
    for stop in (gpusim.Stop(cycle=10**7), gpusim.Stop(pc=_store(program)[0], block=99)):
        assert np.array_equal(_run(program, stop=stop), plain)


def test_what_cannot_be_stopped_is_refused(program):
    """Places that the launch has not, and runs that have no cycles or are several."""
    for numbers in ({}, {"cycle": 0}, {"pc": 8}, {"pc": 16, "cycle": 5}, {"pc": -16}):
        with pytest.raises(ModeError):
            gpusim.Stop(**numbers)
    for stop, options in (
        (gpusim.Stop(pc=16 * len(program.instructions)), {}),
        (gpusim.Stop(cycle=5, sm=999), {}),
        (gpusim.Stop(cycle=5), {"mode": "functional"}),
        (gpusim.Stop(cycle=5), {"mode": "sampled"}),
        (gpusim.Stop(cycle=5), {"trace": True}),
    ):
        with pytest.raises(ModeError):
            _run(program, stop=stop, **options)


@pytest.mark.parametrize(
    ("option", "status", "words"),
    [
        ("--stop-at=2700:1", 0, "sub-partitions"),
        ("--until=0x90:2:1", 0, "0 in all lanes: "),
        ("--until=0x91", 1, "multiple of 16"),
        ("--until=0x10:99999", 0, "output equals the NumPy reference"),
        ("--stop-at=a", 1, "CYCLE[:SM]"),
    ],
)
def test_the_command_line_stops_a_run(option, status, words, capsys):
    """As an H200 shows vector_add: its bundled image has an EXIT at 0x90."""
    assert bool(main(["run", "vector_add", option])) == bool(status)
    told = capsys.readouterr()
    assert words in (told.err if status else told.out)
