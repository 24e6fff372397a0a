"""The configuration's sections, one class each: every key, what it means, its unit (in the name) and its range.

Keys have no defaults: a configuration file, or the one it is based on, gives every value and where it comes from. All
times are SM clock cycles. More than 500 lines, because it is one table: the reference of the configuration.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator


def _power_of_two(value: int) -> int:
    if value & (value - 1):
        raise ValueError(f"must be a power of two, got {value}")
    return value


PowerOfTwo = Annotated[int, Field(gt=0), AfterValidator(_power_of_two)]
Count = Annotated[int, Field(gt=0)]
# The engine remembers as many (`QUEUE_MOST` in gpusim/engine/state/layout.py).
QueueDepth = Annotated[int, Field(gt=0, le=32)]
Cycles = Annotated[int, Field(ge=0)]
Percent = Annotated[int, Field(ge=0, le=100)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Delay = Annotated[float, Field(ge=0, le=100)]
# Where the engine has a fixed number of bits or words for something, as each key's description or error says.
Blocks = Annotated[int, Field(gt=0, le=256)]
Gpcs = Annotated[int, Field(gt=0, le=1024)]
Sectors = Annotated[int, Field(gt=0, le=32000)]
Ways = StoredLines = Annotated[int, Field(gt=0, le=63)]
Dim3 = tuple[Count, Count, Count]


def _fixed(size: int, why: str) -> AfterValidator:
    """For a number that compiled code is built on: an error that says so."""

    def check(value: int) -> int:
        if value != size:
            raise ValueError(f"must be {size}, got {value}: {why}")
        return value

    return AfterValidator(check)


LineBytes = Annotated[int, _fixed(128, "addresses are split into lines of four sectors in compiled code")]
SectorBytes = Annotated[int, _fixed(32, "a request says in four bits which quarters of its line it wants")]
Replacement = Literal["fifo", "lru", "random"]
_REPLACEMENT = (
    "which line of a set goes: lru the least recently used, fifo the oldest, random any (the same in every run)"
)


def _doc(text: str) -> Any:
    return Field(description=text)


class Section(BaseModel):
    """Base of all sections: immutable, hashable, compared by value, strict about types and unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class Gpu(Section):
    """Name of the device, and the clock that all cycles count."""

    name: str = Field(min_length=1, description="name of the product")
    arch: str = Field(pattern=r"^sm_\d+[af]?$", description="architecture that programs are compiled for")
    clock_mhz: Count = _doc("SM clock; turns cycles into time")
    dies: Count = _doc("dies that are one GPU, for area and power; what it costs to cross is in section `l2`")
    warp_size: Literal[32] = _doc("lanes of a warp, for which programs are compiled")


class Sm(Section):
    """Number of SMs and contents of one (registers are 32 bits wide)."""

    count: Count = _doc("SMs that are enabled")
    gpcs: Gpcs = _doc("graphics processing clusters that the SMs are divided among; a thread block cluster lies in one")
    tpc_gpcs: tuple[Annotated[int, Field(ge=0)], ...] = _doc(
        "GPC of each TPC, that is of each pair of SMs (`crossbar.sms_per_port`), in the order in which they get "
        "blocks; for any other number of TPCs than are listed they go round the GPCs"
    )
    cluster_sms: tuple[Count, ...] = Field(
        (), max_length=31, description="SMs of each group that a thread block cluster lies in, in the order in which "
        "they get blocks; GPCs that are alike, if these are not all SMs"
    )
    max_cluster_blocks: Annotated[int, Field(gt=0, le=16)] = _doc("blocks of the largest cluster; 1: no clusters")
    cluster_block_slots: Count = _doc("blocks of clusters that an SM holds at most")
    sub_partitions: Count = _doc("sub-partitions, each with its own scheduler; warp w runs on w modulo this")
    max_warps: Count = _doc("resident warps")
    max_blocks: Blocks = _doc("resident blocks")
    max_threads: Count = _doc("resident threads")
    max_threads_per_block: Count = _doc("threads of one block")
    registers: Count = _doc("registers of all sub-partitions together")
    register_unit: PowerOfTwo = _doc("registers are given to a warp in multiples of this")
    warp_allocation_unit: Count = _doc("registers are given to a block for a multiple of this many warps")
    max_registers_per_thread: Count = _doc("registers that one thread can name")
    shared_bytes: Count = _doc("largest shared memory of an SM")
    shared_capacities_bytes: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        min_length=1, description="shared memory sizes an SM can be set to, ascending; the rest is L1"
    )
    shared_reserved_bytes: Cycles = _doc("shared memory that the system takes from each block's share")
    shared_unit_bytes: PowerOfTwo = _doc("shared memory is given to a block in multiples of this")
    shared_bytes_per_block_max: Count = _doc("shared memory of a block, static and dynamic, without the reserved part")
    static_shared_bytes_max: Count = _doc("shared memory that a block may declare statically")
    unified_l1_bytes: Count = _doc("L1 cache and shared memory together")

    @model_validator(mode="after")
    def _consistent(self) -> Sm:
        steps = self.shared_capacities_bytes
        if list(steps) != sorted(set(steps)):
            raise ValueError("shared_capacities_bytes must be ascending and distinct")
        if steps[-1] != self.shared_bytes:
            raise ValueError(f"shared_capacities_bytes must end at shared_bytes = {self.shared_bytes}, not {steps[-1]}")
        if self.shared_bytes > self.unified_l1_bytes:
            raise ValueError("shared_bytes must not exceed unified_l1_bytes")
        if self.shared_bytes_per_block_max + self.shared_reserved_bytes > self.shared_bytes:
            raise ValueError("shared_bytes_per_block_max plus shared_reserved_bytes must not exceed shared_bytes")
        if self.max_warps % self.sub_partitions:
            raise ValueError("max_warps must be a multiple of sub_partitions")
        if self.registers % (self.sub_partitions * self.register_unit):
            raise ValueError("registers must be a multiple of sub_partitions times register_unit")
        return self

    @property
    def registers_per_sub_partition(self) -> int:
        """Registers of one sub-partition."""
        return self.registers // self.sub_partitions


