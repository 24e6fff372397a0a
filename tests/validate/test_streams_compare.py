"""Some recorded experiments with streams, simulated: within a tenth of what an H200 did."""

from dataclasses import replace

import pytest

from validate.__main__ import main
from validate.compared import Compared
from validate.streams import compare

EXPERIMENTS = ("leftover", "mixed", compare.GAPS, compare.SMALL, compare.GRAPHS, compare.ALONE)
FEWER = {
    "leftover": "A fills shared, 1 waves, B 0KB",
    compare.GAPS: "^dependent launch, early, 132 blocks of 0 us",
    compare.SMALL: "^2048 bytes",
    compare.GRAPHS: "^(in line|fork of eight), 132 blocks of 0 us",
}
"""Where `--quick` takes kernels of 20 us, those that end at once: what is compared lies between them."""


@pytest.fixture(scope="module")
def rows():
    with pytest.MonkeyPatch.context() as changed:
        for name, cases in FEWER.items():
            changed.setitem(compare.QUICK, name, cases)
        return list(compare.compare(EXPERIMENTS, quick=True))


def test_spans_and_gaps_are_those_of_an_h200(rows):
    assert {row.group for row in rows} == {*EXPERIMENTS}
    wrong = {row.case for row in rows if not row.within}
    join = {"fork of eight, 132 blocks of 0 us, join"}  # which waits longer for seven than for four
    quicker = {"DtoD 16777216", "memset 4"}  # half of the one lies in L2, the other goes with the commands
    assert wrong <= join | quicker | {"DtoH 4"}
    spans = [abs(row.error) for row in rows if row.group in compare.SPANS]
    assert len(spans) == 3 and max(spans) < 0.01


def test_who_came_first_matters(rows):
    """A small grid in front of one that fills the GPU makes it a fifth longer."""
    spans = {row.case: row.simulated for row in rows if row.group == "leftover"}
    assert max(spans.values()) > 1.2 * min(spans.values())


def test_the_command_sums_up(capsys, monkeypatch):
    row = Compared(group="two_kernels_fit", case="a", measured=100, simulated=101)
    monkeypatch.setattr(compare, "compare", lambda only, quick: [row, replace(row, case="b", simulated=111)])
    assert main(["streams", "compare", "--quick", "--only", "two_kernels_fit"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == [
        "two_kernels_fit", "2", "1", "+6.0%", "6.0%", "6.0%", "+11.0%", "b"
    ]  # fmt: skip
    assert main(["streams", "compare", "--only", "nothing"]) == 2
