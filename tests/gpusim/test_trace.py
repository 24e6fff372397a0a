"""What a run records: nothing changes by it, every cycle of a warp is in it once, and its sums are the counters'.

One SM runs the whole of each small launch, so that the trace holds all that the counters count.
"""

import json
from itertools import pairwise

import numpy as np
import pytest
from numba import cuda, float32, int32

import gpusim
import isa
from gpusim.engine.state import layout as L
from gpusim.engine.state import memory as S
from gpusim.results.metrics import TEX_SECTORS
from gpusim.tracing.recording import SPACES, TraceOptions
from tests.gpusim import bundled

ONE_SM = ["sm.count=1", "sm.gpcs=1", "sm.tpc_gpcs=[0]"]
SIZES = {
    "matmul/tiled": 64,
    "reduction/interleaved_divergent": 4096,
    "divergence/8": 1024,
    "transpose/naive": 64,
    "histogram/shared_atomics": 8192,
    "spill/local_array": 4096,
    "matmul_tensor/asynchronous": 128,
}


def run(name, size, **options):
    return bundled.checked(name, "h200", size, **options)


EVERYTHING = TraceOptions(sms=(0,), blocks=(0,), limit=10_000_000)


@pytest.fixture(scope="module", params=sorted(SIZES))
def pair(request):
    """A launch on one SM, without and with its trace."""
    name, size = request.param, SIZES[request.param]
    return run(name, size, overrides=ONE_SM), run(name, size, overrides=ONE_SM, trace=EVERYTHING)


def intervals(trace, warp):
    """[start, end) of what one warp did and waited for, in order."""
    stalls = trace.stalls_of(warp)
    cycles = trace.of_warp(warp)["cycle"]
    return sorted([*zip(stalls["start"], stalls["end"], strict=True), *zip(cycles, cycles + 1, strict=True)])


def test_recording_changes_nothing(pair):
    plain, traced = pair
    assert plain.trace is None
    assert traced.trace.complete
    assert plain.cycles == traced.cycles
    assert np.array_equal(plain.record.counters, traced.record.counters)
    assert np.array_equal(plain.record.memory, traced.record.memory)
    assert np.array_equal(plain.slices, traced.slices)


def test_every_cycle_of_a_warp_is_in_the_trace_once(pair):
    trace = pair[1].trace
    assert len(trace.warps) == trace.launch.blocks * trace.warps_per_block
    for warp in trace.warps:
        tiles = intervals(trace, warp["warp"])
        assert tiles[0][0] == warp["start"]
        assert tiles[-1][1] == warp["end"]
        assert all(before[1] == after[0] for before, after in pairwise(tiles))


def test_its_sums_are_the_counters(pair):
    trace, line = pair[1].trace, pair[1].record.counters
    issues, stalls = trace.issues, trace.stalls
    count = len(line)
    by_pc = [np.bincount(issues["pc"], weights, count) for weights in (
        None,
        np.bitwise_count(issues["active"]),
        np.bitwise_count(issues["executed"]),
        issues["wavefronts"],
        issues["ideal"],
        issues["divergent"],
    )]  # fmt: skip
    fields = [
        L.COUNT_EXECUTED, L.COUNT_THREADS, L.COUNT_PRED_ON, L.COUNT_SHARED_WAVEFRONTS, L.COUNT_SHARED_IDEAL,
        L.COUNT_DIVERGENT,
    ]  # fmt: skip
    assert np.array_equal(np.array(by_pc).T, line[:, fields])
    far = issues[issues["space"] == SPACES.index("global")]
    assert np.array_equal(np.bincount(far["pc"], far["sectors"], count), line[:, L.COUNT_SECTORS])
    assert np.array_equal(np.bincount(far["pc"], far["lines"], count), line[:, L.COUNT_TAGS])
    waits = np.zeros((count, len(L.STALLS)))
    np.add.at(waits, (stalls["pc"], stalls["reason"]), stalls["end"] - stalls["start"])
    waits[:, L.STALL_SELECTED] += by_pc[0]
    assert np.array_equal(waits, line[:, L.COUNT_STALL : L.COUNT_STALL + len(L.STALLS)])


def test_its_lives_are_the_sms(pair):
    trace, record = pair[1].trace, pair[1].record
    assert (trace.warps["end"] - trace.warps["start"]).sum() == record.sm_warp_cycles.sum()
    assert np.bincount(trace.blocks["sm"], minlength=1).tolist() == record.sm_blocks.tolist()
    for warp in trace.warps:
        block = trace.blocks[warp["block"]]
        assert block["start"] <= warp["start"] < warp["end"] <= block["end"] <= trace.cycles


def test_rows_are_in_order_and_no_scheduler_issues_twice_in_a_cycle(pair):
    issues = pair[1].trace.issues
    keys = (issues["cycle"] << 16) + (issues["sm"].astype(np.int64) << 4) + issues["scheduler"]
    assert (np.diff(keys) > 0).all()
    assert (np.diff(pair[1].trace.stalls["start"]) >= 0).all()