class Issue(Section):
    """The warp scheduler of a sub-partition and what happens between two issues of a warp."""

    policy: Literal["block", "glrr", "gto", "gty", "lrr", "oldest"] = _doc(
        "which ready warp issues: block stays with one warp while it issues in every cycle, then takes the last one of "
        "the oldest block, or the next in turn behind a yield or a busy unit; gto, gty and glrr stay with one warp, "
        "then take the oldest, the youngest or the next in turn; lrr goes round; oldest always takes the oldest"
    )
    reconvergence: Literal["lanes", "stack"] = _doc(
        "where lanes of a warp part: lanes each have a program counter and give way to each other, as since Volta; "
        "stack, as before it: one side goes to where the two meet before the other one starts, and never gives way"
    )
    branch_latency_cycles: Cycles = _doc("cycles from a taken branch until its target can issue")
    indirect_branch_latency_cycles: Cycles = _doc("the same for a return and other branches to an address in registers")
    bsync_latency_cycles: Cycles = _doc("cycles from a BSYNC until the warp issues again, whoever waits or goes on")
    bsync_after_branch_cycles: Cycles = _doc("cycles from a taken branch until a BSYNC at its target can issue")
    old_group_cycles: Cycles = _doc("further cycles of a YIELD, or if other lanes go on than those left behind last")
    bar_base_cycles: Cycles = _doc("barrier: cycles from the last arrival until the first warp runs, for no warps")
    bar_per_warp_cycles: Cycles = _doc("barrier: further cycles for each warp of the block")
    bar_data_cycles: Cycles = _doc(
        "barrier that completes: turns of the data stage; further ones behind a store or atomic without bank conflicts"
    )
    exit_cycles: Cycles = _doc("EXIT: cycles until the warp has left, spent as a branch's are")
    last_in_line_cycles: Cycles = _doc("further cycles of a branch to the last instruction of a line")
    busy_unit_percent: Percent = _doc(
        "of the cycles in which a ready warp's unit is busy, those charged to the unit and not to another warp's issue"
    )


class Port(Section):
    """One way into units that others share: it has a rate, and what is behind it the latencies."""

    initiation_cycles: Count = _doc("cycles between two warp instructions of one sub-partition")


class Pipe(Port):
    """One kind of execution unit of a sub-partition."""

    latency_cycles: Count = _doc(
        "cycles from issue until a dependent instruction may issue; fixed ones are in the code (engine/retime.py)"
    )


