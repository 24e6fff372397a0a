"""The HTML report without a browser: one self-contained file whose numbers are the result's."""

import base64
import html.parser
import json
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from gpusim.engine.state import layout as L
from gpusim.report_html import FIELDS, MODULES, make_document, render, steps
from gpusim.result import Result
from gpusim.tracing.recording import SPACES, TraceOptions
from gpusim.units import joule_text
from tests.gpusim.hand_trace import ADDRESS, HIGH, LOADED, LOW, REGISTERS, STALLS, STEPS, make_trace
from tests.gpusim.records import CODE, FILE, LDG, LDS, SOURCE, STG, make_program, make_record, stall

LINE = {
    LDG: {L.COUNT_REQUESTS: 2112, L.COUNT_SECTORS: 8448, L.COUNT_SECTORS_IDEAL: 8448, stall(L.STALL_LONG): 900_000},
    STG: {L.COUNT_REQUESTS: 2112, L.COUNT_SECTORS: 67584, L.COUNT_SECTORS_IDEAL: 8448},
    LDS: {L.COUNT_SHARED_REQUESTS: 2112, L.COUNT_SHARED_WAVEFRONTS: 4224, L.COUNT_SHARED_IDEAL: 2112}
    | {stall(L.STALL_SHORT): 100_000},
}


def traced(**changes):
    record = make_record(line=LINE, **changes)
    return Result(replace(record, trace=make_trace(record)))


