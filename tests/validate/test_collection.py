"""The list of public programs, its split, and what an H200 counted of them hold together."""

from __future__ import annotations

import pytest

from validate.collection import compare, recording

PROGRAMS = compare.listed()
POINTS = recording.load()["points"]


def test_the_split_is_by_name_alone_and_leaves_enough_to_judge_on():
    splits = [compare.split(name) for name in PROGRAMS]
    assert splits.count("judge") >= 60


def test_no_program_of_the_suites_that_others_judge_on_is_listed():
    assert not [
        name for name in PROGRAMS for suite in ("rodinia", "polybench", "parboil", "shoc") if suite in name.lower()
    ]


def test_what_was_recorded_is_what_is_listed():
    for key, point in POINTS.items():
        assert tuple(point["arguments"]) == PROGRAMS[point["program"]], key
    assert {point["program"] for point in POINTS.values()} == set(PROGRAMS), "a program without a point says nothing"


@pytest.mark.parametrize("split", ("train", "judge"))
def test_enough_launches_of_5_to_500_microseconds_were_counted(split):
    mine = [point["counters"] for point in POINTS.values() if compare.split(point["program"]) == split]
    assert len(mine) >= (60 if split == "judge" else 90)
    for counters in mine:
        assert recording.SHORTEST_NS <= counters["gpu__time_duration.sum"] <= recording.LONGEST_NS
        assert not recording.contradicts(counters)


def test_counters_of_several_executions_contradict_each_other():
    good = {"smsp__inst_executed.sum": 10.0, "smsp__thread_inst_executed.sum": 320.0}
    assert not recording.contradicts(good)
    assert recording.contradicts(good | {"smsp__thread_inst_executed.sum": 321.0})
    assert recording.contradicts(good | {"smsp__thread_inst_executed_pred_on.sum": 321.0})
    assert recording.contradicts(good | {"l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum": 1.0})
