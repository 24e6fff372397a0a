"""Machines that nobody builds: whatever the configuration lets through ends, with right results and its laws intact.

Single parameters over their whole range, then configurations drawn at random, each with a program that shuffles, waits
at barriers and reads shared memory, and one that strides through it. Outputs are checked against NumPy. What depends on
addresses alone has to be the same on every machine; what depends on banks besides, on every one with such banks.
"""

from __future__ import annotations

import itertools
import random
from functools import cache

import numpy as np
import pytest

from gpusim.config import load_config
from gpusim.engine.memory.system import MemorySystem
from gpusim.errors import ConfigError
from tests.gpusim import bundled
from tests.gpusim.line_places import map_lines

PROGRAMS = {"reduction/shuffle": 4184, "transpose/tiled": 64}
OTHERS = {"histogram/shared_atomics": 5000, "reduction/interleaved_conflicts": 600}
SIZES = PROGRAMS | OTHERS | {"divergence/1": 1000}
#: Counters that follow from the program and its addresses.
OF_ADDRESSES = (
    "smsp__inst_executed.sum",
    "smsp__thread_inst_executed.sum",
    "smsp__sass_branch_targets_threads_divergent.sum",
    "memory_l1_tag_requests_global",
    "memory_l2_theoretical_sectors_global",
    "memory_l2_theoretical_sectors_global_ideal",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
)
#: And those that follow from the banks too.
OF_BANKS = ("memory_l1_wavefronts_shared", "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum")

RANGES = {
    "shared.banks": (1, 16, 256),
    "shared.bank_bytes": (1, 16),
    "sm.sub_partitions": (1, 2, 16),
    "sm.max_warps": (16, 48, 256),
    "sm.max_blocks": (1, 8, 256),
    "sm.registers": (16384, 262144),
    "sm.register_unit": (64, 512),
    "sm.warp_allocation_unit": (1, 8),
    "sm.count": (1, 3, 33, 512),
    "sm.gpcs": (1, 3, 12),
    "crossbar.sms_per_port": (1, 3, 4),
    "issue.policy": ("block", "glrr", "gto", "gty", "lrr", "oldest"),
    "l2.partitions": (1, 2, 4),
    "l2.slices": (2, 6, 20, 96),
    "l2.ways": (1, 20, 63),
    "l2.replacement": ("fifo", "lru", "random"),
    "l2.near_copy": (True, False),
    "l2.persisting_share": (0, 0.1, 1),
    "l2.persisting_start_share": (0, 1),
    "l2.coalesced_reads": (1, 2, 255),
    "l2.fetch_bytes": (32, 64, 128),
    "l2.dirty_ways": (1, 8, 63),
    "l2.lookahead_cycles": (10, 100, 200),
    # HBM2 to HBM4 stacks of 32 pseudo channels, and boards of 8 to 16 channels of GDDR.
    "dram.channels": (1, 3, 12, 96, 256),
    "dram.banks_per_channel": (1, 4, 48),
    "dram.row_bytes": (128, 1024, 8192),
    "dram.bandwidth_gb_s": (1.0, 100.0, 50000.0),
    "l1.ways": (1, 3, 100, 4096),
    "l1.reserved_lines": (0, 100, 5000),
    "l1.replacement": ("fifo", "lru", "random", "slru"),
    "l1.write_allocate": (True, False),
    "l1.data_bytes_per_cycle": (8, 64, 256),
    "l1.tag_lookups_per_cycle": (1, 32),
    "l1.max_outstanding_sectors": (1, 64, 32000),
    "l1.max_outstanding_flits": (1, 100000),
    "memory_instruction.queue_depth": (1, 2, 32),
    "memory_instruction.store_queue_depth": (1, 32),
    "icache.line_bytes": (16, 512),
    "icache.l0_bytes": (512, 20000),
    "icache.l1_bytes": (2048, 100000),
    "icache.l15_bytes": (2048, 8192),
    "icache.prefetch_lines": (0, 100),
    "constant.line_bytes": (4, 32, 256),
    "constant.l0_bytes": (256, 9000),
    "constant.l15_bytes": (1024, 65536),
    "constant.fetch_bytes": (256, 4096),
    "launch.fill_interval_cycles": (0.001, 50.0),
    "launch.block_interval_cycles": (0.001, 50.0),
    "launch.sm_block_cycles": (0, 100),
    "launch.refill_cycles": (0, 1000),
    "gpu.clock_mhz": (100, 5000),
    **{
        f"pipes.{pipe}.initiation_cycles": (1, 8, 32)
        for pipe in ("fma", "imad", "alu", "half", "fp64", "xu", "popc", "lsu", "uniform", "branch", "tensor")
    },
    **{f"pipes.{pipe}.latency_cycles": (1, 40) for pipe in ("fma", "imad", "alu", "half", "xu", "uniform")},
}
DRAWN = 10