class Page(html.parser.HTMLParser):
    """The elements of a page: tags with their attributes, and the text of each script and style."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.raw, self._inside = [], {}, None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag in ("script", "style"):
            self._inside = dict(attributes).get("type", tag)
            self.raw[self._inside] = ""

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside:
            self.raw[self._inside] += data


def data_of(result, title=None):
    return json.loads(Page(render(result, title)).raw["application/json"])


def test_the_page_needs_nothing_but_itself():
    page = Page(render(traced()))
    for tag, attributes in page.tags:
        assert tag not in ("link", "img", "iframe", "object", "embed"), (tag, attributes)
        assert not {"src", "srcset", "data", "action"} & set(attributes), (tag, attributes)
        assert attributes.get("href", "#").startswith("#")
    imports = json.loads(page.raw["importmap"])["imports"]
    assert set(imports) == {f"gpusim/{name}" for name in MODULES}
    assert all(url.startswith("data:text/javascript;base64,") for url in imports.values())
    # Names of XML namespaces look like addresses and are none.
    addresses = set(re.findall(r"https?://[^\s\"'`]+", page.raw["style"] + page.raw["module"]))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"@import|url\(", page.raw["style"])


def test_every_module_is_imported_by_name_and_exists():
    text = render(traced())
    page = Page(text)
    assert set(re.findall(r'from "gpusim/(\w+)"', page.raw["module"])) <= set(MODULES)
    assert "{{" not in text.replace(page.raw["application/json"], "").split("<body>")[0]


def test_the_documents_metrics_are_the_results():
    result = traced()
    data = data_of(result)
    assert data["metrics"] == dict(result.metrics)
    assert data["cycles"] == result.cycles
    shown = [row for section in data["sections"] for row in [*section["rows"], *section["bars"]] if row.get("metric")]
    assert len(shown) > 25
    assert all(row["value"] == result.metrics[row["metric"]] for row in shown)
    assert data["advice"] == json.loads(json.dumps(result.to_dict()["advice"]))


def test_sections_have_nsight_computes_names_and_order():
    assert [section["title"] for section in data_of(traced())["sections"]] == [
        "GPU Speed Of Light Throughput", "Launch Statistics", "Occupancy", "Memory Workload Analysis",
        "Compute Workload Analysis", "Scheduler Statistics", "Warp State Statistics", "Energy", "Source Counters",
    ]  # fmt: skip


def test_energy_by_unit_is_the_results_the_largest_first():
    result = traced()
    data = data_of(result)
    (section,) = (each for each in data["sections"] if each["id"] == "energy")
    assert (data["energy_j"], data["power_w"]) == (result.energy_j, result.power_w)
    shares = [bar["value"] for bar in section["bars"]]
    assert shares == sorted(shares, reverse=True) and sum(shares) == pytest.approx(100)
    parts = {name.lower(): joules for name, joules in result.energy.parts.items()}
    for bar in section["bars"]:
        assert bar["text"].startswith(f"{joule_text(parts[bar['label'].lower()], 'µ')}, ")
    assert "Sustained SM Frequency" not in [row["label"] for row in section["rows"]]
    hot = make_document(traced(overrides=["energy.limit_w=50"]))
    (section,) = (each for each in hot["sections"] if each["id"] == "energy")
    assert section["rows"][-1]["label"] == "Sustained SM Frequency"
    assert 0 < section["rows"][-1]["value"] < result.record.config.gpu.clock_mhz


def test_instructions_hold_the_costs_of_each():
    result = traced()
    data = data_of(result)
    assert len(data["code"]) == len(CODE)
    for row, costs in zip(data["code"], result.instructions, strict=True):
        assert row[:2] == [costs.address, costs.text]
        assert row[4] == [getattr(costs, name) for name in FIELDS]
        waits = dict(zip(row[5][::2], row[5][1::2], strict=True))
        assert {data["stalls"][k][0]: n for k, n in waits.items()} == costs.stalls
    (source,) = data["source"]
    assert FILE.endswith(source["name"])
    assert source["lines"] == SOURCE[source["first"] - 1 :][: len(source["lines"])]
    assert data["code"][-1][2:4] == [-1, 0]


def test_text_cannot_break_out_of_the_page():
    nasty = "</script><script>alert(1)</script><!--"
    program = make_program(name=nasty, source={FILE: [nasty] * 9})
    text = render(traced(program=program), title=nasty)
    assert text.count("</script>") == 3
    assert "alert(1)</script>" not in text
    assert data_of(traced(program=program), nasty)["title"] == nasty


def test_steps_are_the_traces_issues():
    data = data_of(traced())["trace"]
    assert [warp["label"] for warp in data["warps"]] == ["block 0,0,0 warp 0", "block 0,0,0 warp 1"]
    for warp in data["warps"]:
        rows = [row for row in STEPS if row[0] == warp["warp"]]
        assert warp["total"] == len(rows)
        assert warp["cycle"] == [row[1] for row in rows]
        assert warp["pc"] == [row[2] for row in rows]
        assert [data["masks"][k] for k in warp["active"]] == [row[3] for row in rows]
        assert [data["masks"][k] for k in warp["executed"]] == [row[4] for row in rows]
        for row, access in zip(rows, warp["access"], strict=True):
            if not row[5]:
                assert access == 0
                continue
            assert SPACES[access[0]] == row[5]
            assert access[5:] == list(row[7:])
    store = data["warps"][0]["access"][6]
    assert store[1:4] == [1, 4, ADDRESS]
    assert data["patterns"][store[4]] == [128 * lane if LOW >> lane & 1 else -1 for lane in range(32)]
    assert data["cut"] == ""


def test_stalls_stand_before_the_step_that_waited():
    warp = data_of(traced())["trace"]["warps"][0]
    assert warp["stalls"][:3] == [[], [L.STALL_LONG, 599], [L.STALL_WAIT, 2, L.STALL_NOT_SELECTED, 1]]
    assert warp["stalls"][5] == [L.STALL_SHORT, 79]


def decoded(row):
    """A row of the document's lanes as 32 words, or seven masks."""
    if isinstance(row, str):
        return np.frombuffer(base64.b64decode(row), "<u4").tolist()
    if isinstance(row, int):
        return [row] * 32
    return row if len(row) == 7 else [(row[0] + lane * row[1]) % (1 << 32) for lane in range(32)]


def test_values_stand_at_the_step_that_is_over():
    """Each is found changed by the issue of the next step."""
    data = data_of(traced())["trace"]
    warp, other = data["warps"]
    assert data["registers"] == list(REGISTERS) and data["lanes"][0] == 0
    found = [
        (step, REGISTERS[register], decoded(data["lanes"][number]))
        for step, register, number in zip(*(warp["values"][k::3] for k in range(3)), strict=True)
    ]
    assert [each[:2] for each in found] == [(0, "R2"), (1, "R4"), (3, "UR4"), (4, "R6"), (4, "P"), (6, "R4")]
    assert found[0][2] == LOADED.tolist() and found[2][2] == [0x210] * 32
    assert found[3][2] == [1000 + 3 * lane for lane in range(32)] and found[4][2] == [HIGH, 0, 0, 0, 0, 0, 0]
    assert warp["known"] == 9 and warp["parted"] == [5] and other["values"] == []