class Pipes(Section):
    """The execution units of a sub-partition."""

    fma: Pipe = _doc("FADD, FMUL, FFMA; if faster than `imad`, in two halves, of which `imad` has one")
    imad: Pipe = _doc("IMAD, its moves and shifts, and VIADD, on the heavy half of the FMA pipe")
    alu: Pipe = _doc("integer add, logic, shift, compare, select, permute")
    half: Pipe = _doc("packed half precision (HADD2, HMUL2, HFMA2), half of it through the tensor cores (HFMA2.MMA)")
    fp64: Pipe = _doc("DADD, DMUL, DFMA")
    xu: Pipe = _doc("MUFU and conversions that share its unit")
    popc: Pipe = _doc("constant loads, special registers, MATCH, REDUX and barriers; POPC itself goes through `xu`")
    lsu: Port = _doc("addresses of loads, stores, atomics and shuffles")
    uniform: Pipe = _doc("uniform datapath")
    branch: Port = _doc("branches, barriers of convergence, exits")
    tensor: Pipe = _doc("matrix multiply: one m16n8k16 with 16-bit inputs")
    tensor_short_sums_speedup: Count = _doc("how much faster where sums are 16-bit floats or integers, or with scales")
    wide_initiation_cycles: Count = _doc("cycles between two IMAD.WIDE or IMAD.HI of one sub-partition")
    wide_dispatch_cycles: Cycles = _doc("for which one of them keeps the sub-partition from issuing, besides its own")
    group_columns_per_cycle: Count = _doc("columns of a product of four warps (wgmma) that are done in a cycle")
    group_least_cycles: Count = _doc("cycles of such a product at least, however few columns it has")
    group_latency_cycles: Cycles = _doc("from when its last columns have entered until its result is there")
    xu_ahead_cycles: Cycles = _doc("cycles before `xu` is free that an instruction of it may issue")


class MemoryInstruction(Section):
    """Times that all instructions of the memory pipe share, from issue to the unit that serves them."""

    queue_depth: QueueDepth = _doc("memory instructions that wait per sub-partition")
    store_queue_depth: QueueDepth = _doc("of those, stores at most")
    entry_cycles: Cycles = _doc("from the issue until the queue hands an instruction on; part of every latency")
    copy_land_cycles: Cycles = _doc("asynchronous copy: from its last reply until its bytes are in shared memory")
    bulk_start_cycles: Cycles = _doc("from the issue of a bulk copy (TMA) to its first request")
    bulk_store_start_cycles: Cycles = _doc("the same of one out of shared memory, to when its first bytes are read")
    load_source_release_cycles: Cycles = _doc("global load: issue until the address registers may be overwritten")
    store_source_release_cycles: Cycles = _doc("global store of one register: issue until its sources are free")
    shared_load_source_release_cycles: Cycles = _doc("shared load: issue until the address registers are free")
    shared_store_source_release_cycles: Cycles = _doc("shared store of one register: issue until its sources are free")
    store_drain_cycles: Cycles = _doc("from when a store is on its way to L2 until its warp may end")
    store_source_release_per_register_cycles: Cycles = _doc("further cycles for each further data register of a store")
    constant_source_release_cycles: Cycles = _doc("LDC: issue until the address registers are free")
    data_interval_cycles: Cycles = _doc("cycles of the SM's data stage that a load or store takes at least")
    address_interval_cycles: Count = _doc("of an SM for a load of constants, S2R, a pass of MATCH, REDUX")
    s2r_latency_cycles: Count = _doc("S2R: issue until the special register's value can be used")
    shuffle_latency_cycles: Count = _doc("SHFL")
    vote_latency_cycles: Count = _doc("VOTE")
    match_latency_cycles: Count = _doc("MATCH that finds one value")
    match_value_cycles: Count = _doc("MATCH.ANY: what each further value takes longer")
    redux_latency_cycles: Count = _doc("REDUX")
    fence_cta_latency_cycles: Cycles = _doc("MEMBAR at block scope")
    fence_gpu_latency_cycles: Cycles = _doc("MEMBAR at device scope")
    fence_gpu_again_cycles: Cycles = _doc("what it takes longer if the SM has asked far lines of L2 since the last one")
    fence_system_latency_cycles: Cycles = _doc("MEMBAR at system scope")


class Shared(Section):
    """Shared memory: a wavefront is one pass over the banks."""

    banks: PowerOfTwo = _doc("banks")
    bank_bytes: PowerOfTwo = _doc("width of a bank")
    latency_cycles: Count = _doc("load of one wavefront, dependent")
    wavefront_latency_cycles: Cycles = _doc("further latency of each further wavefront")
    wavefront_cycles: Count = _doc("cycles of the data pipe per wavefront, for the whole SM")
    atomic_latency_cycles: Count = _doc("atomic that returns a value, without conflicts")
    atomic_wavefront_cycles: Count = _doc("cycles of the data pipe per wavefront of an atomic")
    mbarrier_latency_cycles: Count = _doc("arrival at an mbarrier, or a look at its phase that is over")
    mbarrier_wake_cycles: Count = _doc("from the arrival that ends a phase until a look that waits has its result")
    mbarrier_wait_cycles: Count = _doc("that a look waits for the end of a phase at most")
    remote_latency_cycles: Count = _doc("load from the shared memory of another block of a cluster")
    remote_send_cycles: Rate = _doc("of an SM for each packet, of up to a sector, that it sends to another")
    remote_receive_cycles: Rate = _doc("the same for each that it gets")
    remote_gpc_cycles: Rate = _doc("the same of what all SMs of a GPC share")
    cluster_barrier_cycles: Count = _doc("from the last arrival at a cluster's barrier until its warps go on")
    cluster_barrier_per_warp_cycles: Cycles = _doc("from the arrival of a block's warp to the next one's")


