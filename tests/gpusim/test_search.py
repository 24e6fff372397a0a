"""Searches for machines: against times that are known formulas, an exhaustive search, and the simulator."""

import itertools
import json
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from gpusim import plot
from gpusim.cli import main
from gpusim.config import load_config
from gpusim.errors import ConfigError
from gpusim.explore import Space, cost, search
from gpusim.explore.goals import Goal, Limit
from gpusim.explore.journal import read_journal
from gpusim.explore.search import SearchError
from gpusim.explore.space import read_sweep
from gpusim.explore.sweep import PointEvaluator

SMS, CHANNELS = [1, 2, 3, 4, 6, 8], [4, 8, 16]
SPACE = Space(["vector_add", "gemv"], "tiny", {"sm.count": SMS, "dram.channels": CHANNELS})
RULES = {"dram.bandwidth_gb_s": "dram.channels", "l2.slices": "dram.channels", "l2.bytes": "l2.slices"}


def formula(program, config):
    """Microseconds; vector_add is bound by memory, gemv by SMs."""
    if program == "vector_add":
        return 10 / config.sm.count + 1000 / config.dram.bandwidth_gb_s
    return 50 / config.sm.count


@cache
def machine(gpu, config):
    return load_config(gpu, dict(config))


class Formula(PointEvaluator):
    """Rows whose time is a formula of the machine; keeps what was asked for."""

    def __init__(self, time=formula, bound=None):
        super().__init__()
        self.time, self.bound, self.asked = time, bound, []

    def __call__(self, points):
        self.asked += points
        return [self._row(point, self.time) for point in points]

    def bounds(self, points):
        return [self._row(point, self.bound) for point in points] if self.bound else [{} for _ in points]

    def _row(self, point, time):
        config = machine(point.gpu, point.config)
        row = {"key": point.key, "program": point.program, "error": None}
        try:
            time_us = time(point.program, config)
        except ZeroDivisionError:
            return row | {"error": "it broke"}
        row |= {"energy_j": 2e-4 * time_us, "launch_w": 200.0, "energy_delay": 2e-10 * time_us**2}
        return row | {"time_us": time_us, "cycles": time_us * config.gpu.clock_mhz,
                      "bound_cycles": time_us * config.gpu.clock_mhz}  # fmt: skip


@cache
def everything():
    """Every machine of the space: (choice, mean time, area, power)."""
    found = []
    for sms, channels in itertools.product(SMS, CHANNELS):
        changes = {"sm.count": sms, "dram.channels": channels, "l2.slices": channels,
                   "dram.bandwidth_gb_s": 25.0 * channels, "l2.bytes": channels << 18}  # fmt: skip
        config = load_config("tiny", changes)
        time = (formula("vector_add", config) * formula("gemv", config)) ** 0.5
        price = cost(config)
        found.append(((sms, channels), time, price.area_mm2, price.power_w))
    return found


def choice(candidate):
    return candidate.machine["sm.count"], candidate.machine["dram.channels"]


@pytest.mark.parametrize("sampler", ("tpe", "nsga2"))
def test_the_best_under_a_budget_is_that_of_an_exhaustive_search(sampler):
    budget = 75.0
    allowed = [each for each in everything() if each[2] <= budget]
    assert 3 < len(allowed) < len(everything())
    best = min(allowed, key=lambda each: each[1])
    run = Formula()
    found = search(SPACE, ["time_us"], [f"area_mm2 <= {budget}"], trials=60, sampler=sampler, derived=RULES, rows=run)
    assert choice(found.best) == best[0]
    assert found.best.values["time_us"] == pytest.approx(best[1])
    assert found.best.values["area_mm2"] == pytest.approx(best[2])
    over = [each for each in found.candidates if not each.feasible]
    assert all(each.pruned == "area_mm2 <= 75" and "time_us" not in each.values for each in over)
    tried = {dict(point.config)["sm.count"] for point in run.asked}
    assert max(tried) < 8, "a machine over its budget was run"


