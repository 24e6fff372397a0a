"""What an H200 keeps in L2, as recorded: the recording itself, its comparison, and one point simulated."""

from __future__ import annotations

from isa.listing import programs_from_cubin
from validate.persisting import compare
from validate.persisting.lab import CUBIN


def test_the_recording_says_where_it_comes_from_and_what_the_gpu_is():
    found = compare.recording()
    assert (found["gpu"], found["driver"]) == ("NVIDIA H200", "580.159.04")
    assert "--cache-control none" in found["flags"] and found["utc"].startswith("2026-")
    assert found["properties"]["persisting_max_bytes"] == 39321600
    assert found["properties"]["window_max_bytes"] == 1 << 27


def test_a_window_is_the_descriptor_of_plain_loads():
    """As recorded: its first page, its pages, sixteenths and classes, as the words of createpolicy have them."""
    wanted = {"hit_ratio": 0.5, "hit": "persisting", "miss": "normal"}
    rows = [row for row in compare.recording()["policies"] if wanted.items() <= row.items()]
    word = int(rows[0]["descriptor"], 16)
    assert word >> 52 & 15 == 8
    assert word >> 37 & 0x7FFF == 20 << 8  # pages of 4 KB
    assert word >> 57 & 3 == 2 and word >> 60 == 0


def test_shares():
    assert compare.shares((50, 50, 0)) == (1, 0.5)
    assert compare.shares((0, 100, 3200)) == (0, 0)


def test_points_that_are_known_to_be_off_are_recorded():
    assert set(compare.recording()["counters"]) >= compare.KNOWN


def test_the_kernels_are_the_recorded_ones():
    kernels = programs_from_cubin(CUBIN.read_bytes())
    assert {"touch_normal", "touch_hint", "mixed", "probe", "descriptor"} <= set(kernels)


def test_what_goes_first_is_gone_when_it_is_read_again():
    points = list(compare.compare(("loads",), "first 0 20"))
    assert [point.case for point in points[::2]] == [f"first 0 20 {turn}" for turn in (0, 1, "after")]
    assert all(point.within and not point.gap for point in points)