@pytest.mark.parametrize(("room", "known"), [(0, 0), (240, 1), (450, 6)])
def test_values_that_find_no_room_are_left_out_from_a_step_on(monkeypatch, room, known):
    monkeypatch.setattr(steps, "VALUES", room)
    data = data_of(traced())["trace"]
    assert data["warps"][0]["known"] == known
    assert all(step < known for step in data["warps"][0]["values"][::3])
    assert "values of registers not of all steps" in data["cut"]


def test_an_unfinished_record_of_values_is_said_to_be_one():
    record = make_record()
    data = steps.make_steps(replace(make_trace(record), values_until=740))
    assert data["warps"][0]["known"] == 3 and data["warps"][0]["values"][::3] == [0, 1]


def test_warps_whose_registers_were_not_recorded_have_no_values():
    record = make_record()
    data = steps.make_steps(replace(make_trace(record), options=TraceOptions(blocks=(1,))))
    assert [(warp["known"], warp["values"]) for warp in data["warps"]] == [(0, [])] * 2
    assert "values of registers not of all steps" in data["cut"]


def test_spans_of_warps_are_issues_and_stalls():
    data = data_of(traced())["warps"]
    assert (data["sm"], data["begin"], data["cut"]) == (0, 90, "")
    assert [(row["scheduler"], row["slot"]) for row in data["rows"]] == [(0, 0), (1, 0)]
    for row in data["rows"]:
        (warp,) = row["warps"]
        events = [(cycle, 1, 0) for number, cycle, *_ in STEPS if number == warp["warp"]]
        events += [(start, end - start, reason) for number, start, end, reason, _ in STALLS if number == warp["warp"]]
        assert warp["start"] == min(events)[0]
        assert [(number // 32, number % 32) for number in warp["spans"]] == [each[1:] for each in sorted(events)]
        assert warp["pcs"] == [pc for number, _, pc, *_ in STEPS if number == warp["warp"]]


def test_more_spans_than_there_is_room_for_end_at_a_cycle(monkeypatch):
    monkeypatch.setattr(steps, "SPANS", 6)
    data = steps.make_warps(make_trace(make_record()))
    assert data["end"] == 701 and sum(len(row["warps"][0]["spans"]) for row in data["rows"]) == 5
    assert "up to 701 of 851" in data["cut"]
    assert steps.make_warps(None) is None


def test_occupancy_is_what_the_rules_say():
    result = traced()
    data = data_of(result)["filling"]
    assert data["blocks"] == result.occupancy.blocks_per_sm and data["warps"] == result.occupancy.warps_per_sm
    assert {row[0] for row in data["resources"] if row[-1]} == {"Warps"}
    for title, _, here, most, changes in data["curves"]:
        pairs = list(zip(changes[::2], changes[1::2], strict=True))
        assert [warps for value, warps in pairs if value <= here][-1] == data["warps"], title
        assert pairs[-1][0] <= most and all(a[1] != b[1] for a, b in pairwise(pairs))


def test_a_long_trace_is_cut_and_the_page_says_so(monkeypatch):
    monkeypatch.setattr(steps, "STEPS", 4)
    monkeypatch.setattr(steps, "WARPS", 1)
    monkeypatch.setattr(steps, "PATTERNS", 1)
    record = make_record()
    cut = steps.make_steps(make_trace(record, complete=False))
    assert [len(warp["pc"]) for warp in cut["warps"]] == [4]
    assert cut["warps"][0]["total"] == 9
    assert len(cut["patterns"]) == 1
    for part in ("1 of 2 traced warps", "first 4 steps", "first 1 different", "limit was reached at cycle 900"):
        assert part in cut["cut"]


def test_without_a_trace():
    assert data_of(Result(make_record()))["trace"] is None


def test_report_html_writes_the_file(tmp_path):
    path = traced().report_html(tmp_path / "out.html", title="a & b")
    text = path.read_text("utf-8")
    assert "<title>a &amp; b" in text
    assert text == render(traced(), "a & b")


def test_notebooks_show_the_report():
    result = Result(make_record(line=LINE, program=make_program(name="a<b")))
    assert result._repr_html_() == f"<pre>{html.escape(str(result))}</pre>" and "a&lt;b on" in result._repr_html_()
