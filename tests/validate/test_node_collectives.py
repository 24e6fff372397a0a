"""Simulated collectives beside what NCCL took, and chose, on 2 to 4 H200s."""

import statistics

import pytest

from gpusim.collectives import NAMES
from validate import compared
from validate.gpu import read_json
from validate.node import collectives
from validate.node.copies import recordings


@pytest.fixture(scope="module")
def rows():
    return collectives.compare()


@pytest.mark.parametrize("name", NAMES)
def test_large_calls_are_close(rows, name):
    errors = [abs(row.error) for row in rows if row.point[1] == name and row.point[2] >= 16 << 20]
    assert len(errors) > 15
    assert sum(errors) / len(errors) < 0.04
    assert max(errors) < 0.1


@pytest.mark.parametrize("least, end, mean, most", [(0, 64 << 10, 0.05, 0.14), (64 << 10, 16 << 20, 0.05, 0.16)])
def test_small_calls_are_near(rows, least, end, mean, most):
    errors = [abs(row.error) for row in rows if least <= row.point[2] < end]
    assert sum(errors) / len(errors) < mean and max(errors) < most


def test_the_host_sets_machines_apart():
    apart = {False: [], True: []}  # by whether the host's time is taken off
    for less_host, found in apart.items():
        times = {}
        for path in recordings("collectives"):
            calls = [call for call in read_json(path)["calls"] if call[0] == 2 and call[2] < 16 << 20]
            for _, name, nbytes, last_us, *_ in calls:
                host = min(call[5] for call in calls if call[1] == name and call[2] <= 64 << 10)
                times.setdefault((name, nbytes), []).append(last_us - less_host * host)
        found += (max(each) - min(each) for each in times.values() if len(each) == 3)
    assert len(apart[True]) == 7 * 12
    assert statistics.mean(apart[False]) == pytest.approx(4, abs=0.2)
    assert statistics.mean(apart[True]) == pytest.approx(1.3, abs=0.1)


def test_choices_are_those_that_nccl_logged():
    count, wrong = collectives.wrong_choices()
    assert count == 285 and not wrong


def test_the_summary_leaves_out_what_was_calibrated_with(rows):
    assert (
        sum(row.calibrated for row in rows) == 7 * (5 * 3 + 1) + 4 + 3
    )  # of 2 GPUs, of 4 and of 3 (5 collectives on 3)
    lines = compared.summary(rows).splitlines()[1:]
    bands = ("from 16,384 KiB", "from 64 KiB", "less")
    assert [line[:34].rstrip() for line in lines] == [f"{name}, {band}" for name in NAMES for band in bands]
    assert sum(int(line[34:].split()[0]) for line in lines) == len(rows) - 119
