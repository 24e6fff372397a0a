"""Where the host's time goes: the parts of a run, and how it is printed."""

from dataclasses import replace

import pytest

import gpusim
from gpusim.result import Result
from gpusim.results.sentences import render_profile
from programs import registry


@pytest.fixture(scope="module")
def result():
    launch = registry.get("matmul/tiled").make(64, 0)
    return gpusim.simulate(launch.kernel, launch.grid, launch.block, launch.args, "h200", threads=1)


def test_every_run_knows_what_of_it_was_serial(result):
    found = result.record.host_parts
    assert set(found) == {"SMs", "memory system", "between windows"}
    assert min(found.values()) > 0
    assert sum(found.values()) == pytest.approx(result.record.host_seconds, rel=1e-6)


def test_the_table_says_what_threads_could_give(result):
    record = replace(
        result.record,
        host_seconds=2.0,
        host_parts={"SMs": 1.8, "memory system": 0.15, "between windows": 0.05},
    )
    lines = render_profile(Result(record)).splitlines()
    assert lines[1].split()[:4] == ["SMs", "1.800", "90.0", "%"]
    assert lines[-1] == "  10.0 % of it is serial: at most 1.82 x on 2, 4.71 x on 8, 8.77 x on 64 threads"
