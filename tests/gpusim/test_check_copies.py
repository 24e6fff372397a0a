"""racecheck on asynchronous copies and mbarriers: each mistake is found, and its corrected twin is left alone."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

import gpusim
from gpusim.engine import launch_state
from gpusim.errors import DataRaceError, PoolExhausted, SynchronizationError
from isa import compile_cuda
from isa.listing import program_from_cubin
from programs import images, registry
from tests.gpusim.test_bulk_copy import HEAD

# A line that a test expects an error to name ends with a comment that the test looks for.
TOP = (
    HEAD
    + r"""
#define COPY(to, from) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(sh(to)), "l"(from) : "memory")
#define END asm volatile("cp.async.commit_group;" ::: "memory")
#define PRIOR(n) asm volatile("cp.async.wait_group " #n ";" ::: "memory")
#define TELL(b) asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(sh(b)) : "memory")
#define ARRIVE(b) asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(sh(b)) : "memory")
#define GET(p) (*(volatile int *)(p))
"""
)
MODES = pytest.mark.parametrize("mode", ["detailed", "functional"])


@pytest.fixture(autouse=True)
def _needs_toolchain(toolchain):
    pass


@cache
def program(source: str):
    return program_from_cubin(compile_cuda(TOP + source, "sm_90a", path="copies.cu"))


def line_of(source: str, comment: str) -> int:
    lines = [k for k, line in enumerate((TOP + source).split("\n"), 1) if line.endswith(f"// {comment}")]
    assert len(lines) == 1
    return lines[0]


def run(source: str, threads: int = 64, grid: int = 1, **options):
    values, out = np.arange(4096, dtype=np.int32), np.zeros(4096, np.int32)
    gpusim.simulate(program(source), grid, threads, (values, out), "tiny", check="racecheck", **options)
    return values, out


def caught(kind, source: str, **options):
    with pytest.raises(kind) as found:
        run(source, **options)
    return found.value


# --- cp.async: who has to wait, and for which group -------------------------------------------------------------------
GROUPS = """
K k(const int *in, int *out) {
  __shared__ int s[2][64]; int t = threadIdx.x;
  COPY(&s[0][t], in + t); END;
  COPY(&s[1][t], in + 64 + t);  // copied
  END;
  WAIT
  USE  // used
  PRIOR(0);
}
"""
OWN = "out[t] = GET(&s[1][t]);"


def groups(wait: str, use: str = OWN) -> str:
    return GROUPS.replace("WAIT", wait).replace("USE", use)


@MODES
def test_a_thread_reads_what_it_has_copied_itself(mode):
    """After its own wait, which covers the group, it needs no barrier; in a functional run as in time, whether or not
    the bytes have come."""
    values, out = run(groups("PRIOR(0);"), mode=mode)
    assert (out[:64] == values[64:128]).all()
    run(groups("PRIOR(1);", OWN.replace("[1]", "[0]")), mode=mode)
    slow = "PRIOR(1); for (int n = 0; n < 300; ++n) __nanosleep(0);"  # by when the bytes are there
    for wait in ("", "PRIOR(1);", slow, "__syncthreads();"):
        error = caught(DataRaceError, groups(wait), mode=mode)
        assert (error.hazard, error.access, error.other_access) == ("read after write", "read", "asynchronous copy")
        assert (error.line, error.other_line) == (line_of(GROUPS, "used"), line_of(GROUPS, "copied"))
        assert error.thread == error.other_thread
        assert "may still be on its way: that thread has to wait for its group (cp.async.wait_group)" in str(error)


@pytest.mark.parametrize(
    ("use", "access"), [("s[1][t] = 1; out[t] = s[0][t];", "write"), ("atomicAdd(&s[1][t], 1);", "atomic")]
)
def test_other_accesses_are_too_early_as_well(use, access):
    error = caught(DataRaceError, groups("PRIOR(1);", use))
    assert (error.access, error.other_access) == (access, "asynchronous copy")
    run(groups("PRIOR(0);", use))


MATRIX = (
    'unsigned v = 0; if (t < 32) asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(v)'
    ' : "r"(sh(&s[1][32 + t % 8 * 4])) : "memory"); out[t] = v;'
)
OF_NEXT, OF_OTHER_WARP = "out[t] = GET(&s[1][t ^ 1]);", "out[t] = GET(&s[1][t ^ 32]);"


@pytest.mark.parametrize("use", [OF_NEXT, OF_OTHER_WARP, MATRIX])
def test_other_threads_hear_of_it_by_a_barrier(use):
    """A lane of the same warp, one of another warp, and a load of matrices that another warp has copied."""
    run(groups("PRIOR(0); __syncthreads();", use))
    for wait in ("PRIOR(0);", "PRIOR(1); __syncthreads();", "__syncthreads(); PRIOR(0);"):
        error = caught(DataRaceError, groups(wait, use))
        assert error.other_access == "asynchronous copy" and error.other_line == line_of(GROUPS, "copied")
    if use == OF_NEXT:
        run(groups("PRIOR(0); __syncwarp();", use))
    else:
        caught(DataRaceError, groups("PRIOR(0); __syncwarp();", use))


def test_a_wait_without_a_commit_waits_for_nothing():
    source = groups("PRIOR(0);").replace("// copied\n  END;", "// copied")
    error = caught(DataRaceError, source)
    assert error.other_line == line_of(source, "copied")


LOOP = """
K k(const int *in, int *out) {
  __shared__ int s[2][64]; int t = threadIdx.x, sum = 0;
  COPY(&s[0][t], in + t); END;
  for (int n = 1; n < 40; ++n) {
    COPY(&s[n & 1][t], in + 64 * n + t);  // refilled
    END; PRIOR(1); __syncthreads();
    sum += GET(&s[(n - 1) & 1][63 - t]);  // taken
    LAST
  }
  out[t] = sum; PRIOR(0);
}
"""


@MODES
def test_a_pipeline_of_two_buffers(mode):
    values, out = run(LOOP.replace("LAST", "__syncthreads();"), mode=mode)
    assert (out[:64] == values[: 64 * 39].reshape(39, 64)[:, ::-1].sum(0)).all()
    error = caught(DataRaceError, LOOP.replace("LAST", ""), mode=mode)
    assert {error.line, error.other_line} == {line_of(LOOP, "refilled"), line_of(LOOP, "taken")}
    if mode == "detailed":  # in a functional run the other warp reads what this one has refilled
        assert (error.hazard, error.access) == ("write after read", "asynchronous copy")


def test_a_copy_over_what_another_thread_writes():
    use = "COPY(&s[1][t ^ 32], in + t);"
    source = "K k(const int *in, int *out) { __shared__ int s[2][64]; int t = threadIdx.x; s[1][t] = 1; WAIT\n USE END;"
    source = (source + " PRIOR(0); out[t] = GET(&s[1][t ^ 32]); }").replace("USE", use)
    run(source.replace("WAIT", "__syncthreads();"))
    error = caught(DataRaceError, source.replace("WAIT", ""))
    assert (error.hazard, error.access, error.other_access) == ("write after write", "asynchronous copy", "write")


# --- cp.async: copies that nobody waits for ---------------------------------------------------------------------------
@MODES
def test_copies_that_nobody_waits_for(mode):
    source = GROUPS.replace("WAIT", "PRIOR(1);").replace("USE", "").replace("PRIOR(0);", "REST")
    for rest in ("", "END;"):  # a group without copies is no mistake; the one before it is
        error = caught(SynchronizationError, source.replace("REST", rest), mode=mode, grid=20)
        assert (error.problem, error.line) == ("copy never waited for", line_of(GROUPS, "copied"))
        assert error.thread is not None and error.block is not None and "cp.async.wait_group" in str(error)
    run(source.replace("REST", "PRIOR(0); END;"), mode=mode, grid=20)
    run(source.replace("REST", "END; PRIOR(1);"), mode=mode, grid=20)
    error = caught(SynchronizationError, groups("", "").replace("// copied\n  END;", "// copied"), mode=mode)
    assert "after a commit" in str(error)


# --- cp.async: mbarriers that hear of copies --------------------------------------------------------------------------
TOLD = """
K k(const int *in, int *out) {
  __shared__ int s[64]; __shared__ u64 bar; int t = threadIdx.x;
  init(&bar, 64); __syncthreads();
  COPY(s + t, in + t);  // copied
  TELL(&bar);
  WAIT
  out[t] = GET(s + (63 - t));  // used
}
"""


@MODES
def test_an_mbarrier_that_hears_of_copies(mode):
    values, out = run(TOLD.replace("WAIT", "wait(&bar, 0);"), mode=mode)
    assert (out[:64] == values[63::-1]).all()
    run(TOLD.replace("WAIT", "if (t == 40) wait(&bar, 0); __syncthreads();"), mode=mode)
    error = caught(DataRaceError, TOLD.replace("WAIT", "__syncthreads();"), mode=mode)
    assert (error.line, error.other_line) == (line_of(TOLD, "used"), line_of(TOLD, "copied"))
    error = caught(DataRaceError, TOLD.replace("WAIT", "wait(&bar, 1);"), mode=mode)  # the phase before the first
    assert {error.line, error.other_line} == {line_of(TOLD, "used"), line_of(TOLD, "copied")}
    nobody = TOLD.replace("out[t] = GET", "out[t] = 0; if (t < 0) GET")
    assert caught(SynchronizationError, nobody.replace("WAIT", ""), mode=mode).line == line_of(TOLD, "copied")


# --- bulk copies ------------------------------------------------------------------------------------------------------
FULL = """
K k(const int *in, int *out) {
  __shared__ __align__(128) int s[2][64]; __shared__ u64 bar[2]; int t = threadIdx.x;
  init(&bar[0], 1); init(&bar[1], 1); VIEW; __syncthreads();
  if (t == 0) {
    expect(&bar[0], 256); load(s[0], in, 256, &bar[0]);
    expect(&bar[1], 256); load(s[1], in + 64, 256, &bar[1]);
  }
  __syncthreads();
  WAIT
  out[t] = GET(&s[1][t]);  // used
  wait(&bar[0], 0); wait(&bar[1], 0);
}
"""


@MODES
@pytest.mark.parametrize("wait", ["wait(&bar[1], 0);", "if (t < 32) wait(&bar[1], 0); __syncthreads();"])
def test_a_bulk_copy_that_is_waited_for(wait, mode):
    values, out = run(FULL.replace("WAIT", wait), mode=mode)
    assert (out[:64] == values[64:128]).all()


@MODES
@pytest.mark.parametrize(
    "wait",
    ["", "wait(&bar[0], 0);", "if (t < 32) wait(&bar[1], 0);",
     "for (int n = 0; n < 300; ++n) __nanosleep(0);", "wait(&bar[0], 0); __syncthreads();"],
)  # fmt: skip
def test_a_bulk_copy_that_is_read_too_early(wait, mode):
    error = caught(DataRaceError, FULL.replace("WAIT", wait), mode=mode)
    assert (error.hazard, error.access, error.other_access) == ("read after write", "read", "bulk copy")
    assert error.line == line_of(FULL, "used") and "UBLKCP" in error.other_instruction
    assert error.other_thread == (0, 0, 0) and "wait for the phase of its mbarrier" in str(error)


def test_the_phase_before_the_one_of_a_bulk_copy():
    """That is over at once, by when no bytes can be there."""
    assert caught(DataRaceError, FULL.replace("WAIT", "wait(&bar[1], 1);")).line == line_of(FULL, "used")


@MODES
def test_a_bulk_copy_that_nobody_waits_for(mode):
    source = FULL.replace("WAIT\n", "").replace("out[t] = GET(&s[1][t]);", "")
    run(source, mode=mode, grid=20)
    error = caught(SynchronizationError, source.replace("wait(&bar[1], 0);", ""), mode=mode, grid=20)
    assert error.problem == "copy never waited for" and "UBLKCP" in error.instruction
    assert error.thread == (0, 0, 0) and "mbarrier" in str(error)


RING = """
// A warp that loads and one that takes, with an mbarrier for each way.
K k(const int *in, int *out) {
  __shared__ __align__(128) int s[2][32]; __shared__ u64 full[2], empty[2]; int t = threadIdx.x, sum = 0;
  for (int b = 0; b < 2; ++b) { init(&full[b], 1); init(&empty[b], 32); }
  VIEW; __syncthreads();
  for (int n = 0; n < 20; ++n) {
    int b = n & 1, turn = n >> 1 & 1;
    if (t >= 32) {
      wait(&full[b], turn); sum += GET(&s[b][t & 31]);  // taken
      GIVE
    } else if (t == 0) {
      TAKE
      expect(&full[b], 128); load(s[b], in + 32 * n, 128, &full[b]);
    }
  }
  if (t >= 32) out[t] = sum;
}
"""


@MODES
def test_a_ring_of_buffers_between_two_warps(mode):
    right = {"GIVE": "ARRIVE(&empty[b]);", "TAKE": "wait(&empty[b], turn ^ 1);"}
    source = RING.replace("GIVE", right["GIVE"])
    values, out = run(source.replace("TAKE", right["TAKE"]), mode=mode)
    assert (out[32:64] == values[: 20 * 32].reshape(20, 32).sum(0)).all()
    # Without the parity of the turn before, the first wait for an empty buffer sees no end: nobody would go on. So the
    # mistakes are an arrival before the last use, and a wait that is left out from the second turn on.
    early = RING.replace("wait(&full[b], turn);", "wait(&full[b], turn); ARRIVE(&empty[b]);").replace("GIVE", "")
    error = caught(DataRaceError, early.replace("TAKE", right["TAKE"]), mode=mode)
    assert (error.hazard, error.access) == ("write after read", "bulk copy")
    assert error.other_line == line_of(RING, "taken")


# --- mbarriers and ordinary accesses ----------------------------------------------------------------------------------
PASSED = """
K k(const int *in, int *out) {
  __shared__ int s[64]; __shared__ u64 bar; int t = threadIdx.x;
  init(&bar, COUNT); __syncthreads();
  s[t] = in[t];  // written
  ARRIVES
  wait(&bar, PHASE);
  out[t] = GET(s + (63 - t));  // read
}
"""


@MODES
def test_an_mbarrier_orders_what_threads_do(mode):
    source = PASSED.replace("COUNT", "64").replace("ARRIVES", "ARRIVE(&bar);")
    values, out = run(source.replace("PHASE", "0"), mode=mode)
    assert (out[:64] == values[63::-1]).all()
    error = caught(DataRaceError, source.replace("PHASE", "1"), mode=mode)  # the phase before the first
    assert {error.line, error.other_line} == {line_of(PASSED, "read"), line_of(PASSED, "written")}
    one = PASSED.replace("COUNT", "1").replace("PHASE", "0").replace("ARRIVES", "if (t == 33) ARRIVE(&bar);")
    error = caught(DataRaceError, one, mode=mode)
    assert {error.line, error.other_line} == {line_of(PASSED, "read"), line_of(PASSED, "written")}


MET = """
K __cluster_dims__(2, 1, 1) k(const int *in, int *out) {
  __shared__ int s[64]; int t = threadIdx.x; s[t] = in[t];
  MEET
  out[t] = GET(s + (63 - t));
  meet();
}
"""


def test_the_barrier_of_a_cluster_orders_what_a_block_does():
    right, wrong = MET.replace("MEET", "meet();"), MET.replace("MEET", "")
    _, out = run(right, grid=2)
    assert (out[:64] == np.arange(63, -1, -1)).all()
    caught(DataRaceError, wrong, grid=2)


def test_more_mbarriers_than_there_is_room_for(monkeypatch):
    source = FULL.replace("WAIT", "wait(&bar[1], 0);")
    monkeypatch.setattr(launch_state, "Capacity", lambda: CAPACITY(mbarriers=2))
    run(source)
    monkeypatch.setattr(launch_state, "Capacity", lambda: CAPACITY(mbarriers=1))
    error = caught(PoolExhausted, source)
    assert error.size == 1 and re.search("mbarriers of a block", error.pool)


CAPACITY = launch_state.Capacity


# --- initcheck, and programs ------------------------------------------------------------------------------------------
@MODES
@pytest.mark.parametrize("source", [groups("PRIOR(0);"), FULL.replace("WAIT", "wait(&bar[1], 0);")])
def test_what_a_copy_brings_is_initialised(source, mode):
    values, out = np.arange(4096, dtype=np.int32), np.zeros(4096, np.int32)
    gpusim.simulate(program(source), 1, 64, (values, out), "tiny", check="initcheck", mode=mode)
    assert (out[:64] == values[64:128]).all()


HOPPER = [each.name for each in registry.families()["matmul_hopper"]]


@pytest.mark.parametrize("name", [*HOPPER, "flash_attention/full", "matmul_tensor/asynchronous"])
def test_programs_with_copies_are_clean(name):
    """In their cycles and counts as without checks."""
    variant = registry.get(name)
    results = []
    for check in ((), "racecheck"):
        launch = variant.make(variant.test_size, 0)
        result = gpusim.simulate(
            images.image(name), launch.grid, launch.block, launch.args, "tiny", launch.shared_bytes, check=check
        )
        results.append((result.cycles, result.record.counters.tobytes()))
    assert results[0] == results[1]