def with_what_follows(changes):
    """The same overrides with an L2 of a whole number of sets, which depends on its slices and ways."""
    slices = changes.get("l2.slices", max(4, 2 * changes.get("l2.partitions", 1)))
    step = slices * changes.get("l2.ways", 16) * 128
    return {**changes, "l2.slices": slices, "l2.bytes": 8 * step, "dram.capacity_bytes": 1 << 26}


@cache
def drawn():
    """Valid configurations with 2 to all parameters changed, the same ones in every run."""
    rng = random.Random(11)
    found = []
    while len(found) < DRAWN:
        keys = rng.sample(list(RANGES), rng.choice((2, 5, 15, 30, len(RANGES))))
        changes = with_what_follows({key: rng.choice(RANGES[key]) for key in keys})
        try:
            load_config("tiny", changes)
        except ConfigError as error:
            assert error.key is not None or any(key.split(".")[0] in str(error) for key in keys)
        else:
            found.append(changes)
    return found


@cache
def counters(name, banks, bank_bytes):
    """What a program counts on the tiny GPU with such banks."""
    changes = {"shared.banks": banks, "shared.bank_bytes": bank_bytes}
    result = bundled.checked(name, size=SIZES[name], seed=1, overrides=changes)
    return {metric: result.metrics[metric] for metric in OF_ADDRESSES + OF_BANKS}


def check(name, changes):
    config = load_config("tiny", changes)
    result = bundled.checked(name, config, SIZES[name], 1, max_cycles=20_000_000)
    charged = sum(reason.cycles for reason in result.stall_reasons.values())
    assert charged == result.record.sm_warp_cycles.sum()
    assert result.stall_reasons["selected"].cycles == result.metrics["smsp__inst_executed.sum"]
    assert result.record.sm_blocks.sum() == result.record.launch.blocks
    lookups = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld"
    parts = (result.metrics[f"{lookups}_lookup_{how}.sum"] for how in ("hit", "miss"))
    assert sum(parts) == result.metrics[f"{lookups}.sum"]
    same = counters(name, config.shared.banks, config.shared.bank_bytes)
    assert {metric: result.metrics[metric] for metric in same} == same


@pytest.mark.parametrize("number", range(DRAWN))
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_machine_drawn_at_random(name, number):
    check(name, drawn()[number])


@pytest.mark.parametrize("key", RANGES)
def test_the_whole_range_of_one_parameter(key):
    for value, name in zip(RANGES[key], itertools.cycle(OTHERS)):
        check(name, with_what_follows({key: value}))


def test_a_reply_that_is_there_before_the_code_that_waits_for_it():
    """With small caches the next line of code comes from far, and what its first instruction reads is there sooner."""
    check("divergence/1", {"icache.l15_bytes": 2048, "sm.sub_partitions": 16})


@pytest.mark.parametrize("channels", [32, 96, 100, 192, 256])
def test_any_number_of_channels_shares_the_lines(channels):
    """On 96 slices: every channel has its share, and a row no more lines than fit, all of one bank."""
    config = load_config("h200", {"dram.channels": channels})
    state = MemorySystem(config, 1).state
    where = map_lines(state, np.arange(5 << 20, 7 << 20))
    shares = np.bincount(where[:, 3], minlength=channels)
    assert shares.size == channels and shares.min() > 0.97 * shares.max()
    assert (where[:, 4] // config.dram.banks_per_channel == where[:, 3]).all()
    _, lines = np.unique(where[:, 4] << 32 | where[:, 5], return_counts=True)
    assert lines.max() <= config.dram.row_bytes // config.l2.line_bytes
