"""The workloads under pytest-benchmark, for `make bench`: no other run of pytest collects a file of this name.

Before each round the fixed loop runs, so that both see the machine as it is at that moment.
"""

import pytest

from tests.bench.workloads import WORKLOADS, chase, cpu_seconds, timed

ROUNDS = 5


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.benchmark(timer=cpu_seconds)
def test_speed(benchmark, name):
    unit, prepare = WORKLOADS[name]
    walk, walks = chase(), []

    def between():
        walks.append(timed(walk)[0])

    units = benchmark.pedantic(prepare(), setup=between, rounds=ROUNDS, warmup_rounds=1)
    benchmark.extra_info |= {"unit": unit, "units": units, "loops": walks[-ROUNDS:]}
