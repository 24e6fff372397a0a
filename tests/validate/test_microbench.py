"""The microbenchmarks: machine code, results and suite belong together, and the model reproduces what was measured.

A number that differs by more than its benchmark allows has to be in `validate/microbench/known_gaps_h200.json`, and one
that is there has to differ: `python -m validate microbench compare --update-gaps` writes the list, its reasons by hand.
"""

import builtins
import dataclasses
import dis
import json
import re
from unittest.mock import Mock

import pytest

from gpusim.config import diff, load_config
from gpusim.launch import Launch
from gpusim.launch.arguments import infer_signature
from validate import worker
from validate.__main__ import main
from validate.compared import line
from validate.gpu import compact_text
from validate.images import tools
from validate.microbench import calibrate, compare, images, results
from validate.microbench.bench import BLANK_BYTES, Bench, Case, benches
from validate.microbench.results import Number

BENCHES = benches()


def held():
    """Of the benchmarks that are variants of one kernel every tenth; and the one of memory's bandwidth."""
    variants = {}
    for name, bench in BENCHES.items():
        code = bench.kernel.__code__
        variants.setdefault((code.co_filename, code.co_firstlineno), []).append(name)
    return [*(name for names in variants.values() for name in names[::-1][::10]), "memory_load"]


@pytest.mark.parametrize("name", held())
def test_the_model_reproduces_what_was_measured(name):
    """At the ends of what it varies, or at its middle if that fills the GPU; `validate microbench compare` has all. One
    run is enough where it comes near enough, else the median of several counts."""
    quick = [case for case in BENCHES[name].cases if not case.slow]
    middle = quick[len(quick) // 2]
    for case in [middle] if middle.grid > 8 else [quick[k] for k in sorted({0, len(quick) - 1})]:
        for starts in (1, compare.STARTS):
            predicted = compare.run(BENCHES[name], case, starts=starts)
            rows = list(compare.rows(BENCHES[name], case, predicted, results.load(), compare.gaps()))
            assert rows
            if not any(row.verdict for row in rows):
                break
        assert [line(row) for row in rows if row.verdict] == []


@pytest.mark.parametrize("gpu", ["h200", "h100"])
def test_every_number_was_measured_with_the_machine_code_that_is_stored(gpu):
    document = results.load(gpu)
    unmeasured = {"h100": ["row_words", "read_order"]}.get(gpu, [])  # newer than the last H100 at hand
    assert list(document["benches"]) == [name for name in BENCHES if name not in unmeasured]
    for name in document["benches"]:
        bench = BENCHES[name]
        assert set(document["benches"][name]["cases"]) == {case.key for case in bench.cases}
        for case in bench.cases:
            for number in results.numbers(document, bench, case.key).values():
                assert number.least <= number.median <= number.greatest
        assert images.program_of(bench).code_sha256 == images.code_of(bench)


def test_results_of_other_machine_code_are_refused():
    document = json.loads(json.dumps(results.load()))
    document["benches"]["pipe_fadd"]["code_sha256"] = "0"
    with pytest.raises(results.NoResult, match="other machine code"):
        results.numbers(document, BENCHES["pipe_fadd"], "warps=1")
    with pytest.raises(results.NoResult, match="not measured"):
        results.numbers(document, BENCHES["pipe_fmul"], "warps=3")
    with pytest.raises(results.NoResult, match="no microbenchmarks"):
        results.load("h300")


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Images are built in another folder, which is empty."""
    monkeypatch.setattr(images, "FOLDER", tmp_path)
    monkeypatch.setattr(images, "INDEX", tmp_path / "index.json")
    yield
    images.index.cache_clear()
    images._open.cache_clear()


STORED = {name: images.code_of(bench) for name, bench in BENCHES.items()}


@pytest.mark.skipif(tools() != images.index()["tools"], reason="another tool chain than the one that built the images")
@pytest.mark.parametrize("name", ["queue_lds", "registers_alternating"])
def test_images_are_what_the_tool_chain_compiles(name, elsewhere):
    images.index.cache_clear()
    assert len(images.build([BENCHES[name]], say=lambda text: None)) == 1
    assert images.code_of(BENCHES[name]) == STORED[name]
    assert images.build([BENCHES[name]], say=lambda text: None) == []


def test_kernels_find_their_words():
    """Every global name in a kernel, and in the device functions that it closes over: a second instead of builds."""
    for kernel in {bench.kernel for bench in BENCHES.values()}:
        closed = [each.cell_contents for each in kernel.__closure__ or ()]
        for function in (kernel, *(each.py_func for each in closed if hasattr(each, "py_func"))):
            names = {each.argval for each in dis.get_instructions(function) if each.opname == "LOAD_GLOBAL"}
            assert names <= {*function.__globals__, *dir(builtins)}, kernel


def test_a_kernel_without_what_it_measures_is_refused(elsewhere, monkeypatch):
    with pytest.raises(ValueError, match="holds 0 DMMA"):
        images.build([dataclasses.replace(BENCHES["pipe_fadd"], opcodes=("DMMA",))])
    namesake = dataclasses.replace(BENCHES["pipe_fmul"], name="other")
    monkeypatch.setattr(namesake.kernel, "__name__", "pipe_fadd")
    with pytest.raises(ValueError, match="its kernel's name"):
        images.build([BENCHES["pipe_fadd"], namesake], say=lambda text: None)


def test_rewritten_kernels_read_the_chosen_registers():
    def sources(name):
        program = images.program_of(BENCHES[name])
        return [each.text.split(", ")[1:] for each in program.instructions if each.opcode == "FFMA"]

    assert sources("registers_three_even") == [["R8", "R10", "R12"]] * 64
    assert sources("registers_three_even_reuse")[0] == ["R8.reuse", "R10.reuse", "R12.reuse"]
    assert sources("registers_alternating")[:2] == [["R8", "R10", "R12"], ["R9", "R11", "R13"]]


def test_arguments_are_what_the_kernels_take():
    for bench in BENCHES.values():
        program = images.program_of(bench)
        first = infer_signature(bench.cases[0].make())
        for case in bench.cases:
            if case.slow:
                continue
            args = case.make()
            assert infer_signature(args) == first, (bench.name, case.key)
            launch = Launch(bench.kernel, case.grid, case.block, args, case.shared_bytes)
            worker.DeviceKernel(Mock(alloc=lambda nbytes: 4096), program, launch, BLANK_BYTES)


def _bench(**changes):
    bench = Bench("b", "?", "cycles", lambda: None, (), tolerance=0.1, slack=1.0)
    return dataclasses.replace(bench, **changes)


@pytest.mark.parametrize(
    ("number", "predicted", "within"),
    [
        (Number(100, 100, 100), 111, True),
        (Number(100, 100, 100), 112, False),
        (Number(100, 100, 100), 89, True),
        (Number(100, 100, 100), 88, False),
        (Number(100, 70, 150), 70, True),
        (Number(100, 70, 150), 68, False),
        (Number(100, 70, 150), 151, True),
    ],
)
def test_what_is_allowed(number, predicted, within):
    assert (abs(predicted - number.median) <= compare.room(_bench(), number, predicted)) == within


def test_gaps_are_known_or_unexpected_and_do_not_close_unnoticed(tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "FOLDER", tmp_path)
    monkeypatch.setattr(images, "code_of", lambda bench: "1")
    case = Case("c", 1, 32, lambda: (), lambda args: {})
    entry = {"code_sha256": "1", "cases": {"c": {"x": [10, 10, 10], "y": [10, 10, 10]}}}
    document = {"benches": {"b": entry}}

    def verdicts(x):
        found = list(compare.rows(_bench(), case, {"x": x, "y": 10}, document, compare.gaps()))
        return found, {row.point[1]: row.verdict for row in found}

    rows, found = verdicts(20)
    assert found == {"x": "off", "y": ""}
    assert compare.update_gaps(rows) == 1
    assert compare.gaps() == {"b": {"why": "", "numbers": {"c: x": 2.0}}}
    assert verdicts(20)[1] == {"x": "", "y": ""}
    rows, found = verdicts(10)
    assert found == {"x": "closed gap", "y": ""}
    assert "1 unexpected" in compare.summary(rows)
    assert compare.update_gaps(rows) == 0 and compare.gaps() == {}


@pytest.mark.parametrize("gpu", ["h200", "h100"])
def test_every_known_gap_has_a_reason_and_exists(gpu):
    benches = results.load(gpu)["benches"]
    assert compare.gaps(gpu)
    for name, entry in compare.gaps(gpu).items():
        assert len(entry["why"]) > 20, name
        measured = benches[name]["cases"]
        names = {f"{key}: {number}" for key, found in measured.items() for number in found}
        assert set(entry["numbers"]) <= names, name


def test_recordings_are_joined():
    def recording(value, sha="1"):
        cases = {"c": {"x": [value, value - 1, value + 2]}}
        return {"recordings": [{"gpu": value}], "benches": {"b": {"unit": "u", "code_sha256": sha, "cases": cases}}}

    joined = results.join([recording(5), recording(9), recording(6)])
    assert joined["benches"]["b"]["cases"]["c"]["x"] == [6, 4, 11]
    assert [each["gpu"] for each in joined["recordings"]] == [5, 9, 6]
    with pytest.raises(ValueError, match="same machine code"):
        results.join([recording(5), recording(5, "2")])


def test_a_stored_document_is_as_it_would_be_written():
    assert compact_text(results.load()) == (results.FOLDER / "h200.json").read_text()


@pytest.mark.parametrize("gpu", ["h200", "h100"])
def test_the_configuration_claims_no_measurement_that_differs(gpu):
    rows = calibrate.calibrate(load_config(gpu), results.load(gpu))
    assert [line(row) for row in rows if row.verdict] == []
    assert len({row.case for row in rows}) == len(calibrate.VALUES)


def test_a_wrong_claim_is_found(tmp_path, capsys):
    path = tmp_path / "wrong.toml"
    path.write_text(
        'base = "h200"\n[pipes.fma]\nlatency_cycles = { value = 5, source = "microbenchmark: pipe_ffma" }\n'
        '[pipes.imad]\nlatency_cycles = { value = 7, source = "assumed: for the test" }\n'
    )
    assert main(["calibrate", "--gpu", str(path), "--check"]) == 1
    found = capsys.readouterr().out
    assert "known gap, source: assumed: for the test" in found
    assert main(["calibrate", "--gpu", str(path)]) == 0
    assert main(["calibrate", "--check"]) == 0


H100_SAYS = {"l2_bytes": 52428800, "memory_bytes": 85 * 10**9, "memory_bus_bits": 5120, "memory_mhz": 2619}


def test_a_card_becomes_a_configuration_of_what_differs(tmp_path, capsys):
    """An H100's results move the values of the H200 to those that the H100's own configuration has."""
    document, path, made = results.load("h100"), tmp_path / "card.json", tmp_path / "my_gpu.toml"
    document["recordings"][-1] |= H100_SAYS
    path.write_text(compact_text(document))
    assert calibrate.nearest(document["recordings"][-1]) == "h100"
    assert all(row.within for row in calibrate.rows_of(document, "h100"))
    assert main(["calibrate", "--results", str(path), "--gpu", "h200", "--write", str(made)]) == 0
    printed, mine = capsys.readouterr().out.splitlines(), load_config(made)
    moved, target = diff(mine, load_config("h200")), dict(load_config("h100").items())
    assert moved.pop("gpu.name") == ("NVIDIA H100 80GB HBM3", "NVIDIA H200")
    measured = {key for key in moved if mine.source(key).startswith("microbenchmark: ")}
    fences = {f"memory_instruction.fence_{what}_cycles" for what in ("gpu_latency", "gpu_again", "system_latency")}
    assert measured == fences and {"l2.bytes", "l2.slices", "dram.channels", "dram.bandwidth_gb_s"} < {*moved}
    for key, (new, old) in moved.items():
        assert abs(new - target[key]) < 0.1 * abs(old - target[key])
        (row,) = (line.split() for line in printed if f" {key} " in line)
        derived, configured = (float(number.replace(",", "")) for number in row[row.index(key) + 1 :][:2])
        assert (derived, configured) == (pytest.approx(new, abs=0.5), old)
    assert len(printed) == len(moved) + 2  # no line for anything else
    assert re.match(r"9 of 10 kernels take -\d.* of what is predicted \(0\.58 steps from", printed[-1])


def test_baselines_say_what_a_launch_takes(tmp_path, capsys):
    """The H100's is what it was fitted to by hand; a GPU whose launches are known is as sure as a recorded one."""
    made = tmp_path / "my_gpu.toml"
    line = ["calibrate", "--results", "h100", "--gpu", "h200", "--baseline", "h100", "--write", str(made)]
    assert main(line) == 0 and "(0.00 steps from a recorded GPU" in capsys.readouterr().out
    mine = load_config(made)
    assert mine.launch.overhead_cycles == pytest.approx(load_config("h100").launch.overhead_cycles, rel=0.01)
    assert mine.source("launch.overhead_cycles") == "fitted: idle cycles, 63 programs"
    h200 = load_config("h200")
    again = h200.memory_instruction.fence_gpu_again_cycles
    assert calibrate.launch_overhead("h200", "h200", again).measured == h200.launch.overhead_cycles


def test_the_nearest_configuration_and_what_is_missing():
    says = {"gpu": "NVIDIA H20", "compute_capability": "9.0", "sm_count": 78}
    assert calibrate.nearest(says) == "h200"
    assert calibrate.nearest(says | {"compute_capability": "8.6", "sm_count": 84}) == "rtx3090"
    assert calibrate.nearest(says | {"compute_capability": "8.9", "sm_count": 128}) == "rtx4090"
    rows = calibrate.rows_of({"recordings": [says], "benches": {}}, "h200")
    assert [(row.case, row.measured, row.simulated, row.within) for row in rows] == [("sm.count", 78, 132, False)]
    told = calibrate.table(rows).splitlines()[-1]
    assert told.startswith("not measured: ") and told.count(",") == len(calibrate.VALUES) - 1


def test_slopes_and_knees():
    line = {x: Number(3 + 2 * x, 3 + 2 * x, 3 + 2 * x) for x in (1, 2, 4, 8)}
    step = {x: Number(50 + 60 * (x > 4), 0, 200) for x in (1, 2, 4, 8)}
    assert calibrate.slope(line).value == pytest.approx(2)
    assert calibrate.slope(line, intercept=True).value == pytest.approx(3)
    assert calibrate.slope(step).spread > 1
    assert calibrate.knee(step) == calibrate.BenchValue(6, 2)  # between 4 and 8


def test_commands(capsys):
    found = {
        row.point[1]: row.simulated for row in compare.compare([BENCHES["pipe_fadd"]]) if row.point[0] == "warps=1"
    }
    assert found == compare.run(BENCHES["pipe_fadd"], BENCHES["pipe_fadd"].cases[0])
    assert main(["microbench", "compare", "--only", "sync_barrier", "--full", "--fast"]) == 0
    assert capsys.readouterr().out.count("sync_barrier ") == 6
    slower = ["--set", "issue.bar_per_warp_cycles=9"]
    assert main(["microbench", "compare", "--only", "sync_barrier", *slower]) == 1
    assert " off\n" in capsys.readouterr().out
    assert main(["microbench", "compare", "--only", "nothing_such"]) == 2
    assert "begins with nothing_such" in capsys.readouterr().err
