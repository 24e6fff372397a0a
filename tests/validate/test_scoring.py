"""Scores of counters and stall reasons, what was accepted, pictures and the documents."""

from __future__ import annotations

import json
import re
import statistics
from dataclasses import replace

import pytest

from tests.validate import held
from validate import __main__ as command
from validate import baseline, journal, score
from validate.baseline import Spread
from validate.points import ProgramPoint, select
from validate.replay import Comparison, Failure, Pair
from validate.scoring import accepted, counters, documents, stalls, text

TRAIN, JUDGE = "reduction/shuffle", "scan/warp"
SECTORS, READ, WRITTEN = "lts__t_sectors_srcunit_tex.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"
L2 = next(group for group in counters.GROUPS if group.names == (SECTORS,))
DRAM = next(group for group in counters.GROUPS if READ in group.names)


def row(name=TRAIN, size=1, cycles=(1000, 1100), reasons=None, **modelled):
    spread = Spread(median=cycles[0], min=cycles[0], max=cycles[0], count=3)
    pairs = {key: Pair(*pair) for key, pair in modelled.items()}
    pairs |= {f"{stalls.PREFIX}{key}{stalls.SUFFIX}": Pair(*pair) for key, pair in (reasons or {}).items()}
    exact = {"x": Pair(1, 1)}
    return Comparison(ProgramPoint(name, size), 5, Pair(*cycles), spread, exact, pairs, None, 0.1, "arithmetic")


def test_percentiles_are_values():
    assert score.p90([5, 1, 3, 2, 4, 6, 7, 8, 9, 10]) == 9 and score.p90([7]) == 7


def test_correlation_is_that_of_the_logarithms():
    assert score.log_correlation([1, 10, 100], [2, 20, 200]) == pytest.approx(1)
    assert score.log_correlation([1, 10, 100], [100, 10, 1]) == pytest.approx(-1)
    assert score.log_correlation([1, 10, 10], [1, 10, 1]) == pytest.approx(0.5)
    assert score.log_correlation([5], [5]) is None and score.log_correlation([5, 5], [1, 2]) is None
    found = text.cycles_text([row(size=1, cycles=(100, 200)), row(size=2, cycles=(1000, 2000))])
    assert "1.0000" in found.splitlines()[1].split()


def test_errors_of_counters_have_a_floor():
    assert counters.error(Pair(2048, 1024), "sector") == -0.5
    assert counters.error(Pair(512, 0), "sector") == -0.5  # of 1,024
    assert counters.error(Pair(0, 32 * 1024), "byte") == 1
    assert counters.error(Pair(0, 0), "sector") is None
    assert counters.error(Pair(200, 100), "cycle") == -0.5 and counters.error(Pair(0, 5), "cycle") is None


def test_a_group_is_the_sum_of_its_counters_and_has_targets():
    both = {READ: (64_000, 0), WRITTEN: (0, 32_000)}
    rows = [row(size=k, **both, **{SECTORS: (10_000, 10_000 + 100 * k)}) for k in range(10)]
    rows.append(row(size=10, **{SECTORS: (0, 0)}))
    found = counters.score(L2, rows)
    assert (found.points, found.median, found.p90, found.worst) == (10, 0.045, 0.08, 0.09)
    assert found.worst_point == f"{TRAIN}@9" and found.bias == pytest.approx(0.045) and not L2.met_by(found)
    assert L2.met_by(counters.score(L2, rows[:2]))
    dram = counters.score(DRAM, rows)
    assert (dram.points, dram.worst) == (10, 0.5)  # the last point has no such counters
    assert counters.score(L2, rows[-1:]) is None
    assert set(counters.every(rows)) == {SECTORS, READ, WRITTEN}


def test_stall_reasons_are_shares_of_their_sum():
    one = row(reasons={"wait": (2, 4), "selected": (1, 1), "barrier": (1, 5), "drain": (0, 0)})
    found = stalls.shares(one)
    assert (found["wait"].measured, found["wait"].predicted, found["barrier"].difference) == (50, 40, 25)
    assert stalls.worst_difference(one) == 25
    # The fourth reason does not count, however wrong.
    four = {"a": (30, 30), "b": (30, 30), "c": (30, 30), "d": (10, 60)}
    assert stalls.worst_difference(row(reasons=four)) == pytest.approx(10)
    assert stalls.worst_difference(row(reasons={"a": (0, 1)})) is None
    assert stalls.right([one, row(reasons={"a": (10, 14), "b": (90, 86)}), row()]) == (1, 2)
    reasons = {each.name: each for each in stalls.by_reason([one, row(size=2, reasons={"wait": (1, 1)})])}
    assert list(reasons) == ["wait", "selected", "barrier"] and reasons["wait"].measured == 75
    assert reasons["wait"].difference == 5 and reasons["barrier"].misses == 1


