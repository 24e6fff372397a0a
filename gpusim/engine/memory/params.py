"""From the configuration to the parameters that the compiled memory system reads, and the layout of its array."""

from __future__ import annotations

from operator import attrgetter

from gpusim.config.models import GPUConfig
from gpusim.engine.state import memory as ms
from gpusim.engine.state.address_map import PAGE_BITS

_HOST_LINE_WORDS = 8
_BATCHES_AHEAD = 2  # batches of writes that a channel takes in: one that it writes and one that it gathers
_PAGE_ADDRESS_BITS = PAGE_BITS + (ms.LINE_BYTES - 1).bit_length()


def ticks(cycles: float) -> int:
    """Ticks of a number of SM clock cycles, to the nearest."""
    return round(cycles * ms.TICKS)


def parity_pages(config: GPUConfig) -> int:
    """Bits of the number of a page of 4 KB whose parity says which of two partitions of L2 it is in."""
    return sum(1 << (bit - _PAGE_ADDRESS_BITS) for bit in config.l2.home_address_bits)


def make_params(config: GPUConfig, n_sms: int) -> dict[int, int]:
    """Value of every parameter of the memory side for `n_sms` SMs, by P_ index.

    Latencies: `l2.latency_near_cycles` and the others are whole load latencies, of which `l1.latency_cycles` are
    spent in the SM. `dram.latency_cycles` and `l2.atomic_latency_cycles` are means over lines of all partitions,
    since that is what a chain of loads measures.
    """
    return {**_layout(config, n_sms), **_derived(config, n_sms)} | {
        number: round((attrgetter(value)(config) if isinstance(value, str) else value(config)) * scale)
        for number, (value, scale) in ms.VALUES.items()
    }


def words(params: dict[int, int], managed: bool = False) -> int:
    """Length of the memory system's array, without or with the tables of managed memory."""
    return params[ms.P_FAULT_ROWS] + ms.FAULTS_MOST * ms.FAULT_WORDS if managed else params[ms.P_MANAGED_ROWS]


def _layout(config: GPUConfig, n_sms: int) -> dict[int, int]:
    l2, dram = config.l2, config.dram
    ports = -(-n_sms // config.crossbar.sms_per_port)
    sizes = {
        ms.P_SM_PORTS: n_sms, ms.P_REQUEST_PORTS: ports,
        ms.P_REPLY_PORTS: config.sm.gpcs,
        ms.P_CPC_PORTS: ports,  # at most
        ms.P_SM_SENDS: n_sms, ms.P_SM_RECEIVES: n_sms, ms.P_GPC_PACKETS: config.sm.gpcs,
        ms.P_SLICE_QUEUES: l2.slices, ms.P_SLICE_SECTORS: l2.slices,
        ms.P_ATOMIC_UNITS: l2.slices, ms.P_ATOMIC_LAST: l2.slices,
        ms.P_READ_ORDER: l2.slices * (ms.ORDER_HITS + l2.ordered_hits),
        ms.P_FABRIC: l2.partitions, ms.P_LATE: ms.LATE_HEADS + ms.SLOTS,
        ms.P_CHANNEL_STATES: dram.channels * ms.CHANNEL_WORDS,
        ms.P_LRC: config.sm.gpcs * ms.LRC_ENTRIES * ms.LRC_WORDS,
        ms.P_BANK_STATES: dram.channels * dram.banks_per_channel * ms.BANK_WORDS,
        ms.P_ASKED: n_sms * asked_words(config), ms.P_PEER_PORTS: ms.PEERS_MOST + 2,
        ms.P_DIGITS: 1 << ms.DIGIT_BITS, ms.P_PLACES: n_sms,
        ms.P_PEER_ROWS: ms.PEERS_MOST * ms.PEER_WORDS, ms.P_LATE_ROWS: ms.LATE_MOST * ms.LATE_WORDS,
    }
    lines = l2.slices * l2.sets_per_slice * l2.ways
    tables = {  # 7 MB that most launches do without, so behind all else
        ms.P_LINES: lines * ms.LINE_WORDS, ms.P_MANAGED_ROWS: ms.MANAGED_MOST * ms.MANAGED_WORDS,
        ms.P_MANAGED_BLOCKS: ms.BLOCKS_MOST * ms.BLOCK_WORDS, ms.P_FAULT_SMS: n_sms,
        ms.P_FAULT_ROWS: ms.FAULTS_MOST * ms.FAULT_WORDS,
    }
    starts, at = {}, ms.QUEUES_AT
    for part in sizes, tables:
        for key, size in part.items():
            starts[key] = at
            at += size
        at = -(-at // _HOST_LINE_WORDS) * _HOST_LINE_WORDS
    return starts


def asked_words(config: GPUConfig) -> int:
    """Words with a bit for each slice of L2."""
    return -(-config.l2.slices // ms.ASKED_BITS)


def _derived(config: GPUConfig, n_sms: int) -> dict[int, int]:
    """Parameters that several keys give, or the number of SMs."""
    l2, dram, crossbar = config.l2, config.dram, config.crossbar
    ports = -(-n_sms // crossbar.sms_per_port)
    replies = ports * crossbar.port_reply_bytes_per_cycle
    burst = ticks(ms.SECTOR_BYTES * dram.channels / (config.dram_bytes_per_cycle * dram.bus_efficiency))
    wired = dram.channels % l2.slices == 0 or l2.slices % dram.channels == 0
    return {
        ms.P_GPC_REPLY_SECTOR: ticks(ms.SECTOR_BYTES * min(config.sm.gpcs, ports) / replies),
        ms.P_ATOMIC_EXTRA: ticks(max(l2.atomic_latency_cycles - l2.mean_latency_cycles, 0)),
        ms.P_ASKED_WORDS: asked_words(config),
        ms.P_PARITY_PAGES: parity_pages(config),
        ms.P_KEPT_WAYS: max(l2.set_aside_ways(round(l2.persisting_start_share * l2.bytes)), 1),
        ms.P_CHANNELS_PER_SLICE: max(dram.channels // l2.slices, 1) if wired else 0,
        ms.P_BURST: burst,
        ms.P_WRITE_SLACK: _BATCHES_AHEAD * dram.write_drain_entries * burst,
        **dict.fromkeys((ms.P_PEERS, *range(ms.P_WINDOW_FIRST, ms.P_WINDOW_MISS + 1), ms.P_MANAGED), 0),
    }