def test_limits_can_be_of_results_and_larger_can_be_better():
    """The smallest machine that is fast enough: without the limit the sampler would go to one SM."""
    space = Space("gemv", "tiny", {"sm.count": list(range(1, 65))})
    found = search(space, ["area_mm2"], ["time_us <= 2"], trials=60, rows=Formula())
    assert found.best.machine["sm.count"] in (25, 26)
    assert sum(each.machine["sm.count"] < 20 for each in found.candidates[-20:]) <= 8
    found = search(SPACE, ["max power_w"], ["time_us >= 9", "area_mm2 <= h200"], trials=60, sampler="random",
                   derived=RULES, rows=Formula())  # fmt: skip
    allowed = [each for each in everything() if each[1] >= 9]
    assert found.best.values["power_w"] == pytest.approx(max(each[3] for each in allowed))
    assert any(each.pruned is None and not each.feasible for each in found.candidates)


def test_the_front_is_what_nothing_beats():
    found = search(SPACE, ["time_us", "area_mm2"], trials=50, sampler="nsga2", derived=RULES, rows=Formula(),
                   population=20)  # fmt: skip
    tried = {choice(each) for each in found.candidates}
    machines = [each for each in everything() if each[0] in tried]
    assert len(machines) > 12
    expected = {
        each[0] for each in machines
        if not any(other[1] <= each[1] and other[2] <= each[2] and other[1:3] != each[1:3] for other in machines)
    }  # fmt: skip
    assert {choice(each) for each in found.front()} == expected
    times = [each.values["time_us"] for each in found.front()]
    assert times == sorted(times)
    table = found.frame(front=True)
    assert list(table["time_us"]) == times
    assert table["front"].all()
    assert len(found.frame()) == len(everything()), "a machine that was tried is not tried again, and all have been"


@pytest.mark.parametrize(("sampler", "batch"), [("tpe", 1), ("nsga2", 5), ("random", 4)])
def test_no_machine_is_tried_twice_and_a_seed_says_which(sampler, batch):
    def once(trials, seed=0):
        options = {"trials": trials, "sampler": sampler, "seed": seed, "batch": batch, "population": 4}
        return search(SPACE, derived=RULES, rows=Formula(), **options).candidates

    first = once(14)
    assert len({choice(each) for each in first}) == 14
    assert first == once(14) != once(14, seed=1)
    whole = once(40)
    assert len(whole) == len({choice(each) for each in whole}) == len(everything())


def test_keys_that_follow_an_axis_keep_their_proportion():
    found = search(SPACE, trials=12, sampler="random", derived=RULES, rows=Formula())
    for each in found.candidates:
        channels = each.machine["dram.channels"]
        assert each.machine["dram.bandwidth_gb_s"] == 25 * channels
        assert each.machine["l2.slices"] == channels
        assert each.machine["l2.bytes"] == channels << 18
        assert each.error is None
    # On an H200 112 slices would not divide the bytes of 96.
    space = Space("gemv", "h200", {"l2.slices": [48, 64, 112]})
    found = search(space, trials=6, sampler="random", derived={"l2.bytes": "l2.slices", "dram.channels": "l2.slices"},
                   rows=Formula())  # fmt: skip
    assert all(each.error is None for each in found.candidates)
    assert all(each.machine["l2.bytes"] == 655360 * each.machine["l2.slices"] for each in found.candidates)


def test_what_is_no_machine_is_an_error_and_not_run():
    run = Formula()
    space = Space("gemv", "tiny", {"sm.registers": [65000, 65536], "sm.count": [1, 2, 4]})
    found = search(space, trials=15, rows=run)
    wrong = [each for each in found.candidates if each.machine["sm.registers"] == 65000]
    assert wrong
    assert all("registers must be a multiple of" in each.error and not each.values for each in wrong)
    assert all(dict(point.config)["sm.registers"] == 65536 for point in run.asked)
    assert found.best.machine["sm.count"] == 4


