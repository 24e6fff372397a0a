"""Managed memory as an H200 has it: recorded cases of `validate/streams` on the simulated one."""

import pytest

from validate.compared import summary
from validate.streams.lab import Lab
from validate.streams.managed import MB, replay


@pytest.fixture(scope="module")
def rows(toolchain):
    lab = Lab()
    small = "in order", "faults", "untouched, whole gpu", "prefetch"
    names = [*(f"{name}, {4 * MB}" for name in small), f"widths, {16 * MB}", "sparse 64KB"]
    return [*replay(lab, 16 * MB, names), *replay(lab, MB, ["stays on host", "read mostly"])]


def of(rows, case, *steps):
    found = [row for row in rows if row.point in [(case, step) for step in steps]]
    assert len(found) == len(steps)
    return found


@pytest.mark.parametrize(
    "case, steps",
    [
        (f"in order, {4 * MB}", ("touch", "host reads back")),
        (f"faults, {4 * MB}", ("host reads back",)),
        (f"untouched, whole gpu, {4 * MB}", ("gpu writes untouched", "host reads back")),
        (f"sparse 64KB, {16 * MB}", ("touch sparsely", "touch every page")),
        (f"widths, {16 * MB}", ("touch by a warp", "touch by all", "touch by all, pages far apart")),
        (f"prefetch, {4 * MB}", ("prefetch to gpu", "prefetch to host", "gpu reads after")),
        (f"stays on host, {MB}", ("touch in order",)),
        (f"read mostly, {MB}", ("host writes again",)),
    ],
)
def test_times_are_those_of_an_h200(rows, case, steps):
    for row in of(rows, case, *steps):
        assert row.within, row


def test_pages_of_little_memory_collapse_too_slowly(rows):
    """A known gap: an H200 takes 5.5 us for each of 256 pages, 36 for each of 16,384."""
    assert of(rows, f"read mostly, {MB}", "gpu writes")[0].error > 4


def test_little_memory_comes_too_fast(rows):
    """A known gap: the first megabytes take an H200 longer, as its driver has not yet been busy for long."""
    assert -0.65 < of(rows, f"faults, {4 * MB}", "gpu reads")[0].error < -0.25


def test_one_sm_brings_too_fast(rows):
    """A known gap: a block of 1,024 threads that asks for 1,024 pages, of 128 KB by each warp."""
    assert -0.25 < of(rows, f"widths, {16 * MB}", "touch by a block")[0].error < -0.05


def test_the_table_sums_up(rows):
    assert "one thread, 16 MiB and more" in summary(rows)
