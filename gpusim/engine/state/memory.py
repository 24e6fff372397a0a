"""Layout of the memory system: request fields, counters, parameters, and their places in its one array.

All state is one int64 array, which the compiled functions call `m`: a function that takes one array costs nothing to
call, one that takes a dozen costs more than its work. It holds the counters (m[CNT_...]), the parameters (m[P_...]),
one word for each queue, a few words for each channel and bank, and two words for each line of L2.

Times inside the memory system are *ticks*, 65,536 to an SM clock cycle, so that a rate such as 12.6 bytes a cycle
is an integer and a run is the same on every machine. Requests and replies are in whole cycles.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a change of the configuration leaves compiled code as it is
    from gpusim.config import GPUConfig

TICK_BITS = 16
TICKS = 1 << TICK_BITS
"""Ticks in an SM clock cycle."""

LINE_BYTES, SECTOR_BYTES, SECTORS_PER_LINE = 128, 32, 4

#: Replacement policies of a cache's sets, by their names in the configuration.
REPLACEMENTS = {"lru": 0, "fifo": 1, "random": 2, "slru": 3}
FIFO, RANDOM, SLRU = 1, 2, 3

# Fields of a request.
REQ_TIME = 0  # cycle at which the request leaves the SM
REQ_LINE = 1  # simulated address >> 7
REQ_SECTORS = 2  # 4-bit mask of the line's sectors
REQ_KIND = 3  # KIND_*
REQ_TOKEN = 4  # the sender's own, never read here
REQ_PAYLOAD_BYTES = 5  # data that travels to L2: stores and atomics; PAST_L1 of a load that L1 does not see
REQ_REPLY = 6  # output: cycle at which the reply (or the acknowledgement) is back at the SM's edge
REQ_OPS = 7  # atomics: lane operations at distinct addresses; OPS_FLOAT: they add floating-point numbers; loads and
# stores: a policy, see `memory.policy`
OPS_FLOAT = 64
REQ_FIELDS = 8
PAST_L1 = -1

# Kinds of request, in an order that tells them apart: reads, then atomics, then stores.
KIND_READ = 0
KIND_READ_STRONG = 1  # past the L1; copies in the near partition are coherent and may serve it (measured on an H200)
KIND_PREFETCH = 2  # whole lines into their home slice, for nobody
KIND_INSTRUCTION, KIND_CONSTANT = 3, 4
KIND_ATOMIC = 5  # returns the old values
KIND_REDUCTION = 6
KIND_WRITE = 7  # every byte of its sectors
KIND_WRITE_PARTIAL, KIND_WRITE_STRONG = 8, 9
KIND_SM_READ = 10  # from SM to SM, inside a cluster, whose line has the other's number above SM_BIT: never at L2
KIND_SM_ATOMIC = 11
KIND_SM_WRITE = 12  # its sectors are as many bits as it takes packets
KINDS = 13
SM_BIT = 33

# Counters. TEX counts what SMs ask of the slices of their own partition, one sector each
# (lts__t_sectors_srcunit_tex); OTHER is the same for instructions and constants. Hits and misses are as an H200
# counts lookups of that unit: a read or atomic hits if the slice that the SM asks holds the sector, ready or on its
# way; a line of the far partition without a near copy is a miss there, whatever its home says. A miss counts every
# sector that is fetched for it, so one sector of two may count as two misses. A store always hits, since it needs no
# data, and so does an atomic on its way to the other partition.
CNT_TEX_READ_SECTORS, CNT_TEX_WRITE_SECTORS, CNT_TEX_ATOMIC_SECTORS, CNT_TEX_REDUCTION_SECTORS = range(4)
CNT_TEX_HIT_SECTORS, CNT_TEX_MISS_SECTORS, CNT_OTHER_SECTORS, CNT_OTHER_HIT_SECTORS = range(4, 8)
CNT_FABRIC_READ_SECTORS = 8  # asked of a home slice by the other partition (lts__t_sectors_srcunit_ltcfabric)
CNT_FABRIC_WRITE_SECTORS = 9  # stores and atomics that crossed the fabric
CNT_FABRIC_MISS_SECTORS = 10  # of these, fetched from memory by the home slice
CNT_PENDING_HIT_SECTORS = 11  # hits, at the near or the home slice, on a sector that was still on its way
CNT_HOME_MISS_SECTORS = 12  # sectors that a request needed and its home had to fetch from memory
CNT_FILL_SECTORS = 13  # sectors fetched for requests, with those that the fetch granularity adds
CNT_MERGE_SECTORS = 14  # sectors fetched because a partly written one was evicted
CNT_WRITEBACK_SECTORS = 15  # sectors written to memory
CNT_EVICTIONS = 16  # lines replaced, near copies included
CNT_COPY_INVALIDATIONS = 17  # near copies that lost a sector to a store elsewhere
CNT_ROW_HITS = 18
CNT_ROW_OPENS = 19  # rows opened in an idle bank
CNT_ROW_CONFLICTS = 20  # rows opened after another one had to be closed
CNT_DRAINS = 21  # batches of writes that a channel sent
CNT_REQUESTS = 22
CNT_FABRIC_BARRIERS = 23  # at its end a kernel flushes every slice that an SM has asked, over the fabric
CNT_FABRIC_PROBES = 24  # questions about lines that are written, see `l2.write_probes`
CNT_FABRIC_LAUNCH_SECTORS = 25  # code, constants and what else a launch reads, by the partition that is not its home
CNT_LAUNCH_SECTORS = 26  # the same, fetched from memory
CNT_PEER_RECEIVED_BYTES = 27  # of other GPUs' memory, read and written by kernels
CNT_PEER_SENT_BYTES = 28
CNT_BUS_RECEIVED_BYTES = 29  # of host memory, read and written by kernels where it lies
CNT_BUS_SENT_BYTES = 30
CNT_TEX_PREFETCH_SECTORS = 31  # which are neither reads nor writes to an H200
CNT_REQUESTS_KIND = 32  # first of KINDS counters, by kind
COUNTERS = CNT_REQUESTS_KIND + KINDS


# Parameters, a row each: the configuration as integers. Latencies, and occupancies per byte or sector, in ticks.
#: Source of each, by number: key of the configuration or a function of it, and how much of it makes 1. Without a row in
#: this table `memory.params` sets a parameter, or the run does as it goes on.
VALUES: dict[int, tuple[str | Callable[[GPUConfig], float], int]] = {}
_numbers = count(COUNTERS)


def _row(value: str | Callable[[GPUConfig], float] | None = None, scale: int = 1) -> int:
    """Number of the next parameter."""
    number = next(_numbers)
    if value is not None:
        VALUES[number] = value, scale
    return number


def _ticks(value: str | Callable[[GPUConfig], float]) -> int:
    """Number of the next parameter, which is in ticks, and its value in cycles."""
    return _row(value, TICKS)


P_PARTITIONS = _row("l2.partitions")
P_PARITY_PAGES = _row()  # bits of a page's number whose parity says which of two partitions it is in
P_SLICES = _row("l2.slices")
P_INDICES = _row("l2.slices_per_partition")  # slices of one partition
P_SETS = _row("l2.sets_per_slice")  # of one slice
P_WAYS = _row("l2.ways")
P_NEAR_COPY = _row(lambda config: int(config.l2.near_copy))
# First of the queues, by what they belong to.
P_SM_PORTS, P_REQUEST_PORTS, P_REPLY_PORTS, P_CPC_PORTS = _row(), _row(), _row(), _row()
P_SM_SENDS = _row()  # packets for other SMs: out of one, into one, through what the SMs of a GPC share
P_SM_RECEIVES = _row()
P_GPC_PACKETS = _row()
P_SLICE_QUEUES = _row()
P_ATOMIC_UNITS = _row()
P_ATOMIC_LAST = _row()  # of each slice: line << 4 | sectors of its last request
P_READ_ORDER = _row()  # of each slice: ORDER_HITS words and one for each of `l2.ordered_hits`
P_FABRIC = _row()
P_LATE, P_LATE_ROWS = _row(), _row()  # reads that come to it later
P_CHANNEL_STATES = _row()  # first word of the channels, the banks, the lines
P_BANK_STATES = _row()
P_LINES = _row()
P_HEADER_BYTES = _row("crossbar.request_header_bytes")
P_REQUEST_BYTE = _ticks(lambda config: 1 / config.crossbar.port_request_bytes_per_cycle)
P_CPC_FLIT = _ticks(lambda config: 1 / config.crossbar.cpc_flits_per_cycle)
P_GPC_REPLY_SECTOR = _row()
P_SM_REPLY_SECTOR = _ticks(lambda config: SECTOR_BYTES / config.crossbar.sm_reply_bytes_per_cycle)
# The same of what does not go through L1.
P_SM_PAST_SECTOR = _ticks(lambda config: SECTOR_BYTES / config.crossbar.sm_past_l1_bytes_per_cycle)
P_SLICE_FLIT = _ticks("l2.slice_flit_cycles")
P_SLICE_READ = _ticks("l2.slice_read_cycles")
P_SLICE_SECTOR = _ticks(lambda config: SECTOR_BYTES / config.l2.slice_bytes_per_cycle)
P_FABRIC_SECTOR = _ticks(lambda config: SECTOR_BYTES / config.l2.fabric_bytes_per_cycle)
# A hit in the near partition: request leaves the SM until its first sector is back.
P_NEAR = _ticks(lambda config: config.l2.latency_near_cycles - config.l1.latency_cycles)
P_FAR = _ticks("l2.fabric_latency_cycles")  # what the far partition adds
P_ATOMIC_EXTRA = _row()  # what an atomic adds to a read
P_ATOMIC_SECTOR = _ticks("l2.atomic_sector_cycles")
P_ATOMIC_WHOLE_SECTOR = _ticks("l2.atomic_whole_sector_cycles")
P_ATOMIC_REQUEST = _ticks("l2.atomic_same_address_cycles")
P_ATOMIC_FLOAT = _ticks("l2.atomic_same_float_cycles")
P_ORDERED_HITS = _row("l2.ordered_hits")
P_ATOMIC_TURN = _ticks("l2.atomic_turn_cycles")
P_PARTIAL_WRITE = _ticks("l2.partial_write_cycles")  # a sector that a store writes in part
P_PARTIAL_REQUEST = _ticks("l2.partial_request_cycles")  # what a request with such sectors takes besides
P_ACTIVATE_INTERVAL = _ticks("dram.activate_interval_cycles")  # from one activation of a channel to the next
P_FETCH_SECTORS = _row(lambda config: config.l2.fetch_bytes // SECTOR_BYTES)  # sectors fetched together: 1, 2 or 4
P_CHANNELS_PER_SLICE = _row()  # 0: neither number divides the other
P_SLICES_PER_CHANNEL = _row(lambda config: max(config.l2.slices // config.dram.channels, 1))
P_BANKS = _row("dram.banks_per_channel")  # of one channel
P_ROW_SHIFT = _row(lambda config: (config.dram.row_bytes // LINE_BYTES).bit_length() - 1)  # lines of a row: 1 << this
P_BURST = _row()  # bus time of a sector
# What a miss adds to a hit when its row is open.
P_MISS = _ticks(lambda config: config.dram_miss_cycles - config.dram.row_activate_cycles)
P_ACTIVATE = _ticks("dram.row_activate_cycles")
P_PRECHARGE = _ticks("dram.row_precharge_cycles")
P_ROW_CYCLE = _ticks("dram.row_cycle_cycles")
P_ROW_IDLE = _ticks("dram.row_idle_cycles")
P_READ_TO_WRITE = _ticks("dram.read_to_write_cycles")
P_WRITE_TO_READ = _ticks("dram.write_to_read_cycles")
P_DRAIN_SECTORS = _row("dram.write_drain_entries")
P_WRITE_SLACK = _row()  # bus time of the writes that a channel takes in before it pushes back
P_SM_TO_SM = _ticks(lambda config: config.remote_way_cycles * 2)  # a request of one SM to another, and back
P_SEND = _ticks("shared.remote_send_cycles")  # a packet in each of the three queues
P_RECEIVE = _ticks("shared.remote_receive_cycles")
P_PACKET = _ticks("shared.remote_gpc_cycles")
P_SPREAD = _ticks("l2.latency_spread_cycles")  # how much nearer the nearest slice of a partition is than the farthest
P_REFRESH = _ticks("dram.refresh_cycles")  # how long a bank's refresh takes
P_REFRESH_GROUPS = _row(lambda config: max(config.dram.channels // config.dram.refresh_channels, 1))
P_REFRESH_INTERVAL = _ticks("dram.refresh_interval_cycles")  # from one refresh of a bank to the next
P_LRC = _row()  # first word of the request coalescers
P_LRC_MOST = _row("l2.coalesced_reads")  # reads that go to L2 as one
P_LRC_WINDOW = _ticks("l2.coalescing_window_cycles")  # how long a read that hits waits for others
P_PLACES = _row()  # first of the words that say where an SM is
P_ASKED = _row()  # first of the words with a bit for each slice that an SM has asked, ASKED_BITS in a word
P_ASKED_WORDS = _row()  # of an SM
P_DIRTY_WAYS = _row("l2.dirty_ways")
# Of PROBES_OF lines that are written.
P_PROBES = _row(lambda config: round(config.l2.write_probes * PROBES_OF) if config.l2.partitions > 1 else 0)
P_SLICE_SECTORS = _row()  # first of the words that count what each slice has looked up
P_CHANNELS = _row("dram.channels")
P_REPLACEMENT = _row(lambda config: REPLACEMENTS[config.l2.replacement])
P_PEERS = _row()  # rows of memory that lies on other GPUs
P_PEER_ROWS = _row()  # first word of these rows
P_PEER_PORTS = _row()  # first of the links; behind them the bus, out and in
P_KEPT_WAYS = _row()  # lines of a set that may persist
P_WINDOW_FIRST = _row()  # first line of the launch's window, and the one behind its last
P_WINDOW_END = _row()
P_WINDOW_RATIO = _row()  # sixteenths of its lines that are chosen
P_WINDOW_HIT = _row()  # CLASS_* of the chosen lines, and of the others
P_WINDOW_MISS = _row()
P_MANAGED = _row()  # rows of managed memory
P_MANAGED_ROWS = _row()  # first word of these rows
P_MANAGED_BLOCKS = _row()  # first of the words of their blocks of 2 MB
P_MANAGED_ROOM = _row()  # leaves for which the GPU has room, and those that it holds
P_MANAGED_HERE = _row()
P_FAULT_ROWS = _row()  # first word of the record of faults, and how many it has
P_FAULTS = _row()
P_FAULT_START = _row()  # the batch of faults that gathers or is served: when it is taken up, and over
P_FAULT_END = _row()
P_FAULT_BATCH = _row()  # its number, and pages that were asked for
P_FAULT_ENTRIES = _row()
P_FAULT_MOST = _row()  # pages of a batch, and those of one SM
P_FAULT_SM_MOST = _row()
P_FAULT_SMS = _row()  # first of the words that say which batch an SM last asked for pages, and how many
P_FAULT_GATHER = _row()  # from a fault until its batch is taken up, and what that takes more after a pause
P_FAULT_WAKE = _row()
P_FAULT_PAUSE = _row()
P_FAULT_SERVICE = _row()  # what a batch takes: for each block, for a block of which nothing is here, for each leaf that
# Comes, for each page that was asked for; to make the host's copy of a leaf worthless, to send a leaf.
P_FAULT_NEW = _row()
P_FAULT_LEAF = _row()  # back to the host
P_FAULT_PAGE = _row()
P_FAULT_COLLAPSE = _row()
P_FAULT_EVICT = _row()
P_DIGITS = _row()  # first of the words with which a window's requests are sorted
QUEUES_AT = _row()  # behind the parameters

# Reads that come to the fabric later: the first row that is free, of those answered, how many wait, from which cycle
# on, the first row of each cycle. A row: the next one, partition and sectors, when, rest, answer, whose.
LATE_FREE, LATE_DONE, LATE_COUNT, LATE_SLOT, LATE_HEADS = range(5)
SLOTS, LATE_MOST, LATE_WORDS = 1 << 14, 1 << 15, 6

# What a request makes of its line: nothing, what goes first, what goes last, what goes by its age.
CLASS_SAME, CLASS_FIRST, CLASS_LAST, CLASS_NORMAL = range(4)
CLASSES = {"normal": CLASS_NORMAL, "streaming": CLASS_FIRST, "persisting": CLASS_LAST}

# A channel: when its bus is free, whether the bus last wrote, sectors that wait to be written, sectors read and
# written so far.
CHANNEL_FREE, CHANNEL_WRITING, CHANNEL_QUEUED, CHANNEL_SECTORS, CHANNEL_ACTIVATE, CHANNEL_HELD, CHANNEL_WORDS = range(7)
# A bank: its open row plus 1, when it takes a further column access, when a further activation.
BANK_ROW, BANK_COLUMN_AT, BANK_ACTIVATE_AT, BANK_WORDS = range(4)
ORDER_COUNT, ORDER_ANSWERED, ORDER_HITS = range(3)  # hits so far, when all misses are answered, the last hits
# Memory on another GPU: its first line and the one behind its last, what the links add to a hit in L2, ticks for each
# byte on a link, the first and the last link there and back, the counter of what is received, behind which is that of
# what is sent.
PEER_FIRST, PEER_END, PEER_LATENCY, PEER_BYTE, PEER_OUT, PEER_OUT_LAST, PEER_IN, PEER_IN_LAST, PEER_COUNTER = range(9)
PEER_WORDS = 9
PEERS_MOST = 64
# Managed memory: the same for its way to the host; its first block and leaves; what was advised.
MANAGED_BLOCK, MANAGED_LEAVES, MANAGED_ADVICE, MANAGED_WORDS = range(PEER_WORDS, PEER_WORDS + 4)
MANAGED_MOST = 32
READ_MOSTLY, STAYS_ON_HOST = 1, 2
# A block of managed memory: when leaves last came to the GPU, the batch that last served it, then of each leaf two
# words: where it is and above READY_BITS the time from which it is there; the batch that last served it, and its pages
# that were asked for then.
LEAF_LINES, PAGE_LINES, BLOCK_LEAVES, LEAF_PAGES = 512, 32, 32, 16
BLOCK_MOVED, BLOCK_BATCH, BLOCK_LEAF = range(3)
BLOCK_WORDS = BLOCK_LEAF + 2 * BLOCK_LEAVES
BLOCKS_MOST = 8192
UNTOUCHED, ON_HOST, ON_GPU, READY_BITS = 0, 1, 2, 2
# A fault: cycle at which it was met, that from which its leaves are there, row, first leaf, leaves, where they went.
FAULT_CYCLE, FAULT_READY, FAULT_ROW, FAULT_LEAF, FAULT_COUNT, FAULT_TO, FAULT_WORDS = range(7)
FAULTS_MOST = 1 << 16
# Requests of a window are sorted by so many bits of their time at once. A row of their order: SM, index, and two words
# that the sort needs.
DIGIT_BITS = 11
ORDER_WORDS = 4
# A read under way from a GPC. State: its sectors, how many SMs wait, the line plus 1; until when others may join; when
# the data is back.
LRC_ENTRIES = 4096
LRC_UNTIL, LRC_REPLY, LRC_WORDS = 1, 2, 4
LRC_COUNT_SHIFT, LRC_LINE_SHIFT = 4, 12
# A line: a state word and a detail word. A set holds the state words of all its ways, then the detail words, so
# that a lookup reads few of the host's cache lines. State: four bits each of sectors that are valid, dirty, on
# their way; whether another partition may hold a copy; age, the number of lines of the set used since; whether it
# goes first or persists; tag, 0 if empty. Detail: 6 bits a sector for the bytes written to a sector that is not valid;
# the cycle at which the sectors on their way are there.
LINE_WORDS = 2
DIRTY_SHIFT, PENDING_SHIFT = 4, 8
COPIED = 1 << 12
AGE_SHIFT = 13
AGE_MASK = 0x3F << AGE_SHIFT
FIRST = 1 << 19  # above the age: such a line is replaced before all others
KEPT = 1 << 20  # and such a one after all others
TAG_SHIFT = 21
WAYS_MAX = 63
ASKED_BITS = 32
PROBES_OF = 1024
WRITTEN_BITS = 6
READY_SHIFT = SECTORS_PER_LINE * WRITTEN_BITS
WRITTEN_MASK = (1 << READY_SHIFT) - 1
