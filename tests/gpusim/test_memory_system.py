"""Crossbar, L2 and memory under requests made by hand, without any SM: latencies, rates, counters and laws.

Rates and latencies named "measured" are those of an H200 in the configuration's sources. One file, because everything
in it shares the bench and the stream that drive the memory system.
"""

from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from gpusim.config import load_config
from gpusim.engine.memory.dram import write_memory
from gpusim.engine.memory.place import GPC, PARTITION, PORT, first_blocks, place_of
from gpusim.engine.memory.request_coalescer import entry_of, join, note
from gpusim.engine.memory.system import MemorySystem, PeerRow, sort_window
from gpusim.engine.state import memory as s
from gpusim.engine.state.address_map import locate, quotient_of, set_and_tag
from gpusim.errors import LaunchError
from tests.gpusim.line_places import late_pairs, map_lines
from tests.gpusim.memory_requests import answer

SMS = 132
GHZ = 1.98
SMALL_L2 = {"l2.bytes": 96 * 16 * 128 * 20}  # reaches the steady state of a stream sooner
FAR_AHEAD = 1 << 40
# What makes one request's time depend on where, when and beside whom it is made; each has a test of its own.
ALIKE = {
    "l2.latency_spread_cycles": 0,
    "l2.coalesced_reads": 1,
    "l2.ordered_hits": 1,
    "l2.dirty_before_bytes": 0,
    "dram.refresh_cycles": 0,
}


@pytest.fixture(scope="module")
def h200():
    return load_config("h200")


class Bench:
    """A memory system and a way to send it requests: tuples (time, sm, line, kind, sectors, payload, operations)."""

    def __init__(self, config=None, n_sms=SMS, **overrides):
        changes = {key.replace("__", "."): value for key, value in overrides.items()}
        self.config = load_config(config or "h200", ALIKE | changes)
        self.system = MemorySystem(self.config, n_sms)
        self.n_sms = n_sms
        self.sm_part = self.config.l1.latency_cycles

    def send(self, *requests):
        """Send one window; return the whole load latency of each request, the SM's part included."""
        counts = np.zeros(self.n_sms, np.int64)
        req = np.zeros((self.n_sms, len(requests), s.REQ_FIELDS), np.int64)
        places = []
        for time, sm, line, kind, *rest in sorted(requests, key=lambda request: request[0]):
            sectors, payload, operations = rest + [15, 128, 32][len(rest) :]
            places.append((sm, counts[sm]))
            row = req[sm, counts[sm]]
            row[[s.REQ_TIME, s.REQ_LINE, s.REQ_KIND, s.REQ_SECTORS]] = time, line, kind, sectors
            row[[s.REQ_PAYLOAD_BYTES, s.REQ_OPS]] = payload, operations
            counts[sm] += 1
        order = np.zeros((len(requests), s.ORDER_WORDS), np.int64)
        assert answer(self.system.state, req, counts, order) == len(requests)
        return [int(req[p][s.REQ_REPLY] - req[p][s.REQ_TIME]) + self.sm_part for p in places]

    def one(self, time, sm, line, kind=s.KIND_READ, sectors=1, payload=32, operations=1):
        return self.send((time, sm, line, kind, sectors, payload, operations))[0]

    def line(self, home, nth=0, start=1 << 20):
        """The nth line from `start` whose home is partition `home`."""
        lines = np.arange(start, start + 64 + 4 * nth)
        return int(lines[map_lines(self.system.state, lines)[:, 0] == home][nth])

    def apart(self, time, *what):
        """Cycles between two replies to requests made at the same time by an SM of each port of partition 0."""
        state, step = self.system.state, self.config.crossbar.sms_per_port
        ports = [sm for sm in range(0, self.n_sms, step) if place_of(state, sm, PARTITION) == 0]
        replies = self.send(*((time, sm, *what) for sm in ports))
        return (max(replies) - min(replies)) / (len(ports) - 1)

    def count(self, counter):
        return int(self.system.counters[counter])


# --- latency ---------------------------------------------------------------------------------------------------------
def test_unloaded_latencies_are_the_configuration(h200):
    bench = Bench(l2__near_copy=False)
    near, far = bench.line(home=0), bench.line(home=1)
    miss_near, miss_far = bench.one(0, 0, near), bench.one(0, 0, far)
    assert (miss_near + miss_far) / 2 == h200.dram.latency_cycles
    assert miss_far - miss_near == h200.l2.fabric_latency_cycles
    assert bench.one(10_000, 0, near) == h200.l2.latency_near_cycles
    assert bench.one(20_000, 0, far) == h200.l2.latency_far_cycles
    # SMs 8 and 9 share a port of the other partition.
    assert bench.one(30_000, 8, near) == h200.l2.latency_far_cycles
    assert bench.one(40_000, 9, far) == h200.l2.latency_near_cycles


def test_the_last_of_four_sectors_takes_the_reply_port_longer(h200):
    bench = Bench()
    line = bench.line(home=0)
    bench.one(0, 0, line, sectors=15)
    sector = round(s.SECTOR_BYTES / h200.crossbar.sm_reply_bytes_per_cycle * s.TICKS) / s.TICKS
    assert bench.one(10_000, 0, line, sectors=15) == np.ceil(h200.l2.latency_near_cycles + 3 * sector)


def test_atomic_latency_is_the_mean_of_near_and_far(h200):
    bench = Bench()
    lines = bench.line(home=0), bench.line(home=1)
    for line in lines:
        bench.one(0, 0, line)
    latencies = [bench.one(10_000 * (i + 1), 0, line, s.KIND_ATOMIC) for i, line in enumerate(lines)]
    assert sum(latencies) / 2 == h200.l2.atomic_latency_cycles


def test_a_sector_on_its_way_is_waited_for_not_fetched_again():
    bench = Bench()
    line = bench.line(home=0)
    first = bench.one(0, 0, line)
    hit = bench.config.l2.latency_near_cycles
    ready = first - hit  # a request sent now finds the sector there
    assert bench.one(ready - 1, 4, line) == hit + 1
    assert bench.count(s.CNT_PENDING_HIT_SECTORS) == 1
    assert bench.one(ready + 1, 6, line) == hit  # behind the request before it
    assert bench.count(s.CNT_PENDING_HIT_SECTORS) == 1
    assert bench.count(s.CNT_HOME_MISS_SECTORS) == 1
    assert bench.count(s.CNT_TEX_HIT_SECTORS) == 2


# --- memory ----------------------------------------------------------------------------------------------------------
def _same_bank(bench, rows, home=0):
    """Lines of one bank: `rows` lines that start different rows, then the neighbour of the first in its row."""
    lines = np.arange(1 << 20, (1 << 20) + 400_000)
    where = map_lines(bench.system.state, lines)
    mine = where[:, 0] == home
    bank, first_row = where[mine][0, 4], where[mine][0, 5]
    lines, row = lines[where[:, 4] == bank], where[where[:, 4] == bank][:, 5]
    starts = [int(lines[row == r][0]) for r in np.unique(row)[:rows]]
    return starts, int(lines[row == first_row][1])


def test_an_open_row_is_faster_and_another_row_slower():
    bench = Bench()
    dram = bench.config.dram
    (first, second), neighbour = _same_bank(bench, 2)
    closed = bench.one(0, 0, first)
    assert bench.one(dram.row_cycle_cycles, 0, neighbour) == closed - dram.row_activate_cycles
    assert bench.one(2 * dram.row_cycle_cycles, 0, second) == closed + dram.row_precharge_cycles
    assert [bench.count(c) for c in (s.CNT_ROW_HITS, s.CNT_ROW_OPENS, s.CNT_ROW_CONFLICTS)] == [1, 1, 1]


