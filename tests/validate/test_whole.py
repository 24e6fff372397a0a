"""Whole programs: what was stored of an H200 and of the simulator, and what documents say of it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from validate.__main__ import main
from validate.compared import summary
from validate.gpu import read_json
from validate.whole import compare

ROOT = Path(__file__).parents[2]


def rows():
    stored = read_json(compare.RESULTS)
    return [row for name in stored["programs"] if name in stored["simulated"]
            for row in compare.compared(name, stored["programs"][name], stored["simulated"][name])]  # fmt: skip


def test_documents_have_the_errors_of_what_is_stored():
    by_group = sorted(rows(), key=lambda row: compare.GROUPS.index(row.group))
    said = (ROOT / "docs/validation.md").read_text("utf-8")
    for line in summary(by_group).splitlines():
        assert " ".join(line.split()) in " ".join(said.split())


def test_programs_are_long_enough_and_repeat():
    stored = read_json(compare.RESULTS)
    assert len(stored["programs"]) >= 12 and stored["simulated"].keys() <= stored["programs"].keys()
    assert stored["about"]["gpu"] == "NVIDIA H200"
    for found in stored["programs"].values():
        assert 20 <= len(found["launches"]) <= 600
        middle, least, most = found["span_us"]
        assert least <= middle <= most < 1.05 * least
        assert found["kernels_us"][0] < middle, "what lies between kernels counts too"


def test_kernels_of_one_name_are_compared_apart():
    launch = [[1, 1, 1], [32, 1, 1]]
    real = {
        "span_us": [10, 9, 12],
        "launches": [["a", *launch, 4, 1], ["a", *launch, 2, 1], ["library", *launch, 2, 1]],
    }
    ours = {"span_us": [11, 11, 11], "launches": [["a", *launch, 4, 9], ["a", *launch, 3, 9], ["own", *launch, 1, 9]]}
    found = {row.group: (row.measured, row.simulated, row.case) for row in compare.compared("x", real, ours)}
    assert found[compare.SPAN] == (10, 11, "x")
    assert found[compare.ALL][:2] == (8, 8)
    assert found[compare.SAME] == (6, 7, "x, 2 launches, here 2")
    assert found[compare.OTHER] == (2, 1, "x, 1 launches, here 1")


def test_the_command_shows_what_is_stored_and_says_what_is_missing(capsys):
    assert main(["programs", "show", "--only", "cuda_kernels"]) == 0
    assert "cuda_kernels, 24 launches, here 24" in capsys.readouterr().out
    assert main(["programs", "show", "--only", "nothing"]) == 2


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="PyTorch is there")
def test_a_python_without_pytorch_is_told_of(capsys):
    assert main(["programs", "record", "--python", sys.executable, "--only", "cuda_kernels"]) == 2
    said = capsys.readouterr().err
    assert "needs PyTorch and CuPy" in said and "No module named 'torch'" in said
