"""The bound itself: for each resource of a machine the least time that a launch's work takes there.

Every term counts from the start of the launch, its overhead included, and none assumes anything about what happens at
the same time elsewhere. So the launch takes at least as long as the longest.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gpusim.bound.profile import Profile, needs_of
from gpusim.bound.walk import Times, instruction_table, least_times
from gpusim.bound.work import Amount
from gpusim.config import GPUConfig, load_config
from gpusim.config.load import Overrides
from gpusim.engine.memory.params import make_params
from gpusim.engine.parameters import unit_timing
from gpusim.engine.retime import lowered_once
from gpusim.engine.state.memory import P_BURST, TICKS
from gpusim.engine.state.parameters import FRACTION
from gpusim.errors import LaunchError
from gpusim.launch.occupancy import occupancy
from gpusim.results.record import Bound
from isa import microops as M

#: Units whose throughput bounds a launch, by the name of the term.
_PIPES = {
    "FMA pipe": M.UNIT_FMA,
    "IMAD pipe": M.UNIT_FMAHEAVY,
    "ALU pipe": M.UNIT_ALU,
    "FP64 pipe": M.UNIT_FP64,
    "FP16 pipe": M.UNIT_HALF,
    "XU pipe": M.UNIT_XU,
    "uniform pipe": M.UNIT_UNIFORM,
    "branch unit": M.UNIT_CBU,
    "tensor pipe": M.UNIT_TENSOR,
    "ADU": M.UNIT_ADU,
}


def bound(profile: Profile, gpu: str | Path | GPUConfig = "h200", overrides: Overrides = None) -> Bound:
    """The least time that a profiled launch takes on a machine; see `Bound`.

    Raises LaunchError if a block does not fit, or if the profile was made for machines whose programs or banks differ
    (`Profile.needs`).
    """
    config = load_config(gpu, overrides)
    if needs_of(config) != profile.needs:
        differing = [key for key, value in needs_of(config).items() if value != profile.needs[key]]
        raise LaunchError(
            f"the profile holds for {differing[0]} = {profile.needs[differing[0]]!r} only", kernel=profile.kernel
        )
    program, launch = profile.program, profile.launch
    shared = program.static_shared_bytes, launch.shared_bytes
    what = launch.threads_per_block, program.registers, *shared, program.max_threads, program.name
    slots = occupancy(config, *what).blocks_per_sm * config.sm.count
    if profile.cooperative and profile.blocks > slots:
        raise LaunchError(
            f"a cooperative launch of {profile.blocks:,} blocks, of which the GPU holds {slots:,} at once",
            kernel=profile.kernel,
        )
    times = Times.of(config)
    terms = {**_launch(profile, config), **_latency(profile, config, slots, times)}
    terms |= _in_sm(profile, config, times.fetch) | _beyond(profile, config, times)
    by = max(terms, key=lambda name: terms[name])
    cycles = int(terms[by])
    return Bound(
        cycles=cycles,
        by=by,
        terms={name: value for name, value in terms.items() if value > config.launch.overhead_cycles},
        time_us=config.time_us(cycles),
        gpu=config.gpu.name,
        waves=profile.blocks / slots,
        overhead_cycles=config.launch.overhead_cycles,
    )


def busiest(profile: Profile, values: np.ndarray, places: int) -> np.ndarray:
    """Least share of the busiest of `places` SMs in some amounts, float64 [amounts], `values` being what a block of
    each kind asks for, [amounts, kinds].

    Those that have blocks get their share on average. And of any n blocks that each ask for v or more some SM gets
    n / places, rounded up.
    """
    share = values @ profile.counts / min(places, profile.blocks)
    if not profile.uniform:
        return share
    order = np.argsort(-values, axis=1)
    so_far = np.cumsum(profile.counts[order], axis=1)
    return np.maximum(share, (-(-so_far // places) * np.take_along_axis(values, order, 1)).max(axis=1))


def _start(config: GPUConfig) -> int:
    """Cycle from which the first warp may issue."""
    return config.launch.overhead_cycles + config.launch.block_launch_cycles


def _launch(profile: Profile, config: GPUConfig) -> dict[str, float]:
    """Blocks start one after the other, and their ends are taken note of one after the other."""
    launch = config.launch
    shortest = config.issue.exit_cycles + launch.drain_cycles
    interval = round(launch.block_interval_cycles * FRACTION) / FRACTION
    per_sm = -(-profile.blocks // config.sm.count)
    each = max(profile.warps * launch.warp_launch_cycles + launch.block_setup_cycles, launch.sm_block_cycles)
    return {
        "block ends": _start(config) + shortest + profile.blocks * interval - 1,
        "block starts": _start(config) + (per_sm - 1) * each + shortest,
    }


def _latency(profile: Profile, config: GPUConfig, slots: int, times: Times) -> dict[str, float]:
    """A block takes as long as its longest chain, and in some place as many follow each other as the grid has waves."""
    (cold, reply), (warm, _) = _walked(profile, config, times)
    launch = config.launch
    count = int(profile.counts[profile.walked]) if profile.uniform else 1
    waves = -(-count // slots)
    # A block that comes after others finds less to wait for; but these have taken their time as well.
    first = cold if count == profile.blocks or waves == 1 == -(-profile.blocks // slots) else warm
    all_waves = first + (waves - 1) * (launch.refill_cycles + launch.block_launch_cycles + warm)
    return {"latency": _start(config) + max(all_waves, reply if waves == 1 else 0)}


def _walked(profile: Profile, config: GPUConfig, times: Times) -> tuple[tuple[int, int], tuple[int, int]]:
    """Least times of the path, as one of the first blocks and as a later one."""
    parts = (config.pipes, config.issue, config.memory_instruction, config.shared, config.constant)
    key = ("walk", *parts, times)
    if key not in profile.memo:
        table = instruction_table(lowered_once(profile.program, config).code, config, times)
        profile.memo[key] = tuple(least_times(profile.path, table, times, cold) for cold in (True, False))
    found: tuple[tuple[int, int], tuple[int, int]] = profile.memo[key]
    return found


def _in_sm(profile: Profile, config: GPUConfig, fetch: int) -> dict[str, float]:
    """Times that the units of the busiest SM take for its share of the work."""
    sms, parts = config.sm.count, config.sm.sub_partitions
    amounts = profile.amounts
    start = _start(config) + fetch

    interval, _ = unit_timing(config)
    units = amounts[:, Amount.UNIT :]
    l1, memory, address = config.l1, config.memory_instruction, config.constant.address_cycles
    # Name: what a block of each kind keeps the unit busy for, how many units an SM has, and by how much the last
    # instruction in it may be earlier than the end of that time.
    found = {"issue slots": (amounts[:, Amount.ISSUES], parts, 1)}
    for name, unit in _PIPES.items():
        most = config.pipes.tensor_short_sums_speedup if unit == M.UNIT_TENSOR else 1
        values, early = units[:, unit] * (interval[unit] // most), int(interval[unit])
        if unit == M.UNIT_FMAHEAVY:
            wide = config.pipes.wide_initiation_cycles
            values, early = values + amounts[:, Amount.WIDE] * wide, max(early, wide)
        found[name] = values, parts, early + config.pipes.xu_ahead_cycles
    tags = np.maximum(amounts[:, Amount.LOAD_LINES] / l1.tag_lookups_per_cycle, amounts[:, Amount.REQUESTS])
    shared = config.shared
    data = amounts[:, Amount.WAVEFRONTS] * shared.wavefront_cycles + amounts[:, Amount.DATA]
    data += amounts[:, Amount.ATOMIC_WAVEFRONTS] * shared.atomic_wavefront_cycles
    queue = amounts[:, Amount.QUEUE] * config.pipes.lsu.initiation_cycles
    found |= {
        "memory queue": (queue, parts, 2),
        "L1 data": (data, 1, 32),
        "L1 tags": (tags + amounts[:, Amount.STRICT_LINES], 1, 32),
        "stores of an SM": (amounts[:, Amount.STORE_CYCLES], 1, 128),
        "constant loads": (amounts[:, Amount.CONSTANTS] * address, parts, 32 * address),
        "special registers": (amounts[:, Amount.SPECIALS] * memory.address_interval_cycles, 1, 2),
    }
    busy = busiest(profile, np.array([values for values, _, _ in found.values()]), sms)
    return {
        name: start + busy[k] / servers - early if busy[k] else 0.0
        for k, (name, (_, servers, early)) in enumerate(found.items())
    }


def _beyond(profile: Profile, config: GPUConfig, times: Times) -> dict[str, float]:
    """Times that crossbar, L2 and memory take for the sectors that have to pass them."""
    l2, crossbar = config.l2, config.crossbar
    total = profile.total
    fetched = profile.footprint.fetched[32]
    replies = max(fetched, total[Amount.PAST_L1_SECTORS]) + total[Amount.RETURN_SECTORS]
    lines = total[Amount.WRITE_LINES] + total[Amount.ATOMIC_LINES]
    requests = crossbar.request_header_bytes * (lines + max(fetched / 4, total[Amount.PAST_L1_LINES]))
    requests += total[Amount.WRITE_BYTES]
    ports = -(-config.sm.count // crossbar.sms_per_port)
    sectors = fetched + total[Amount.WRITE_SECTORS] + total[Amount.ATOMIC_SECTORS]
    sector_cycles = min(l2.atomic_sector_cycles, l2.atomic_whole_sector_cycles)
    updates = max(
        total[Amount.ATOMIC_LINES] * l2.atomic_same_address_cycles, total[Amount.ATOMIC_SECTORS] * sector_cycles
    )
    updates += total[Amount.PARTIAL_SECTORS] * l2.partial_write_cycles
    start = _start(config) + times.fetch
    reply_rate = min(
        ports * crossbar.port_reply_bytes_per_cycle,
        config.sm.count * max(crossbar.sm_reply_bytes_per_cycle, crossbar.sm_past_l1_bytes_per_cycle),
    )
    amounts = {
        "crossbar, to SMs": 32 * replies / reply_rate,
        "crossbar, from SMs": requests / (ports * crossbar.port_request_bytes_per_cycle),
        "L2 slices": sectors * 32 / (l2.slices * l2.slice_bytes_per_cycle),
        "atomic units": updates / l2.slices,
        "one line's atomics": max(profile.hot[0] * l2.atomic_same_address_cycles, profile.hot[1] * sector_cycles),
    }
    # The last of a queue waits for all before it, not for itself.
    terms = {name: start + cycles - 32 if cycles > 32 else 0.0 for name, cycles in amounts.items()}
    return terms | {"DRAM": _dram(profile, config, start, times.memory)}


def _dram(profile: Profile, config: GPUConfig, start: int, latency: int) -> float:
    """Sectors that have to come from memory, and those written that the L2 cannot keep."""
    l2, dram = config.l2, config.dram
    read = profile.footprint.fetched[l2.fetch_bytes]
    kept = l2.bytes // 32 * min(l2.dirty_ways, l2.ways) // l2.ways + 4 * dram.write_drain_entries * dram.channels
    written = max(profile.footprint.written - kept, 0)
    if read + written == 0:
        return 0.0
    burst = make_params(config, config.sm.count)[P_BURST] / TICKS
    busy = (read + written) * burst / dram.channels
    return start + (latency if read else 0) + max(busy - 4 * burst, 0)