def test_a_row_is_closed_after_it_was_idle():
    bench = Bench()
    dram = bench.config.dram
    (first, second), neighbour = _same_bank(bench, 2)
    closed = bench.one(0, 0, first)
    assert bench.one(dram.row_idle_cycles + 200, 0, neighbour) == closed
    assert bench.one(2 * dram.row_idle_cycles + 400, 0, second) == closed
    assert bench.count(s.CNT_ROW_OPENS) == 3


def test_two_activations_of_a_bank_are_a_row_cycle_apart():
    bench = Bench()
    dram = bench.config.dram
    (first, second), _ = _same_bank(bench, 2)
    closed, conflict = bench.send((0, 0, first, s.KIND_READ, 1), (1, 4, second, s.KIND_READ, 1))
    assert conflict == closed + dram.row_cycle_cycles - 1


def test_fetch_granularity():
    for fetch_bytes, fetched in ((32, 1), (64, 2), (128, 4)):
        bench = Bench(l2__fetch_bytes=fetch_bytes)
        line = bench.line(home=0)
        bench.one(0, 0, line, sectors=4)
        assert bench.count(s.CNT_FILL_SECTORS) == fetched
        assert bench.count(s.CNT_HOME_MISS_SECTORS) == 1
        bench.one(10_000, 0, line, sectors=8)
        assert bench.count(s.CNT_HOME_MISS_SECTORS) == (2 if fetch_bytes == 32 else 1)


# --- where, when and beside whom -------------------------------------------------------------------------------------
def test_hits_take_longer_out_of_slices_that_lie_farther(h200):
    """Measured on an H200: 250 to 345 cycles in the near partition, evenly spread."""
    bench = Bench(l2__latency_spread_cycles=70)
    lines = [bench.line(home=0, nth=n) for n in range(200)]
    for n, line in enumerate(lines):
        bench.one(10_000 * n, 0, line)
    found = np.array([bench.one(10_000_000 + 10_000 * n, 0, line) for n, line in enumerate(lines)])
    middle = h200.l2.latency_near_cycles
    assert abs(found.min() - (middle - 35)) <= 4 and abs(found.max() - (middle + 35)) <= 4
    assert abs(found.mean() - middle) <= 6
    again = [bench.one(20_000_000 + 10_000 * n, 0, line) for n, line in enumerate(lines)]
    assert again == found.tolist(), "the way is always as long"


@pytest.mark.parametrize(("readers", "served"), [(1, 1), (2, 1), (4, 1), (6, 2), (8, 2), (16, 4)])
def test_l2_is_asked_once_for_what_up_to_four_sms_of_a_gpc_read_together(readers, served):
    """Measured on an H200 with 1 to 16 SMs of a GPC that read the same 512 lines in step."""
    bench = Bench(l2__coalesced_reads=4)
    gpc = [*range(8), *range(108, 116)]
    line = bench.line(home=0)
    times = bench.send(*((10 * k, sm, line, s.KIND_READ) for k, sm in enumerate(gpc[:readers])))
    bench.send((20 * len(times), 1, line + 1, s.KIND_READ, 3), (20 * len(times) + 5, 2, line + 1, s.KIND_READ, 1))
    assert bench.count(s.CNT_TEX_READ_SECTORS) == 4 * served + 3, "other sectors of a line never join"
    bench.system.counters[s.CNT_TEX_READ_SECTORS] -= 3
    assert bench.count(s.CNT_TEX_READ_SECTORS) == 4 * served
    # All that go together get their data together.
    arrived = [10 * k + time for k, time in enumerate(times)]
    assert max(arrived[:4]) - min(arrived[:4]) <= 10 * 3
    other = bench.send((10, 8, line, s.KIND_READ), (20_000, 0, line, s.KIND_READ), (21_000, 1, line, s.KIND_READ))
    assert bench.count(s.CNT_TEX_READ_SECTORS) == 4 * (served + 3), (other, "another GPC, or long after")


@pytest.mark.parametrize(
    ("reads", "served"),
    [
        ([(0, 1), (10, 2), (20, 1)], 3),  # the GPU: 2.75 with starts that vary by 30 cycles, and 2.17 with
        ([(0, 1), (30, 2), (20, 1)], 2),
        ([(0, 1), (10, 15), (20, 1)], 6),  # 5.76
        ([(0, 1), (20, 4), (20, 4)], 3),  # 3.01
        ([(0, 1), (7, 2), (14, 1), (21, 2)], 4),  # 3.81
        ([(0, 1), (7, 1), (14, 2), (21, 2)], 3),  # 3.51
        ([(0, 1), (40, 2), (120, 4), (120, 4)], 3),  # 3.12
    ],
)
def test_a_read_of_other_sectors_of_a_line_ends_what_others_could_join(reads, served):
    """Sectors that SMs of a GPC of an H200 (driver 580.159.04, 2026-11-29) ask L2 for, by time and mask of each read;
    the same if another warp's 32 lines are asked for at once. With one of another line between them two reads join."""
    bench = Bench(l2__coalesced_reads=4)
    line = bench.line(home=0)
    bench.send(*sorted((time, sm, line, s.KIND_READ, mask) for sm, (time, mask) in enumerate(reads)))
    assert bench.count(s.CNT_TEX_READ_SECTORS) == served
    bench.send(*((20_000 + 10 * k, k, line + (k == 1), s.KIND_READ, 1 + (k == 1)) for k in range(3)))
    assert bench.count(s.CNT_TEX_READ_SECTORS) == served + 2


def test_a_refresh_keeps_its_bank_from_being_read(h200):
    """Measured on an H200: of single loads from memory one in eight is late, by up to 540 cycles, evenly spread."""
    bench = Bench(dram__refresh_cycles=540, dram__refresh_interval_cycles=3861, l2__near_copy=False)
    times = np.array([bench.one(5_000 * n, 0, (1 << 22) + 977 * n) for n in range(4000)])
    late = np.maximum(times - Bench().one(0, 0, 0) - h200.l2.fabric_latency_cycles, 0)
    share = np.mean(late > 20)
    assert abs(share - 540 / 3861) < 0.02 + 0.5 * 200 / 3861  # a near line's first 180 late cycles do not show
    assert 500 < late.max() <= 545