class TensorMemory(Section):
    """Tensor memory and its tensor core (PTX: tcgen05), which only compute capabilities 10 and 11 have."""

    columns_per_cycle: Count = _doc("columns of a product, of up to 128 rows and 32 bytes along K, in a cycle")
    shared_bytes_per_cycle: Count = _doc("bytes of operands that a tensor core reads from shared memory in a cycle")
    product_latency_cycles: Cycles = _doc("from when a product's last columns have entered until its result is there")
    pair_latency_cycles: Cycles = _doc("more of them for a product of a pair of blocks")
    commit_latency_cycles: Cycles = _doc("from when all results are there until an mbarrier hears of it")
    load_latency_cycles: Cycles = _doc("from a load's last turn at its port until its registers are there")
    store_latency_cycles: Cycles = _doc("from a store's last turn until it is done")
    port_bytes_per_cycle: Count = _doc("bytes that a sub-partition's warps load or store in a cycle")
    copy_bytes_per_cycle: Count = _doc("bytes that a copy from shared memory moves in a cycle")


class L1(Section):
    """The L1 data cache: what shared memory leaves of the unified memory, write-through."""

    line_bytes: LineBytes = _doc("a line, which one tag covers")
    sector_bytes: SectorBytes = _doc("a sector, the unit of transfer")
    replacement: Literal["fifo", "lru", "random", "slru"] = _doc(_REPLACEMENT + "; slru: lru, but never the last found")
    write_allocate: bool = _doc("what is stored is in L1 afterwards, word by word; else stores pass it by")
    ways: Annotated[int, Field(gt=0, le=4096)] = _doc("ways of a set; the sets follow from what shared memory leaves")
    reserved_lines: Cycles = _doc("lines of it that hold no data")
    latency_cycles: Count = _doc("load that hits, dependent")
    tag_lookups_per_cycle: Count = _doc("tags, that is distinct lines of a request, looked up in a cycle")
    waiting_loads: Count = _doc("loads that wait for the data stage, besides those in the queues of the SM")
    data_bytes_per_cycle: Count = _doc("bytes that the data stage delivers in a cycle")
    max_outstanding_sectors: Sectors = _doc("sectors asked for and not yet back, per SM")
    max_outstanding_flits: Count = _doc("parts of stores and atomics that L2 has not answered, per SM")
    store_line_cycles: Count = _doc("cycles that a line of a store keeps the way to L2 busy, if it has no more sectors")
    stored_lines: StoredLines = _doc("lines of stores that wait in the SM, where others join them")
    stored_cycles: Cycles = _doc("that such a line waits after its turns of the data stage, two cycles each")

    def sets(self, l1_bytes: int) -> int:
        """Sets when `l1_bytes` of the unified memory are cache, 0 if there is not room for one."""
        return max(l1_bytes // self.line_bytes - self.reserved_lines, 0) // self.ways


class Icache(Section):
    """Instruction caches: L0 per sub-partition, L1 per SM, L1.5 per SM, then the L2."""

    line_bytes: PowerOfTwo = _doc("a line: 8 instructions of 16 bytes in 128")
    l0_bytes: Count = _doc("L0 of one sub-partition")
    l1_bytes: Count = _doc("L1")
    l15_bytes: Count = _doc("L1.5")
    ways: Count = _doc("ways of L1 and L1.5; an L0 has one set")
    prefetch_lines: Cycles = _doc("lines that the stream buffer of an L0 runs ahead")
    l1_latency_cycles: Count = _doc("L0 miss that hits L1")
    l15_latency_cycles: Count = _doc("L1 miss that hits L1.5")
    l2_latency_cycles: Count = _doc("L1.5 miss that hits L2")
    l1_line_cycles: Count = _doc("cycles between two lines out of L1")
    l15_line_cycles: Count = _doc("cycles between two lines out of L1.5")
    l2_line_cycles: Count = _doc("cycles between two lines that L1.5 had and has lost, out of L2")
    launch_bytes: Count = _doc("of a kernel's code that its launch brings near")
    memory_latency_cycles: Count = _doc("L1.5 miss on a line beyond those, the first time")

    @model_validator(mode="after")
    def _consistent(self) -> Icache:
        if self.line_bytes < 16:
            raise ValueError(f"line_bytes must hold an instruction of 16 bytes, got {self.line_bytes}")
        if self.l0_bytes < self.line_bytes:
            raise ValueError(f"l0_bytes must not be below line_bytes = {self.line_bytes}, got {self.l0_bytes}")
        for name in ("l1_bytes", "l15_bytes"):
            least = self.ways * self.line_bytes
            if getattr(self, name) < least:
                raise ValueError(f"{name} must hold a set of {self.ways} lines, {least}, got {getattr(self, name)}")
        return self


class Constant(Section):
    """Constant caches: operands such as c[0x0][0x210] and LDC."""

    line_bytes: PowerOfTwo = _doc("a line")
    l0_bytes: Count = _doc("first level, of one sub-partition")
    l15_bytes: Count = _doc("second level, of the SM")
    load_latency_cycles: Count = _doc("LDC that hits, dependent")
    address_cycles: Count = _doc("for each address of an indexed LDC, of one sub-partition")
    l15_latency_cycles: Count = _doc("first-level miss that hits the second")
    miss_interval_cycles: Rate = _doc("between two misses of the SMs of a GPC")
    fetch_bytes: PowerOfTwo = _doc("of a module's constants that the second level fetches at once")
    l2_latency_cycles: Count = _doc("second-level miss that hits L2: constants of a module that has run before")
    memory_latency_cycles: Count = _doc("the same out of memory: of a module that has not")

    @model_validator(mode="after")
    def _consistent(self) -> Constant:
        if not 4 <= self.line_bytes <= 1 << 16:
            raise ValueError(f"line_bytes must be 4 to 65536, a word to a bank, got {self.line_bytes}")
        for name in ("l0_bytes", "l15_bytes", "fetch_bytes"):
            if getattr(self, name) < self.line_bytes:
                raise ValueError(f"{name} must not be below line_bytes = {self.line_bytes}, got {getattr(self, name)}")
        if self.fetch_bytes > 1 << 16:
            raise ValueError(f"fetch_bytes must not exceed a bank of 65536, got {self.fetch_bytes}")
        return self


class Crossbar(Section):
    """The network between SMs and L2: its rates, of a port for each TPC; `l2.latency_near_cycles` holds its latency."""

    sms_per_port: Count = _doc("SMs that share a port")
    port_request_bytes_per_cycle: Count = _doc("bytes a port can send to L2 in a cycle (headers and store data)")
    port_reply_bytes_per_cycle: Count = _doc("bytes a port takes from L2 in a cycle, of what all of its GPC can")
    sm_reply_bytes_per_cycle: Count = _doc("bytes one SM of a port can take in a cycle")
    sm_past_l1_bytes_per_cycle: Count = _doc("the same of strong loads, and of copies to shared memory past L1")
    request_header_bytes: Count = _doc("bytes of a request besides store data")
    tpcs_per_cpc: Count = _doc("TPCs of a GPC that share a way for requests, a CPC, at most")
    cpc_flits_per_cycle: Rate = _doc("parts of stores and atomics that a CPC can send to L2 in a cycle")
    flit_cycles: Rate = _doc("of an SM for a part of an atomic that it sends: header, with one word, or a sector")
    tpc_cycles: Delay = _doc("by which the way to L2 of each TPC of a CPC is longer than that of the next one")
    cpc_cycles: Delay = _doc("by which that of a CPC of a GPC is longer than that of the one before it")


class L2(Section):
    """The L2 cache: slices in partitions; a slice has its own tags, data and atomic unit."""

    bytes: Count = _doc("whole cache")
    partitions: Count = _doc("partitions, joined by a fabric; an address has its home in one")
    gpc_partitions: tuple[Annotated[int, Field(ge=0)], ...] = _doc(
        "partition that the SMs of each GPC ask; for any other number of GPCs than are listed they alternate"
    )
    home_address_bits: tuple[Annotated[int, Field(ge=12, le=43)], ...] = _doc(
        "bits of an address from 4 KB on whose parity says which of two partitions has it; of others each has its turn"
    )
    slices: Count = _doc("slices of all partitions together")
    ways: Ways = _doc("ways of a set")
    dirty_ways: Ways = _doc("lines of a set that may hold what memory does not; one more, and two are written back")
    dirty_before_bytes: Cycles = _doc("what other work left a flushed cache to write back; its sets' oldest lines")
    launch_bytes: Cycles = _doc("what a launch reads from memory besides its code, its constants and its data")
    launch_code_bytes: Count = _doc("a launch reads its code in pieces of this size")
    launch_hit_bytes: Cycles = _doc("what crosses between partitions for a launch, besides, and is in L2 already")
    write_probes: Share = _doc("requests between partitions for each line that is written, besides the writes")
    line_bytes: LineBytes = _doc("a line, which one tag covers; requests are made of it")
    sector_bytes: SectorBytes = _doc("a sector, the unit of transfer")
    replacement: Replacement = _doc(_REPLACEMENT)
    persisting_share: Share = _doc("share of the cache that can be set aside for persisting accesses")
    persisting_start_share: Share = _doc("share that is set aside before a program says how much")
    window_max_bytes: Count = _doc("addresses that a window with an access policy covers at most")
    latency_near_cycles: Count = _doc("whole load latency of a hit in the SM's own partition")
    latency_spread_cycles: Cycles = _doc("the farthest slice of a partition less the nearest; latencies are means")
    latency_far_cycles: Count = _doc("whole load latency of a hit in the other partition")
    near_copy: bool = _doc("a line read from the other partition is also kept in the reader's own")
    coalesced_reads: Annotated[int, Field(gt=0, le=255)] = _doc(
        "reads of the same sectors by SMs of one GPC that L2 is asked for once; 1: never together"
    )
    coalescing_window_cycles: Cycles = _doc("how long a read that hits can be joined by others")
    fetch_bytes: Literal[32, 64, 128] = _doc("bytes fetched together from memory on a miss: a sector, two or a line")
    slice_flit_cycles: Rate = _doc("of a slice for each part of a store or an atomic: the header, or a sector")
    slice_read_cycles: Rate = _doc("of a slice for a read")
    barrier_cycles: Count = _doc("of a slice for the barrier of an SM that has asked it, at a kernel's end")
    slice_bytes_per_cycle: Count = _doc("bytes a slice reads or writes in a cycle")
    fabric_bytes_per_cycle: Count = _doc("bytes between the partitions in a cycle, each way")
    atomic_latency_cycles: Count = _doc("whole latency of an atomic that returns a value, mean over near and far lines")
    atomic_sector_cycles: Rate = _doc("cycles of a slice's atomic unit per sector of a warp's request")
    atomic_whole_sector_cycles: Rate = _doc("the same if the request updates all eight words of its sectors")
    atomic_same_address_cycles: Rate = _doc("cycles of a slice's atomic unit per request at least: one address")
    ordered_hits: Count = _doc("reads that hit behind a miss of their slice wait for it, until so many have; 1: no one")
    atomic_turn_cycles: Rate = _doc("more of them for a request to another line than the one before it")
    atomic_same_float_cycles: Rate = _doc("the same if floating-point numbers are added to one sector in turn")
    partial_write_cycles: Rate = _doc("cycles of a slice's atomic unit per sector that a store writes in part")
    partial_request_cycles: Rate = _doc("the same of each request with such sectors, besides")
    # A numerical method and no property of a GPU, not derived from the latencies: those of shipped machines (200 of at
    # most 213 or 219, 150 of 173 or 184, 130 of 156) follow no rule, and what one cannot resolve takes as long as one.
    lookahead_cycles: Count = _doc("no reply reaches an SM sooner after its request: the length of a window")

    @model_validator(mode="after")
    def _consistent(self) -> L2:
        if self.slices % self.partitions:
            raise ValueError(f"slices must be a multiple of partitions = {self.partitions}, got {self.slices}")
        if self.slices // self.partitions % 2:
            raise ValueError(f"slices must be even in each of partitions = {self.partitions}, got {self.slices}")
        step = self.slices * self.ways * self.line_bytes
        if self.bytes % step:
            below = self.bytes // step * step
            raise ValueError(
                f"bytes must be a multiple of slices times ways times line_bytes = {step}, got {self.bytes}; "
                f"the nearest are {below or step} and {below + step}"
            )
        if self.latency_far_cycles < self.latency_near_cycles:
            raise ValueError("latency_far_cycles must not be below latency_near_cycles")
        return self

    @property
    def persisting_max_bytes(self) -> int:
        """Bytes that can be set aside for persisting accesses."""
        return round(self.persisting_share * self.bytes)

    def set_aside_ways(self, nbytes: int) -> int:
        """Ways of a set that are set aside for so many bytes."""
        return -(-nbytes * self.ways // self.bytes)

    @property
    def sets_per_slice(self) -> int:
        """Sets of one slice; not always a power of two."""
        return self.bytes // (self.slices * self.ways * self.line_bytes)

    @property
    def slices_per_partition(self) -> int:
        """Slices of one partition."""
        return self.slices // self.partitions

    @property
    def fabric_latency_cycles(self) -> int:
        """Cycles that the other partition adds to a load."""
        return self.latency_far_cycles - self.latency_near_cycles

    @property
    def mean_latency_cycles(self) -> float:
        """Cycles of a load in the mean over all lines, of which each partition holds its share."""
        return self.latency_near_cycles + self.fabric_latency_cycles * (self.partitions - 1) / self.partitions


class Dram(Section):
    """Device memory. A channel here is a pseudo channel: it has its own command and data buses."""

    kind: str = Field(min_length=1, description="kind of memory")
    capacity_bytes: Count = _doc("size that programs can allocate from")
    channels: Count = _doc("pseudo channels of all stacks together")
    banks_per_channel: Count = _doc("banks of a pseudo channel")
    row_bytes: PowerOfTwo = _doc("a row of one bank")
    bandwidth_gb_s: Rate = _doc("peak of all channels, 10^9 bytes a second; per cycle: GPUConfig.dram_bytes_per_cycle")
    latency_cycles: Count = _doc("whole load latency of an L2 miss, idle memory, mean over near and far lines")
    row_activate_cycles: Cycles = _doc("to open a row in an idle bank (tRCD)")
    row_precharge_cycles: Cycles = _doc("to close an open row first (tRP)")
    row_cycle_cycles: Cycles = _doc("between two openings of rows in one bank (tRC)")
    activate_interval_cycles: Rate = _doc("between activations of rows of one channel")
    row_idle_cycles: Cycles = _doc("an open row without access for longer has been closed")
    read_to_write_cycles: Cycles = _doc("data bus idle when it turns from reads to writes")
    write_to_read_cycles: Cycles = _doc("data bus idle when it turns from writes to reads")
    write_drain_entries: Count = _doc("sectors that a channel gathers before it turns to writing")
    bus_efficiency: Annotated[float, Field(gt=0, le=1)] = _doc("share of the peak that a stream of reads reaches")
    refresh_interval_cycles: Count = _doc("between two refreshes of one bank")
    refresh_channels: Count = _doc("channels that refresh banks of one number at the same time")
    refresh_cycles: Cycles = _doc("how long a refresh keeps its bank from being read")

    @model_validator(mode="after")
    def _consistent(self) -> Dram:
        if self.refresh_cycles >= self.refresh_interval_cycles:
            raise ValueError("refresh_cycles must be below refresh_interval_cycles")
        return self


class LaunchTiming(Section):
    """Costs of a launch outside the SMs, the way of blocks to them, and the largest grid."""

    overhead_cycles: Cycles = _doc("cycles of a launch in which no SM is active")
    again_cycles: Cycles = _doc("more of them for a launch on an idle GPU that is not the first one")
    fill_interval_cycles: Rate = _doc("between two of the first blocks handed out, over the whole GPU")
    cluster_interval_cycles: Rate = _doc("more of them for the first block of a cluster")
    block_interval_cycles: Rate = _doc("between two ends of blocks taken note of, over the whole GPU")
    sm_block_cycles: Cycles = _doc("between two blocks that start on one SM, at least")
    block_setup_cycles: Cycles = _doc("between the last warp of a block and the first of the next one on one SM")
    refill_cycles: Cycles = _doc("from a block's freeing its resources until the next one can be handed out for them")
    refill_spread_cycles: Count = _doc("by how much more that may be")
    sm_start_cycles: Cycles = _doc("for which an SM is active before the first warp of a launch can issue")
    block_launch_cycles: Cycles = _doc("from the hand-out of a block until its first warp can issue")
    warp_launch_cycles: Cycles = _doc("between two warps of a block that start on one SM")
    drain_cycles: Cycles = _doc("from a block's last exit until its resources are free")
    grid_interval_cycles: Cycles = _doc("between two grids of different streams that come to the block dispatcher")
    hardware_queues: Count = _doc("queues for launches that streams share in turn: a launch waits for those before it")
    event_cycles: Cycles = _doc("that an event takes in its stream, from when the work before it is over")
    wait_cycles: Cycles = _doc("that waiting for an event takes which has happened")
    node_cycles: Cycles = _doc("as overhead_cycles, of a kernel that another one of its graph waits for")
    fork_interval_cycles: Cycles = _doc("between two kernels of a graph that wait for the same one")
    fork_most: Count = _doc("so many of them; more take other times")
    wide_fork_cycles: Cycles = _doc("which add this to node_cycles for the one that begins first, the last one")
    wide_interval_cycles: Cycles = _doc("and this from one to the next")
    programmatic_cycles: Cycles = _doc("from when all blocks let the next grid begin until its first ones go out")
    dependency_cycles: Cycles = _doc("from the end of a grid until warps go on that wait for it within another")
    copy_look_cycles: Cycles = _doc("from a kernel's end to when its stream first looks if a copy behind it is over")
    copy_looks_cycles: Cycles = _doc("between two such looks")
    max_grid: Dim3 = _doc("blocks in x, y, z")
    max_block: Dim3 = _doc("threads in x, y, z")


Picojoules = tuple[Annotated[float, Field(ge=0)], Annotated[float, Field(ge=0)]]


class Energy(Section):
    """Energy of a board (gpusim/results/energy.py, docs/energy.md). Of an event, in pJ: [with operands that stay as
    they are, what random ones add]."""

    clock_mhz: Count = _doc("SM clock at which the energies hold")
    board_w: Rate = _doc("static power at that clock, without the SMs")
    sm_w: Rate = _doc("static power of an SM, whether or not warps are on it")
    still_share: Share = _doc("of the static power, what stays when the clock stops")
    volts_per_clock: Share = _doc("by what share the voltage falls where the clock falls by all of it")
    least_volts: Share = _doc("of the voltage, what it never falls below")
    limit_w: Rate = _doc("power of the board, over which the clock falls")
    logic_scale: Rate = _doc("what the chip's events take, in what this table says")
    memory_scale: Rate = _doc("the same of those of the memory")
    launch_pj: Picojoules = _doc("of a launch")
    warp_pj: Picojoules = _doc("of a warp that begins")
    issue_pj: Picojoules = _doc("of a warp instruction: fetch, decode, schedule")
    operand_pj: Picojoules = _doc("of a register that a lane reads")
    alu_pj: Picojoules = _doc("of a lane of the integer and logic unit")
    integer_product_pj: Picojoules = _doc("of a lane of an integer product")
    wide_product_pj: Picojoules = _doc("of a lane of an integer product of 64 bits or their upper half")
    vote_pj: Picojoules = _doc("of a lane of VOTE, MATCH and REDUX")
    single_product_pj: Picojoules = _doc("of a lane of FMUL and FFMA")
    half_product_pj: Picojoules = _doc("of a lane of HFMA2")
    double_sum_pj: Picojoules = _doc("of a lane of DADD")
    double_product_pj: Picojoules = _doc("of a lane of DMUL and DFMA")
    special_pj: Picojoules = _doc("of a lane of MUFU and conversions")
    shuffle_pj: Picojoules = _doc("of a lane of SHFL")
    matrix_half_pj: Picojoules = _doc("of a multiply-add of mma.sync, factors of 16 bits")
    matrix_single_pj: Picojoules = _doc("of one of TF32")
    matrix_byte_pj: Picojoules = _doc("of one of 8 bits")
    matrix_double_pj: Picojoules = _doc("of one of double precision")
    group_half_pj: Picojoules = _doc("of a multiply-add of wgmma, factors of 16 bits")
    group_single_pj: Picojoules = _doc("of one of TF32")
    group_int8_pj: Picojoules = _doc("of one of integers of 8 bits")
    group_fp8_pj: Picojoules = _doc("of one of floats of 8 bits")
    constant_pj: Picojoules = _doc("of an LDC, and of each further turn that it takes")
    access_pj: Picojoules = _doc("of an instruction that goes to L1 or shared memory")
    shared_wavefront_pj: Picojoules = _doc("of a wavefront of shared memory")
    shared_word_pj: Picojoules = _doc("of a word of 32 bits that a lane takes there")
    shared_atomic_pj: Picojoules = _doc("of a lane of an atomic there")
    l1_tag_pj: Picojoules = _doc("of a line that L1 looks up")
    l1_word_pj: Picojoules = _doc("of a word of 32 bits that a lane takes there")
    l2_request_pj: Picojoules = _doc("of a request to L2, of up to four sectors, and its reply")
    l2_read_pj: Picojoules = _doc("of a sector that an SM reads from L2, the way included")
    l2_write_pj: Picojoules = _doc("of a sector that it writes")
    l2_atomic_pj: Picojoules = _doc("of a sector of an atomic or a reduction")
    fabric_pj: Picojoules = _doc("of a sector between the partitions of L2")
    dram_read_pj: Picojoules = _doc("of a sector read from memory")
    dram_write_pj: Picojoules = _doc("of a sector written to it")
    dram_row_pj: Picojoules = _doc("of a row that is opened")
    link_pj: Picojoules = _doc("of 32 bytes that come from another GPU or go to it, on this board")
