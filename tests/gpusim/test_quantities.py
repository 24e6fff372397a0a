"""The table of quantities: a row more, and it stands wherever numbers of a result are shown."""

import json

import pytest

import gpusim
from gpusim.difference.compare import render_page
from gpusim.explore.evaluate import empty_row, evaluate
from gpusim.explore.point import Point
from gpusim.lab import answers
from gpusim.report_html import make_document
from gpusim.result import Result
from gpusim.results import quantities
from gpusim.results.metrics import METRICS
from gpusim.results.table import EVERYWHERE, LESS, PAGE, SECTIONS, Quantity, metric_rows, spelled
from tests.gpusim.records import make_record
from tests.result_schema import make_schema

ROW = Quantity(
    "joules_per_warp_j", "J", lambda r: r.energy_j / r.counts.instructions, "energy of a warp instruction in the mean",
    "Energy Per Instruction", "energy", LESS,
)  # fmt: skip


@pytest.fixture
def added(monkeypatch):
    monkeypatch.setitem(quantities.QUANTITIES, ROW.name, ROW)


@pytest.mark.usefixtures("added", "toolchain")
def test_a_row_of_the_table_is_shown_everywhere():
    a, b = Result(make_record()), Result(make_record(cycles=3000))
    value = a.energy_j / a.counts.instructions
    label = ROW.label
    assert f"{label} {spelled(value, 'J')}" in str(a).splitlines()
    assert a.to_dict()[ROW.name] == json.loads(a.to_json())[ROW.name] == value
    (section,) = (each for each in make_document(a)["sections"] if each["id"] == "energy")
    (row,) = (each for each in section["rows"] if each["label"] == label)
    assert (row["value"], row["text"], row["meaning"]) == (value, spelled(value, "J", "µ"), ROW.meaning)
    schema = make_schema()["$defs"]
    assert schema["RunDocument"]["properties"][ROW.name] == {"description": f"{ROW.meaning}, in J", "type": "number"}
    assert ROW.bare in schema["DiffDocument"]["properties"] and ROW.bare == "joules_per_warp"
    difference = gpusim.compare_results(a, b)
    assert difference.to_dict()[ROW.bare]["a"] == difference.to_dict()["a"][ROW.name] == value
    assert any(line.startswith(label) and spelled(value, "J") in line for line in str(difference).splitlines())
    assert f"{label}, B of A" in render_page(difference, [])
    point = Point("saxpy", "tiny", parameters={"size": 256})
    found = evaluate(point, bound=False)
    assert found["error"] is None and found[ROW.name] == pytest.approx(found["energy_j"] / found["warp_instructions"])
    assert empty_row(point, ())[ROW.name] is None
    (told,) = (each for each in answers._shown(a)["metrics"] if each[0] == label)
    assert told[1:] == [value, spelled(value, "J", "µ"), LESS]
    assert f"| `{ROW.name}` | J | {ROW.meaning} | less | {label} |" in quantities.reference()


def test_a_row_of_the_metrics_is_shown_where_metrics_are(monkeypatch):
    made = Quantity("sm__blocks.sum", "block", lambda c: int(c.record.sm_blocks.sum()), "blocks run", "Blocks Run")
    (row,) = metric_rows("launch", made)
    for table in (METRICS, quantities.QUANTITIES):
        monkeypatch.setitem(table, row.name, row)
    a, b = Result(make_record()), Result(make_record(grid=528))
    assert a.metrics[row.name] == a.to_dict()["metrics"][row.name] == 264
    (section,) = (each for each in make_document(a)["sections"] if each["id"] == "launch")
    assert [each["text"] for each in section["rows"] if each["metric"] == row.name] == ["264 blocks"]
    (change,) = (each for each in gpusim.compare_results(a, b).metrics if each.name == row.name)
    assert (change.a, change.b, change.section) == (264, 528, "Launch Statistics")
    assert f"`{row.name}`" in quantities.reference()


def test_every_row_says_what_it_is():
    for name, row in quantities.QUANTITIES.items():
        assert (row.name == name and row.meaning != "") or PAGE in row.where, name
        assert row.section in {"", *SECTIONS} and row.where <= EVERYWHERE | {"facts"}, name
        assert row.better in ("", "less", "more") and not row.meaning.endswith("."), name


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (4000, "cycle", "4,000 cycles"), (1, "branch", "1 branch"), (2, "branch", "2 branches"), (3.14159, "", "3.14"),
        (999, "ns", "999 ns"), (2020.2, "ns", "2.02 us"), (4.5e12, "byte/s", "4.5 TB/s"), (512, "byte/block", "512 B"),
        (2e9, "FLOP", "2.0 GFLOP"), (12.345, "%", "12.3 %"), (7.5, "warp/cycle", "7.50"), (1980, "MHz", "1,980 MHz"),
        (2e-3, "J", "2.00 mJ"), ("64 of 132", "", "64 of 132"),
    ],
)  # fmt: skip
def test_how_values_are_spelled(value, unit, text):
    assert spelled(value, unit) == text
