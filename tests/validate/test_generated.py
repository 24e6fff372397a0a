"""Generated kernels: the simulator, the scalar reference and the H200 agree, outputs to the bit and counters to one."""

import json
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpusim
from isa import Program, compile_cuda
from isa.listing import program_from_cubin
from validate.generated import archive, build, emit, reference, replay, scalar, seeds
from validate.generated.tree import KernelTree

PROVENANCE, RECORDED = archive.load()
BY_NAME = {each.name: each for each in RECORDED}
GENERATED = [each for each in RECORDED if each.tree]
ORDINARY = [each for each in RECORDED if not each.tree]
CHUNK = 43

# Kernels whose counters are not yet the hardware's: groups of lanes run in another order, see docs/known_gaps.md.
DIFFERING = json.loads((archive.ARCHIVE.parent / "differs.json").read_text())
EQUAL = [each for each in RECORDED if each.name not in DIFFERING]

# Kernels that found a defect, which stay here by name.
REGRESSIONS = {
    "numba10": "R2UR with a predicate result was unknown",
    "convolution": "IMAD.WIDE with a negated addend was unknown",
    "numba221": "BREAK took out lanes whose second predicate is false, and lanes that waited there were never let go",
    "cuda1379": "a BSYNC of lanes that had come by more than one BSSY was not executed once more",
}


def agree(kernel: KernelTree, program: Program, seed: int, gpu: str) -> None:
    """The simulated kernel leaves in every array what the reference does."""
    arguments = reference.arguments(kernel.total, seed)
    expected = {name: value.copy() for name, value in arguments.items()}
    gpusim.simulate(program, kernel.grid, kernel.block, tuple(arguments.values()), gpu, kernel.shared_bytes, threads=1)
    reference.run(kernel, expected)
    for name, value in arguments.items():
        assert archive.digest(np.asarray(value)) == archive.digest(expected[name]), (name, kernel.to_text())


@settings(max_examples=12)
@given(random=st.randoms(use_true_random=False), gpu=st.sampled_from(["tiny", "h200"]))
def test_cuda_kernels_compute_what_the_reference_does(toolchain, random, gpu):
    kernel = build.kernel(random)
    text = emit.PRELUDE + emit.source(kernel, "generated", restrict=True, inline=False)
    agree(kernel, program_from_cubin(compile_cuda(text), abi="c"), 1, gpu)


def test_enough_is_recorded():
    assert len(GENERATED) >= 1250
    assert len(ORDINARY) == 32
    assert sum(bool(each.counters) for each in EQUAL) >= 1250
    assert len({each.code_sha256 for each in RECORDED}) > 1280
    assert PROVENANCE["gpu"] == "NVIDIA H200"


@pytest.mark.parametrize("first", range(0, len(EQUAL), CHUNK))
def test_outputs_and_counters_equal_the_hardware(first):
    messages = []
    replay.replay_all(EQUAL[first : first + CHUNK], say=messages.append)
    assert len(messages) == 1, "\n".join(messages)


def test_an_archive_reads_back(tmp_path):
    """As `record collect` writes it, which keeps the ordinary kernels."""
    kept = [*ORDINARY[:2], GENERATED[0]]
    names = list(next(each.counters for each in kept if each.counters))
    archive.save(tmp_path / "x.zip", PROVENANCE, names, [(archive.entry_of(each), each.program()) for each in kept])
    provenance, found = archive.load(tmp_path / "x.zip")
    assert provenance == PROVENANCE
    for each, before in zip(found, kept, strict=True):
        assert archive.entry_of(each) == archive.entry_of(before)
        assert each.program().code_sha256 == each.code_sha256
        assert replay.replay(each, "tiny") == replay.replay(before, "tiny")


def test_known_differences_are_still_there():
    """Whoever closes the gap takes the kernels out of differs.json."""
    assert {name for name in DIFFERING if replay.replay(BY_NAME[name])} == set(DIFFERING)


def test_results_are_right_where_counts_differ():
    """Among them cuda1010, in which S2UR in divergent code once wrote only the executing lanes of its register."""
    for name in DIFFERING:
        assert all(" is " in message for message in replay.replay(BY_NAME[name])), name


@pytest.mark.parametrize("first", [13820, 16920])
def test_kernels_kept_by_their_seeds_equal_the_hardware(first, toolchain):
    """Of ten thousand: compiled here, so all outputs, and the counters of those that come out as they were measured.

    13828 and 16920 found loads that overtook a store of the same thread.
    """
    messages = []
    assert seeds.compare(first, first + 20, say=messages.append) == {}, messages
    assert messages[-1].startswith("20 of 20 kernels equal")


@pytest.mark.parametrize("name", REGRESSIONS)
def test_kernels_that_found_a_defect(name):
    assert replay.replay(BY_NAME[name], "tiny") == []


@pytest.mark.parametrize("recorded", GENERATED[::60], ids=lambda each: each.name)
def test_the_reference_equals_the_hardware(recorded):
    """Independent of the simulator: tree and plain Python on one side, the GPU on the other."""
    arguments = reference.arguments(archive.tree_of(recorded).total, recorded.seed)
    reference.run(archive.tree_of(recorded), arguments)
    arrays = [value for value in arguments.values() if isinstance(value, np.ndarray)]
    assert [archive.digest(each) for each in arrays] == list(recorded.outputs)


def test_a_seed_gives_one_kernel_and_its_text_reads_back():
    first, again = build.kernel(Random(5)), build.kernel(Random(5))
    assert first == again != build.kernel(Random(6))
    assert KernelTree.from_text(first.to_text()) == first


def test_a_wrong_counter_or_output_is_noticed():
    sound = BY_NAME["cuda1000"]
    more = {**sound.counters, "smsp__inst_executed.sum": sound.counters["smsp__inst_executed.sum"] + 1}
    fields = {name: getattr(sound, name) for name in sound.__dataclass_fields__}
    assert len(replay.replay(archive.Recorded(**{**fields, "counters": more}))) == 1
    outputs = ("0" * 16, *sound.outputs[1:])
    assert replay.replay(archive.Recorded(**{**fields, "outputs": outputs})) == ["array arguments [0] differ"]


@pytest.mark.parametrize(
    ("a", "b", "c", "expected"),
    [
        (1 + 2**-12, 1 + 2**-12, -1.0, 2**-11 + 2**-24),  # the product is not rounded
        (2.0**-75, 2.0**-75, 0.0, 2.0**-149 * 0),  # half of the smallest number, a tie to even: zero
        (2.0**127, 2.0, 1.0, np.inf),
        (-0.0, 1.0, -0.0, -0.0),
        (1.0, 1.0, -1.0, 0.0),
    ],
)
def test_fma_rounds_once(a, b, c, expected):
    found = scalar.fma("f32", np.float32(a), np.float32(b), np.float32(c))
    assert found.tobytes() == np.float32(expected).tobytes()