def test_a_program_that_fails_is_an_error_of_its_machine():
    def fragile(program, config):
        return formula(program, config) / (config.sm.count - 8 if program == "gemv" else 1)

    found = search(SPACE, trials=40, sampler="random", derived=RULES, rows=Formula(fragile))
    assert {each.error for each in found.candidates if each.machine["sm.count"] == 8} == {"gemv: it broke"}
    assert found.best.machine["sm.count"] < 8
    nothing = search(SPACE, trials=3, rows=Formula(lambda program, config: 1 / 0))
    with pytest.raises(SearchError, match="the first error: vector_add: it broke"):
        _ = nothing.best


def test_a_beaten_bound_saves_the_run_and_changes_nothing():
    goals = ["cycles", "area_mm2"]

    def bound(program, config):
        return 0.9 * formula(program, config)

    options = {"trials": 60, "sampler": "random", "derived": RULES}
    whole, screened = Formula(), Formula(bound=bound)
    slow = search(SPACE, goals, rows=whole, **options)
    fast = search(SPACE, goals, rows=screened, **options)
    pruned = [each for each in fast.candidates if each.pruned == "bound"]
    assert len(pruned) > 2
    assert len(screened.asked) == len(whole.asked) - 2 * len(pruned)
    assert [choice(each) for each in fast.front()] == [choice(each) for each in slow.front()]
    off = Formula(bound=bound)
    assert not any(each.pruned for each in search(SPACE, goals, rows=off, screen=False, **options).candidates)


@pytest.mark.parametrize("goal", ("energy_j", "smsp__inst_executed.sum"))
def test_goals_that_have_no_bound_are_not_screened(goal):
    run = Formula(bound=formula)
    metric = "smsp__inst_executed.sum"
    run._row = lambda point, time: Formula._row(run, point, time) | {metric: 5.0}
    found = search(SPACE, [goal, "time_us"], trials=20, sampler="random", rows=run)
    assert not any(each.pruned for each in found.candidates)
    assert run._asked["metrics"] == [each for each in (goal,) if each == metric]
    assert found.best.values[goal] == min(each.values[goal] for each in found.candidates if each.feasible)


def test_ranges_are_searched():
    bandwidth = {"low": 50.0, "high": 400.0, "step": 2, "log": True}
    space = Space("gemv", "tiny", {"sm.count": {"low": 1, "high": 64, "step": 1}, "dram.bandwidth_gb_s": bandwidth})
    found = search(space, trials=25, rows=Formula(lambda _, config: abs(config.sm.count - 23) + 1))
    assert all(isinstance(each.machine["sm.count"], int) for each in found.candidates)
    assert all(50 <= each.machine["dram.bandwidth_gb_s"] <= 400 for each in found.candidates)
    assert abs(found.best.machine["sm.count"] - 23) <= 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"goals": ["time"]}, "no column 'time'"),
        ({"goals": ["least time_us"]}, "a goal is"),
        ({"goals": ["time_us", "max time_us"]}, "each of them once"),
        ({"limits": ["area_mm2 < 5"]}, "a limit is spelled"),
        ({"limits": ["time_us <= h200"]}, "only area_mm2 and power_w"),
        ({"limits": ["area_mm2 <= h201"]}, "no configuration 'h201'"),
        ({"limits": ["area_mm2 <= nan"]}, "a finite number"),
        ({"trials": 0}, "trials and batch"),
        ({"sampler": "genetic"}, "no sampler 'genetic'"),
        ({"derived": {"sm.count": "dram.channels"}}, "is an axis"),
        ({"derived": {"l2.bytes": "l2.slices"}}, "which is no axis"),
        ({"derived": {"l2.byte": "dram.channels"}}, "unknown key"),
    ],
)
def test_searches_that_mean_nothing(options, message):
    with pytest.raises(ConfigError, match=message):
        search(SPACE, **options, rows=Formula())


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(SearchError, match=r"pip install 'gpusim\[explore\]'"):
        search(SPACE, rows=Formula())


