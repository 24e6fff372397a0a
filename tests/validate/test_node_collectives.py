"""Simulated collectives beside what NCCL took, and chose, on 2 to 4 H200s."""

import pytest

from gpusim.collectives import NAMES
from validate import compared
from validate.node import collectives


@pytest.fixture(scope="module")
def rows():
    return collectives.compare()


@pytest.mark.parametrize("name", NAMES)
def test_large_calls_are_close(rows, name):
    errors = [abs(row.error) for row in rows if row.point[1] == name and row.point[2] >= 16 << 20]
    assert len(errors) > 15
    # An exchange of all with all is 7.1 % short in the mean: docs/known_gaps.md.
    assert sum(errors) / len(errors) < (0.08 if name == "all_to_all" else 0.05)
    assert max(errors) < 0.13


def test_small_calls_are_near(rows):
    middle = [abs(row.error) for row in rows if 64 << 10 <= row.point[2] < 16 << 20]
    small = [abs(row.error) for row in rows if row.point[2] < 64 << 10]
    assert sum(middle) / len(middle) < 0.1 and max(middle) < 0.25
    assert sum(small) / len(small) < 0.12 and max(small) < 0.3


def test_choices_are_those_that_nccl_logged():
    count, wrong = collectives.wrong_choices()
    assert count == 285 and not wrong


def test_the_summary_leaves_out_what_was_calibrated_with(rows):
    assert sum(row.calibrated for row in rows) == 7 * 2 * 3  # two sizes, recorded on all machines
    lines = compared.summary(rows).splitlines()[1:]
    bands = ("from 16,384 KiB", "from 64 KiB", "less")
    assert [line[:34].rstrip() for line in lines] == [f"{name}, {band}" for name in NAMES for band in bands]
    assert sum(int(line[34:].split()[0]) for line in lines) == len(rows) - 42
