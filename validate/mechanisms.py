"""What can be switched off or idealised in the model by configuration alone: the rows of `python -m validate ablate`.

Each mechanism is one that an architect might ask the price of. What has no key is not here: the compiler's stall
counts, and conflicts in the register file, follow from the machine code itself.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mechanism:
    """A mechanism and the overrides (of the `h200` configuration) that take it away; meaning: what is left then."""

    name: str
    meaning: str
    overrides: tuple[str, ...]


def _mechanism(name: str, meaning: str, **values: object) -> Mechanism:
    """Keys are spelled with two underscores for the dot."""
    return Mechanism(name, meaning, tuple(f"{key.replace('__', '.')}={value}" for key, value in values.items()))


_UNLIMITED = 1_000_000

MECHANISMS = (
    _mechanism("scheduler-glrr", "one warp as long as it can, then the next in turn", issue__policy="glrr"),
    _mechanism("scheduler-lrr", "ready warps take turns, strictly", issue__policy="lrr"),
    _mechanism("scheduler-gto", "one warp as long as it can, then the oldest", issue__policy="gto"),
    _mechanism("scheduler-oldest", "always the oldest ready warp", issue__policy="oldest"),
    _mechanism(
        "branches",
        "taken branches and BSYNC cost only what their control bits say",
        issue__branch_latency_cycles=0,
        issue__indirect_branch_latency_cycles=0,
        issue__bsync_latency_cycles=0,
        issue__bsync_after_branch_cycles=0,
        issue__old_group_cycles=0,
    ),
    _mechanism(
        "barriers",
        "warps go on at once when the last has arrived",
        issue__bar_base_cycles=0,
        issue__bar_per_warp_cycles=0,
    ),
    _mechanism(
        "pipe-rates",
        "every pipe takes an instruction a cycle",
        pipes__wide_initiation_cycles=1,
        **{
            f"pipes__{pipe}__initiation_cycles": 1
            for pipe in ("imad", "alu", "fp64", "xu", "popc", "lsu", "uniform", "branch", "tensor")
        },
    ),
    _mechanism(
        "instruction-misses",
        "a missing line of code comes a cycle later",
        icache__l1_latency_cycles=1,
        icache__l15_latency_cycles=1,
        icache__l2_latency_cycles=1,
        icache__l15_line_cycles=1,
        icache__l2_line_cycles=1,
    ),
    _mechanism("instruction-prefetch", "nothing runs ahead of an L0", icache__prefetch_lines=0),
    _mechanism(
        "constant-misses",
        "a missing constant comes a cycle later",
        constant__l15_latency_cycles=1,
        constant__miss_interval_cycles=0.01,
    ),
    _mechanism(
        "memory-queue",
        "32 memory instructions wait per sub-partition",
        memory_instruction__queue_depth=32,
        memory_instruction__store_queue_depth=32,
    ),
    _mechanism(
        "source-release",
        "registers that memory instructions read are free at once",
        **{
            f"memory_instruction__{name}_cycles": 0
            for name in (
                *("load_source_release", "store_source_release", "shared_load_source_release"),
                *("shared_store_source_release", "store_source_release_per_register", "constant_source_release"),
            )
        },
    ),
    _mechanism("wavefront-latency", "a bank conflict takes turns, not latency", shared__wavefront_latency_cycles=0),
    _mechanism("l1-hits", "L1 holds nothing", l1__sets=4096),
    _mechanism(
        "l1-bandwidth",
        "L1 looks up and delivers a whole request a cycle",
        l1__tag_lookups_per_cycle=32,
        l1__data_bytes_per_cycle=4096,
    ),
    _mechanism("l1-outstanding", "eight times as many sectors asked for", l1__max_outstanding_sectors=4096),
    _mechanism(
        "crossbar-bandwidth",
        "ports without limits",
        crossbar__port_request_bytes_per_cycle=_UNLIMITED,
        crossbar__port_reply_bytes_per_cycle=_UNLIMITED,
        crossbar__sm_reply_bytes_per_cycle=_UNLIMITED,
    ),
    _mechanism("l2-bandwidth", "slices without limits", l2__slice_bytes_per_cycle=_UNLIMITED),
    _mechanism(
        "l2-far-partition",
        "both partitions equally far, at the mean",
        l2__latency_near_cycles=366,
        l2__latency_far_cycles=366,
    ),
    _mechanism("l2-latency-spread", "slices of a partition equally far", l2__latency_spread_cycles=0),
    _mechanism("l2-near-copies", "lines of the far partition are fetched there every time", l2__near_copy="false"),
    _mechanism("l2-joined-reads", "every SM's read counts and moves by itself", l2__coalesced_reads=1),
    _mechanism("fabric-bandwidth", "partitions joined without limits", l2__fabric_bytes_per_cycle=_UNLIMITED),
    _mechanism(
        "atomic-units",
        "atomics and partial writes pass a slice at once",
        l2__atomic_sector_cycles=0.01,
        l2__atomic_whole_sector_cycles=0.01,
        l2__atomic_same_address_cycles=0.01,
        l2__partial_write_cycles=0.01,
    ),
    _mechanism("fetch-granularity", "memory is read by the sector", l2__fetch_bytes=32),
    _mechanism("write-probes", "lines written ask nothing of the other partition", l2__write_probes=0.0),
    _mechanism(
        "write-backs",
        "lines are written back only for room, into a cache that was clean",
        l2__dirty_ways=16,
        l2__dirty_before_bytes=0,
    ),
    _mechanism("launch-bytes", "a launch reads its code, constants and data alone", l2__launch_bytes=0),
    _mechanism("dram-bandwidth", "memory without limits", dram__bandwidth_gb_s=_UNLIMITED, dram__bus_efficiency=1.0),
    _mechanism(
        "dram-rows",
        "rows open and close at once",
        dram__row_activate_cycles=0,
        dram__row_precharge_cycles=0,
        dram__row_cycle_cycles=0,
    ),
    _mechanism("dram-refresh", "no bank is ever refreshed", dram__refresh_cycles=0),
    _mechanism(
        "dram-turnaround",
        "the data bus turns at once",
        dram__read_to_write_cycles=0,
        dram__write_to_read_cycles=0,
    ),
    _mechanism("launch-overhead", "a launch costs nothing outside the SMs", launch__overhead_cycles=0),
    _mechanism(
        "block-launch",
        "blocks and warps start and end at once",
        launch__fill_interval_cycles=0.01,
        launch__block_interval_cycles=0.01,
        launch__sm_block_cycles=0,
        launch__block_setup_cycles=0,
        launch__refill_cycles=0,
        launch__block_launch_cycles=0,
        launch__warp_launch_cycles=0,
        launch__drain_cycles=0,
    ),
)
"""All of them, in the order of a warp's way through the machine."""


def choose(names: tuple[str, ...] | list[str]) -> list[Mechanism]:
    """The mechanisms of these names, all if there are none. Raises KeyError with what there is for an unknown one."""
    known = {mechanism.name: mechanism for mechanism in MECHANISMS}
    for name in names:
        if name not in known:
            raise KeyError(f"no mechanism {name!r}; there are: {', '.join(known)}")
    return [known[name] for name in names] if names else list(MECHANISMS)
