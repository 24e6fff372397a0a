"""`gpusim diff`: pairs and sentences on records made by hand, the ladders' steps, saved results, hardware."""

import json
from functools import cache
from pathlib import Path

import pytest

import gpusim
from gpusim.cli import diff as cli_diff
from gpusim.cli import main
from gpusim.difference import NotAResult, recorded
from gpusim.difference.pairs import LESS, ORDER, Change, times
from gpusim.engine.state import layout as L
from gpusim.result import Result
from gpusim.results.metrics import METRICS
from gpusim.units import joule_text
from programs.images import for_launch
from programs.registry import get
from tests.gpusim.records import LDG, LDS, SOURCE, STG, make_program, make_record, stall

CONFLICTS = {LDS: {L.COUNT_SHARED_REQUESTS: 2112, L.COUNT_SHARED_WAVEFRONTS: 132_000, L.COUNT_SHARED_IDEAL: 2112}}
FIXED = {LDS: {L.COUNT_SHARED_REQUESTS: 2112, L.COUNT_SHARED_WAVEFRONTS: 2112, L.COUNT_SHARED_IDEAL: 2112}}


def pair():
    """A kernel with bank conflicts, and the same without, a quarter faster."""
    return Result(make_record(line=CONFLICTS)), Result(make_record(line=FIXED, cycles=3000))


def by_hand():
    return gpusim.compare_results(*pair(), "before", "after")


# --- pairs ---------------------------------------------------------------------------------------------------------


def test_numbers_are_those_of_both_results():
    a, b = pair()
    found = gpusim.compare_results(a, b)
    assert (found.cycles.a, found.cycles.b, found.cycles.ratio) == (4000, 3000, 0.75)
    assert (found.energy.a, found.energy.b, found.power.a, found.power.b) == (
        a.energy_j, b.energy_j, a.power_w, b.power_w,
    )  # fmt: skip
    assert {each.name: (each.a, each.b) for each in found.metrics} == {
        name: (a.metrics[name], b.metrics[name]) for name in METRICS if "issue_stalled" not in name
    }
    for each in found.stalls:
        assert each.a == a.stall_reasons[each.name].cycles_per_instruction
        assert each.b == b.stall_reasons[each.name].cycles_per_instruction
    weights = [abs(each.difference) for each in found.energy_parts]
    assert weights == sorted(weights, reverse=True) and sum(weights) >= abs(found.energy.difference) > 0
    most = found.energy_parts[0]
    assert most.name == "static", "a quarter less time, and few events less"
    assert found.why[-1].endswith(f"is static power: {joule_text(most.a)} -> {joule_text(most.b)}.")
    same = gpusim.compare_results(a, a)
    assert same.launch == same.configuration == [] and all(each.equal for each in (*same.metrics, *same.stalls))
    assert {each.state for each in same.findings} <= {"same"} and same.why[0] == "Both take 4,000 cycles."


def test_metrics_come_by_section_the_largest_change_first():
    found = by_hand().metrics
    sections = [each.section for each in found]
    assert list(dict.fromkeys(sections)) == [each for each in ORDER if each in sections]
    for section in ORDER:
        weights = [each.weight for each in found if each.section == section]
        assert weights == sorted(weights, reverse=True)
    source = [each.name for each in found if each.section == "Source Counters"]
    assert source[0] == "derived__memory_l1_wavefronts_shared_excessive"


def test_a_finding_that_vanished():
    found = next(each for each in by_hand().findings if each.kind == "bank conflicts")
    assert (found.state, found.b, found.a.line) == ("gone", None, 4)
    assert found.saved == found.cycles_a == found.a.share * 4000
    for each in by_hand().findings:
        assert each.b is None or each.cycles_b == each.b.share * 3000
    back = gpusim.compare_results(by_hand().b, by_hand().a)
    (found,) = (each for each in back.findings if each.kind == "bank conflicts")
    assert (found.state, found.a) == ("new", None) and found.saved < 0
    assert any(text.startswith("Bank conflicts of line 4: none in A ->") for text in back.why)


@pytest.mark.parametrize(("cycles", "state"), [(900_000, "same"), (450_000, "less"), (1_800_000, "more")])
def test_a_finding_that_changed(cycles, state):
    """Waits at one load, the rest of the launch as it was."""
    a, b = ({LDG: {stall(L.STALL_LONG): n}, STG: {stall(L.STALL_LONG): 2_000_000 - n}} for n in (900_000, cycles))
    found = gpusim.compare_results(Result(make_record(line=a)), Result(make_record(line=b)))
    here = next(each for each in found.findings if each.kind == "memory latency" and each.a.line == 2)
    assert here.state == state
    assert (here.cycles_b <= LESS * here.cycles_a) == (state == "less")


