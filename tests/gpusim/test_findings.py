"""Local memory counted as an H100 counts it, and findings that name what a kernel pays for: spilled registers, arrays
that are indexed at run time, constants and atomics that are served one by one, fences, loops that spin."""

from pathlib import Path

import numpy as np
import pytest

import gpusim
import isa
from gpusim.engine.state import layout as L

SOURCE = Path(__file__).parent / "data" / "findings.cu"
IN = np.array([(k * 2654435761 & 0xFFFFFFFF) >> 20 for k in range(4096)], np.int32)
pytestmark = pytest.mark.usefixtures("toolchain")


def run(kernel, grid, block, *more, out=1 << 16, **options):
    values = IN.astype(np.float32) if kernel == "spilled" else IN
    arguments = (values.copy(), np.zeros(out, values.dtype), *map(np.int32, more))
    return gpusim.simulate(isa.load(SOURCE, entry=kernel), grid, block, arguments, gpu="h100", **options)


def finding(result, kind):
    return next((each for each in result.advice if each.kind == kind), None)


# Instructions, requests and sectors of loads, of stores, as Nsight Compute counted them on an H100 (CUDA 13.0).
COUNTED = (
    ("indexed", 64, 256, (8192, 8192, 262144), (4096, 16384, 65536)),
    ("doubles", 1, 64, (4, 8, 232), (4, 8, 232)),
    ("diverged", 1, 64, (4, 4, 64), (2, 2, 64)),
    ("spilled", 1, 1024, (5760, 5760, 23040), (4576, 4576, 18304)),
)


@pytest.mark.parametrize("mode", ["functional", "detailed"])
@pytest.mark.parametrize(("kernel", "grid", "block", "loads", "stores"), COUNTED, ids=[row[0] for row in COUNTED])
def test_local_memory_is_counted_as_on_an_h100(kernel, grid, block, loads, stores, mode):
    metrics = run(kernel, grid, block, mode=mode).metrics
    for suffix, counted in (("ld", loads), ("st", stores)):
        tail = f"pipe_lsu_mem_local_op_{suffix}"
        names = f"smsp__inst_executed_op_local_{suffix}", f"l1tex__t_requests_{tail}", f"l1tex__t_sectors_{tail}"
        assert tuple(metrics[f"{name}.sum"] for name in names) == counted


def test_hits_of_local_memory_in_l1_are_those_of_an_h100():
    metrics = run("diverged", 1, 64).metrics
    ways = ("hit", "miss")
    assert [metrics[f"l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_{way}.sum"] for way in ways] == [15, 49]


def test_spills_and_arrays_are_told_apart():
    spilled, indexed = run("spilled", 132, 256), run("indexed", 64, 256)
    assert spilled.limiter.kind == "local memory" and "local arrays" not in {each.kind for each in spilled.advice}
    first = spilled.advice[0]
    assert first.kind == "register spills" and "__launch_bounds__" in first.sentence
    assert "bytes of stack per thread" in " ".join(str(spilled).split())
    line = SOURCE.read_text().splitlines()[first.line - 1]
    assert "for (int i = 0; i < 48; ++i)" in line
    # The compiler left no thread more registers, so more warps are no way out.
    assert "More warps, or" not in " ".join(each.sentence for each in spilled.advice)
    array = finding(indexed, "local arrays")
    assert array and "register spills" not in {each.kind for each in indexed.advice}
    assert array.value == 8192 + 4096 and finding(run("adds", 4, 256, 1023), "local arrays") is None


def test_constants_at_different_addresses():
    apart, together = run("constants", 1, 64, 31), run("constants", 1, 64, 0)
    found = finding(apart, "divergent constants")
    assert "at 32.1 different addresses" in found.sentence
    saved = 1 - together.cycles / apart.cycles
    assert saved < found.share < 1.3 * saved
    assert finding(together, "divergent constants") is None


@pytest.mark.parametrize("kernel", ["adds", "adds_shared"])
def test_atomics_that_meet(kernel):
    grid, array = (256, "bins") if kernel == "adds" else (1, "seen")
    meet, spread = run(kernel, grid, 256, 0), run(kernel, grid, 256, 1023)
    found = finding(meet, "contended atomics")
    assert f" of {array} in " in found.sentence
    assert 0 < 0.8 * (1 - spread.cycles / meet.cycles) < found.share


def test_fences_and_loops_that_spin():
    found = finding(run("fenced", 1, 256), "memory fences")
    assert found.share > 0.3 and SOURCE.read_text().splitlines()[found.line - 1].strip() == "__threadfence();"
    result = run("waits", 2, 32)
    found = finding(result, "spin loops")
    assert found.share > 0.3 and "while (out[0] == 0)" in SOURCE.read_text().splitlines()[found.line - 1]
    assert result.record.counters[:, L.COUNT_EXECUTED].sum() > 2000