ROWS = [
    row(TRAIN, 1, (5000, 5500), {"wait": (3, 3), "selected": (1, 1)}, **{SECTORS: (5000, 5100), READ: (9e5, 9e5)}),
    row(TRAIN, 2, (50_000, 36_000), {"wait": (1, 3), "selected": (1, 1)}, **{SECTORS: (5000, 9100), READ: (9e5, 1e5)}),
    row(JUDGE, 1, (7000, 7700), {"wait": (3, 3), "selected": (1, 1)}, **{SECTORS: (5000, 5025), READ: (9e5, 9e5)}),
    Failure(ProgramPoint(JUDGE, 2), "<too> large & wrong"),
]


def test_the_report_has_all_scores_for_both_splits():
    found = text.report(ROWS, full=True)
    assert re.search(r"^all +3/4 +3 +16\.0% +10\.0% +28\.0%", found, re.MULTILINE)
    assert re.search(r"^judge +1/2 +1 +10\.0%", found, re.MULTILINE)
    assert re.search(r"^L2 sectors +train +2 +42\.0% +82\.0%", found, re.MULTILINE)
    assert re.search(r"^L2 sectors +judge +1 +0\.5% +0\.5% .*met", found, re.MULTILINE)
    assert "stall reasons, train: the 3 greatest within 5 percentage points at 1 of 2 points, 50.0%" in found
    assert re.search(rf"^{READ} +3", found, re.MULTILINE) and stalls.PREFIX not in found
    assert text.report(ROWS[-1:]).splitlines()[1].split() == ["all", "0/1", "-"]


def test_warm_launches_have_scores_of_their_own():
    rows = [replace(ROWS[0], warm=row(TRAIN, 1, (2000, 1900), {"wait": (1, 1)}, **{SECTORS: (5000, 5100)})), ROWS[2]]
    rows[0] = replace(rows[0], warm=replace(rows[0].warm, exact={}))
    assert score.row_of(json.loads(json.dumps(score.plain(rows[0])))) == rows[0]
    assert score.line(rows[0]).split()[-3:] == ["2000", "1900", "-5.0%"] and len(score.line(rows[1]).split()) == 7
    cold, warm = text.cycles_text(rows).split("\n\n")
    assert re.search(r"^all +2/2 +2 +10\.0%", cold, re.MULTILINE)
    # The other point was not launched again, which the table does not hide.
    assert re.search(r"^all +1/2 +- +5\.0% .* -5\.0% ", warm, re.MULTILINE) and warm.startswith("warm ")
    assert re.search(r"^judge +0/1 +-$", warm, re.MULTILINE)
    assert "Of warm launches:" in text.report(rows, full=True) and "warm" not in text.report(ROWS)


def entries(rows=ROWS[:3]):
    return {each.point: accepted.Entry.of(each) for each in rows}


def test_what_was_accepted_can_be_read_again(tmp_path):
    path = tmp_path / "accepted.txt"
    path.write_text(accepted.text_of(entries().values(), "it is more honest"))
    assert "# worse than before, because it is more honest" in path.read_text()
    for point, entry in accepted.load(path).items():
        then = entries()[point]
        assert (entry.point, entry.measured, entry.predicted) == (then.point, then.measured, then.predicted)
        assert entry.counters == pytest.approx(then.counters, abs=1e-4) and entry.stalls == pytest.approx(then.stalls)
    for broken in ("a@1 100 110", "a 1 2 3", "a@1 - 5 1 - - - - -"):
        path.write_text(broken)
        with pytest.raises(accepted.AcceptedError):
            accepted.load(path)


