"""racecheck on asynchronous copies and mbarriers: each mistake is found, and its corrected twin is left alone."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pytest

import gpusim
from gpusim.engine import launch_state
from gpusim.errors import DataRaceError, PoolExhausted, SynchronizationError
from isa import Program
from programs import registry
from tests.gpusim import bundled
from tests.gpusim.kernels import Kernels
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
MODES = ("detailed", "functional")


@pytest.fixture(autouse=True)
def _needs_toolchain(toolchain):
    pass


class Variants(Kernels):
    """Kernels k by their text, all in one module; each has lines of its own."""

    def __init__(self) -> None:
        super().__init__(TOP, path="copies.cu")
        self.numbers: dict[str, int] = {}

    def add(self, text: str) -> str:
        if text not in self.numbers:
            number = self.numbers[text] = len(self.numbers)
            self.text += "#line 1\n" + text.replace(" k(const", f" k{number}(const")
        return text

    def __getitem__(self, text: str) -> Program:
        return super().__getitem__(f"k{self.numbers[text]}")


KERNELS = Variants()


def line_of(source: str, comment: str) -> int:
    (line,) = (k for k, line in enumerate(source.split("\n"), 1) if line.endswith(f"// {comment}"))
    return line


def run(source: str, threads: int = 64, grid: int = 1, check: str = "racecheck", **options):
    values, out = np.arange(4096, dtype=np.int32), np.zeros(4096, np.int32)
    gpusim.simulate(KERNELS[source], grid, threads, (values, out), "tiny", check=check, **options)
    return values, out


VALUES = np.arange(4096)
CASES: list[Any] = []
"""Text, grid and mode of a kernel, and what comes of it: the first 64 values or None if they do not matter; or the kind
of error and its attributes, where `line` and `other_line` are comments and `lines` both in any order."""


def clean(source: str, values: Any = None, modes: tuple[str, ...] = MODES, grid: int = 1) -> None:
    CASES.extend((KERNELS.add(source), grid, mode, None, {"values": values}) for mode in modes)


def wrong(source: str, modes: Any = MODES, grid: int = 1, kind: Any = DataRaceError, **expected: Any) -> None:
    CASES.extend((KERNELS.add(source), grid, mode, kind, expected) for mode in modes)


DETAILED = ("detailed",)

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


# After its own wait, which covers the group, a thread needs no barrier; else it does, even when the bytes have come.
clean(groups("PRIOR(0);"), VALUES[64:128])
clean(groups("PRIOR(1);", OWN.replace("[1]", "[0]")), VALUES[:64])
READ_TOO_EARLY = {"hazard": "read after write", "access": "read", "line": "used"}
BY_COPY = {"other_access": "asynchronous copy", "other_line": "copied"}
ON_ITS_WAY = "may still be on its way: that thread has to wait for its group (cp.async.wait_group)"
SLOW = "for (int n = 0; n < 300; ++n) __nanosleep(0);"  # by when the bytes are there
for _wait in ("", "PRIOR(1);", "PRIOR(1); " + SLOW, "__syncthreads();"):
    wrong(groups(_wait), **READ_TOO_EARLY, **BY_COPY, text=ON_ITS_WAY, same_thread=True)
for _use, _access in (("s[1][t] = 1; out[t] = s[0][t];", "write"), ("atomicAdd(&s[1][t], 1);", "atomic")):
    clean(groups("PRIOR(0);", _use), modes=DETAILED)
    wrong(groups("PRIOR(1);", _use), DETAILED, access=_access, **BY_COPY)

# Other threads hear of it by a barrier: a lane of the same warp, one of another warp, and a load of matrices that
# another warp has copied.
MATRIX = (
    'unsigned v = 0; if (t < 32) asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(v)'
    ' : "r"(sh(&s[1][32 + t % 8 * 4])) : "memory"); out[t] = v;'
)
OF_NEXT, OF_OTHER_WARP = "out[t] = GET(&s[1][t ^ 1]);", "out[t] = GET(&s[1][t ^ 32]);"
for _use in (OF_NEXT, OF_OTHER_WARP, MATRIX):
    clean(groups("PRIOR(0); __syncthreads();", _use), modes=DETAILED)
    for _wait in ("PRIOR(0);", "PRIOR(1); __syncthreads();", "__syncthreads(); PRIOR(0);"):
        wrong(groups(_wait, _use), DETAILED, **BY_COPY)
    if _use == OF_NEXT:
        clean(groups("PRIOR(0); __syncwarp();", _use), modes=DETAILED)
    else:
        wrong(groups("PRIOR(0); __syncwarp();", _use), DETAILED)
# A wait without a commit waits for nothing.
wrong(groups("PRIOR(0);").replace("// copied\n  END;", "// copied"), DETAILED, other_line="copied")

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
clean(LOOP.replace("LAST", "__syncthreads();"), VALUES[: 64 * 39].reshape(39, 64)[:, ::-1].sum(0))
# In a functional run the other warp reads what this one has refilled.
wrong(LOOP.replace("LAST", ""), ("functional",), lines={"refilled", "taken"})
wrong(
    LOOP.replace("LAST", ""), DETAILED, lines={"refilled", "taken"}, hazard="write after read",
    access="asynchronous copy",
)  # fmt: skip
OVER = """K k(const int *in, int *out) {
  __shared__ int s[2][64]; int t = threadIdx.x; s[1][t] = 1;
  WAIT
  COPY(&s[1][t ^ 32], in + t); END; PRIOR(0); out[t] = GET(&s[1][t ^ 32]);
}
"""
clean(OVER.replace("WAIT", "__syncthreads();"), modes=DETAILED)
wrong(OVER.replace("WAIT", ""), DETAILED, hazard="write after write", access="asynchronous copy", other_access="write")

# --- cp.async: copies that nobody waits for ---------------------------------------------------------------------------
UNWAITED = {"kind": SynchronizationError, "problem": "copy never waited for"}
LEFT = GROUPS.replace("WAIT", "PRIOR(1);").replace("USE", "").replace("PRIOR(0);", "REST")
for _rest in ("", "END;"):  # a group without copies is no mistake; the one before it is
    wrong(LEFT.replace("REST", _rest), grid=20, line="copied", text="cp.async.wait_group", **UNWAITED)
for _rest in ("PRIOR(0); END;", "END; PRIOR(1);"):
    clean(LEFT.replace("REST", _rest), grid=20)
wrong(groups("", "").replace("// copied\n  END;", "// copied"), text="after a commit", **UNWAITED)

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
clean(TOLD.replace("WAIT", "wait(&bar, 0);"), VALUES[63::-1])
clean(TOLD.replace("WAIT", "if (t == 40) wait(&bar, 0); __syncthreads();"))
wrong(TOLD.replace("WAIT", "__syncthreads();"), line="used", other_line="copied")
wrong(TOLD.replace("WAIT", "wait(&bar, 1);"), lines={"used", "copied"})  # the phase before the first
wrong(TOLD.replace("out[t] = GET", "out[t] = 0; if (t < 0) GET").replace("WAIT", ""), line="copied", **UNWAITED)

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
BY_BULK = {**READ_TOO_EARLY, "other_access": "bulk copy", "text": "wait for the phase of its mbarrier"}
for _wait in ("wait(&bar[1], 0);", "if (t < 32) wait(&bar[1], 0); __syncthreads();"):
    clean(FULL.replace("WAIT", _wait), VALUES[64:128])
for _wait in ("", "wait(&bar[0], 0);", "if (t < 32) wait(&bar[1], 0);", SLOW, "wait(&bar[0], 0); __syncthreads();"):
    wrong(FULL.replace("WAIT", _wait), **BY_BULK, other_thread=(0, 0, 0))
# The phase before the one of a bulk copy is over at once, by when no bytes can be there.
wrong(FULL.replace("WAIT", "wait(&bar[1], 1);"), DETAILED, line="used")
NOBODY = FULL.replace("WAIT\n", "").replace("out[t] = GET(&s[1][t]);", "")
clean(NOBODY, grid=20)
wrong(NOBODY.replace("wait(&bar[1], 0);", ""), grid=20, text="mbarrier", thread=(0, 0, 0), **UNWAITED)

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
# Without the parity of the turn before, the first wait for an empty buffer sees no end: nobody would go on. So the
# mistake is an arrival before the last use.
TAKEN = RING.replace("TAKE", "wait(&empty[b], turn ^ 1);")
clean(TAKEN.replace("GIVE", "ARRIVE(&empty[b]);"))
wrong(
    TAKEN.replace("wait(&full[b], turn);", "wait(&full[b], turn); ARRIVE(&empty[b]);").replace("GIVE", ""),
    hazard="write after read", access="bulk copy", other_line="taken",
)  # fmt: skip

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
ALL_ARRIVE = PASSED.replace("COUNT", "64").replace("ARRIVES", "ARRIVE(&bar);")
ONE_ARRIVES = PASSED.replace("COUNT", "1").replace("ARRIVES", "if (t == 33) ARRIVE(&bar);")
clean(ALL_ARRIVE.replace("PHASE", "0"), VALUES[63::-1])
wrong(ALL_ARRIVE.replace("PHASE", "1"), lines={"read", "written"})  # the phase before the first
wrong(ONE_ARRIVES.replace("PHASE", "0"), lines={"read", "written"})

# --- one lane of a warp speaks, or listens, for the others: only behind a barrier between them ------------------------
ELECTED = """
K k(const int *in, int *out) {
  __shared__ int s[32], flag; __shared__ u64 bar; int t = threadIdx.x, lane = t & 31;
  init(&bar, 1); if (t < 32) s[lane] = 7; if (t == 0) flag = 0; __syncthreads();
  if (t < 32) {
    FIRST  // first
    AFTER if (lane == 0) { ARRIVES }
  } else {
    WAITS BEFORE
    SECOND  // second
  }
}
"""
GIVES, TAKES = "s[lane] = in[lane];", "out[lane] = GET(s + lane);"
BY_LOCK = ("atomicExch(&flag, 1);", "while (atomicCAS(&flag, 1, 1) == 0) {}")
BY_MBARRIER = ("ARRIVE(&bar);", "wait(&bar, 0);")


def elected(meets: tuple[str, str], after: str, before: str, first: str = GIVES, second: str = TAKES) -> str:
    pairs = {"FIRST": first, "SECOND": second, "AFTER": after, "BEFORE": before}
    pairs |= {"ARRIVES": meets[0], "WAITS": meets[1]}
    return functools.reduce(lambda text, pair: text.replace(*pair), pairs.items(), ELECTED)


FROM_OTHER_LANE: dict[str, Any] = {"lines": {"first", "second"}}
for _meets, _one_listens in ((BY_MBARRIER, ""), (BY_MBARRIER, "if (lane == 0)"), (BY_LOCK, "if (lane == 0)")):
    _how, _needed = (_meets[0], f"{_one_listens} {{ {_meets[1]} }}"), "__syncwarp();" if _one_listens else ""
    clean(elected(_how, "__syncwarp();", _needed), range(32))
    clean(elected(_how, "__syncwarp();", _needed, TAKES, GIVES))
    wrong(elected(_how, "", _needed), **FROM_OTHER_LANE)
    wrong(elected(_how, "", _needed, TAKES, GIVES), **FROM_OTHER_LANE)
    if _one_listens:
        wrong(elected(_how, "__syncwarp();", ""), lines={"first", "second"})
# What lane 0 itself has done it may tell. A lane that waits for its copies waits for no other one's.
clean(elected(BY_MBARRIER, "", "", "if (lane == 0) s[0] = *in;", "out[lane] = GET(s);"))
wrong(elected(BY_MBARRIER, "", "", "if (lane == 1) s[0] = in[0];", "out[lane] = GET(s);"), **FROM_OTHER_LANE)
clean(groups("if (t & 1) PRIOR(0); else PRIOR(0); __syncthreads();", OF_NEXT), modes=DETAILED)
wrong(groups("if (t & 1) PRIOR(0); __syncthreads();", OF_NEXT), DETAILED, **BY_COPY)

MET = """
K __cluster_dims__(2, 1, 1) k(const int *in, int *out) {
  __shared__ int s[64]; int t = threadIdx.x; s[t] = in[t];
  MEET
  out[t] = GET(s + (63 - t));
  meet();
}
"""
clean(MET.replace("MEET", "meet();"), VALUES[63::-1], DETAILED, grid=2)
wrong(MET.replace("MEET", ""), DETAILED, grid=2)


def named(case: Any) -> str:
    source, _, mode, kind, _ = case
    return f"{KERNELS.numbers[source]}-{mode}-{kind.__name__ if kind else 'clean'}"


@pytest.mark.parametrize("case", CASES, ids=named)
def test_mistakes_are_found_and_their_twins_are_clean(case):
    source, grid, mode, kind, expected = case
    if kind is None:
        _, out = run(source, grid=grid, mode=mode)
        assert expected["values"] is None or (out[: len(expected["values"])] == expected["values"]).all()
        return
    with pytest.raises(kind) as caught:
        run(source, grid=grid, mode=mode)
    error = caught.value
    for name, value in expected.items():
        if name in ("line", "other_line"):
            assert getattr(error, name) == line_of(source, value)
        elif name == "lines":
            assert {error.line, error.other_line} == {line_of(source, each) for each in value}
        elif name == "text":
            assert value in str(error)
        elif name == "same_thread":
            assert error.thread == error.other_thread
        else:
            assert getattr(error, name) == value
    assert error.thread is not None and error.block is not None


def test_a_ring_of_buffers_has_the_sums():
    values, out = run(TAKEN.replace("GIVE", "ARRIVE(&empty[b]);"))
    assert (out[32:64] == values[: 20 * 32].reshape(20, 32).sum(0)).all()


def test_more_mbarriers_than_there_is_room_for(monkeypatch):
    source = FULL.replace("WAIT", "wait(&bar[1], 0);")
    monkeypatch.setattr(launch_state, "Capacity", lambda: CAPACITY(mbarriers=2))
    run(source)
    monkeypatch.setattr(launch_state, "Capacity", lambda: CAPACITY(mbarriers=1))
    with pytest.raises(PoolExhausted) as caught:
        run(source)
    assert caught.value.size == 1 and re.search("mbarriers of a block", caught.value.pool)


CAPACITY = launch_state.Capacity


# --- initcheck, and programs ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("source", [groups("PRIOR(0);"), FULL.replace("WAIT", "wait(&bar[1], 0);")])
def test_what_a_copy_brings_is_initialised(source, mode):
    values, out = run(source, check="initcheck", mode=mode)
    assert (out[:64] == values[64:128]).all()


FAMILIES = ("matmul_hopper", "matmul_blackwell", "matmul_fp4")
TILES = [each.name for family in FAMILIES for each in registry.families()[family]]


@pytest.mark.parametrize("name", [*TILES, "flash_attention/full", "matmul_tensor/asynchronous"])
def test_programs_with_copies_are_clean(name):
    """In their cycles and counts as without checks."""
    plain, watched = (bundled.checked(name, check=each) for each in ((), "racecheck"))
    assert plain.cycles == watched.cycles
    assert plain.record.counters.tobytes() == watched.record.counters.tobytes()