def test_pairs_of_reads_are_late_together_as_measured():
    """Of 3,000 pairs of loads by an SM of an H200 (driver 580.159.04, 2026-11-29), by their distance in bytes: how
    often the second is late, by 130 cycles or more, if the first is."""
    near = {1024: 0.46, 2048: 0.29, 4096: 0.42, 8192: 0.37, 16384: 0.25, 32768: 0.39}
    measured = {128: 0.81, 512: 0.75, **near, 65536: 0.14}
    bench = Bench(dram__refresh_cycles=540, dram__refresh_interval_cycles=3861)
    first = np.random.default_rng(2).integers(1 << 22, 1 << 26, 4000)
    now = np.random.default_rng(3).integers(0, 1 << 30, first.size)
    together = {}
    for distance in measured:
        late = late_pairs(bench.system.state, first, first + distance // 128, now << s.TICK_BITS, 130 << s.TICK_BITS)
        together[distance] = late[0] / late[1]
    assert np.mean([together[each] for each in near]) == pytest.approx(np.mean([*near.values()]), abs=0.05)
    assert all(together[each] == pytest.approx(measured[each], abs=0.2) for each in measured), together


def test_reads_that_come_together_are_late_twice_as_often_but_no_more():
    """Measured on an H200 (memory_load): nine in ten of single loads are there after 790 cycles, of 256 at a time or
    4,000 after 940 to 1,040."""

    def late(each):
        found = []
        for refresh in (540, 0):
            bench = Bench(dram__refresh_cycles=refresh, dram__refresh_interval_cycles=3861, l2__near_copy=False)
            lines = np.random.default_rng(1).integers(1 << 22, 1 << 26, (4096 // each, each)).tolist()
            found.append([
                bench.send(*((10_000 * n, k % SMS, line, s.KIND_READ) for k, line in enumerate(row)))
                for n, row in enumerate(lines)
            ])  # fmt: skip
        more = np.array(found[0]) - np.array(found[1])
        return np.mean(more > 60)

    alone, many, most = late(1), late(1056), late(4096)
    assert 0.09 < alone < 0.14
    assert 1.6 < many / alone < 2.2 and 1.6 < most / alone < 2.4, (alone, many, most)


def test_reads_that_wait_for_the_bus_meet_the_refresh_of_their_turn():
    """Measured on an H200 (driver 580.159.04, 2026-12-01): where all SMs load 2.1 MB at once, each 128 lines in order,
    the last SM has all its lines 425 cycles behind the mean of SMs; 150 here with refreshes met on arrival."""
    behind = []
    for launch in range(5):
        bench = Bench(dram__refresh_cycles=540, dram__refresh_interval_cycles=3861)
        asked = [
            (1117 * launch + 3 * k, sm, (1 << 22) + (launch << 16) + 128 * sm + k)
            for sm in range(SMS)
            for k in range(128)
        ]
        replies = np.array(bench.send(*((time, sm, line, s.KIND_READ, 15, 128) for time, sm, line in asked)))
        last = (replies.reshape(SMS, 128) + 3 * np.arange(128)).max(axis=1)
        behind.append(last.max() - last.mean())
    assert 250 < np.median(behind) < 550, behind


def test_a_hit_waits_for_a_miss_of_its_slice_until_more_reads_come():
    """Measured on an H200: a load that hits 60 to 450 cycles behind a miss of its slice comes back with it, one of
    another slice at once; of six hits behind a miss most pass it."""
    bench = Bench(**{"l2.ordered_hits": 4})
    lines = np.arange(1 << 20, (1 << 20) + 4096)
    places = map_lines(bench.system.state, lines)
    home = (places[:, 0] == 0).nonzero()[0]
    same = lines[home[(places[home, 1] == places[home[0], 1])]].tolist()
    other = int(lines[home[(places[home, 1] != places[home[0], 1])][0]])
    miss = bench.one(0, 0, same[1])
    bench.one(10_000, 0, same[0]), bench.one(20_000, 0, other)
    alone = bench.one(30_000, 0, same[0])
    three = (0, same[2]), (100, same[0]), (101, other)
    late = bench.send(*((40_000 + time, 0, line, s.KIND_READ, 1) for time, line in three))
    assert late == [miss, miss - 100, alone]
    many = bench.send(*((50_000 + 10 * n, 0, same[3] if n == 0 else same[0], s.KIND_READ, 1) for n in range(9)))
    assert many[0] == miss and many[1] == miss - 10 and many[-1] < alone + 70


# --- near copies, stores ---------------------------------------------------------------------------------------------
def test_a_near_copy_serves_until_somebody_writes(h200):
    bench = Bench()
    far, near_latency, far_latency = (
        bench.line(home=1),
        h200.l2.latency_near_cycles,
        h200.l2.latency_far_cycles,
    )
    bench.one(0, 0, far)
    assert bench.one(10_000, 0, far) == near_latency
    assert bench.one(20_000, 0, far, s.KIND_READ_STRONG) == near_latency
    bench.one(30_000, 8, far, s.KIND_WRITE)
    assert bench.count(s.CNT_COPY_INVALIDATIONS) == 1
    assert bench.one(40_000, 0, far) == far_latency
    assert bench.one(50_000, 0, far) == near_latency
    bench.one(60_000, 0, far, s.KIND_REDUCTION)
    assert bench.one(70_000, 0, far) == far_latency
    assert bench.count(s.CNT_FABRIC_READ_SECTORS) == 2 + 1 + 1, "two sectors at first, then the one that was written"
    assert bench.count(s.CNT_FABRIC_WRITE_SECTORS) == 1


def test_stores_fetch_nothing_and_reads_after_them_hit():
    bench = Bench()
    line = bench.line(home=0)
    assert bench.one(0, 0, line, s.KIND_WRITE, sectors=15, payload=128) == bench.config.l2.latency_near_cycles
    assert bench.one(10_000, 0, line) == bench.config.l2.latency_near_cycles
    assert bench.count(s.CNT_FILL_SECTORS) == 0
    assert bench.system.flush() == 128
    assert bench.one(20_000, 0, line) > bench.config.l2.latency_near_cycles


@pytest.mark.parametrize(("halves", "fetched"), [(1, 1), (2, 0)])
def test_a_partly_written_sector_is_fetched_before_it_is_read_or_evicted(halves, fetched):
    bench = Bench("tiny", n_sms=2, l2__fetch_bytes=32)
    for half in range(halves):
        bench.one(half, 0, 77, s.KIND_WRITE_PARTIAL, sectors=1, payload=16)
    lines = 2 * bench.config.l2.bytes // 128
    for line in range(1000, 1000 + lines):  # push it out
        bench.one(10_000 + line, 0, line, s.KIND_WRITE, 15, 128)
    assert bench.count(s.CNT_MERGE_SECTORS) == fetched
    bench.one(10**7, 0, 78, s.KIND_WRITE_PARTIAL, sectors=3, payload=32)
    bench.one(10**7 + 10, 0, 78, sectors=1)
    assert bench.count(s.CNT_FILL_SECTORS) == 1


@pytest.mark.parametrize("payload", [128, 64])
def test_whole_sectors_written_to_the_other_partition_stay_near(h200, payload):
    """Of what each thread of an H200 wrote and read back nothing crossed the fabric, of partly written sectors all."""
    bench = Bench()
    line = bench.line(home=0)
    kind = s.KIND_WRITE if payload == 128 else s.KIND_WRITE_PARTIAL
    bench.one(0, 8, line, kind, sectors=15, payload=payload)
    read = bench.one(10_000, 8, line, sectors=1)
    if payload == 128:
        assert read == h200.l2.latency_near_cycles
        bench.one(20_000, 0, line, s.KIND_WRITE, sectors=15, payload=128)
        assert bench.one(30_000, 8, line, sectors=1) == h200.l2.latency_far_cycles
        assert bench.count(s.CNT_COPY_INVALIDATIONS) == 1
    else:
        assert read > h200.l2.latency_far_cycles


def test_a_miss_counts_all_sectors_that_are_fetched_for_it():
    """Measured on an H200: one sector of each 64 bytes read, twice as many misses, near and over the fabric."""
    bench = Bench()
    for home in (0, 1):
        bench.one(10_000 * home, 0, bench.line(home=home), sectors=4)
    counts = (s.CNT_TEX_READ_SECTORS, s.CNT_TEX_HIT_SECTORS, s.CNT_TEX_MISS_SECTORS, s.CNT_FABRIC_MISS_SECTORS)
    assert [bench.count(counter) for counter in counts] == [2, 0, 4, 2]
    for home in (0, 1):
        bench.one(50_000 + 10_000 * home, 0, bench.line(home=home), sectors=8)
    assert [bench.count(counter) for counter in counts] == [4, 2, 4, 2]


def test_a_reduction_on_its_way_to_the_other_partition_is_a_hit():
    """Measured on an H200: of reductions to lines that L2 does not hold half are hits, the others misses."""
    bench = Bench()
    for home in (0, 1):
        bench.one(10_000 * home, 0, bench.line(home=home), s.KIND_REDUCTION, sectors=15, payload=128)
    counts = (s.CNT_TEX_HIT_SECTORS, s.CNT_TEX_MISS_SECTORS, s.CNT_FABRIC_MISS_SECTORS)
    assert [bench.count(counter) for counter in counts] == [4, 4, 4]


# --- what a launch does besides --------------------------------------------------------------------------------------
@pytest.mark.parametrize(("began", "later"), [(100, True), (1_200, False)])
def test_a_read_from_memory_crosses_the_fabric_behind_stores_that_come_before_its_data(began, later):
    """Copies of 2 to 4 MB on an H200: their loads end 1,100 cycles later than loads alone. began: of the stores."""
    bench = Bench(l2__fabric_bytes_per_cycle=64)
    far = bench.line(home=1)
    senders = [sm for sm in range(SMS) if place_of(bench.system.state, sm, PARTITION) == 1]
    homes = [bench.line(home=0, nth=nth, start=1 << 22) for nth in range(8)]
    alone = Bench(l2__fabric_bytes_per_cycle=64).one(0, 0, far, sectors=15, payload=0)
    stores = [(began + k // 8, senders[k % len(senders)], homes[k % 8], s.KIND_WRITE) for k in range(800)]
    beside = bench.send((0, 0, far, s.KIND_READ, 15, 0), *stores)[0]
    assert beside == alone if not later else beside > alone + 800 * 2 - 700


def test_a_read_for_which_no_row_is_free_is_answered_at_once():
    bench, full = Bench(), Bench()
    full.system.late[s.LATE_FREE] = 0
    assert full.one(0, 0, full.line(home=1)) == bench.one(0, 0, bench.line(home=1))
    assert full.system.late[s.LATE_COUNT] == 0


def test_each_slice_that_an_sm_has_asked_is_flushed_over_the_fabric():
    bench = Bench()
    lines = np.arange(1 << 20, (1 << 20) + 2000)
    where = map_lines(bench.system.state, lines)[:, 1]
    for sm in (0, 8):
        for time, line in enumerate(lines[:40]):
            kind = s.KIND_WRITE if time % 2 else s.KIND_READ
            bench.one(10_000 * sm + time, sm, int(line), kind)
    assert bench.count(s.CNT_FABRIC_BARRIERS) == 2 * len(set(where[:40])) > 2
    bench.system.place(SMS)
    bench.one(10**6, 0, int(lines[0]))
    assert bench.count(s.CNT_FABRIC_BARRIERS) == 2 * len(set(where[:40])) + 1
    bench.send(*((10**7 + n, 0, int(line), s.KIND_READ) for n, line in enumerate(lines)))
    assert bench.count(s.CNT_FABRIC_BARRIERS) == 2 * len(set(where[:40])) + 96


def test_a_launch_reads_its_code_once():
    """Measured on an H200: code to 256 bytes and 68 sectors more, and each of them crosses the fabric once."""
    bench, tiny = Bench(), Bench("tiny", n_sms=2)
    for each in (bench, tiny):
        each.system.fetch("kernel", 300, 64)
        each.system.fetch("kernel", 300, 64)
    assert bench.count(s.CNT_LAUNCH_SECTORS) == 512 // 32 + 64 // 32 + 68
    assert bench.count(s.CNT_FABRIC_LAUNCH_SECTORS) == 512 // 32 + 64 // 32 + 68 + 16
    assert tiny.count(s.CNT_FABRIC_LAUNCH_SECTORS) == 0
    bench.system.flush()
    bench.system.fetch("kernel", 300, 64)
    assert bench.count(s.CNT_LAUNCH_SECTORS) == 2 * 86


# --- streams ---------------------------------------------------------------------------------------------------------
@njit
def _fill(req, req_n, replies, sent, last, kinds, bases, lines, step, until, sectors, payload, operations):
    """Let every SM send what it may before `until`: one request a cycle, as many under way as `replies` has columns."""
    n_sms, outstanding = replies.shape
    left = 0
    for sm in range(n_sms):
        req_n[sm] = 0
        total = (lines // step - sm + n_sms - 1) // n_sms * step * kinds.size
        while sent[sm] < total and req_n[sm] < req.shape[1]:
            i = sent[sm]
            time = max(last[sm], replies[sm, i % outstanding])
            if time >= until:
                break
            turn, which = i // kinds.size, i % kinds.size
            line = bases[which] + (turn // step * n_sms + sm) * step + turn % step if step else bases[which]
            r = req[sm, req_n[sm]]
            r[0], r[1], r[2], r[3] = time, line, sectors, kinds[which]
            r[5], r[7] = payload, operations
            req_n[sm] += 1
            sent[sm] += 1
            last[sm] = time + 1
            replies[sm, i % outstanding] = FAR_AHEAD
        left += total - sent[sm]
    return left


@njit
def _collect(req, req_n, replies, sent):
    """Note the replies of a window; return the latest."""
    latest = 0
    for sm in range(req_n.size):
        for i in range(req_n[sm]):
            reply = req[sm, i, 6]
            replies[sm, (sent[sm] - req_n[sm] + i) % replies.shape[1]] = reply
            latest = max(latest, reply)
    return latest


def stream(bench, kinds, megabytes, sms=SMS, outstanding=128, step=4, sectors=15, payload=128, same_line=False):
    """(Cycles, requests) until all SMs together have sent `kinds` (a list) to each line of as many arrays.

    Each SM takes turns of `step` lines. Queues start idle, caches as they are.
    """
    window = bench.config.l2.lookahead_cycles
    state = bench.system.state
    lines = int(megabytes * 2**20) // 128
    bases = np.array([(1 << 23) + which * (1 << 24) for which in range(len(kinds))])
    req, req_n = np.zeros((sms, window, s.REQ_FIELDS), np.int64), np.zeros(bench.n_sms, np.int64)
    order = np.zeros((sms * window, s.ORDER_WORDS), np.int64)
    replies, sent, last = (
        np.zeros((sms, outstanding), np.int64),
        np.zeros(sms, np.int64),
        np.zeros(sms, np.int64),
    )
    until = end = 0
    left = 1
    while left:
        until += window
        left = _fill(
            *(req, req_n[:sms], replies, sent, last, np.array(kinds), bases, lines, step, until),
            *(sectors, payload, 8 * sectors.bit_count()),
        )
        if same_line:
            req[:, :, s.REQ_LINE] = 1 << 23
        answer(state, req, req_n[:sms], order)
        end = max(end, _collect(req, req_n[:sms], replies, sent))
    return end, int(sent.sum())


def bytes_per_cycle(bench, *args, **options):
    cycles, requests = stream(bench, *args, **options)
    return requests * 128 / cycles


def idle(bench):
    """Time starts again: queues idle, caches as they are."""
    state = bench.system.state
    state[s.QUEUES_AT : state[s.P_PLACES]] = 0
    state[state[s.P_LINES] :].reshape(-1, 2, state[s.P_WAYS])[:, 1] = 0
    bench.system.counters.fill(0)


@pytest.mark.parametrize(
    ("kinds", "measured_tb_s"),
    [([s.KIND_READ], 4.45), ([s.KIND_WRITE], 4.3), ([s.KIND_READ, s.KIND_WRITE], 3.98)],
    ids=["read", "write", "copy"],
)
def test_memory_bandwidth_as_measured(kinds, measured_tb_s):
    bench = Bench(**SMALL_L2)
    bytes_per_cycle(bench, kinds, 8)  # so that L2 is as dirty as it will be
    idle(bench)
    rate = bytes_per_cycle(bench, kinds, 64) * GHZ / 1e3
    assert rate == pytest.approx(measured_tb_s, rel=0.05)


@pytest.mark.parametrize(("sms", "measured_tb_s"), [(1, 0.042), (32, 1.30), (66, 2.49)])
def test_memory_bandwidth_of_some_sms_as_measured(sms, measured_tb_s):
    # 424 sectors under way per SM, what one SM's measured rate out of L2 needs; the kernels may have had more or less.
    rate = bytes_per_cycle(Bench(), [s.KIND_READ], 0.25 * sms, sms=sms, outstanding=106) * GHZ / 1e3
    assert rate == pytest.approx(measured_tb_s, rel=0.15)


def test_l2_bandwidth_as_measured():
    bench = Bench()
    bytes_per_cycle(bench, [s.KIND_READ], 32)
    idle(bench)
    # As long as the 18 SMs of a GPC take to copy 2 MiB each.
    assert bytes_per_cycle(bench, [s.KIND_READ], 32) == pytest.approx(132 * 35.1, rel=0.05)
    assert bench.count(s.CNT_TEX_MISS_SECTORS) < 0.01 * bench.count(s.CNT_TEX_READ_SECTORS)


def test_l2_bandwidth_of_one_sm():
    bench = Bench()
    bytes_per_cycle(bench, [s.KIND_READ], 1, sms=1)
    idle(bench)
    assert bytes_per_cycle(bench, [s.KIND_READ], 1, sms=1, outstanding=106) == pytest.approx(48.5, rel=0.15)
    idle(bench)
    port = bench.config.crossbar.sm_reply_bytes_per_cycle
    assert 0.95 * port < bytes_per_cycle(bench, [s.KIND_READ], 1, sms=1, outstanding=400) <= port


@pytest.mark.parametrize(("sectors", "measured_g_s"), [(1, 1.4), (15, 0.42)], ids=["one address", "one line"])
def test_reductions_to_one_line_as_measured(sectors, measured_g_s):
    cycles, requests = stream(Bench(), [s.KIND_REDUCTION], 2, sectors=sectors, same_line=True)
    assert requests / cycles * GHZ == pytest.approx(measured_g_s, rel=0.05)


LAUNCH_CYCLES = 3100  # of an empty kernel, contained in what was measured


@pytest.mark.parametrize(
    ("lines", "stride", "measured_cycles", "within"),
    [
        (1, 1, 42848, 0.03),
        (2, 1, 43428, 0.03),
        (4, 1, 22936, 0.03),
        (8, 1, 23059, 0.03),
        (16, 1, 15697, 0.15),
        (32, 1, 9656, 0.12),
        (8, 2, 16057, 0.16),
        (8, 4, 13507, 0.03),
        (8, 32, 8889, 0.05),
    ],
)
def test_whole_line_reductions_over_some_lines_as_measured(lines, stride, measured_cycles, within):
    """8,448 warps add to one whole line each. Where more than two slices share the work the GPU takes longer than
    the fullest of them; the bounds say by how much."""
    bench, each = Bench(**SMALL_L2), 64
    req = np.zeros((SMS, each, s.REQ_FIELDS), np.int64)
    nth = np.arange(each)
    req[:, :, s.REQ_TIME] = 4 * nth
    req[:, :, s.REQ_LINE] = (1 << 20) + stride * ((nth * SMS + np.arange(SMS)[:, None]) % lines)
    req[:, :, s.REQ_KIND], req[:, :, s.REQ_SECTORS] = s.KIND_REDUCTION, 15
    req[:, :, s.REQ_PAYLOAD_BYTES], req[:, :, s.REQ_OPS] = 128, 32
    order = np.zeros((SMS * each, s.ORDER_WORDS), np.int64)
    answer(bench.system.state, req, np.full(SMS, each), order)
    cycles = LAUNCH_CYCLES + int(req[:, :, s.REQ_REPLY].max())
    assert cycles == pytest.approx(measured_cycles, rel=within)


def test_reductions_to_random_words_of_a_line_take_longer_per_sector():
    """Two of eight words of each sector: the measured 1.39 to 1.43 cycles a sector instead of 1.17."""
    cycles = []
    for operations in (8, 32):
        bench = Bench()
        line = bench.line(home=0)
        bench.one(0, 0, line, sectors=15)
        cycles.append(bench.apart(10_000, line, s.KIND_REDUCTION, 15, 4 * operations, operations) / 4)
    assert cycles == pytest.approx([1.41, 1.17], rel=0.02)


def test_one_word_stores_as_measured():
    """Stores of one word each, every one to a sector of its own, take the slices 2.73 cycles; none goes to memory."""
    bench = Bench(l2__dirty_ways=16)
    cycles, requests = stream(bench, [s.KIND_WRITE_PARTIAL], 32, sectors=1, payload=4)
    assert bench.count(s.CNT_EVICTIONS) == bench.count(s.CNT_WRITEBACK_SECTORS) == 0
    assert requests / cycles == pytest.approx(35.2, rel=0.07)


def test_stores_pay_for_the_sectors_they_write_in_part(h200):
    """All bytes of four sectors, all but one word, and one word of each."""
    spans = []
    for payload in (128, 124, 16):
        bench = Bench()
        line = bench.line(home=0)
        kind = s.KIND_WRITE if payload == 128 else s.KIND_WRITE_PARTIAL
        spans.append(bench.apart(0, line, kind, 15, payload, 32))
    partial, request = h200.l2.partial_write_cycles, h200.l2.partial_request_cycles
    whole = 5 * h200.l2.slice_flit_cycles
    assert spans == pytest.approx([whole, max(whole, request + partial), request + 4 * partial], abs=0.1)


def test_reductions_to_different_lines_are_bound_by_memory():
    cycles, requests = stream(Bench(**SMALL_L2), [s.KIND_REDUCTION], 64)
    assert requests / cycles * GHZ == pytest.approx(17.5, rel=0.1)


def _chase(bench, megabytes, sm=0):
    """Mean latency of the last of three passes over some lines, one load at a time."""
    lines = np.arange(megabytes * 2**20 // 128)
    req = np.zeros((bench.n_sms, lines.size, s.REQ_FIELDS), np.int64)
    req_n = np.zeros(bench.n_sms, np.int64)
    req_n[sm] = lines.size
    order = np.zeros((lines.size, s.ORDER_WORDS), np.int64)
    for turn in range(3):
        req[sm, :, s.REQ_TIME] = (turn * lines.size + lines) * 2000
        req[sm, :, s.REQ_LINE] = lines
        req[sm, :, s.REQ_SECTORS] = 1
        answer(bench.system.state, req[: sm + 1], req_n[: sm + 1], order)
    return float((req[sm, :, s.REQ_REPLY] - req[sm, :, s.REQ_TIME]).mean()) + bench.sm_part


@pytest.mark.parametrize(("megabytes", "measured_cycles"), [(24, 280), (48, 509)])
def test_chase_through_the_near_half_and_beyond_as_measured(megabytes, measured_cycles):
    assert _chase(Bench(n_sms=1), megabytes) == pytest.approx(measured_cycles, rel=0.03)


def test_chase_beyond_the_cache_takes_memory_latency():
    assert _chase(Bench(n_sms=1, **SMALL_L2), 16) == pytest.approx(640, rel=0.01)


BLOCK = 8  # lines that a block of 256 threads reads or writes


def _blocks(bench, parts):
    """Blocks one after the other, each for the next SM. parts: (kind, MiB) that follow each other."""
    work = []
    for array, (kind, megabytes) in enumerate(parts):
        lines = (1 << 30) + (array << 22) + BLOCK * np.arange(round(megabytes * 1024))
        work.append(np.stack((np.full_like(lines, kind), lines), 1))
    return np.concatenate(work)


def _side_by_side(bench, parts):
    work = [_blocks(bench, [(s.KIND_READ, 0)] * n + [part]) for n, part in enumerate(parts)]
    turn = np.concatenate([np.arange(len(blocks)) / len(blocks) for blocks in work])
    return np.concatenate(work)[np.argsort(turn, kind="stable")]


def _launch(bench, work, shuffled=None):
    """Blocks of `work` in turn, each on the next SM; with a generator of random numbers on any that is free."""
    each = 4
    step = SMS * each
    for first in range(0, len(work), step):
        some = work[first : first + step]
        if shuffled:
            some = shuffled.permutation(some)
        kind, line = some.T[:, :, None]
        turn, sm = np.divmod(np.arange(len(some)), SMS)
        rows = np.zeros((len(some), BLOCK, s.REQ_FIELDS), np.int64)
        rows[:, :, s.REQ_TIME] = (4 * first + turn * 60 + sm // 4)[:, None]
        rows[:, :, s.REQ_LINE], rows[:, :, s.REQ_KIND] = line + np.arange(BLOCK), kind
        rows[:, :, s.REQ_SECTORS], rows[:, :, s.REQ_PAYLOAD_BYTES] = 15, 128 * (kind == s.KIND_WRITE)
        req = np.zeros((SMS, each, BLOCK, s.REQ_FIELDS), np.int64)
        req[sm, turn] = rows
        counts, order = BLOCK * np.bincount(sm, minlength=SMS), np.zeros((step * BLOCK, s.ORDER_WORDS), np.int64)
        answer(bench.system.state, req.reshape(SMS, each * BLOCK, s.REQ_FIELDS), counts, order)


@pytest.mark.parametrize(
    ("order", "parts", "measured_sectors", "within"),
    [
        (_blocks, [(s.KIND_WRITE, 16)], 0, 0),
        (_blocks, [(s.KIND_WRITE, 36)], 333456, 0.05),
        (_blocks, [(s.KIND_WRITE, 8), (s.KIND_READ, 32)], 106896, 0.15),
        (_blocks, [(s.KIND_WRITE, 8), (s.KIND_READ, 56)], 332672, 0.05),
        (_side_by_side, [(s.KIND_READ, 16), (s.KIND_WRITE, 16)], 14624, 0.5),
        (_side_by_side, [(s.KIND_READ, 64), (s.KIND_WRITE, 64)], 1496840, 0.05),
    ],
)
def test_what_is_written_to_memory_while_a_kernel_runs(order, parts, measured_sectors, within):
    """Sectors of dram__bytes_write.sum of kernels that read and write so many MiB, under Nsight Compute."""
    bench = Bench(l2__dirty_before_bytes=2_400_000)
    _launch(bench, order(bench, parts))
    assert abs(bench.count(s.CNT_WRITEBACK_SECTORS) - measured_sectors) <= within * measured_sectors


@pytest.mark.parametrize(
    ("reads", "writes", "measured_shares"),
    [
        (1, 0, {16: 0.737, 36: 0.659, 40: 0.457, 44: 0.182, 48: 0.031, 52: 0.008, 64: 0.0}),
        (1, 1, {36: 0.826, 40: 0.720, 44: 0.586, 48: 0.520, 56: 0.5}),
        (2, 1, {36: 0.780, 40: 0.621, 44: 0.469, 48: 0.367, 56: 0.334}),
    ],
    ids=["read", "copy", "add"],
)
def test_what_a_launch_finds_of_the_same_launch_before(reads, writes, measured_shares):
    """Share of sectors that hit, of kernels that read, copy or add so many MiB in all once more, blocks on any
    SMs. H200, driver 580.159.04, 2026-11-29, Nsight Compute without cache control, in a pass behind the first one of
    the same launch; the means of three launches, which are up to 0.05 apart.
    """
    kinds = [s.KIND_READ] * reads + [s.KIND_WRITE] * writes
    for megabytes, measured in measured_shares.items():
        bench, shuffled = Bench(), np.random.default_rng(0)
        work = _side_by_side(bench, [(kind, megabytes / len(kinds)) for kind in kinds])
        for _ in range(2):
            idle(bench)
            _launch(bench, work, shuffled)
        hit, missed = bench.count(s.CNT_TEX_HIT_SECTORS), bench.count(s.CNT_TEX_MISS_SECTORS)
        assert hit / (hit + missed) == pytest.approx(measured, abs=0.06), megabytes


# --- counters and laws -----------------------------------------------------------------------------------------------
def test_a_stream_through_a_cache_that_is_too_small_fetches_everything_each_time():
    bench = Bench("tiny", n_sms=2)
    l2_megabytes = bench.config.l2.bytes / 2**20
    for _ in range(2):
        stream(bench, [s.KIND_READ], 2 * l2_megabytes, sms=2)
    assert bench.count(s.CNT_FILL_SECTORS) * 32 == 2 * 2 * bench.config.l2.bytes
    bench.system.reset()
    for _ in range(2):
        stream(bench, [s.KIND_READ], l2_megabytes / 2, sms=2)
    assert bench.count(s.CNT_FILL_SECTORS) * 32 == bench.config.l2.bytes / 2


def test_everything_written_is_written_back_once():
    bench = Bench("tiny", n_sms=2)
    stream(bench, [s.KIND_WRITE], 4, sms=2)
    assert bench.count(s.CNT_WRITEBACK_SECTORS) * 32 + bench.system.flush() == 4 * 2**20
    assert bench.count(s.CNT_FILL_SECTORS) == 0


def _mixed(seed, n=4000, span=3000, lines=6000):
    random = np.random.default_rng(seed)
    counts = random.multinomial(n, np.full(SMS, 1 / SMS))
    req = np.zeros((SMS, counts.max(), s.REQ_FIELDS), np.int64)
    for sm, count in enumerate(counts):
        row = req[sm, :count]
        row[:, s.REQ_TIME] = np.sort(random.integers(0, span, count))
        row[:, s.REQ_LINE] = random.integers(0, lines, count)
        row[:, s.REQ_SECTORS] = random.integers(1, 16, count)
        row[:, s.REQ_KIND] = random.integers(0, s.KIND_SM_READ, count)
        row[:, s.REQ_PAYLOAD_BYTES] = 32 * np.bitwise_count(row[:, s.REQ_SECTORS])
        row[:, s.REQ_PAYLOAD_BYTES][row[:, s.REQ_KIND] == s.KIND_WRITE_PARTIAL] = 8
        row[:, s.REQ_OPS] = random.integers(1, 33, count)
    return req, counts


def test_a_prefetch_fills_the_home_and_leaves_no_copy(h200):
    bench = Bench()
    lines = range(64)
    for line in lines:
        assert bench.one(0, 0, line, s.KIND_PREFETCH, sectors=15) <= h200.l2.latency_far_cycles + 100
    assert bench.count(s.CNT_TEX_PREFETCH_SECTORS) == 256 == bench.count(s.CNT_FILL_SECTORS)
    for line in lines:
        bench.one(10_000, 0, line, sectors=15)
    assert bench.count(s.CNT_FILL_SECTORS) == bench.count(s.CNT_TEX_READ_SECTORS) == 256
    assert bench.count(s.CNT_TEX_HIT_SECTORS) == 128, "of lines that are near"


@given(seed=st.integers(0, 2**32 - 1), near_copy=st.booleans(), fetch_bytes=st.sampled_from([32, 64, 128]))
@settings(max_examples=15, deadline=None)
def test_counters_conserve_and_no_reply_is_too_early(seed, near_copy, fetch_bytes):
    config = load_config(
        "h200",
        {
            "l2.near_copy": near_copy,
            "l2.fetch_bytes": fetch_bytes,
            "l2.bytes": 96 * 128 * 16,
            "l2.coalesced_reads": 1,  # what SMs share is counted once
        },
    )
    system = MemorySystem(config, SMS)
    counter = system.counters
    shortest = config.l2.latency_near_cycles - config.l2.latency_spread_cycles // 2 - config.l1.latency_cycles
    sectors = requests = 0
    for window in range(3):
        req, counts = _mixed(seed + window)
        req[:, :, s.REQ_TIME] += 3000 * window
        order = np.zeros((counts.sum(), s.ORDER_WORDS), np.int64)
        answer(system.state, req, counts, order)
        sent = req[order[:, 0], order[:, 1]]
        assert (sent[:, s.REQ_REPLY] - sent[:, s.REQ_TIME]).min() >= shortest >= config.l2.lookahead_cycles
        sectors += np.bitwise_count(sent[:, s.REQ_SECTORS]).sum()
        requests += counts.sum()
    tex = counter[s.CNT_TEX_READ_SECTORS : s.CNT_TEX_REDUCTION_SECTORS + 1].sum()
    tex += counter[s.CNT_TEX_PREFETCH_SECTORS]
    assert tex + counter[s.CNT_OTHER_SECTORS] == sectors
    looked_up = counter[s.CNT_TEX_HIT_SECTORS] + counter[s.CNT_TEX_MISS_SECTORS]
    assert tex <= looked_up <= tex + counter[s.CNT_TEX_MISS_SECTORS] * (1 - 32 / fetch_bytes)
    assert counter[s.CNT_REQUESTS] == counter[s.CNT_REQUESTS_KIND :].sum() == requests
    crossed = counter[s.CNT_FABRIC_READ_SECTORS] + counter[s.CNT_FABRIC_WRITE_SECTORS]
    assert counter[s.CNT_FABRIC_MISS_SECTORS] <= crossed * fetch_bytes // 32
    missed, filled = counter[s.CNT_HOME_MISS_SECTORS], counter[s.CNT_FILL_SECTORS]
    assert missed <= filled <= missed * fetch_bytes // 32
    if not near_copy:
        assert counter[s.CNT_COPY_INVALIDATIONS] == 0
    # What lies in the cache is valid or dirty, each line once in a slice, and ages are a permutation.
    states = system._lines[:, 0]
    for row in states[np.random.default_rng(seed).integers(0, len(states), 50)]:
        used = row[row >> s.TAG_SHIFT > 0]
        assert len(np.unique(used >> s.TAG_SHIFT)) == len(used)
        assert sorted((used & s.AGE_MASK) >> s.AGE_SHIFT) == list(range(len(used)))


@pytest.mark.parametrize("span", [1, 200, 2048, 10**7])
def test_order_is_by_time_then_sm_then_index(span):
    req, counts = _mixed(6, n=3000, span=span)
    req[:, :, s.REQ_TIME] += 10**12
    order = np.zeros((counts.sum() + 5, s.ORDER_WORDS), np.int64)
    n = sort_window(Bench().system.state, req, counts, order)
    expected = sorted((req[sm, i, s.REQ_TIME], sm, i) for sm in range(SMS) for i in range(counts[sm]))
    assert n == counts.sum()
    assert order[:n, :2].tolist() == [[sm, i] for _, sm, i in expected]
    assert sort_window(Bench().system.state, req, np.zeros_like(counts), order) == 0


@pytest.mark.parametrize("stride_lines", [2**k for k in range(14)] + [3, 96, 97, 1000])
def test_no_stride_camps(stride_lines):
    bench = Bench()
    where = map_lines(bench.system.state, np.arange(96 * 256) * stride_lines + 96 * 10**7)
    for column, buckets, most in ((0, 2, 1.05), (1, 96, 1.3), (3, 192, 1.45)):
        share = np.bincount(where[:, column], minlength=buckets) * buckets / len(where)
        assert share.max() < most
    if stride_lines == 1:
        assert (np.bincount(where[:, 1]) == 256).all()


def test_pairs_of_lines_share_a_slice_and_a_kilobyte_lies_in_two():
    """As reductions over contiguous lines show on the H200."""
    slices = map_lines(Bench().system.state, np.arange(8 * 96 * 64))[:, 1].reshape(-1, 4, 2)
    assert (slices[:, :, 0] == slices[:, :, 1]).all()
    assert all(len(set(block)) == 2 for block in slices[:, :, 0].tolist())
    share = np.bincount(slices[:, :, 0].ravel() + 96 * np.repeat(np.arange(len(slices)) // 48, 4))
    assert (share == 2).all()  # two pairs in each slice for any 48 KB


def test_four_kilobytes_are_of_one_partition_by_the_parity_of_some_address_bits():
    """As latencies of atomics to every line of 16 MB show on an H200."""
    homes = map_lines(Bench().system.state, np.arange(1 << 17))[:, 0].reshape(-1, 32)
    assert (homes == homes[:, :1]).all()
    flips = [int(homes[0, 0] != homes[1 << bit, 0]) for bit in range(12)]
    assert flips == [1, 1, 0, 1, 0, 1, 0, 1, 0, 1, 1, 0]
    pages = np.arange(len(homes))
    parity = sum((pages >> bit) & flip for bit, flip in enumerate(flips)) % 2
    assert (homes[:, 0] == parity ^ homes[0, 0]).all()


def test_where_the_sms_of_an_h200_are():
    """Blocks go out GPC by GPC; sides by latencies of atomics; eight SMs are apart, but read together with GPC 0."""
    bench = Bench()
    gpcs = np.array([place_of(bench.system.state, sm, GPC) for sm in range(SMS)])
    assert np.flatnonzero(gpcs == 0).tolist() == [*range(8), *range(108, 116)]
    assert np.bincount(gpcs).tolist() == [16] * 6 + [18] * 2
    sides = [place_of(bench.system.state, sm, PARTITION) for sm in range(SMS)]
    assert sides == [(0, 1, 1, 0, 0, 0, 1, 1)[gpc] for gpc in gpcs]
    assert [place_of(bench.system.state, sm, PORT) for sm in range(SMS)] == [sm // 2 for sm in range(SMS)]


@pytest.mark.parametrize(
    ("blocks", "gpcs", "tpcs"),
    [
        (2, [0] * 2, 2),
        (5, [0] * 5, 4),
        (10, [0] * 8 + [0, 1], 6),
        (20, [0] * 8 + [2, 2, 3, 3, 4, 5, 6, 7, 0, 0, 1, 1], 16),
        (64, [0] * 8 + [2] * 8 + [3] * 8 + [4] * 7 + [5] * 7 + [6] * 7 + [7] * 7 + [0] * 4 + [1] * 8, 60),
        (128, [0] * 8 + [n for n in (2, 3, 4, 5, 6, 7) for _ in range(16)] + [0] * 8 + [1] * 16, 66),
    ],
)
def test_where_the_blocks_of_a_small_grid_go(blocks, gpcs, tpcs):
    """As measured on an H200: GPCs in the order of blocks, and how many TPCs have any."""
    bench = Bench()
    bench.system.place(blocks)
    assert [place_of(bench.system.state, sm, GPC) for sm in range(blocks)] == gpcs
    assert len({place_of(bench.system.state, sm, PORT) for sm in range(blocks)}) == tpcs
    everywhere = {place_of(bench.system.state, sm, PORT) for sm in range(SMS)}
    assert len(everywhere) == 66, "the SMs without a block are those that are left"


def test_the_last_wave_of_a_grid_is_spread_over_the_gpcs(h200):
    """Measured on an H200 with 256 blocks: 8 + 15 + 15 + 15 + 15 + 16 + 16 + 8 + 16 after one for each SM."""
    order = first_blocks(h200, SMS, 256, 8)
    assert order[:SMS].tolist() == list(range(SMS))
    bench = Bench()
    gpcs = [place_of(bench.system.state, sm, GPC) for sm in order[SMS:]]
    counts = [len(list(run)) for _, run in groupby(gpcs)]
    assert counts == [8, 15, 15, 15, 15, 16, 16, 8, 16]
    assert len(set(order[SMS:])) == 124
    assert first_blocks(h200, SMS, 10**6, 2).tolist() == 2 * list(range(SMS))
    assert first_blocks(h200, SMS, 5, 2).tolist() == list(range(5))


@pytest.mark.parametrize("name", ["h200", "a100", "tiny"])
def test_no_two_lines_have_the_same_place(name):
    state = _states(name)
    places = {tuple(int(x) for x in locate(state, line)) for line in range(20_000)}
    assert len(places) == 20_000


@given(line=st.integers(0, 2**41 - 1), name=st.sampled_from(["h200", "a100", "tiny"]))
@settings(max_examples=50, deadline=None)
def test_a_line_is_found_again_from_its_set_and_tag(line, name):
    state = _states(name)
    home, index, quotient = locate(state, line)
    row, tag = set_and_tag(state, home, quotient)
    assert 0 <= row < state[s.P_SETS] and 0 <= index < state[s.P_INDICES]
    assert quotient_of(state, row, tag) == quotient and tag > 0


def _states(name, cache={}):  # noqa: B006  one state per name for all examples
    if name not in cache:
        cache[name] = MemorySystem(load_config(name), 2).state
    return cache[name]


@pytest.mark.parametrize(
    "better",
    [
        {"dram.bandwidth_gb_s": 6000.0},
        {"dram.row_cycle_cycles": 45},
        {"dram.banks_per_channel": 32},
        {"dram.read_to_write_cycles": 0, "dram.write_to_read_cycles": 0},
        {"l2.slice_bytes_per_cycle": 128},
        {"l2.fabric_bytes_per_cycle": 4224},
        {"l2.latency_far_cycles": 300, "dram.latency_cycles": 500},
        {"crossbar.port_reply_bytes_per_cycle": 128, "crossbar.port_request_bytes_per_cycle": 128},
    ],
    ids=lambda better: next(iter(better)),
)
def test_more_bandwidth_or_less_latency_never_slows_a_stream(better):
    usual = {**SMALL_L2, "crossbar.sm_reply_bytes_per_cycle": 64}  # else that alone decides
    for kinds in ([s.KIND_READ], [s.KIND_READ, s.KIND_WRITE]):
        before, _ = stream(Bench(**usual), kinds, 8)
        after, _ = stream(Bench(**usual, **better), kinds, 8)
        assert after <= 1.004 * before, "a stream's order may change by a little"


def test_a_fresh_and_a_reset_system_agree():
    bench, fresh = Bench(), Bench()
    stream(bench, [s.KIND_READ, s.KIND_WRITE], 2)
    bench.system.reset()
    for each in (bench, fresh):  # what is left in rows that are free is nobody's
        state = each.system.state
        state[state[s.P_LATE_ROWS] :][: s.LATE_MOST * s.LATE_WORDS].reshape(-1, s.LATE_WORDS)[:, 1:] = 0
    assert (bench.system.state == fresh.system.state).all()


# --- queues that run out ---------------------------------------------------------------------------------------------
def test_a_window_needs_a_row_of_the_order_for_each_request():
    bench, req = Bench(n_sms=2), np.zeros((2, 3, s.REQ_FIELDS), np.int64)
    with pytest.raises(ValueError, match="more requests than `order` has rows"):
        answer(bench.system.state, req, np.array([3, 2]), np.zeros((4, s.ORDER_WORDS), np.int64))
    assert answer(bench.system.state, req, np.array([3, 2]), np.zeros((5, s.ORDER_WORDS), np.int64)) == 5


def test_a_channel_takes_two_batches_of_writes_and_then_pushes_back():
    bench = Bench()
    entries, burst = bench.config.dram.write_drain_entries, bench.system.state[s.P_BURST]
    waits = [write_memory(bench.system.state, 0, 0, 1, 0) for _ in range(4 * entries)]
    assert not any(waits[: 2 * entries - 1]) and waits[-1] >= 2 * entries * burst
    assert waits == sorted(waits)


def test_of_three_lines_of_one_place_of_the_request_coalescer_the_one_that_ends_first_makes_room():
    state = Bench(l2__coalesced_reads=4).system.state
    line = 1 << 20

    def place(n):
        return entry_of(state, 0, n) // (2 * s.LRC_WORDS)

    others = (n for n in range(line + 1, line + 10_000_000) if place(n) == place(line))
    lines = line, next(others), next(others)
    note(state, 0, line, 1, 1 << 30, 1 << 30)
    assert [join(state, 0, line, 1, 10) > 0 for _ in range(4)] == [True, True, True, False]
    for n, found in zip(lines, (1 << 30, 1 << 20, 1 << 25), strict=True):
        note(state, 0, n, 1, 1 << 30, found)
    assert [join(state, 0, n, 1, 10) for n in lines] == [1 << 30, -1, 1 << 30]


@pytest.mark.parametrize(("behind", "joins"), [(40, True), (120, False)])
def test_a_full_way_to_the_gpc_does_not_prolong_joins(behind, joins):
    """H200: beside 14 SMs of a GPC that copy all the time, two that copy the same join 40 cycles behind, not 100."""
    bench = Bench(l2__coalesced_reads=4)
    of_gpc = [sm for sm in range(SMS) if place_of(bench.system.state, sm, GPC) == place_of(bench.system.state, 0, GPC)]
    line = 1 << 20
    bench.one(0, of_gpc[0], line)
    idle(bench)
    full = [(0, sm, n * 100 + sm, s.KIND_READ) for sm in of_gpc[2:] for n in range(1, 60)]
    bench.send(*full, (1, of_gpc[0], line, s.KIND_READ, 1), (1 + behind, of_gpc[1], line, s.KIND_READ, 1))
    assert bench.count(s.CNT_TEX_READ_SECTORS) == 4 * len(full) + (1 if joins else 2)


def test_a_launch_has_so_many_arrays_and_links_on_other_gpus():
    system = Bench().system
    row = PeerRow(1 << 30, 128, 1000.0, 200.0, (0, 0), (1, 1))
    system.set_peers([row] * s.PEERS_MOST)
    with pytest.raises(LaunchError, match="65 ranges of memory on other GPUs"):
        system.set_peers([row] * (s.PEERS_MOST + 1))
    system.set_peers([row._replace(there=(s.PEERS_MOST - 1, 0))])
    with pytest.raises(LaunchError, match="over 65 links"):
        system.set_peers([row._replace(back=(0, s.PEERS_MOST))])