def test_words_of_goals_and_limits():
    assert Goal.of("max area_mm2") == Goal("area_mm2", True) and Goal.of(" min time_us ") == Goal("time_us")
    assert str(Limit.of("area_mm2<=600")) == "area_mm2 <= 600"
    assert Limit.of("power_w >= 50").excess(40) == pytest.approx(0.2)
    assert Limit.of("area_mm2 <= h200").bound == cost(load_config("h200")).area_mm2


def test_pictures_show_every_machine_and_the_front_of_their_axes():
    found = search(SPACE, ["time_us", "area_mm2"], ["power_w <= 50", "time_us <= 15"], trials=40, sampler="random",
                   derived=RULES, rows=Formula())  # fmt: skip
    ax = plot.pareto(found)
    beaten, against, front = (each.get_offsets().tolist() for each in ax.collections)
    assert front == [[each.values["area_mm2"], each.values["time_us"]] for each in found.front()]
    ran = {choice(each): each for each in found.candidates if each.pruned is None}.values()
    assert len(beaten) + len(front) == sum(each.feasible for each in ran)
    assert len(against) == sum(not each.feasible for each in ran) > 0
    assert "Pareto front" in plot.text_alternative(ax)
    with pytest.raises(ValueError, match="no machine was evaluated"):
        plot.pareto(search(SPACE, limits=["area_mm2 <= 1"], trials=3, rows=Formula()))
    # With one goal the search's front is one machine; the picture of time and area shows what is best in both.
    found = search(SPACE, ["time_us"], trials=40, derived=RULES, rows=Formula())
    points = {(each[2], each[1]) for each in everything()}
    best = sorted(p for p in points if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points))
    blue = sorted(map(tuple, plot.pareto(found).collections[2].get_offsets().tolist()))
    assert list(itertools.chain(*blue)) == pytest.approx(list(itertools.chain(*best))) and len(best) > 3


# --- with the simulator, files and the command line ------------------------------------------------------------------