def test_lines_are_paired_by_their_text():
    """A line put in front moves all others, and a line that is rewritten in part remains the same line."""
    shifted = ["# what it does", *SOURCE[:3], "    y = s[u + 1]", *SOURCE[4:]]
    code = tuple((each.text, each.line and each.line + 1) for each in make_program().instructions)
    other = make_program(code, source={make_program().instructions[0].file: shifted})
    found = gpusim.compare_results(Result(make_record()), Result(make_record(program=other))).lines
    assert [(each.a.line, each.b.line) for each in found] == [(line, line + 1) for line in range(2, 8)]
    assert (found[2].a.text, found[2].b.text) == ("y = s[u]", "y = s[u + 1]")


def test_what_differs_of_launch_and_configuration():
    slow = Result(make_record(cycles=3720, block=128, overrides=["gpu.clock_mhz=1200"]))
    found = gpusim.compare_results(Result(make_record()), slow)
    assert {"block", "kernel"} & {each.name for each in found.launch} == {"block"}
    assert [(each.name, each.b) for each in found.configuration] == [("gpu.clock_mhz", 1200)]
    # Fewer cycles may take longer.
    time = "In time B takes 3.10 us, 1.53 times A's 2.02 us"
    assert found.why[1] == f"{time}: its cycles come at 1,200 MHz, A's at 1,980 MHz."


def test_how_changes_are_spelled():
    assert [times(Change("x", a, b)) for a, b in ((1, 1), (0, 2), (2, 0), (4, 3))] == ["=", "new", "gone", "0.75x"]


# --- saved results -------------------------------------------------------------------------------------------------


def test_a_saved_result_is_as_good_as_the_result():
    a, b = pair()
    saved = [json.loads(each.to_json()) for each in (a, b)]
    direct, loaded = gpusim.compare_results(a, b), gpusim.compare_results(*saved)
    assert json.loads(json.dumps(loaded.to_dict())) == json.loads(json.dumps(direct.to_dict()))
    assert str(loaded) == str(direct)
    for name in ("energy_j", "power_w", "energy_parts"):  # as saved before there was energy
        del saved[1][name]
    assert gpusim.compare_results(*saved).energy.b is None and gpusim.compare_results(*saved).energy_parts == []
    for document in ({}, {"cycles": 1, "metrics": {}, "stall_reasons": {}}, {"metrics": 3}):
        with pytest.raises(NotAResult):
            gpusim.compare_results(document, a)


def run(capsys, *argv):
    code = main([str(each) for each in argv])
    return code, *capsys.readouterr()


def save(tmp_path):
    """The pair as `gpusim run --json` prints it."""
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, result in zip(paths, pair(), strict=True):
        path.write_text(result.to_json(), "utf-8")
    return paths


def test_the_command_compares_files(capsys, tmp_path):
    code, out, err = run(capsys, "diff", *save(tmp_path))
    assert (code, err) == (0, "")
    assert "0.75x" in out and "-> gone." in out
    assert max(map(len, out.splitlines())) <= 100
    assert "bank conflicts of line 4" in out
    code, out, _ = run(capsys, "diff", *save(tmp_path), "--json")
    document = json.loads(out)
    assert (document["cycles"]["a"], document["cycles"]["b"], document["cycles"]["ratio"]) == (4000, 3000, 0.75)
    assert {each["kind"]: each["state"] for each in document["findings"]}["bank conflicts"] == "gone"


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["vector_add"], "nothing to compare"),
        (["hardware", "hardware"], "other side"),
        (["nope", "hardware"], "nope"),
        (["nope", "vector_add"], "nope"),
        (["missing.json", "missing.json", "--size-a", "4"], "missing.json"),
        (["bad.json", "bad.json", "--size-a", "4"], "bad.json"),
        (["saxpy", "hardware", "--size", "3"], "recorded at size"),
        (["vector_add", "--set-b", "sm.cuont=1"], "sm.cuont"),
    ],
)
def test_mistakes_are_one_line(capsys, tmp_path, monkeypatch, argv, named):
    monkeypatch.chdir(tmp_path)
    Path("bad.json").write_text("[1]", "utf-8")
    code, out, err = run(capsys, "diff", *argv)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("gpusim: error: ") and named in err


