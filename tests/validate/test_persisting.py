"""What an H200 keeps in L2, as recorded: the recording itself, its comparison, and one point simulated."""

from __future__ import annotations

from isa.listing import programs_from_cubin
from validate.persisting import compare


def test_shares():
    assert compare.shares((50, 50, 0)) == (1, 0.5)
    assert compare.shares((0, 100, 3200)) == (0, 0)


def test_points_that_are_known_to_be_off_are_recorded():
    assert set(compare.recording()["counters"]) >= compare.KNOWN


def test_the_kernels_are_the_recorded_ones():
    kernels = programs_from_cubin(compare.CUBIN.read_bytes())
    assert {"touch_normal", "touch_hint", "mixed", "probe", "descriptor"} <= set(kernels)


def test_what_is_read_again_is_found():
    points = list(compare.compare("working_set 8 "))
    assert [point.case for point in points[::2]] == ["working_set 8 0", "working_set 8 1"]
    assert all(point.within and not point.gap for point in points)
    assert points[0].simulated < 0.1 and points[2].simulated > 0.9
