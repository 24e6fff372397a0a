"""The data model of a trace and what is computed from it alone, on traces built by hand."""

import numpy as np
import pytest

import gpusim
from gpusim.errors import TraceError
from gpusim.tracing.perfetto import Trace
from gpusim.tracing.recording import BLOCK, ISSUE, STALL, WARP, TraceOptions, lane_groups

ALL = 0xFFFFFFFF
LOW, HIGH = 0xFFFF, 0xFFFF0000


def issues(*rows):
    """Rows of issues from (warp, pc, active lanes) or with the executed ones too, one a cycle."""
    table = np.zeros(len(rows), ISSUE)
    table["cycle"] = np.arange(len(rows)) + 100
    table["access"] = -1
    for row, (warp, pc, active, *executed) in zip(table, rows, strict=True):
        row["warp"], row["pc"], row["active"] = warp, pc, active
        row["executed"] = executed[0] if executed else active
    return table


def trace(rows, stalls=()):
    return Trace(
        issues=rows,
        stalls=np.array(list(stalls), STALL),
        addresses=np.zeros((0, 32), np.int64),
        sizes=np.zeros(0, np.int16),
        stores=np.zeros(0, bool),
        blocks=np.zeros(1, BLOCK),
        warps=np.zeros(1, WARP),
        complete=True,
        until=1000,
        options=TraceOptions(),
        program=None,
        code=np.zeros((0, 0), np.int32),
        launch=gpusim.Launch(None, (2, 3, 4), 96),
        config=gpusim.load_config("tiny"),
        cycles=1000,
    )


def shape(groups):
    """(lanes, parent, parted at, met at, issues) of each group."""
    return [(each.lanes, each.parent, each.parted_pc, each.met_pc, len(each.rows)) for each in groups]


def groups_of(*rows, exits=()):
    return lane_groups(issues(*((0, *row) for row in rows)), np.isin(np.arange(20), exits))


def test_rows_of_one_warp():
    table = issues((0, 0, ALL), (3, 0, ALL), (0, 1, ALL))
    table["access"][1:] = 0, 1
    it = trace(table, [(3, 5, 7, 2, 0), (0, 6, 9, 2, 1)])
    assert it.of_warp(0)["pc"].tolist() == [0, 1]
    assert it.stalls_of(3)["end"].tolist() == [7]
    assert it.first_access(0) == 1
    assert it.first_access(1) == 2
    assert it.first_access(2) == -1


def test_warps_are_named_by_the_coordinates_of_their_block():
    assert trace(issues()).warp_label((1 + 2 * (2 + 3 * 3)) * 3 + 2) == "block 1,2,3 warp 2"


def test_both_sides_of_a_branch_meet_again():
    groups = groups_of((0, ALL), (1, LOW), (2, LOW), (5, HIGH), (6, ALL))
    assert shape(groups) == [(ALL, -1, -1, -1, 2), (LOW, 0, 0, 6, 2), (HIGH, 0, 0, 6, 1)]
    assert groups[1].met_row == 4


def test_a_branch_in_a_branch():
    groups = groups_of((0, ALL), (1, LOW), (2, 0xFF), (3, 0xFF00), (4, LOW), (5, HIGH), (6, ALL))
    assert shape(groups) == [
        (ALL, -1, -1, -1, 2),
        (LOW, 0, 0, 6, 2),
        (0xFF, 1, 1, 4, 1),
        (0xFF00, 1, 1, 4, 1),
        (HIGH, 0, 0, 6, 1),
    ]


def test_lanes_that_have_exited_are_not_waited_for():
    groups = groups_of((0, ALL), (1, ALL, LOW), (2, HIGH), exits=[1])
    assert shape(groups) == [(ALL, -1, -1, -1, 3)]


def test_some_lanes_meet_before_all_do():
    """A quarter each; two of them meet on their own before the whole warp does."""
    a, b, rest = 0xFF, 0xFF00, HIGH
    groups = groups_of((0, ALL), (1, a), (2, b), (3, rest), (4, a | b), (5, ALL))
    assert shape(groups) == [
        (ALL, -1, -1, -1, 2),
        (a, 0, 0, 4, 1),
        (b, 0, 0, 4, 1),
        (rest, 0, 0, 5, 1),
        (a | b, 0, 0, 5, 1),
    ]


def test_no_issues_have_no_groups():
    assert groups_of() == ()


@pytest.mark.parametrize("options", [{"sms": [-1]}, {"blocks": -2}, {"limit": 0}])
def test_options_that_mean_nothing_are_refused(options):
    with pytest.raises(TraceError):
        TraceOptions(**options)


def test_what_trace_may_be():
    assert TraceOptions.of(None) is TraceOptions.of(False) is None
    assert TraceOptions.of(True) == TraceOptions((0,), (0,), 200_000)
    assert TraceOptions(sms=range(3, 0, -1), blocks=5).sms == (1, 2, 3)
    assert TraceOptions(blocks=5).blocks == (5,)
    with pytest.raises(TraceError, match="TraceOptions, got str"):
        TraceOptions.of("yes")