@pytest.mark.usefixtures("toolchain")
def test_options_of_one_side(capsys):
    code, out, _ = run(capsys, "diff", "vector_add", "--size", 4096, "--set-b", "sm.count=66", "--json")
    document = json.loads(out)
    assert code == 0
    assert [(each["name"], each["a"], each["b"]) for each in document["configuration"]] == [("sm.count", 132, 66)]
    code, out, _ = run(capsys, "diff", "vector_add", "--size-a", 4096, "--size-b", 8192, "--json")
    sizes = next(each for each in json.loads(out)["launch"] if each["name"] == "size")
    assert (sizes["a"], sizes["b"]) == (4096, 8192)


@pytest.mark.usefixtures("toolchain")
def test_a_wrong_output_is_told_by_the_exit_code(capsys, monkeypatch):
    variant = get("vector_add")
    monkeypatch.setattr(type(variant), "mismatch", lambda *_: "element 7 differs")
    code, out, err = run(capsys, "diff", "vector_add", "vector_add", "--size", 4096, "--size-b", 2048)
    assert code == 1
    assert err.splitlines() == [f"gpusim: error: {side}: wrong output: element 7 differs" for side in "AB"]
    assert out.startswith("A   vector_add, size 4,096")
    assert run(capsys, "diff", "vector_add", "--size", 4096, "--size-b", 2048, "--no-check")[0] == 0


# --- hardware ------------------------------------------------------------------------------------------------------

EXACT = (
    "smsp__inst_executed.sum", "smsp__thread_inst_executed.sum", "memory_l1_wavefronts_shared",
    "derived__memory_l1_wavefronts_shared_excessive", "memory_l2_theoretical_sectors_global",
)  # fmt: skip


@cache
def against_hardware():
    document = recorded.read(recorded.recording_of("reduction/interleaved_conflicts"))
    size, seed = recorded.points(document)[0]
    launch = get("reduction/interleaved_conflicts").make(size, seed)
    result = gpusim.simulate(for_launch(launch), launch.grid, launch.block, launch.args)
    return document["sizes"][0]["counters"], gpusim.compare_results(result, recorded.as_run(document, size, seed))


def test_the_model_beside_the_hardware():
    counters, found = against_hardware()
    rows = {each.name: each for each in found.metrics}
    for name in EXACT:
        assert rows[name].a == rows[name].b == counters[name]
    waves = rows["launch__waves_per_multiprocessor"]  # of which the profiler printed two decimals
    assert waves.equal and waves.a == round(waves.a, 2) > 0
    cycles = counters["gpc__cycles_elapsed.max"]
    assert found.b.spread == (min(cycles), max(cycles)) and found.cycles.b == sorted(cycles)[1]
    assert found.findings == []
    assert found.energy.a > 0 and found.energy.b is found.power.b is None and found.energy_parts == []
    assert f"Energy{joule_text(found.energy.a):>55}            -\n" in str(found)
    barrier = next(each for each in found.stalls if each.name == "barrier")
    stalled = counters["smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio"]
    assert barrier.b == (sorted(stalled)[len(stalled) // 2] if isinstance(stalled, list) else stalled)
    assert f"{min(cycles):,} to {max(cycles):,} cycles" in found.why[1]
    equal = sum(each.equal for each in found.metrics)
    assert found.why[2] == f"{equal} of {len(found.metrics)} recorded metrics are equal on both sides."
    assert equal > len(found.metrics) / 2


def test_the_command_runs_what_was_recorded(capsys, monkeypatch):
    """On either side, at the recorded size and seed, with the recorded machine code."""
    ran = []
    real = cli_diff.simulate_target
    monkeypatch.setattr(cli_diff, "simulate_target", lambda target, *rest: ran.append(target) or real(target, *rest))
    code, out, _ = run(capsys, "diff", "hardware", "reduction/interleaved_conflicts", "--json")
    document = json.loads(out)
    assert code == 0
    assert (document["a"]["measured"], document["b"]["measured"]) == (True, False)
    assert document["a"]["launch"]["seed"] == document["b"]["launch"]["seed"] != 0
    (target,) = ran
    assert target.launch.kernel == for_launch(get(target.name).make(target.size, target.seed))
    assert document["cycles"]["b"] == against_hardware()[1].cycles.a


def test_a_recording_that_is_none(tmp_path):
    for text in ("", "[]", '{"format": 2, "sizes": []}', '{"format": 1}'):
        (tmp_path / "x.json").write_text(text, "utf-8")
        with pytest.raises(NotAResult):
            recorded.read(tmp_path / "x.json")
