"""Occupancy: the vendor calculator's answers, and laws that hold for every launch that fits."""

import gzip
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim.config import load_config
from gpusim.errors import LaunchError
from gpusim.launch.occupancy import carveout_bytes, check_dimensions, occupancy
from validate import baseline
from validate.collection import recording

DATA = Path(__file__).parent / "data"
H200, A100 = load_config("h200"), load_config("a100")


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks", "limiters"),
    [
        (256, 32, 0, 8, ("warps", "threads", "registers")),
        (1024, 64, 0, 1, ("registers",)),
        (1024, 32, 0, 2, ("warps", "threads", "registers")),
        (32, 16, 0, 32, ("blocks",)),
        (256, 33, 0, 6, ("registers",)),
        (256, 128, 0, 2, ("registers",)),
        (256, 255, 0, 1, ("registers",)),
        (96, 40, 0, 16, ("registers",)),
        (128, 32, 48 * 1024, 4, ("shared",)),
        (128, 32, 227 * 1024, 1, ("shared",)),
        (33, 32, 0, 32, ("warps", "threads", "blocks", "registers")),
    ],
)
def test_blocks_per_sm(threads, registers, shared, blocks, limiters):
    """What the vendor's calculator gives for compute capability 9.0, worked out by hand from its rules. That warps are
    not rounded up in a block is what Nsight Compute says of blocks of 2 warps on an H200."""
    result = occupancy(H200, threads, registers, 0, shared)
    assert result.blocks_per_sm == blocks
    assert result.limiters == limiters
    assert result.warps_per_sm == blocks * -(-threads // 32)
    assert result.theoretical == result.warps_per_sm / 64


def test_carveout_leaves_the_rest_to_l1():
    assert occupancy(H200, 1024, 32).carveout_bytes == 8 * 1024, "as Nsight Compute shows"
    assert occupancy(H200, 64, 32).carveout_bytes == 32 * 1024, "as Nsight Compute shows: 32 blocks"
    assert occupancy(H200, 256, 16, 1024).carveout_bytes == 32 * 1024, "as Nsight Compute shows: 16 KiB needed"
    assert occupancy(H200, 256, 29, 2048).carveout_bytes == 64 * 1024, "as Nsight Compute shows: 24 KiB needed"
    assert occupancy(H200, 256, 20, 4096).carveout_bytes == 100 * 1024, "as Nsight Compute shows: 40 KiB needed"
    full = occupancy(H200, 128, 32, 0, 227 * 1024)
    assert (full.carveout_bytes, full.l1_bytes) == (228 * 1024, 28 * 1024)
    assert carveout_bytes(A100, 4, 1, 101 * 1024, 100 * 1024) == 132 * 1024


def test_carveout_as_the_driver_chooses_it():
    """A sweep over threads, registers, shared memory and preferences: each line is what one more block, or one fewer,
    than the rule wants would make wrong, or another way to round."""
    for *shape, preference, size in json.loads((DATA / "h200_carveout.json").read_text())["launches"]:
        result = occupancy(H200, *shape, preference=preference)
        assert result.carveout_bytes == size, (shape, preference)
        assert result.blocks_per_sm * result.shared_bytes_per_block <= size


def test_a_preference_for_l1_leaves_room_for_fewer_blocks():
    free, asked = (occupancy(H200, 64, 50, 0, 1024, preference=preference) for preference in (-1, 0))
    assert (free.blocks_per_sm, free.l1_bytes) == (18, 192 * 1024)
    assert (asked.blocks_per_sm, asked.warps_per_sm, asked.l1_bytes) == (4, 8, 248 * 1024), "as Nsight Compute shows"
    assert asked.limits["shared"] == 4 and asked.limiters == ("shared",)


def test_grids_that_share_sms_as_their_splits_let_them():
    """Which grids of an H200 joined others, with their blocks to an SM. A preference of 0 without shared memory is the
    known gap: such a grid joins where one block of it fits."""
    document = json.loads(gzip.decompress((baseline.FOLDER.parent / "streams/results/h200.json.gz").read_bytes()))
    wrong = set()
    for pairs in document["experiments"]["splits"].values():
        for first, second, (_, joined) in pairs:
            there, comes = (occupancy(H200, of[0], 14, 0, of[1] << 10, preference=of[2]) for of in (first, second))
            least = comes.blocks_per_sm * comes.shared_bytes_per_block
            most = comes.carveout_bytes if second[2] >= 0 else H200.sm.shared_bytes
            room = (there.carveout_bytes - there.shared_bytes_per_block) // comes.shared_bytes_per_block
            room = min(room, (2048 - first[0]) // second[0], 4) if least <= there.carveout_bytes <= most else 0
            if room != joined:
                wrong.add((*second,))
    assert wrong == {(64, 0, 0)}


def recorded_programs():
    """The name, threads of a block and launch counters of what was recorded of public programs and of the bundled."""
    for key, point in recording.load()["points"].items():
        yield key, point["block"], point["counters"]
    for path in sorted(baseline.FOLDER.glob("h?00/*/*.json")):
        for size in json.loads(path.read_text())["sizes"]:
            yield f"{path.parent.name}/{path.stem}@{size['size']}", size["launch"]["block"], size["counters"]


def test_carveout_of_programs():
    """Nsight Compute shows the size that the driver chose, on an H100 by the same rule."""
    wrong, right = [], 0
    for key, block, counters in recorded_programs():
        shown = {name: int(value) for name, value in counters.items() if name.startswith("launch__")}
        shared = [shown[f"launch__shared_mem_per_block_{kind}"] for kind in ("static", "dynamic")]
        result = occupancy(H200, math.prod(block), shown["launch__registers_per_thread"], *shared)
        if result.carveout_bytes == shown["launch__shared_mem_config_size"]:
            right += 1
        else:
            wrong.append(key)
    assert not wrong and right > 700


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((1025, 32), "1,025 threads per block, allowed 1 to 1,024"),
        ((0, 32), "0 threads per block"),
        ((1024, 65), "1,024 threads with 65 registers each need more than the 65,536 of an SM"),
        ((32, 256), "256 registers per thread, allowed at most 255"),
        ((32, 32, 49153), "49,153 bytes of static shared memory per block, allowed at most 49,152"),
        ((32, 32, 1024, 232448), "233,472 bytes of shared memory per block"),
        ((32, 32, 0, -1), "must not be negative, got -1"),
        ((256, 32, 0, 0, 128), "256 threads per block, the kernel was compiled for 128 at most"),
    ],
)
def test_blocks_that_cannot_fit(arguments, words):
    with pytest.raises(LaunchError, match="cannot launch 'k': ") as caught:
        occupancy(H200, *arguments, kernel="k")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("grid", "block", "words"),
    [
        ((0, 1, 1), (1, 1, 1), "grid (0, 1, 1): 0 blocks in x, allowed 1 to 2,147,483,647"),
        ((1, 65536, 1), (1, 1, 1), "65,536 blocks in y"),
        ((1, 1, 1), (1, 1, 65), "block (1, 1, 65): 65 threads in z, allowed 1 to 64"),
    ],
)
def test_dimensions(grid, block, words):
    check_dimensions(H200, (2147483647, 65535, 65535), (1024, 1024, 64))
    with pytest.raises(LaunchError) as caught:
        check_dimensions(H200, grid, block)
    assert words in str(caught.value)


