"""Pictures of sweeps: what they show is read back from matplotlib and compared with the table's rows."""

import numpy as np
import pytest

from gpusim import plot
from gpusim.plot.sweeps import label, records, short

ROWS = [
    {
        "program": "copy",
        "sm.count": n,
        "l2.bytes": m << 20,
        "cycles": 1980 * (64 // n + m),
        "time_us": 64 / n + m,
        "bound_cycles": 1980 * 32 // n,
        "error": None,
    }
    for n in (8, 2, 4)
    for m in (2, 1)
]


def of(l2):
    return [row for row in ROWS if row["l2.bytes"] == l2]


def curves(ax):
    return {line.get_label(): line for line in ax.lines}


def test_a_table_that_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match=r"no column 'sm\.cuont'; there are bound_cycles, .*; did you mean sm\.count"):
        plot.scaling_curves(ROWS, "sm.cuont")
    with pytest.raises(ValueError, match=r"two rows for sm\.count = 8, program = copy: choose rows by l2\.bytes first"):
        plot.scaling_curves(ROWS, "sm.count")
    twice = [{"program": "copy", "sm.count": 8, "cycles": n, "cycles_low": n - 1, "time_us": n} for n in (9, 10)]
    with pytest.raises(ValueError, match=r"two rows for .*: choose rows by key first"):
        plot.scaling_curves(twice, "sm.count")
    with pytest.raises(ValueError, match="no rows to draw"):
        plot.scaling_curves([row | {"error": "wrong"} for row in ROWS], "sm.count")
    with pytest.raises(ValueError, match="needs values above zero"):
        plot.scaling_curves([row | {"sm.count": 0} for row in of(1 << 20)[:1]], "sm.count")


def test_a_dataframe_is_a_table():
    class Frame:
        def to_dict(self, kind):
            assert kind == "records"
            return ROWS

    assert records(Frame()) == records(ROWS)


def test_curves_bounds_and_ideal_lines_are_the_rows():
    other = [row | {"program": "still", "time_us": 5.0, "bound_cycles": None} for row in of(1 << 20)]
    ax = plot.scaling_curves(of(1 << 20) + other, "sm.count")
    found = curves(ax)
    assert set(found) == {"copy", "still", "_bound of copy", "_ideal of copy", "_ideal of still"}
    assert found["copy"].get_xydata().tolist() == [[2, 33], [4, 17], [8, 9]]
    assert found["_ideal of copy"].get_ydata() == pytest.approx([33, 16.5, 8.25])
    for row in of(1 << 20):
        (at,) = np.flatnonzero(found["_bound of copy"].get_xdata() == row["sm.count"])
        expected = row["bound_cycles"] * row["time_us"] / row["cycles"]
        assert found["_bound of copy"].get_ydata()[at] == pytest.approx(expected)
    assert ax.get_ylabel() == "time, µs"
    assert "copy from 33 to 9, 3.67 times faster; still from 5 to 5, 1.00 times faster" in plot.text_alternative(ax)


@pytest.mark.parametrize(
    ("name", "text"),
    [("dram.bandwidth_gb_s", "dram.bandwidth_gb_s, GB/s"), ("sm.count", "sm.count"), ("l2.bytes", "l2.bytes, bytes")],
)
def test_labels_have_units(name, text):
    assert label(name) == text


@pytest.mark.parametrize(("value", "text"), [(62914560, "60 Mi"), (4800, "4,800"), (0.8312, "0.831"), ("lrr", "lrr")])
def test_ticks_are_short(value, text):
    assert short(value) == text
