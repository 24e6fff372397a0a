"""Warps of 16 and of 64 lanes: the same results as with 32, other counts, and what has no meaning is refused.

Expected counts are worked out by hand from what a warp is; docs/warp_size.md says what is modelled.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import cuda, float32, int32

import gpusim
from gpusim.engine.state import layout as L
from gpusim.errors import DataRaceError, LaunchError, MemoryAccessError
from gpusim.launch.occupancy import occupancy
from programs import registry
from tests.gpusim import interpreted_runner, sass
from tests.gpusim.test_cluster import EXCHANGE, program

ROOT = Path(__file__).parents[2]
SIZES = (16, 32, 64)
OTHERS = (16, 64)
INSTRUCTIONS, THREADS = "smsp__inst_executed.sum", "smsp__thread_inst_executed.sum"
REQUESTS, SECTORS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
DIVERGENT = "smsp__sass_branch_targets_threads_divergent.sum"

#: Programs that do not count on 32 lanes, which only shuffles, votes and matrices do.
ANY_WIDTH = (
    "convolution/tiled", "divergence/8", "histogram/global_atomics", "histogram/shared_atomics", "mandelbrot",
    "matmul/tiled", "nbody/tiled", "reduction/sequential", "scan/blelloch", "scan/hillis_steele", "sort/bitonic",
    "spill/local_array", "spmv/csr_scalar", "stencil/tiled_2d", "transpose/padded",
)  # fmt: skip
#: Programs whose lanes exchange values: right in halves of 32.
LANES_OF_32 = ("matmul_tensor/ldmatrix", "reduction/shuffle", "scan/shuffle", "warp_collectives/match")


def run(kernel, grid, block, args, size, overrides=(), **options):
    changes = [f"gpu.warp_size={size}", *overrides]
    return gpusim.simulate(kernel, grid, block, args, gpu="tiny", overrides=changes, **options)


def run_program(name, size, **options):
    """(result, sentence on the first wrong element or None) of a bundled program at its smallest size."""
    variant = registry.get(name)
    launch = variant.make(variant.test_size, 0)
    expected = variant.reference(launch)
    result = run(launch.kernel, launch.grid, launch.block, launch.args, size, **options)
    return result, variant.mismatch(expected, variant.results(launch))


def check_laws(result, size):
    """What holds for every run: each cycle of a resident warp has one reason, each issue is one instruction."""
    record = result.record
    line = record.line
    assert line[:, L.N_STALL :].sum() == record.sm_warp_cycles.sum()
    assert line[:, L.N_STALL + L.R_SELECTED].sum() == line[:, L.N_EXECUTED].sum() == record.sm_issued.sum()
    assert (line[:, L.N_THREADS] <= size * line[:, L.N_EXECUTED]).all()
    assert (line[:, L.N_PRED_ON] <= line[:, L.N_THREADS]).all()
    assert (line[:, L.N_DIVERGENT] <= line[:, L.N_BRANCHES]).all()


@pytest.mark.parametrize("size", OTHERS)
@pytest.mark.parametrize("name", ANY_WIDTH)
def test_bundled_programs_give_the_same(name, size):
    result, mismatch = run_program(name, size)
    assert mismatch is None
    check_laws(result, size)


@pytest.mark.parametrize("name", LANES_OF_32)
def test_lanes_exchange_within_halves_of_32(name):
    result, mismatch = run_program(name, 64)
    assert mismatch is None
    check_laws(result, 64)


@pytest.mark.parametrize("name", ["matmul/tiled", "nbody/tiled", "sort/bitonic", "waves/one"])
def test_code_without_divergence_issues_by_the_warp(name):
    narrow, usual, wide = (run_program(name, size)[0].metrics for size in SIZES)
    assert usual[INSTRUCTIONS] % 2 == 0
    assert (narrow[INSTRUCTIONS], wide[INSTRUCTIONS]) == (2 * usual[INSTRUCTIONS], usual[INSTRUCTIONS] // 2)
    assert narrow[THREADS] == usual[THREADS] == wide[THREADS]
    for metrics, size in zip((narrow, usual, wide), SIZES, strict=True):
        assert metrics["smsp__thread_inst_executed_per_inst_executed.ratio"] == size


def parted(x, out, shift):
    """Threads whose number has bit `shift` set take another loop than those that have not."""
    i = cuda.grid(1)
    value, total = x[i], float32(0)
    if (i >> shift) & 1:
        while value >= float32(1):
            value *= float32(0.5)
            total += float32(3)
    else:
        while value >= float32(1):
            value *= float32(0.25)
            total += float32(7)
    out[i] = total


@pytest.mark.parametrize("size", SIZES)
def test_divergence_depends_on_the_width(size):
    """Neighbours of 16 take one way: warps of 16 stay whole, those of 32 part, and those of 64 twice."""
    x = np.full(256, 4.0**6, np.float32)
    for shift in (0, 4, 5, 6):
        out = np.zeros(256, np.float32)
        result = run(parted, 2, 128, (x, out, np.int32(shift)), size)
        check_laws(result, size)
        assert out.tolist() == [39.0 if i >> shift & 1 else 49.0 for i in range(256)]
        threads = result.metrics["smsp__thread_inst_executed_per_inst_executed.ratio"]
        if 1 << shift >= size:
            assert result.metrics[DIVERGENT] == 0 and threads == size
        else:
            assert result.metrics[DIVERGENT] == 256 // size and threads < 0.8 * size


def uneven(out, first, second):
    """The halves of 64 threads go round a loop a different number of times, and meet behind it."""
    t = cuda.threadIdx.x
    value = int32(t)
    for _ in range(second if t & 32 else first):
        value = value * 5 + 1 if value & 1 else value ^ 77
    out[t] = value


@pytest.mark.parametrize(("first", "second"), [(3, 40), (40, 3), (0, 900), (7, 7)])
def test_halves_that_parted_meet_again(first, second):
    """The half that is behind goes on alone, and the last instruction is one of both: no half runs ahead."""
    outs = []
    for size in (32, 64):
        out = np.zeros(64, np.int32)
        result = run(uneven, 1, 64, (out, np.int32(first), np.int32(second)), size)
        check_laws(result, size)
        outs.append(out.tolist())
    assert outs[0] == outs[1]
    last = [each for each in result.instructions if each.text.startswith("EXIT") and each.instructions][-1]
    assert (last.instructions, last.thread_instructions) == (1, 64)


def spin_for_flag(flag, out, waiting):
    """A thread of one half waits for what one of the other does behind the place where the halves would meet."""
    t = cuda.threadIdx.x
    if t == 32 * waiting:
        rounds = 0
        while cuda.atomic.cas(flag, 0, 5, 6) != 5:
            rounds += 1
        out[0] = rounds
    out[1 + t] = t
    if t == 32 - 32 * waiting:
        cuda.atomic.exch(flag, 0, 5)


def spin_in_shared(flag, out, waiting):
    """The same through shared memory, with loads that look like any others."""
    told = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    told[0] = 0
    cuda.syncthreads()
    if t == 32 * waiting:
        rounds = 0
        while told[0] != 5:
            cuda.threadfence_block()
            rounds += 1
        out[0] = rounds
        flag[0] = 6
    out[1 + t] = t
    if t == 32 - 32 * waiting:
        told[0] = 5


@pytest.mark.parametrize("kernel", [spin_for_flag, spin_in_shared])
@pytest.mark.parametrize("waiting", [0, 1])
def test_a_half_may_wait_for_the_other(kernel, waiting):
    """By program counters alone the half that spins would always go first."""
    flag, out = np.zeros(1, np.int32), np.full(65, -1, np.int32)
    result = run(kernel, 1, 64, (flag, out, np.int32(waiting)), 64, max_cycles=1_000_000)
    check_laws(result, 64)
    assert flag[0] == 6 and out[0] > 0 and out[1:].tolist() == list(range(64))


def locked(lock, count):
    if cuda.threadIdx.x % 8 == 0:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        count[0] += 1
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)


@pytest.mark.parametrize("size", OTHERS)
def test_a_lock_is_taken_by_all(size):
    lock, count = np.zeros(1, np.int32), np.zeros(1, np.int32)
    check_laws(run(locked, 2, 128, (lock, count), size, max_cycles=20_000_000), size)
    assert count[0] == 32 and lock[0] == 0


def copied(x, out, step):
    i = cuda.grid(1)
    out[i] = x[i * step]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("step", [1, 2, 8])
def test_requests_and_sectors(size, step):
    """A warp sends one request whatever its width; sectors are those that its lanes touch, in passes of 32 lanes."""
    threads = 512
    x, out = np.arange(threads * step, dtype=np.float32), np.zeros(threads, np.float32)
    metrics = run(copied, 4, 128, (x, out, np.int32(step)), size).metrics
    assert out.tolist() == x[::step].tolist()
    sectors = threads * min(step, 8) // 8
    assert metrics[REQUESTS] == threads // size
    assert metrics[SECTORS] == sectors
    assert metrics["l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"] == threads // size
    assert metrics["l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"] == sectors * size / threads
    ideal = threads // 8 + threads // 8
    assert metrics["memory_l2_theoretical_sectors_global_ideal"] == ideal


@pytest.mark.parametrize(("stride", "degrees"), [(1, (1, 1, 1)), (2, (1, 2, 2)), (8, (4, 8, 8)), (32, (16, 32, 32))])
def test_bank_conflicts(stride, degrees):
    """Half as many lanes meet in a bank, and the halves of a warp of 64 pass one after the other."""
    launch = registry.get(f"bank_conflict/{stride}").make(512, 0)
    loads = 512 * 32  # of threads
    for size, degree in zip(SIZES, degrees, strict=True):
        metrics = run(launch.kernel, launch.grid, launch.block, launch.args, size).metrics
        passes = loads // min(size, 32)
        name = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"
        assert metrics[name] == (degree - 1) * passes
        assert metrics["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"] == degree * passes


def turned(out, rounds):
    tile = cuda.shared.array(1024, int32)
    t, n = cuda.threadIdx.x, cuda.blockDim.x
    tile[t] = t
    for _ in range(rounds):
        cuda.syncthreads()
        value = tile[t + 1 if t + 1 < n else 0]
        cuda.syncthreads()
        tile[t] = value
    out[cuda.blockIdx.x, t] = tile[t]


@pytest.mark.parametrize("size", OTHERS)
def test_barriers_of_blocks_of_any_size(size):
    for block in (1, 15, 17, 31, 33, 48, 63, 65, 96, 130, 1000):
        out = np.zeros((3, block), np.int32)
        result = run(turned, 3, block, (out, np.int32(3)), size)
        check_laws(result, size)
        assert (out == np.roll(np.arange(block), -3)).all()
        assert result.record.occupancy.warps_per_block == -(-block // size)


def leaving(out, first, last):
    """Threads first..last-1 leave, the others meet at a barrier without them."""
    t = cuda.threadIdx.x
    if first <= t < last:
        return
    cuda.syncthreads()
    out[t] = t + 1


@pytest.mark.parametrize(("first", "last"), [(0, 32), (32, 64), (0, 64), (5, 40), (60, 128)])
@pytest.mark.parametrize("size", OTHERS)
def test_threads_that_leave_early(first, last, size):
    """Also a whole half of 64 lanes: the other one goes on alone."""
    out = np.zeros(128, np.int32)
    limits = np.int32(first), np.int32(last)
    check_laws(run(leaving, 1, 128, (out, *limits), size, strict_barriers=False), size)
    assert out.tolist() == [0 if first <= t < last else t + 1 for t in range(128)]


def exchanged(out):
    t = cuda.threadIdx.x
    value = int32(10 * t + 1)
    everybody = 0xFFFFFFFF
    out[0, t] = cuda.shfl_down_sync(everybody, value, 16)
    out[1, t] = cuda.shfl_xor_sync(everybody, value, 16)
    out[2, t] = cuda.shfl_sync(everybody, value, 20)
    out[3, t] = cuda.shfl_down_sync(everybody, value, 3)
    out[4, t] = cuda.shfl_up_sync(everybody, value, 5)
    out[5, t] = cuda.ballot_sync(everybody, t % 3 == 0)
    out[6, t] = cuda.laneid
    out[7, t] = cuda.lanemask_lt()
    out[8, t] = cuda.match_any_sync(everybody, t % 5)
    cuda.syncwarp(everybody)
    out[9, t] = cuda.shfl_sync(everybody, value, 6)


@pytest.mark.parametrize("size", SIZES)
def test_exchange_between_lanes(size):
    """In a warp of 16 no lane from 16 on is in range: a shuffle from there gives the lane's own value. A warp of 64
    exchanges within its halves."""
    out = np.zeros((10, 96), np.uint32)
    check_laws(run(exchanged, 1, 96, (out,), size), size)
    lanes = min(size, 32)
    for t in range(96):
        lane, first = t % lanes, t - t % lanes
        members = range(first, first + lanes)

        def at(source, mine=t, first=first):
            return 10 * (first + source if 0 <= source < lanes else mine) + 1

        expected = (
            at(lane + 16), at(lane ^ 16), at(20), at(lane + 3), at(lane - 5),
            sum(1 << other - first for other in members if other % 3 == 0), lane, (1 << lane) - 1,
            sum(1 << other - first for other in members if other % 5 == t % 5), at(6),
        )  # fmt: skip
        assert out[:, t].tolist() == list(expected)


@pytest.mark.parametrize("size", OTHERS)
def test_masks_of_lanes(size):
    """Registers that name lanes name only those that there are."""
    lanes = min(size, 32)
    all_lanes = (1 << lanes) - 1
    for name, mask in (
        ("EQ", lambda lane: 1 << lane),
        ("LT", lambda lane: (1 << lane) - 1),
        ("LE", lambda lane: (2 << lane) - 1),
        ("GT", lambda lane: all_lanes & ~((2 << lane) - 1)),
        ("GE", lambda lane: all_lanes & ~((1 << lane) - 1)),
    ):
        out = np.zeros(64, np.uint32)
        sass.run(f"S2R R6, SR_{name}MASK\n@RETURN", out, block=64, overrides=[f"gpu.warp_size={size}"])
        assert out.tolist() == [mask(t % lanes) for t in range(64)]


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "size", "blocks", "warps", "limiters"),
    [
        (256, 32, 0, 16, 4, 64, ("warps",)),  # 16 warps each; the SM holds 64 of them
        (256, 32, 0, 64, 8, 32, ("threads", "registers")),  # 2,048 registers a warp, 8 warps in a sub-partition
        (96, 40, 0, 64, 12, 24, ("registers",)),  # 2,560 registers a warp, 6 warps in a sub-partition
        (40, 16, 0, 16, 21, 63, ("warps",)),
        (128, 32, 100 * 1024, 64, 2, 4, ("shared",)),
    ],
)
def test_occupancy(threads, registers, shared, size, blocks, warps, limiters):
    config = gpusim.load_config("h200", {"gpu.warp_size": size})
    found = occupancy(config, threads, registers, 0, shared)
    assert (found.blocks_per_sm, found.warps_per_sm, found.limiters) == (blocks, warps, limiters)
    assert found.theoretical == warps / 64


@pytest.mark.parametrize(("name", "opcode"), [("matmul_tensor/direct", "HMMA"), ("matmul_tensor/ldmatrix", "LDSM")])
def test_matrices_need_32_lanes(name, opcode):
    with pytest.raises(LaunchError, match=rf"{opcode}\.\S+ at 0x\w+ \(line \d+ of .*matmul_tensor\.py\) works on mat"):
        run_program(name, 16)


def test_traces():
    trace = run_program("vector_add", 16, trace=True)[0].trace
    assert set(trace.issues["active"] >> 16) == {0} and trace.issues["active"].max() == 0xFFFF
    assert trace.warps_per_block == 16
    with pytest.raises(LaunchError, match="traces show warps of up to 32 lanes, not of 64"):
        run_program("vector_add", 64, trace=True)


def multiplied(out, rounds):
    value = float32(cuda.threadIdx.x)
    for _ in range(rounds):
        for _ in range(64):
            value = value * float32(1.0001) + float32(0.5)
    out[cuda.grid(1)] = value


def counted(out, rounds):
    value = int32(cuda.threadIdx.x)
    for _ in range(rounds):
        for _ in range(16):
            value = value + cuda.popc(value)
    out[cuda.grid(1)] = value


@pytest.mark.parametrize(("kernel", "narrow"), [(multiplied, 2.0), (counted, 1.0)])
def test_pipes_keep_their_lanes(kernel, narrow):
    """A unit that takes several cycles for 32 lanes takes half of them for 16; one that takes a cycle still takes one.
    A warp of 64 keeps a unit twice as long, so that as much is done in a cycle as with 32."""
    cycles = {}
    for size in SIZES:
        out = np.zeros(1024, np.float32)
        changes = ["sm.max_warps=128"]
        result = run(kernel, 1, 1024, (out, np.int32(8)), size, changes)
        cycles[size] = int(result.record.sm_active_cycles.max())
    assert cycles[16] / cycles[32] == pytest.approx(narrow, rel=0.12)
    assert cycles[64] / cycles[32] == pytest.approx(1.0, rel=0.12)


def beyond(x, out):
    t = cuda.threadIdx.x
    out[t] = x[t + 1000 if t == 42 else t]


@pytest.mark.parametrize("size", OTHERS)
def test_an_error_names_the_thread(size):
    with pytest.raises(MemoryAccessError) as caught:
        run(beyond, 1, 64, (np.zeros(64, np.float32), np.zeros(64, np.float32)), size)
    assert caught.value.thread == (42, 0, 0) and caught.value.block == (0, 0, 0)


def told(x):
    if cuda.threadIdx.x % 10 == 0:
        print("thread", cuda.threadIdx.x)


@pytest.mark.parametrize("size", OTHERS)
def test_printed_text_comes_from_every_half(size, capsys):
    check_laws(run(told, 1, 64, (np.zeros(1, np.int32),), size), size)
    assert sorted(capsys.readouterr().out.splitlines()) == [f"thread {t}" for t in (0, 10, 20, 30, 40, 50, 60)]


def unordered(out, distance):
    tile = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    tile[t] = t
    out[t] = tile[(t + distance) % 64]


@pytest.mark.parametrize("size", OTHERS)
def test_checks(size):
    """Halves that issue together are not ordered by that; what is right passes with the same cycles."""
    with pytest.raises(DataRaceError) as caught:
        run(unordered, 1, 64, (np.zeros(64, np.int32), np.int32(32)), size, check="racecheck")
    assert caught.value.other_thread[0] == (caught.value.thread[0] + 32) % 64
    all_checks = ("racecheck", "initcheck", "synccheck")
    plain, checked = (run_program("scan/blelloch", size, check=check)[0] for check in ((), all_checks))
    assert plain.cycles == checked.cycles


@pytest.mark.parametrize("size", OTHERS)
def test_clusters(size):
    """The barrier of a cluster counts threads, of which there are fewer in a warp, or two halves."""
    outcomes = []
    for lanes in (32, size):
        values = np.arange(24 * 64, dtype=np.int32).reshape(24, 64) % 50
        out, who, marks = np.zeros_like(values), np.zeros(24, np.uint32), np.zeros((24, 64), np.uint8)
        check_laws(run(program(EXCHANGE, CX=2, CY=2), (4, 6), 64, (values, out, who, marks), lanes), lanes)
        outcomes.append((out.tolist(), who.tolist(), marks.tolist()))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("size", OTHERS)
def test_host_threads_change_nothing(size):
    one, two = (run_program("histogram/shared_atomics", size, threads=threads)[0] for threads in (1, 2))
    assert one.cycles == two.cycles and (one.record.line == two.record.line).all()


@pytest.mark.parametrize("size", OTHERS)
def test_without_compilation(size):
    """Python and compiled code agree on cycles, counters and outputs."""
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, interpreted_runner.__file__, "block_sums", str(size)]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("compiled") is False
    expected = interpreted_runner.outcome("block_sums", size)
    assert expected.pop("compiled") is True
    assert found == expected