launches = st.tuples(st.integers(1, 1024), st.integers(0, 255), st.integers(0, 49152), st.integers(0, 180_000))


@given(launches, st.sampled_from([H200, A100]))
def test_what_is_resident_fits(launch, config):
    _, registers, static, dynamic = launch
    try:
        result = occupancy(config, *launch)
    except LaunchError:
        return
    sm = config.sm
    assert 1 <= result.blocks_per_sm <= sm.max_blocks
    assert result.warps_per_sm <= sm.max_warps and 0 < result.theoretical <= 1
    assert result.blocks_per_sm * result.warps_per_block * 32 * registers <= sm.registers
    needed = result.blocks_per_sm * (static + dynamic + sm.shared_reserved_bytes)
    assert needed <= result.carveout_bytes <= sm.shared_bytes
    assert result.carveout_bytes in sm.shared_capacities_bytes
    assert result.l1_bytes + result.carveout_bytes == sm.unified_l1_bytes
    assert min(result.limits.values()) == result.blocks_per_sm
    assert all(result.limits[name] == result.blocks_per_sm for name in result.limiters)


@given(launches, st.integers(0, 3))
def test_more_of_a_resource_never_fits_more_blocks(launch, axis):
    try:
        more = occupancy(H200, *(value + (i == axis) for i, value in enumerate(launch)))
    except LaunchError:
        return
    assert occupancy(H200, *launch).blocks_per_sm >= more.blocks_per_sm


def test_a_warp_takes_registers_of_one_sub_partition():
    """12 warps of 1,280 registers fit in each quarter's 16,384; 51 would fit in the 65,536 together."""
    config = load_config("h200", ["sm.warp_allocation_unit=1"])
    assert occupancy(config, 96, 40).limits["registers"] == 48 // 3