FILE = """\
program = ["vector_add", "saxpy"]
gpu = "tiny"
axes.size = 1024
axes.sm.count = [1, 2, 4]
axes.dram.channels = [4, 8]
[search]
goals = ["time_us", "area_mm2"]
limits = "power_w <= 60"
sampler = "random"
trials = 9
derived.dram.bandwidth_gb_s = "dram.channels"
derived.l2.slices = "dram.channels"
derived."l2.bytes" = "l2.slices"
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "space.toml"
    path.write_text(FILE)
    return path


def test_a_file_says_it_all(file):
    asked = read_sweep(file)
    assert asked.search == {
        "goals": ["time_us", "area_mm2"], "limits": ["power_w <= 60"], "sampler": "random", "trials": 9,
        "derived": RULES,
    }  # fmt: skip
    assert [axis.name for axis in asked.space.axes] == ["gpu", "size", "sm.count", "dram.channels"]
    assert len(read_sweep(file).space.grid()) == 12  # the same file is a sweep


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sampler =", "samplers =", r"search\.samplers: unknown key.*did you mean 'sampler'"),
        ("trials = 9", 'trials = "9"', r"search\.trials: must be an integer"),
        ('limits = "power_w <= 60"', "limits = [60]", r"search\.limits: must be a list of texts"),
        ('slices = "dram.channels"', "slices = 2", r"search\.derived\.l2\.slices: must name the key"),
    ],
)
def test_mistakes_in_a_file(file, old, new, message):
    file.write_text(FILE.replace(old, new))
    with pytest.raises(ConfigError, match=message):
        read_sweep(file)


def test_command_searches_draws_and_goes_on_after_an_end(file, tmp_path, capsys, monkeypatch):
    journal, picture, table = (tmp_path / name for name in ("j", "front.png", "table.csv"))
    arguments = ["search", str(file), "--workers", "0", "--journal", str(journal), "--json"]
    rows = sys.modules["gpusim.explore.sweep"]
    evaluate, count = rows.evaluate, itertools.count(1)

    def dies(point, **options):
        if options.get("bound") != "only" and next(count) == 4:
            raise KeyboardInterrupt
        return evaluate(point, **options)

    monkeypatch.setattr(rows, "evaluate", dies)
    assert main(arguments) == 130
    assert len(read_journal(journal)[1]) == 3
    assert f"what has run is kept in {journal}; the same command goes on" in capsys.readouterr().err
    monkeypatch.setattr(rows, "evaluate", evaluate)
    assert main([*arguments, "--plot", str(picture), "--table", str(table)]) == 0
    found = json.loads(capsys.readouterr().out)
    kept = read_journal(journal)
    keys = [row["key"] for row in kept[1]]
    assert len(set(keys)) == len(keys) == 3 + found["runs"]
    assert picture.stat().st_size > 5000
    assert len(table.read_text().splitlines()) == 1 + 6
    assert main(arguments) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["runs"] == 0
    assert again["candidates"] == found["candidates"]
    assert read_journal(journal) == kept
    assert main(arguments[:-1]) == 0
    text = capsys.readouterr().out
    assert "6 machines, 0 runs" in text
    assert text.startswith("vector_add 1,024 fills ") and "saxpy 1,024 fills " in text
    assert f"the front of {len(found['front'])} (time_us, area_mm2)" in text
    assert "\nin all of them: gpu = tiny, size = 1,024\n" in text
    assert not {"gpu", "size"} & set(text.splitlines()[-len(found["front"]) - 1].split())


def test_a_kernel_of_ones_own_is_searched_over_grids_and_blocks(tmp_path, capsys, toolchain):
    (tmp_path / "own.py").write_text("from numba import cuda\n\ndef fill(x):\n    x[cuda.grid(1)] = 1\n")
    options = ("--gpu", "tiny", "--block", "64; 32,2", "--args", "float32[4096]", "--workers", "0", "--json")
    assert main(["search", f"{tmp_path / 'own.py'}:fill", "--grid", "8;16", *options]) == 0
    tried = json.loads(capsys.readouterr().out)["candidates"]
    assert {(each["grid"], each["block"]) for each in tried} == {*itertools.product(("8", "16"), ("64", "32,2"))}
    assert all(each["cycles"] > 0 for each in tried)
    file = 'gpu = "tiny"\nprogram = {{ name = "own.py:fill", args = "float32[4096]" }}\naxes.grid = {}\naxes.block = 64'
    (tmp_path / "own.toml").write_text(file.format("[8, 16]"))
    assert main(["search", str(tmp_path / "own.toml"), "--workers", "0", "--json"]) == 0
    assert sorted(each["grid"] for each in json.loads(capsys.readouterr().out)["candidates"]) == [8, 16]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.toml"], "none.toml: cannot be read"),
        (["{file}", "--goal", "times"], "no column 'times'"),
        (["{file}", "--limit", "area_mm2 <= 1"], "keeps all limits"),
        (["{file}", "--table", "x.txt"], "--table x.txt: the file's name ends in .parquet or .csv"),
    ],
)
def test_mistakes_are_one_line(arguments, message, file, capsys):
    assert main(["search", *(each.format(file=file) for each in arguments), "--workers", "0"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error


def test_the_document_quotes_the_file_that_it_searches():
    docs = Path(__file__).parents[2] / "docs"
    text = (docs / "exploring.md").read_text("utf-8")
    (quoted,) = re.findall(r"<!-- space -->\n```toml\n(.*?)```", text, flags=re.DOTALL)
    assert quoted == (docs / "space.toml").read_text("utf-8")
    asked = read_sweep(docs / "space.toml")
    found = search(asked.space, rows=Formula(lambda program, config: 1000 / config.sm.count), **asked.search)
    assert found.best.machine["dram.bandwidth_gb_s"] == 25 * found.best.machine["dram.channels"]