def test_a_worse_model_is_told_from_an_accepted_one():
    then = entries()
    near, far = list(then.values())[:2]
    assert accepted.worse_score(list(then.values()), then) == []

    def changed(cycles, **more):
        return accepted.Entry.of(row(TRAIN, 1, cycles, {"wait": (3, 3), "selected": (1, 1)}, **more))

    assert held.worse_point(changed((5000, 5590)), near) is None  # 1.8 points worse
    assert "+12.2%, accepted +10.0%" in held.worse_point(changed((5000, 5610)), near)
    assert held.worse_point(changed((5000, 4600)), near) is None  # better, on the other side
    (worse,) = accepted.worse_score([changed((5000, 5520), **{SECTORS: (5000, 5100)})], then)
    assert worse == "cycles: 10.40% over 1 points, accepted 10.00%"
    counters_worse = accepted.worse_score([changed((5000, 5500), **{SECTORS: (5000, 5200)})], then)
    assert counters_worse == ["L2 sectors: 4.00% over 1 points, accepted 2.00%"]
    stalled = accepted.Entry.of(row(TRAIN, 1, (5000, 5500), {"wait": (3, 6), "selected": (1, 1)}))
    assert any("stall reasons" in each for each in accepted.worse_score([stalled], then))
    assert accepted.worse_score([accepted.Entry.of(row("saxpy"))], then) == ["no point has been accepted"]
    # A gap that closes is noticed, one that only shrinks is not.
    assert held.is_gap(far) and not held.is_gap(near)
    shrunk, closed = (accepted.Entry.of(row(TRAIN, 2, (50_000, cycles))) for cycles in (39_000, 41_000))
    assert held.closed_gap(shrunk, far) is None and held.closed_gap(near, near) is None
    assert "was a known gap (-28.0%) and is none any more (-18.0%)" in held.closed_gap(closed, far)


def test_accepting_a_worse_score_needs_a_reason(tmp_path, monkeypatch, capsys):
    path, file = tmp_path / "journal", tmp_path / "accepted_h200.txt"
    monkeypatch.setattr(accepted, "FOLDER", tmp_path)
    measured = {point: baseline.measured(point).cycles.median for point in select()}

    def accept(predicted, *more):
        rows = [row(point.variant, point.size, (cycles, cycles * predicted)) for point, cycles in measured.items()]
        path.unlink(missing_ok=True)
        with journal.open_journal(path, "h200", "h200", ()) as book:
            for each in rows:
                book.append(score.plain(each))
        return command.main(["score", str(path), "--accept", *more])

    assert accept(1.1) == 0
    first = file.read_text()
    assert accept(1.2) == 2 and file.read_text() == first
    assert f"cycles: 20.00% over {len(select())} points, accepted 10.00%" in capsys.readouterr().err
    assert accept(1.2, "--because", "memory is in time now") == 0
    assert "because memory is in time now" in file.read_text() != first
    assert accept(1.1, "--gpu", "h100") == 2 and not accepted.path_of("h100").exists()
    assert "was compared with another measurement than h100's" in capsys.readouterr().err


def test_documents_are_renewed_between_their_marks(tmp_path):
    path = tmp_path / "accuracy.md"
    path.write_text("# A\n<!-- scores -->\nold\n<!-- /scores -->\nb\n<!-- points -->\n<!-- /points -->\nc\n")
    assert documents.accuracy(ROWS, docs=tmp_path) == path
    content = path.read_text()
    assert "old" not in content and content.startswith("# A\n<!-- scores -->\n```\ncycles")
    assert content.endswith(f"{score.line(ROWS[3])}\n```\n<!-- /points -->\nc\n")
    documents.accuracy(ROWS, docs=tmp_path)
    assert path.read_text() == content
    with pytest.raises(documents.DocumentError, match="marked scores h100"):
        documents.accuracy(ROWS, "h100", tmp_path)
    with pytest.raises(documents.DocumentError, match="marked absent"):
        documents.put("accuracy.md", "absent", "x", tmp_path)
    with pytest.raises(documents.DocumentError, match="cannot be read"):
        documents.put("absent.md", "x", "x", tmp_path)


def test_the_documents_show_what_was_accepted():
    """One command writes both: a page of another comparison than the accepted one is out of date."""
    content = (documents.DOCS / "accuracy.md").read_text("utf-8")
    shown = {line.split()[0]: line.split()[3:6:2] for line in content.splitlines() if re.match(r"\S+@\d+ +\d", line)}
    now = {gpu: [*accepted.load(accepted.path_of(gpu)).values()] for gpu in ("h200", "h100")}
    for mark, gpu in (("scores", "h200"), ("scores h100", "h100")):
        table = content.partition(f"<!-- {mark} -->")[2].partition("<!-- /")[0]
        mean = statistics.fmean(abs(each.error) for each in now[gpu])
        assert re.search(r"^all +274/274 +\d+ +(\S+)", table, re.MULTILINE)[1] == f"{mean:.1%}"
    then = accepted.load()
    assert shown == {str(point): [f"{e.measured:.0f}", f"{e.predicted:.0f}"] for point, e in then.items()}