def test_accesses_explain_their_sectors_and_wavefronts(pair):
    """Sectors by NumPy from the addresses; addresses only of the block asked for, of lanes that execute."""
    trace = pair[1].trace
    recorded = trace.issues[trace.issues["access"] >= 0]
    assert len(recorded) == len(trace.addresses) == len(trace.sizes) == len(trace.stores)
    assert set(recorded["warp"] // trace.warps_per_block) <= {0}
    for row in recorded:
        lanes = trace.addresses[row["access"]]
        named = sum(1 << lane for lane in range(32) if lanes[lane] >= 0)
        assert named == row["executed"] or SPACES[row["space"]] == "shared"
        if SPACES[row["space"]] == "global":
            found = lanes[lanes >= 0]
            if trace.instructions[row["pc"]].opcode != "LDGSTS":  # past L1 the sectors that it writes count
                assert len(np.unique(found // 32)) == row["sectors"]
            assert len(np.unique(found // 128)) == row["lines"]
        if SPACES[row["space"]] == "shared" and trace.sizes[row["access"]] == 4 and not trace.stores[row["access"]]:
            words = np.unique(lanes[lanes >= 0] // 4)
            assert np.bincount(words % 32).max() == row["wavefronts"]


def registers_at(trace, warp, cycle):
    """[registers, 32] of a warp as it issues in a cycle."""
    found = np.zeros((len(trace.registers), 32), np.uint32)
    for row, lanes in zip(*trace.values_of(warp), strict=True):
        if row["cycle"] <= cycle:
            found[row["register"]] = lanes
    return found


def stored(x, total, out):
    i = cuda.grid(1)
    value = x[i] * float32(3)
    if i & 1:
        value -= float32(0.5)
    before = cuda.atomic.add(total, 0, 1)  # a result that comes late
    out[i, 0] = value
    out[i, 1] = before


def test_registers_hold_what_is_stored():
    """Every store's register has the value that lies in memory afterwards, and its guard is the predicate's."""
    x, out = np.arange(64, dtype=np.float32), np.zeros((64, 2), np.float32)
    result = gpusim.simulate(stored, 1, 64, (x, np.zeros(1, np.int32), out), gpu="tiny", trace=True)
    trace = result.trace
    assert trace.values_until == trace.until == result.cycles
    assert set(out[:, 1]) == set(range(64))
    names, seen = list(trace.registers), {}
    for issue in trace.issues:
        text = trace.instructions[issue["pc"]].text
        lanes = [lane for lane in range(32) if issue["executed"] >> lane & 1]
        now = registers_at(trace, issue["warp"], issue["cycle"])
        if text.startswith("@!P0"):
            assert issue["executed"] == issue["active"] & ~now[-1, 0]
        if "STG" in text:
            source = names.index(text.split(", ")[-1])
            for lane in lanes:
                seen[int(trace.addresses[issue["access"], lane])] = now[source].view(np.float32)[lane]
    assert [seen[place] for place in sorted(seen)] == out.ravel().tolist()


def test_loads_of_slices_and_channels_are_the_metrics(pair):
    result = pair[1]
    memory = result.record.memory
    crossed = memory[[S.CNT_FABRIC_READ_SECTORS, S.CNT_FABRIC_WRITE_SECTORS]].sum()
    assert result.slices.sum() == memory[list(TEX_SECTORS)].sum() + crossed
    assert result.slices.shape == (result.record.config.l2.slices,)
    launch_bytes = 32 * memory[S.CNT_LAUNCH_SECTORS]
    assert result.channels.sum() == result.metrics["dram__bytes.sum"] - launch_bytes
    assert result.channels.shape == (result.record.config.dram.channels,)


def test_a_trace_does_not_depend_on_host_threads():
    options = TraceOptions(sms=(0, 5, 131), blocks=(3, 77))
    one, two = (run("matmul/tiled", 192, threads=n, trace=options) for n in (1, 2))
    assert one.cycles == two.cycles
    for name in ("issues", "stalls", "addresses", "sizes", "stores", "blocks", "warps"):
        assert np.array_equal(getattr(one.trace, name), getattr(two.trace, name))
    trace = one.trace
    assert set(trace.blocks["sm"][[3, 77]]) <= set(trace.warps["sm"])
    assert set(trace.issues["sm"]) == {0, 5, 131, *trace.blocks["sm"][[3, 77]]}
    with_addresses = trace.issues["warp"][trace.issues["access"] >= 0] // trace.warps_per_block
    assert set(with_addresses) == {3, 77}


def test_what_exceeds_the_limit_is_left_out_at_a_cycle():
    whole = run("matmul/tiled", 64, overrides=ONE_SM, trace=EVERYTHING).trace
    part = run("matmul/tiled", 64, overrides=ONE_SM, trace=TraceOptions(limit=2000)).trace
    assert not part.complete
    assert 1990 < len(part.issues) <= 2000
    assert np.array_equal(part.issues["cycle"], whole.issues["cycle"][: len(part.issues)])
    assert whole.issues["cycle"][len(part.issues)] == part.until
    for warp in part.warps:
        tiles = intervals(part, warp["warp"])
        assert tiles[0][0] == warp["start"]
        assert tiles[-1][1] == warp["end"] == min(whole.warps["end"][warp["warp"]], part.until)
        assert all(before[1] == after[0] for before, after in pairwise(tiles))
    assert run("matmul/tiled", 64, overrides=ONE_SM, trace=TraceOptions(limit=len(whole.issues))).trace.complete


@cuda.jit
def spaces(out, source, local_index):
    """One access of each kind whose addresses are known from the thread's number."""
    tile = cuda.shared.array(64, int32)
    own = cuda.local.array(64, float32)
    t = cuda.threadIdx.x
    for k in range(local_index.size):  # unknown to the compiler, so that the array stays in memory
        own[(local_index[t] + k * k) & 63] += source[t] + k
    tile[2 * t] = t
    cuda.syncthreads()
    if t < 8:
        out[t] = own[local_index[t]] + tile[2 * (31 - t)]


def test_spaces_and_addresses():
    source = np.arange(32, dtype=np.float32)
    index = np.full(32, 3, np.int32)
    trace = gpusim.simulate(spaces, 1, 32, [np.zeros(32, np.float32), source, index], trace=True).trace
    named = [SPACES[space] for space in trace.issues["space"]]
    assert {"global", "shared", "local", ""} <= set(named)
    rows = {}
    for row, space in zip(trace.issues, named, strict=True):
        if row["access"] >= 0:
            rows.setdefault((space, bool(trace.stores[row["access"]])), []).append(row)
    (store,) = rows["shared", True]
    base = trace.program.shared_base
    assert trace.addresses[store["access"]].tolist() == [base + 8 * t for t in range(32)]
    assert (store["wavefronts"], store["ideal"]) == (2, 1)
    (load,) = rows["shared", False]
    assert trace.addresses[load["access"]].tolist() == [base + 8 * (31 - t) if t < 8 else -1 for t in range(32)]
    assert load["executed"] == 0xFF
    local = rows["local", False][-1]
    offsets = trace.addresses[local["access"]][:8]
    assert (offsets == offsets[0]).all()
    assert (local["lines"], local["sectors"]) == (1, 1)
    assert all(trace.sizes[row["access"]] in (4, 8, 16) for row in rows["local", True])


@pytest.mark.parametrize("far", [0, 1])
def test_a_generic_access_is_in_the_space_that_it_goes_to(far, tmp_path):
    (tmp_path / "kernel.cu").write_text("""
        extern "C" __global__ void either(int* out, int far) {
          __shared__ int tile[64];
          tile[threadIdx.x] = 1;
          __syncthreads();
          int* p = far ? out + 32 : tile;
          p[threadIdx.x] += 5;
          __syncthreads();
          out[threadIdx.x] = tile[31 - threadIdx.x];
        }
    """)
    kernel = isa.load(tmp_path / "kernel.cu", abi="c")
    trace = gpusim.simulate(kernel, 1, 32, [np.zeros(64, np.int32), np.int32(far)], trace=True).trace
    generic = [
        row for row in trace.issues if trace.instructions[row["pc"]].opcode in ("LD", "ST") and row["access"] >= 0
    ]
    assert len(generic) == 2
    for row in generic:
        assert SPACES[row["space"]] == ("global" if far else "shared")
        lanes = trace.addresses[row["access"]]
        assert np.array_equal(np.diff(lanes), np.full(31, 4))
        assert (lanes[0] > 1 << 32) if far else (lanes[0] == trace.program.shared_base)


@cuda.jit
def branches(out):
    t = cuda.threadIdx.x
    x = out[t]
    if t & 1:
        for _ in range(t):
            x = x * 3 + 1
    cuda.syncwarp()
    out[t] = x


def test_later_launches_of_a_device_begin_at_zero():
    with gpusim.Device(overrides=ONE_SM) as device:
        data = device.to_device(np.ones(32, np.int64))
        first, second = (device.launch(branches, 1, 32, [data], trace=True) for _ in range(2))
        assert device.launch(branches, 1, 32, [data]).trace is None
    for result in (first, second):
        assert 0 < result.trace.blocks["start"][0] < result.trace.blocks["end"][0] <= result.cycles
        assert result.slices.sum() > 0
        assert result.trace.issues["cycle"][-1] < result.cycles
    assert json.loads(second.to_json())["cycles"] == second.cycles
