"""How sure predictions are: intervals cover what judges the model, widen with distance, and are shown."""

import json
import math
from types import SimpleNamespace

import pytest

import gpusim
from gpusim.config import load_config
from gpusim.errors import ModeError
from gpusim.explore.journal import JournalError
from gpusim.report_html import make_document
from gpusim.results import interval
from gpusim.results.interval import distance, judged, span, span_of
from programs import images
from validate import intervals
from validate.collection.compare import split
from validate.journal import open_journal
from validate.points import ProgramPoint
from validate.replay import Failure
from validate.scoring import accepted


def test_nine_of_ten_judging_points_lie_in_the_interval_of_the_other_programs():
    inside = intervals.covered(judged())
    assert len(inside) >= 200
    assert 0.85 <= sum(inside) / len(inside) <= 0.95
    for gpu in interval.MEASURED:
        mine = [good for point, good in zip(judged(), inside, strict=True) if point.gpu == gpu]
        assert 0.83 <= sum(mine) / len(mine) <= 0.98, gpu
    for kind in {each.kind for each in judged()}:
        mine = [good for point, good in zip(judged(), inside, strict=True) if point.kind == kind]
        assert sum(mine) / len(mine) >= 0.75, kind


def test_nine_of_ten_points_of_a_machine_from_its_data_sheet_lie_in_the_widened_interval():
    points = judged(intervals.FILE)
    excesses = [intervals.excess(each, judged()) for each in points]
    assert len(points) >= 100 and {each.gpu for each in points} == {*intervals.DESCRIBED}
    assert 0.85 <= sum(each <= interval.WIDENING for each in excesses) / len(excesses) <= 0.95
    assert sum(each == 0 for each in excesses) / len(excesses) < 0.85, "covered without widening as well"
    assert intervals.least_widening(excesses) == pytest.approx(interval.WIDENING, rel=0.1)
    measured = {(each.gpu, each.point): each.measured for each in judged()}
    assert all(measured[each.gpu, each.point] == each.measured for each in points)


def test_only_points_that_judge_are_stored_as_they_were_accepted():
    predicted = {gpu: accepted.load(accepted.path_of(gpu)) for gpu in interval.MEASURED}
    for each in judged():
        if ":" in each.point:
            assert split(each.program) == "judge"
        else:
            entry = predicted[each.gpu][ProgramPoint.parse(each.point)]
            assert entry.point.split == "judge"
            assert (each.measured, each.predicted) == (entry.measured, entry.predicted), each.point
    assert intervals.text_of(judged()) == interval.FILE.read_text("utf-8")


def test_a_data_sheet_says_what_is_specified_and_nothing_else():
    overrides = intervals.by_data_sheet("v100")
    found, whole = load_config("h200", overrides), load_config("v100")
    assert (found.sm.count, found.dram.bandwidth_gb_s) == (80, 900)
    assert found.dram.latency_cycles == load_config("h200").dram.latency_cycles != whole.dram.latency_cycles
    assert 0 < distance(found) < distance(whole)


def test_a_span_leaves_a_twentieth_out_on_either_side():
    assert span(range(99)) == (4, 94)
    assert span(range(19)) == (0, 18)
    assert span(reversed(range(39))) == (1, 37)
    assert span(range(18)) is None, "the greatest of 18 is exceeded more often than once in twenty"


def test_a_kind_with_few_points_has_the_span_of_all_and_its_own():
    def of(kind, *errors):
        return [interval.Judged("h200", kind, 1000 * math.exp(each), 1000, f"{kind}@{each}") for each in errors]

    many, few = of("many", *(each / 100 for each in range(39))), of("few", 0.2, 0.5, -0.3)
    assert span_of("many", many + few) == (pytest.approx(0.01), pytest.approx(0.37), 39)
    low, high, count = span_of("few", many + few)
    assert (low, high) == pytest.approx((-0.3, 0.5)) and count == 3
    assert span_of("none", many + few)[2] == 0
    with pytest.raises(ValueError, match="too few"):
        span_of("few", few)


def test_a_machine_is_further_the_more_it_differs():
    assert distance(load_config("h200")) == distance(load_config("h100")) == 0
    assert distance(load_config("h200", ["gpu.name=Another", "dram.capacity_bytes=1000000000"])) == 0
    twice, four_times = (distance(load_config("h200", [f"dram.bandwidth_gb_s={n * 4800}"])) for n in (2, 4))
    assert (twice, four_times) == (1, 2)
    both = distance(load_config("h200", ["dram.bandwidth_gb_s=9600", "dram.latency_cycles=1280", "sm.count=66"]))
    assert both == pytest.approx(math.sqrt(2)), "a section counts once"
    assert distance(load_config("a100")) > 0 and distance(load_config("tiny")) > distance(load_config("a100"))


@pytest.fixture(scope="module")
def launch():
    it = ProgramPoint("vector_add", 4096).make()
    program = images.image("vector_add")
    return lambda gpu, **options: gpusim.simulate(program, it.grid, it.block, it.args, gpu, **options)


def test_the_interval_is_shown(launch):
    result = launch("h200")
    found = result.interval
    assert found.low < result.cycles < found.high and found.distance == 0 and found.points >= 19
    assert f"{found.low:,} to {found.high:,}" in " ".join(str(result).split())
    assert json.loads(result.to_json())["interval"]["high"] == found.high
    assert make_document(result, sections=["roofline"])["sure"] == str(found)


def test_each_step_away_from_measured_machines_widens_it():
    config = load_config("h200")
    counts = SimpleNamespace(record=SimpleNamespace(config=config, cycles=10_000, sampling=None))
    found = []
    for rate in (4800, 4000, 3500, 3000, 1000, 100):
        counts.record.config = load_config("h200", [f"dram.bandwidth_gb_s={rate}"])
        found.append(interval.interval_of(counts, "memory latency"))
    assert "steps from one that was" in str(found[1]) and "was not measured" not in str(found[0])
    lows, highs = [each.low for each in found], [each.high for each in found]
    assert lows == sorted(set(lows), reverse=True) and highs == sorted(set(highs))
    counts.record.config, counts.record.sampling = config, SimpleNamespace(error=0.2)
    sampled = interval.interval_of(counts, "memory latency")
    assert sampled.low < found[0].low and sampled.high > found[0].high


def test_a_point_that_failed_or_another_machine_is_no_judge(tmp_path):
    failed = Failure(ProgramPoint("scan/padded", 524288), "deadlock")
    assert failed.point.split == "judge"
    with pytest.raises(JournalError, match="deadlock"):
        intervals.judges("h200", [failed])
    journal = tmp_path / "journal"
    open_journal(journal, "a100", "h200", ()).close()
    options = SimpleNamespace(journals=[journal], described=[], docs=False)
    before = interval.FILE.read_bytes()
    with pytest.raises(JournalError, match="of the configuration a100"):
        intervals.run(options)
    assert interval.FILE.read_bytes() == before


def test_a_functional_run_has_none(launch):
    with pytest.raises(ModeError):
        _ = launch("h200", mode="functional").interval
