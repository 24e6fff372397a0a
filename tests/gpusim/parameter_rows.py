"""Every parameter of the configuration, a change of it, and what that does to a small kernel: the table of
`test_parameters.py`.

Each effect was predicted before it was run. A parameter without a row fails `test_every_parameter_has_a_row`. All runs
are on the `tiny` GPU, which gives the same cycles every time, so an effect of a few cycles is one. Where a change makes
some things faster and others slower, the kernel is one that has only the one side, or counts something.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from gpusim.config import load_config
from gpusim.engine.memory.system import MemorySystem
from gpusim.engine.state import L, ms
from gpusim.errors import ConfigError, LaunchError, OutOfDeviceMemory, SimulationError, SpinDeadlock
from gpusim.launch.launch import AccessWindow
from gpusim.launch.occupancy import occupancy
from gpusim.result import Result
from tests.gpusim.parameter_kernels import run, run_again, run_in_streams
from validate.published import measure

Measure = Callable[[Result], float]


@dataclass(frozen=True)
class Row:
    """`why` says what the effect follows from. base: overrides of both runs; also: what changes with the value."""

    key: str
    value: Any
    effect: Effect
    why: str
    base: Mapping[str, Any] = field(default_factory=dict)
    also: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.key}={self.value}"

    def check(self) -> None:
        """Run, and raise AssertionError if the effect is not there."""
        self.effect.check(dict(self.base), {**self.base, **self.also, self.key: self.value})


class Effect:
    """What a change does; `check` gets the overrides without and with it."""

    def check(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class Measured(Effect):
    """A number of a launch grows (`sign` 1), falls (-1) or is another one (0), by `least` of what it was or more."""

    launch: str
    of: Measure
    sign: int
    least: float

    def check(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        first, second = (self.of(run(self.launch, each, max_cycles=1_000_000)) for each in (before, after))
        change = second - first
        enough = max(self.least * abs(first), 1e-9)
        assert (self.sign * change if self.sign else abs(change)) >= enough, f"{self.launch}: {first} -> {second}"


@dataclass(frozen=True)
class Longer(Effect):
    """More cycles, by a share of them, of one of several launches (`run_again`) or of streams (`run_in_streams`)."""

    cycles_of: Callable[[str, Any], int]
    what: str
    least: float

    def check(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        first, second = (self.cycles_of(self.what, each) for each in (before, after))
        assert second >= first * (1 + self.least), f"{self.what}: {first} -> {second}"


def in_memory(kernel: str, overrides: Mapping[str, Any]) -> int:
    """Thousandths of a cycle that a kernel of the published measurements of tensor memory takes."""
    given = [f"{key}={value}" for key, value in overrides.items()]
    return int(1000 * measure("tiny", kernel, ("gpu.arch=sm_100", *given), "cycles"))


@dataclass(frozen=True)
class Fails(Effect):
    """A launch ends with an error, and without the change it does not."""

    launch: str
    match: str
    error: type[SimulationError] = LaunchError

    def check(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        run(self.launch, before)
        with pytest.raises(self.error, match=self.match):
            run(self.launch, after)


@dataclass(frozen=True)
class Refused(Effect):
    """The configuration says why this cannot be."""

    match: str

    def check(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        load_config("tiny", before)
        with pytest.raises(ConfigError, match=self.match):
            load_config("tiny", after)


@dataclass(frozen=True)
class Fits(Effect):
    """Blocks of an SM, or bytes of its L1, for blocks of 32 threads, 16 registers and `shared` bytes."""

    shared: int
    expected: tuple[int, int]
    what: str = "blocks_per_sm"

    def check(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        found = (occupancy(load_config("tiny", each), 32, 16, 0, self.shared) for each in (before, after))
        assert tuple(getattr(each, self.what) for each in found) == self.expected


@dataclass(frozen=True)
class Shown(Effect):
    """A label: it is in the configuration's text, and changes nothing else."""

    text: str
    report: bool = False

    def check(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        assert self.text in load_config("tiny", after).to_toml()
        first, second = run("empty", before), run("empty", after)
        assert first.cycles == second.cycles
        assert (self.text in str(second)) == self.report and self.text not in str(first)


@dataclass(frozen=True)
class SetAside(Effect):
    """Ways of a set of L2 that may persist: as a program finds them, or after it has set aside all that it can."""

    expected: tuple[int, int]
    most: bool = False

    def check(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        found = []
        for each in (before, after):
            config = load_config("tiny", each)
            system = MemorySystem(config, 1)
            if self.most:
                system.set_aside(config.l2.persisting_max_bytes)
            found.append(int(system.state[ms.P_KEPT_WAYS]))
        assert tuple(found) == self.expected


@dataclass(frozen=True)
class NoWindow(Effect):
    """A window of so many bytes is not taken any more."""

    nbytes: int

    def check(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        window = AccessWindow(0, self.nbytes)
        window.check(load_config("tiny", before))
        with pytest.raises(LaunchError, match="an access window with"):
            window.check(load_config("tiny", after))


def slower(launch: str, least: float = 0.01) -> Effect:
    """More cycles, by a share of them."""
    return Measured(launch, _cycles, 1, least)


def faster(launch: str, least: float = 0.01) -> Effect:
    """Fewer cycles, by a share of them."""
    return Measured(launch, _cycles, -1, least)


def in_streams(what: str, least: float) -> Effect:
    """What streams do takes longer."""
    return Longer(run_in_streams, what, least)


def more(launch: str, of: str | Measure, least: float = 0.01) -> Effect:
    """More of a metric."""
    return Measured(launch, _measure(of), 1, least)


def less(launch: str, of: str | Measure, least: float = 0.01) -> Effect:
    """Less of a metric."""
    return Measured(launch, _measure(of), -1, least)


def other(launch: str) -> Effect:
    """Another number of cycles: what grows for one address falls for another."""
    return Measured(launch, _cycles, 0, 0.0)


def _cycles(result: Result) -> float:
    return result.cycles


def _measure(of: str | Measure) -> Measure:
    return (lambda result: result.metrics[of]) if isinstance(of, str) else of


def stalls(reason: str) -> Measure:
    """Warp cycles of a stall reason."""
    return lambda result: result.stall_reasons[reason].cycles


def counted(index: int) -> Measure:
    """A counter of the memory system."""
    return lambda result: float(result.record.memory[index])


def l1_hits(result: Result) -> float:
    """Sectors that L1 had."""
    return float(result.record.counters[:, L.COUNT_HITS].sum())


EXECUTED = "smsp__inst_executed.sum"
WAVEFRONTS = "memory_l1_wavefronts_shared"
READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
SECTORS_WRITTEN = "lts__t_sectors_srcunit_tex_op_write.sum"
FABRIC = "lts__t_sectors_srcunit_ltcfabric.sum"
ASKED = "lts__t_sectors_srcunit_tex_op_read.sum"
TWO = {"l2.partitions": 2}
FOUR_SMS = {"sm.count": 4}
SMALL_L2 = {"l2.bytes": 131072}
SMALL_ICACHE = {"icache.l1_bytes": 4096}

ROWS = (
    Row("gpu.name", "Paper GPU", Shown("Paper GPU", report=True), "a label of reports"),
    Row("gpu.arch", "sm_80", Fails("empty", "a GPU of sm_80 does not run"), "machine code is for one architecture"),
    Row("gpu.dies", 7, Shown("dies = { value = 7"), "areas and power know it, times what the dies hold"),
    Row("gpu.clock_mhz", 3960, slower("read", 0.4), "memory's bytes a second are half as many a cycle; starts and ends "
        "of launches are cycles"),
    Row("gpu.warp_size", 33, Refused("gpu.warp_size"), "programs are compiled for 32"),
    Row("sm.count", 1, slower("copy", 0.5), "half as many SMs"),
    Row("sm.gpcs", 2, more("together", ASKED, 0.5), "reads of different GPCs are not joined", FOUR_SMS),
    Row("sm.cluster_sms", [1, 1], slower("many_cluster", 0.015), "both blocks of a cluster lie on one SM"),
    Row("sm.tpc_gpcs", [0, 0], less("together", ASKED, 0.4), "both TPCs are in the one", {**FOUR_SMS, "sm.gpcs": 2}),
    Row("sm.cluster_block_slots", 1, slower("clusters", 0.5), "one of eight at a time"),
    Row("sm.max_cluster_blocks", 1, Fails("cluster", "has no clusters"), "1: none"),
    Row("sm.sub_partitions", 2, slower("full_blocks", 0.5), "half as many schedulers"),
    Row("sm.sub_partitions", 8, faster("full_blocks", 0.3), "twice as many"),
    Row("sm.max_warps", 32, slower("full_blocks", 0.1), "one block of an SM instead of two"),
    Row("sm.max_blocks", 1, slower("empty_blocks", 2), "blocks start only after others have ended"),
    Row("sm.max_threads", 1024, slower("full_blocks", 0.1), "one block of an SM instead of two"),
    Row("sm.max_threads_per_block", 512, Fails("many_fma", "1,024 threads"), "the largest block"),
    Row("sm.registers", 16384, slower("full_blocks", 0.1), "one block's fit"),
    Row("sm.register_unit", 2048, slower("full_blocks", 0.1), "a warp gets 2,048, of which 32 fill the SM"),
    Row("sm.warp_allocation_unit", 512, Fails("fma", "registers"), "one warp counts as 512"),
    Row("sm.max_registers_per_thread", 4, Fails("fma", "registers per thread"), "code names more"),
    Row("sm.shared_bytes", 16384, Fits(8000, (25, 1)), "room for one block's shared memory",
        also={"sm.shared_capacities_bytes": [0, 16384], "sm.shared_bytes_per_block_max": 15360}),
    Row("sm.shared_capacities_bytes", [0, 233472], Fits(1024, (196608, 28672), "l1_bytes"), "no smaller one to choose"),
    Row("sm.shared_reserved_bytes", 0, Fits(22528, (9, 10)), "a tenth block has room where the system takes nothing"),
    Row("sm.shared_unit_bytes", 4096, Fits(18000, (12, 11)), "blocks get whole units"),
    Row("sm.shared_bytes_per_block_max", 1024, Fails("shared_load", "4,224 bytes of shared"), "the largest of a block"),
    Row("sm.static_shared_bytes_max", 1024, Fails("shared_load", "static"), "the largest static one"),
    Row("sm.unified_l1_bytes", 524288, more("twice", l1_hits, 0.5), "64 KB stay in an L1 that had 28",
        {"sm.shared_capacities_bytes": [233472]}),
    Row("issue.policy", "lrr", slower("full_blocks", 0.05), "blocks end together instead of one after the other"),
    Row("issue.policy", "gto", other("many_loop"), "one warp goes on at the cost of the others"),
    Row("issue.reconvergence", "stack", Fails("waiting", "lanes 0x0000ffff of warp 0 spin", SpinDeadlock),
        "who spins never gives way to who would let it go on"),
    Row("issue.branch_latency_cycles", 20, slower("loop", 0.2), "a taken branch a round"),
    Row("issue.indirect_branch_latency_cycles", 84, slower("call", 0.3), "a return a round"),
    Row("issue.bsync_latency_cycles", 26, slower("nested", 0.02), "two places to meet a round"),
    Row("issue.bsync_after_branch_cycles", 20, slower("nested", 0.02), "groups that branch to where they meet"),
    Row("issue.old_group_cycles", 70, slower("nested", 0.05), "the first group left behind goes on last"),
    Row("issue.bar_base_cycles", 24, slower("barrier", 0.1), "a barrier a round"),
    Row("issue.bar_data_cycles", 505, slower("many_shared_add", 0.1), "atomics behind a barrier"),
    Row("issue.exit_cycles", 107, slower("empty", 0.2), "of the only warp"),
    Row("issue.last_in_line_cycles", 100, slower("fma", 0.2), "the loop begins with the last instruction of a line"),
    Row("issue.busy_unit_percent", 0, less("many_xu", stalls("math_pipe_throttle"), 0.1),
        "waits for a busy pipe are charged to the warps that issue"),
    Row("issue.bar_per_warp_cycles", 4, slower("barrier", 0.1), "of eight warps"),
    Row("pipes.fma.initiation_cycles", 2, slower("many_fma", 0.2), "eight warps of a scheduler fill the pipe"),
    Row("pipes.fma.latency_cycles", 8, slower("fma", 0.2), "each needs the one before it"),
    Row("pipes.fma.latency_cycles", 2, faster("fma", 0.1), "each needs the one before it"),
    Row("pipes.imad.initiation_cycles", 4, slower("many_imad", 0.3), "eight warps of a scheduler fill the pipe"),
    Row("pipes.imad.latency_cycles", 8, slower("imad", 0.2), "each needs the one before it"),
    Row("pipes.alu.initiation_cycles", 4, slower("many_alu", 0.3), "eight warps of a scheduler fill the pipe"),
    Row("pipes.alu.latency_cycles", 8, slower("alu", 0.2), "each needs the one before it"),
    Row("pipes.half.initiation_cycles", 4, slower("many_half", 0.3), "eight warps of a scheduler fill the pipe"),
    Row("pipes.half.latency_cycles", 10, slower("half", 0.1), "each needs the one before it"),
    Row("pipes.fp64.initiation_cycles", 4, slower("many_fp64", 0.3), "eight warps of a scheduler fill the pipe"),
    Row("pipes.fp64.latency_cycles", 16, slower("fp64", 0.3), "each needs the one before it"),
    Row("pipes.fp64.latency_cycles", 4, faster("fp64", 0.1), "each needs the one before it"),
    Row("pipes.xu.initiation_cycles", 16, slower("many_xu", 0.5), "eight warps of a scheduler fill the pipe"),
    Row("pipes.xu.latency_cycles", 34, slower("xu", 0.4), "each needs the one before it"),
    Row("pipes.popc.initiation_cycles", 11, slower("many_special", 0.1), "reads of special registers"),
    Row("pipes.popc.latency_cycles", 100, slower("counted", 0.1), "a barrier's count is read after it"),
    Row("pipes.lsu.initiation_cycles", 11, slower("many_shuffle", 0.5), "shuffles of eight warps"),
    Row("pipes.uniform.initiation_cycles", 11, slower("many_loop", 0.5), "the loop's counter is uniform"),
    Row("pipes.uniform.latency_cycles", 24, slower("loop", 0.1), "the loop's end is compared with its counter"),
    Row("pipes.branch.initiation_cycles", 11, slower("many_loop", 0.5), "a branch a round of each of eight warps"),
    Row("pipes.tensor.initiation_cycles", 12, slower("many_tensor", 0.3), "four warps of a scheduler"),
    Row("pipes.tensor.latency_cycles", 48, slower("tensor", 0.3), "each needs the sum of the one before it"),
    Row("pipes.tensor_short_sums_speedup", 3, faster("many_short_sums", 0.1), "sums of 16 bits"),
    Row("pipes.wide_dispatch_cycles", 8, slower("many_wide", 0.4), "upper words of products"),
    Row("pipes.wide_initiation_cycles", 8, slower("many_wide", 0.4), "upper words of products"),
    Row("pipes.xu_ahead_cycles", 0, more("many_xu", stalls("mio_throttle"), 0.05), "waits are before the issue"),
    Row("pipes.group_columns_per_cycle", 1, slower("group", 0.03), "32 columns take 32 cycles, not the least 24"),
    Row("pipes.group_least_cycles", 48, slower("group", 0.1), "32 columns take less"),
    Row("pipes.group_latency_cycles", 176, slower("group", 0.1), "each group is waited for"),
    Row("tensor_memory.columns_per_cycle", 1, Longer(in_memory, "batch f16 128x128 8", 0.3), "128 cycles each for 64"),
    Row("tensor_memory.shared_bytes_per_cycle", 64, Longer(in_memory, "batch f16 128x128 8", 0.3), "8 KiB each"),
    Row("tensor_memory.product_latency_cycles", 400, Longer(in_memory, "batch f16 128x64 1", 0.5), "one alone"),
    Row("tensor_memory.pair_latency_cycles", 400, Longer(in_memory, "batch f16 256x64 pair 1", 0.3), "one alone"),
    Row("tensor_memory.commit_latency_cycles", 400, Longer(in_memory, "batch f16 128x64 1", 0.5), "one alone"),
    Row("tensor_memory.load_latency_cycles", 100, Longer(in_memory, "move load_32x32", 0.5), "one alone"),
    Row("tensor_memory.store_latency_cycles", 100, Longer(in_memory, "move store_16", 0.5), "one alone"),
    Row("tensor_memory.port_bytes_per_cycle", 32, Longer(in_memory, "move load_32x32", 0.5), "sixteen registers"),
    Row("tensor_memory.copy_bytes_per_cycle", 16, Longer(in_memory, "batch copy 128x16 8", 0.5), "4 KiB each"),
    Row("memory_instruction.queue_depth", 2, more("shared_store", stalls("mio_throttle"), 0.05), "the queue is full"),
    Row("memory_instruction.store_queue_depth", 2, more("shared_store", stalls("mio_throttle"), 0.05),
        "the queue has no more room for stores"),
    Row("memory_instruction.entry_cycles", 20, slower("special", 0.3), "each is waited for"),
    Row("memory_instruction.bulk_start_cycles", 340, slower("bulk", 0.1), "one copy after the other"),
    Row("memory_instruction.bulk_store_start_cycles", 340, slower("bulk_store", 0.1), "one copy after the other"),
    Row("memory_instruction.copy_land_cycles", 140, slower("copies", 0.1), "one group after the other"),
    Row("memory_instruction.load_source_release_cycles", 44, slower("reuse_global_load", 0.1), "the address is reused"),
    Row("memory_instruction.store_source_release_cycles", 44, slower("reuse_global_store", 0.2), "the data are reused"),
    Row("memory_instruction.shared_load_source_release_cycles", 36, slower("reuse_shared_load", 0.2),
        "the address is reused"),
    Row("memory_instruction.shared_store_source_release_cycles", 44, slower("reuse_shared_store", 0.2),
        "the data are reused"),
    Row("memory_instruction.store_source_release_per_register_cycles", 8, slower("reuse_global_vector", 0.1),
        "four registers a store, three times more"),
    Row("memory_instruction.constant_source_release_cycles", 40, slower("reuse_constant_load", 0.2),
        "the address is reused"),
    Row("memory_instruction.store_drain_cycles", 76, more("wide_store", stalls("drain"), 0.2), "a warp ends later"),
    Row("memory_instruction.data_interval_cycles", 4, slower("shared_store", 0.3), "stores of 32 warps"),
    Row("memory_instruction.data_interval_cycles", 4, slower("hits", 0.3), "32 warps hit"),
    Row("memory_instruction.address_interval_cycles", 4, slower("many_special", 0.3), "one read after the other"),
    Row("memory_instruction.s2r_latency_cycles", 40, slower("special", 0.3), "each is waited for"),
    Row("memory_instruction.shuffle_latency_cycles", 48, slower("shuffle", 0.5), "each needs the one before it"),
    Row("memory_instruction.vote_latency_cycles", 24, slower("vote", 0.2), "each needs the one before it"),
    Row("memory_instruction.match_latency_cycles", 370, slower("match", 0.3), "each needs the one before it"),
    Row("memory_instruction.match_value_cycles", 22, slower("match", 0.3), "32 values each"),
    Row("memory_instruction.redux_latency_cycles", 88, slower("redux", 0.5), "each needs the one before it"),
    Row("memory_instruction.fence_cta_latency_cycles", 16, slower("block_fence", 0.3), "one after the other"),
    Row("memory_instruction.fence_gpu_latency_cycles", 128, faster("gpu_fence", 0.3), "one after the other"),
    Row("memory_instruction.fence_system_latency_cycles", 2266, slower("system_fence", 0.3), "one after the other"),
    Row("memory_instruction.fence_gpu_again_cycles", 2000, slower("cluster", 0.1), "a thread has stored before"),
    Row("shared.banks", 16, more("many_shared_conflicts", WAVEFRONTS, 0.5), "words 8 apart: 8 banks of 32, 2 of 16"),
    Row("shared.banks", 64, less("many_shared_conflicts", WAVEFRONTS, 0.2), "and 8 of 64"),
    Row("shared.bank_bytes", 8, less("shared_conflicts", WAVEFRONTS, 0.2), "words 32 apart lie in two banks"),
    Row("shared.latency_cycles", 46, slower("shared_load", 0.1), "each needs the one before it"),
    Row("shared.wavefront_latency_cycles", 4, slower("shared_conflicts", 0.2), "31 further wavefronts a load"),
    Row("shared.wavefront_cycles", 2, slower("shared_store", 0.3), "stores of 32 warps"),
    Row("shared.atomic_latency_cycles", 54, slower("shared_add", 0.2), "each needs the one before it"),
    Row("shared.atomic_wavefront_cycles", 4, slower("many_shared_add", 0.3), "conflicts of 16 warps"),
    Row("shared.mbarrier_latency_cycles", 320, slower("bulk", 0.05), "each round arrives before it copies"),
    Row("shared.mbarrier_wake_cycles", 380, slower("bulk", 0.1), "each round waits for a copy"),
    Row("shared.mbarrier_wait_cycles", 40, more("bulk", EXECUTED, 0.02), "looks give up and come back"),
    Row("shared.remote_latency_cycles", 360, slower("cluster", 0.2), "each needs the one before it"),
    Row("shared.remote_send_cycles", 12, slower("many_cluster", 0.2), "32 warps ask, and are answered"),
    Row("shared.remote_receive_cycles", 12, slower("many_cluster", 0.2), "the same where the answers arrive"),
    Row("shared.remote_gpc_cycles", 6, slower("many_cluster", 0.2), "and in between"),
    Row("shared.cluster_barrier_per_warp_cycles", 20, slower("many_cluster_barrier", 0.2), "32 warps arrive"),
    Row("shared.cluster_barrier_cycles", 360, slower("cluster_barrier", 0.2), "a barrier a round"),
    Row("icache.line_bytes", 256, faster("straight", 0.05), "half as many lines, each as fast"),
    Row("icache.l0_bytes", 256, slower("uniform", 0.01), "a loop of 14 lines"),
    Row("icache.l1_bytes", 4096, slower("straight", 0.05), "the second round finds little of 16 KB"),
    Row("icache.l15_bytes", 8192, slower("straight", 0.05), "the second round goes beyond the SM", SMALL_ICACHE),
    Row("icache.ways", 1, faster("straight", 0.01), "of a loop of 16 KB some stays where it does not meet itself",
        {"icache.l1_bytes": 12288}),
    Row("icache.prefetch_lines", 1, slower("straight", 0.5), "lines are asked for when they are wanted"),
    Row("icache.l1_latency_cycles", 80, slower("straight", 0.2), "lines come later than eight instructions take"),
    Row("icache.l15_latency_cycles", 240, slower("straight", 0.05), "the second round is in L1.5", SMALL_ICACHE),
    Row("icache.l2_latency_cycles", 400, slower("empty", 0.2), "the first line is waited for"),
    Row("icache.l1_line_cycles", 20, slower("many_straight", 0.05), "four L0 ask for every line"),
    Row("icache.l15_line_cycles", 36, slower("straight", 0.2), "128 lines come one after the other"),
    Row("icache.l2_line_cycles", 90, slower("straight", 0.1), "the second round comes from beyond the SM",
        {**SMALL_ICACHE, "icache.l15_bytes": 8192}),
    Row("icache.launch_bytes", 4096, slower("straight", 0.2), "the rest of 16 KB comes out of memory"),
    Row("icache.memory_latency_cycles", 1360, slower("straight", 0.2), "they come from memory",
        {"icache.launch_bytes": 4096}),
    Row("constant.line_bytes", 128, faster("constants", 0.02), "half as many lines to miss"),
    Row("constant.l0_bytes", 512, slower("constants", 0.1), "eight lines, of the 16 that a loop goes through"),
    Row("constant.l15_bytes", 512, slower("constants", 0.3), "and no more in the second level",
        {"constant.l0_bytes": 512}),
    Row("constant.address_cycles", 80, slower("reuse_constant_load", 0.5), "one load after the other"),
    Row("constant.load_latency_cycles", 70, slower("constants", 0.1), "each needs the one before it"),
    Row("constant.l15_latency_cycles", 148, slower("constants", 0.05), "lines that were fetched with others"),
    Row("constant.miss_interval_cycles", 100.0, slower("many_fma", 0.05), "first lines of four sub-partitions"),
    Row("constant.fetch_bytes", 512, faster("far_constants", 0.1), "half as many go to memory"),
    Row("constant.memory_latency_cycles", 1280, slower("far_constants", 0.2), "one in four lines"),
    Row("launch.overhead_cycles", 400, slower("empty", 0.3), "of the launch itself"),
    Row("launch.again_cycles", 50_000, Longer(run_again, "constants", 0.1), "the second launch, on an idle GPU"),
    Row("launch.sm_start_cycles", 80, slower("empty", 0.05), "of the first block on each SM"),
    Row("launch.fill_interval_cycles", 30.0, slower("empty_blocks", 0.3), "64 blocks, one after the other"),
    Row("launch.cluster_interval_cycles", 3000.0, slower("cluster", 0.1), "of the one cluster"),
    Row("launch.block_interval_cycles", 30.0, slower("empty_blocks", 0.3), "64 ends, one after the other"),
    Row("launch.sm_block_cycles", 44, slower("empty_blocks", 0.3), "32 blocks of an SM"),
    Row("launch.block_setup_cycles", 60, slower("empty_blocks", 0.3), "32 blocks of an SM"),
    Row("launch.refill_cycles", 900, slower("full_blocks", 0.02), "each SM has blocks that wait"),
    Row("launch.refill_spread_cycles", 2000, slower("full_blocks", 0.02), "each SM has blocks that wait"),
    Row("launch.block_launch_cycles", 80, slower("empty", 0.05), "of the first block"),
    Row("launch.warp_launch_cycles", 22, slower("empty_blocks", 0.3), "two warps a block"),
    Row("launch.drain_cycles", 52, slower("empty", 0.05), "of the last block"),
    Row("launch.grid_interval_cycles", 5000, in_streams("grids", 0.3), "eight grids of eight streams"),
    Row("launch.hardware_queues", 1, in_streams("twice", 0.3), "each stream's second grid keeps the others' first out"),
    Row("launch.event_cycles", 50_000, in_streams("event", 0.3), "an event between two grids"),
    Row("launch.wait_cycles", 50_000, in_streams("wait", 0.3), "a stream waits for another one's event"),
    Row("launch.node_cycles", 50_000, in_streams("graph", 0.3), "four grids of a graph"),
    Row("launch.fork_interval_cycles", 50_000, in_streams("fork", 0.3), "four grids of a graph that wait for one"),
    Row("launch.fork_most", 2, in_streams("fork", 0.05), "of which the first begins later then"),
    Row("launch.wide_fork_cycles", 50_000, in_streams("wide fork", 0.3), "nine grids of a graph that wait for one"),
    Row("launch.wide_interval_cycles", 50_000, in_streams("wide fork", 0.3), "and begin one after the other"),
    Row("launch.programmatic_cycles", 50_000, in_streams("dependent", 0.3), "grids that the one before lets begin"),
    Row("launch.dependency_cycles", 50_000, in_streams("dependent", 0.3), "and that wait for its end"),
    Row("launch.copy_look_cycles", 90_000, in_streams("copy", 0.3), "a grid behind a copy"),
    Row("launch.copy_looks_cycles", 90_000, in_streams("copy", 0.3), "a grid behind a copy that the first look misses"),
    Row("launch.max_grid", [1, 1, 1], Fails("copy", "grid"), "16 blocks"),
    Row("launch.max_block", [16, 1, 1], Fails("empty", "block"), "32 threads"),
    Row("l1.line_bytes", 64, Refused("l1.line_bytes: must be 128, got 64"), "compiled in"),
    Row("l1.sector_bytes", 64, Refused("l1.sector_bytes: must be 32, got 64"), "compiled in"),
    Row("l1.replacement", "random", more("twice", l1_hits, 0.2), "of lines in turn the oldest is the next one wanted",
        {"sm.shared_capacities_bytes": [233472]}),
    Row("l1.write_allocate", False, less("reread", l1_hits, 0.5), "what has been stored is loaded"),
    Row("l1.stored_lines", 1, more("fields", SECTORS_WRITTEN, 0.5), "eight lines wait for seven stores more"),
    Row("l1.stored_cycles", 400, less("store_again", SECTORS_WRITTEN, 0.5), "the next store comes first"),
    Row("l1.store_line_cycles", 20, slower("scatter", 0.1), "32 lines a store"),
    Row("l1.ways", 4096, less("twice", l1_hits, 0.9), "more ways than lines: no set is left"),
    Row("l1.reserved_lines", 4096, less("twice", l1_hits, 0.9), "no line is left"),
    Row("l1.latency_cycles", 64, slower("chase_l1", 0.05), "each address comes out of L1",
        {"l2.lookahead_cycles": 100}),
    Row("l1.tag_lookups_per_cycle", 1, slower("skewed", 0.2), "32 lines a load"),
    Row("l1.waiting_loads", 1, more("hits", stalls("lg_throttle"), 0.05), "loads of 4 turns each wait in the queue",
        {"l1.data_bytes_per_cycle": 32}),
    Row("l1.data_bytes_per_cycle", 32, slower("hits", 0.3), "32 warps hit"),
    Row("l1.max_outstanding_sectors", 8, slower("gather", 0.3), "two lines at a time"),
    Row("l1.max_outstanding_flits", 1, slower("scatter", 0.3), "one line at a time"),
    Row("crossbar.sms_per_port", 1, faster("read_again", 0.05), "a port for each SM"),
    Row("crossbar.port_request_bytes_per_cycle", 1, slower("scatter", 0.5), "stores need an own cycle a byte"),
    Row("crossbar.port_reply_bytes_per_cycle", 32, slower("read_again", 0.2), "two SMs share it"),
    Row("crossbar.sm_reply_bytes_per_cycle", 16, slower("from_l2", 0.3), "less than half of a port, L1 is small",
        {"sm.shared_capacities_bytes": [233472]}),
    Row("crossbar.sm_past_l1_bytes_per_cycle", 8, slower("many_copies", 0.2), "copies past L1"),
    Row("crossbar.sm_past_l1_bytes_per_cycle", 16, slower("read_again", 0.2), "strong loads, which go past it too"),
    Row("crossbar.request_header_bytes", 64, slower("read_again", 0.2), "16 times as long as a line's",
        {"crossbar.port_request_bytes_per_cycle": 4}),
    Row("crossbar.tpcs_per_cpc", 1, faster("scatter", 0.05), "a way for each of two TPCs of a GPC",
        {**FOUR_SMS, "crossbar.cpc_flits_per_cycle": 0.1}),
    Row("crossbar.cpc_flits_per_cycle", 0.1, slower("scatter", 0.2), "a part in ten cycles"),
    Row("crossbar.flit_cycles", 40.0, slower("reduce_lines", 0.2), "five of each line"),
    Row("crossbar.tpc_cycles", 60.0, slower("chase_l2", 0.1), "the first of a CPC's three TPCs lies farthest",
        {**FOUR_SMS, "sm.gpcs": 1, "crossbar.tpcs_per_cpc": 3, "l2.lookahead_cycles": 80}),
    Row("crossbar.cpc_cycles", 60.0, faster("chase_l2", 0.08), "the first CPC of a GPC lies nearest",
        {**FOUR_SMS, "sm.gpcs": 1, "crossbar.tpcs_per_cpc": 1, "l2.lookahead_cycles": 80}),
    Row("l2.bytes", 131072, more("read_again", READ, 0.5), "256 KB are read three times"),
    Row("l2.partitions", 2, more("chase_memory", FABRIC, 0.0), "half of the lines live in the other"),
    Row("l2.gpc_partitions", [1], other("chase_l2"), "the one page that is read is near or far", TWO),
    Row("l2.home_address_bits", [40], other("chase_pages"), "all lines live in one partition", TWO),
    Row("l2.slices", 2, slower("scatter", 0.1), "half as many units that merge"),
    Row("l2.ways", 1, more("read_again", READ, 0.05), "lines of one set push each other out", {"l2.bytes": 327680}),
    Row("l2.dirty_ways", 1, more("scatter_words", WRITTEN, 0.05), "all but one line of a set is written back"),
    Row("l2.dirty_before_bytes", 65536, more("copy", WRITTEN, 0.02), "another program's are written back", SMALL_L2),
    Row("l2.launch_bytes", 1 << 20, more("empty", READ, 2), "read by the launch"),
    Row("l2.launch_code_bytes", 1 << 20, more("empty", READ, 2), "read by the launch"),
    Row("l2.launch_hit_bytes", 1 << 20, more("empty", FABRIC, 2), "crosses for the launch", TWO),
    Row("l2.write_probes", 1.0, more("scatter", FABRIC, 0.05), "a question for each line that is written", TWO),
    Row("l2.line_bytes", 256, Refused("l2.line_bytes: must be 128, got 256"), "compiled in"),
    Row("l2.sector_bytes", 16, Refused("l2.sector_bytes: must be 32, got 16"), "compiled in"),
    Row("l2.replacement", "random", less("read_again", READ, 0.05), "of lines in turn the oldest is the next wanted",
        SMALL_L2),
    Row("l2.persisting_share", 0.25, SetAside((10, 4), most=True), "ten of sixteen ways, or four"),
    Row("l2.persisting_start_share", 0.5, SetAside((3, 8)), "three of sixteen ways, or eight"),
    Row("l2.window_max_bytes", 1024, NoWindow(4096), "four times as large"),
    Row("l2.latency_near_cycles", 400, slower("chase_l2", 0.1), "each address comes out of L2"),
    Row("l2.latency_spread_cycles", 0, other("chase_l2"), "the mean stays, this slice's own does not"),
    Row("l2.latency_far_cycles", 600, slower("chase_pages", 0.05), "half of the lines live in the other",
        {**TWO, "l2.near_copy": False}),
    Row("l2.near_copy", False, more("read_again", FABRIC, 0.5), "far lines are asked for each time", TWO),
    Row("l2.coalesced_reads", 1, more("together", ASKED, 0.5), "four SMs read the same", FOUR_SMS),
    Row("l2.coalescing_window_cycles", 0, more("chase_together", ASKED, 0.3), "what L2 has cannot be joined",
        {**FOUR_SMS, "l2.latency_spread_cycles": 0}),
    Row("l2.fetch_bytes", 32, less("sparse", READ, 0.3), "one sector of a line is wanted"),
    Row("l2.slice_flit_cycles", 64.0, slower("scatter", 0.2), "two parts a store"),
    Row("l2.barrier_cycles", 5_000, slower("read", 0.2), "two SMs have asked all slices", TWO),
    Row("l2.slice_read_cycles", 16.0, slower("read_again", 0.2), "four slices"),
    Row("l2.slice_bytes_per_cycle", 8, slower("read_again", 0.2), "four slices"),
    Row("l2.fabric_bytes_per_cycle", 4, slower("read_again", 0.2), "half of the lines live in the other", TWO),
    Row("l2.atomic_latency_cycles", 1070, slower("atomic_chase", 0.5), "each needs the one before it"),
    Row("l2.atomic_sector_cycles", 28.0, slower("reduce_words", 0.2), "a sector a word"),
    Row("l2.atomic_whole_sector_cycles", 40.0, slower("reduce_lines", 0.2), "warps of whole lines"),
    Row("l2.atomic_same_address_cycles", 5.6, slower("reduce_one", 0.3), "one address"),
    Row("l2.ordered_hits", 64, slower("read_again", 0.005), "more hits wait for misses"),
    Row("l2.atomic_turn_cycles", 40.0, slower("reduce_words", 0.2), "each to a line of its own"),
    Row("l2.atomic_same_float_cycles", 14.0, slower("reduce_floats", 0.3), "one address"),
    Row("l2.partial_write_cycles", 10.0, slower("scatter", 0.3), "a word of each sector"),
    Row("l2.partial_request_cycles", 10.0, slower("scatter", 0.3), "one sector a request"),
    Row("l2.lookahead_cycles", 1000, Refused("l2.lookahead_cycles must not exceed the shortest way to L2"),
        "else a reply could come in the window of its request"),
    Row("constant.l2_latency_cycles", 1060, Longer(run_again, "constants", 0.1), "constants of a program that has run"),
    Row("dram.kind", "DDR2", Shown("DDR2"), "a label of the configuration"),
    Row("dram.capacity_bytes", 4096, Fails("copy", "4,096 bytes", OutOfDeviceMemory), "arrays of 256 KB"),
    Row("dram.channels", 1, slower("read", 0.02), "fewer banks, each with one row open",
        {"dram.banks_per_channel": 4}),
    Row("dram.banks_per_channel", 1, slower("read", 0.3), "four rows are open at a time"),
    Row("dram.row_bytes", 8192, more("read", counted(ms.CNT_ROW_HITS), 0.01), "more lines of an open row"),
    Row("dram.bandwidth_gb_s", 50.0, slower("read", 0.3), "the bus is busy twice as long"),
    Row("dram.latency_cycles", 1280, slower("chase_memory", 0.5), "each address comes out of memory"),
    Row("dram.row_activate_cycles", 100, faster("chase_row", 0.01),
        "a closed row is what `latency_cycles` is of: an open one is faster by so much",
        {"dram.row_idle_cycles": 5000}),
    Row("dram.row_precharge_cycles", 200, slower("read", 0.1), "rows close each other", {"dram.banks_per_channel": 1}),
    Row("dram.row_cycle_cycles", 360, slower("read", 0.1), "rows of a bank follow each other",
        {"dram.banks_per_channel": 4}),
    Row("dram.activate_interval_cycles", 200.0, slower("gather_lines", 0.05), "each line in a row of its own"),
    Row("dram.row_idle_cycles", 0, less("read", counted(ms.CNT_ROW_CONFLICTS), 0.2), "no row is left open"),
    Row("dram.read_to_write_cycles", 1000, slower("copy", 0.02), "the bus turns for each batch", SMALL_L2),
    Row("dram.write_to_read_cycles", 1000, slower("copy", 0.02), "and back", SMALL_L2),
    Row("dram.write_drain_entries", 224, less("copy", counted(ms.CNT_DRAINS), 0.3), "larger batches", SMALL_L2),
    Row("dram.bus_efficiency", 0.4635, slower("read", 0.3), "the bus is busy twice as long"),
    Row("dram.refresh_interval_cycles", 15444, faster("gather_lines", 0.05), "fewer reads meet one"),
    Row("dram.refresh_channels", 1, other("gather_lines"), "banks are late alone or together"),
    Row("dram.refresh_cycles", 1, faster("gather_lines", 0.05), "nobody waits for one"),
)
