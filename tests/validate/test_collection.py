"""The list of public programs, its split, and what an H200 counted of them hold together."""

from __future__ import annotations

import contextlib
import gzip
import json

import pytest

from validate.collection import listing, recording

#: Others judge on these suites.
LEFT_OUT = ("rodinia", "polybench", "parboil", "shoc")
PROGRAMS = listing.read()
RECORDED = json.loads(gzip.decompress(recording.RAW.read_bytes()))


def test_the_split_is_by_name_alone_and_leaves_enough_to_judge_on():
    splits = [each.split for each in PROGRAMS.values()]
    assert splits == [listing.split(name) for name in PROGRAMS]
    assert splits.count("judge") >= 60


def test_no_program_of_the_suites_that_others_judge_on_is_listed():
    assert not [name for name in PROGRAMS for suite in LEFT_OUT if suite in name.lower()]


def test_what_was_recorded_is_what_is_listed():
    recorded = RECORDED["programs"]
    assert len(recorded) >= 180
    for name, each in recorded.items():
        assert tuple(each["arguments"]) == tuple(PROGRAMS[name].arguments), name


@pytest.mark.parametrize("split", ("train", "judge"))
def test_enough_launches_of_5_to_500_microseconds_were_counted(split):
    launches = 0
    for name, each in RECORDED["programs"].items():
        if listing.split(name) == split:
            with contextlib.suppress(recording.Unfit):
                launches += len(recording.choose(each))
    assert launches >= (60 if split == "judge" else 90)
