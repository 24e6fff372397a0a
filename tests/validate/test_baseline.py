"""Baseline files: all there, readable, of today's code; and how a recording becomes them."""

from __future__ import annotations

import copy
import gzip
import json

import pytest

from programs import images, registry
from validate import __main__ as command
from validate import baseline, importer
from validate.baseline import BaselineError, MissingBaseline, Spread
from validate.metrics import ASKED_AGAIN, CYCLES, DIFFERENCES, EXACT, LAUNCH, RECORDED
from validate.points import ProgramPoint, describe, select

GPU = "h200"
PRODUCTS = {"h200": "NVIDIA H200", "h100": "NVIDIA H100 80GB HBM3"}
of_gpus = pytest.mark.parametrize("gpu", PRODUCTS)


@pytest.mark.parametrize("name", registry.recorded())
def test_every_variant_has_a_baseline_of_its_image_and_inputs_on_all_gpus(name):
    found = baseline.load(name, GPU)
    program, file = images.image(name), images.entry_of(name)["file"]
    assert found.code.code_sha256 == program.code_sha256
    code = found.code.image, found.code.symbol, found.code.cubin_sha256
    assert code == (file, program.symbol, program.sha256)
    assert [each.size for each in found.sizes] == list(registry.get(name).sizes)
    for each in found.sizes:
        assert baseline.measured(ProgramPoint(name, each.size, each.seed), GPU) is each
    other = baseline.load(name, "h100")
    assert found.code == other.code
    assert [(each.size, each.seed, each.launch) for each in found.sizes] == [
        (each.size, each.seed, each.launch) for each in other.sizes
    ]
    small = found.sizes[0]
    launch = ProgramPoint(name, small.size, small.seed).make()
    assert describe(launch) == small.launch


def test_a_product_name_becomes_a_shipped_configuration():
    assert {gpu: importer.gpu_name(product) for gpu, product in PRODUCTS.items()} == {gpu: gpu for gpu in PRODUCTS}
    assert importer.gpu_name("NVIDIA A100-SXM4-80GB") == "a100" and importer.gpu_name("Tesla T4") == "t4"
    assert importer.gpu_name("NVIDIA GH200 480GB") == "gh200_480gb"


@of_gpus
@pytest.mark.parametrize("name", registry.recorded())
def test_what_a_baseline_says_is_complete_and_consistent(name, gpu):
    found = baseline.load(name, gpu)
    source = found.provenance
    assert source.gpu == PRODUCTS[gpu] and source.sm_count == 132 and source.compute_capability == "9.0"
    assert source.driver and source.ncu and source.clocks_mhz["sm_max"] == 1980
    assert {"numba", "numba-cuda", "ptxas"} <= set(source.tools)
    for each in found.sizes:
        asked = {name for name in RECORDED if name not in DIFFERENCES}
        assert asked | set(EXACT) | set(LAUNCH) <= set(each.counters)
        varying = {counter for counter in (*EXACT, *LAUNCH) if isinstance(each.counters[counter], list)}
        assert varying <= (set(ASKED_AGAIN) if registry.get(name).polls else set())
        assert each.cycles == baseline.Spread.of(each.counters[CYCLES]) and each.cycles.count >= 3
        assert each.cycles.min > 0 and each.cycles.relative < 0.2
        if gpu == "h200":
            assert each.warm.cycles.count == 3 and 0 < each.warm.cycles.min <= each.warm.cycles.median
            ghz = each.warm.cycles.median / each.warm.counters["gpu__time_duration.sum"]
            assert 1.5 < ghz < 2.1  # it falls where tensor cores are busy
        # The clocks of a launch follow from its cycles and its duration, so units are what they should be.
        hz = each["gpc__cycles_elapsed.avg.per_second"]
        assert each["gpu__time_duration.sum"] * hz / 1e9 == pytest.approx(each.cycles.median, rel=0.15)
        assert each["launch__registers_per_thread"] == max(images.image(name).registers, 16)


@of_gpus
def test_there_is_no_baseline_without_a_variant(gpu):
    files = {*(baseline.FOLDER / gpu).rglob("*.json")}
    assert files == {baseline.path_of(name, gpu) for name in registry.recorded()}


def test_a_file_is_written_as_it_is_read():
    for name in registry.recorded():
        path = baseline.path_of(name, GPU)
        assert baseline.text_of(baseline.load(name, GPU)) == path.read_text("utf-8")


def test_missing_and_broken_baselines_fail(tmp_path):
    with pytest.raises(MissingBaseline, match="no baseline of saxpy on a100"):
        baseline.load("saxpy", "a100")
    with pytest.raises(MissingBaseline, match="size 7, only at 10000"):
        baseline.measured(ProgramPoint("saxpy", 7), GPU)
    with pytest.raises(MissingBaseline, match="with seed"):
        baseline.measured(ProgramPoint("saxpy", registry.get("saxpy").sizes[0], 1), GPU)
    path = baseline.path_of("saxpy", "x", tmp_path)
    path.parent.mkdir(parents=True)
    text = baseline.path_of("saxpy", GPU).read_text("utf-8")
    for broken in (text.replace('"seed"', '"sead"'), text.replace('"ok": true', '"ok": false'), text[:-30]):
        path.write_text(broken, "utf-8")
        with pytest.raises(BaselineError, match=r"saxpy\.json"):
            baseline.load("saxpy", "x", tmp_path)
    path.write_text(text.replace('"variant": "saxpy"', '"variant": "vector_add"'), "utf-8")
    with pytest.raises(BaselineError, match="holds vector_add"):
        baseline.load("saxpy", "x", tmp_path)


def test_a_spread_is_a_share_of_the_median():
    assert Spread.of([100, 101, 105]).relative == pytest.approx(5 / 101) and Spread.of([3]).relative == 0


@pytest.fixture
def recording():
    """A recording of saxpy, made up."""
    program, points = images.image("saxpy"), {}
    for point in select(["saxpy"]):
        launch = describe(point.make())
        profiles = []
        for k in range(3):
            metrics = {name: 10.0 for name in (*RECORDED, *LAUNCH) if name not in DIFFERENCES}
            metrics |= {"memory_l1_wavefronts_shared": 12.0, CYCLES: 1000.0 + k, "sm__cycles_active.avg": 0.5}
            profiles.append({"grid": launch["grid"], "block": launch["block"], "metrics": metrics})
        points[str(point)] = {
            "seed": point.seed,
            "check": {"ok": True, "exact": True, "mismatch": None, "max_abs_error": 0, "max_rel_error": 0},
            "launch": launch,
            "image": {"cubin_sha256": program.sha256},
            "cold_us": [3.0, 4.0, 5.0],
            "profiles": profiles,
            "warm": [{"metrics": {CYCLES: cycles, "sm__cycles_active.avg": 2.5}} for cycles in (700.0, 650.0)],
        }
    provenance = {
        **{"date": "2026-01-02", "ncu": "Version 1", "gpu": "NVIDIA X100 PCIe", "sm_count": 2},
        "smi_before": {"driver_version": "1.2.3", "clocks.max.sm": "2000 MHz", "clocks.max.mem": "3000 MHz"},
        "smi_after_times": {"clocks.sm": "1900 MHz"},
        **{"cache_control": "all", "clock_control": "none", "compute_capability": "9.0"},
        **{"cuda_driver": 13000, "cupy": "1", "numpy": "2", "python": "3", "event_overhead_us": 1.5},
    }
    return {"format": 2, "provenance": provenance, "points": points, "failures": {}, "unknown_metrics": []}


def save(path, document):
    with gzip.open(path, "wt") as file:
        json.dump(document, file)
    return path


def test_import_writes_once_and_replaces_only_when_told(tmp_path, recording, monkeypatch, capsys):
    raw, folder = save(tmp_path / "raw.gz", recording), tmp_path / "baselines"
    assert importer.import_recording(raw, ["saxpy"], folder=folder) == {"saxpy": "new"}
    found = baseline.load("saxpy", "x100_pcie", folder)
    small = found.at(registry.get("saxpy").sizes[0])
    assert small.counters[CYCLES] == [1000, 1001, 1002] and small.cycles.median == 1001
    assert small["derived__memory_l1_wavefronts_shared_excessive"] == 2
    assert small["sm__cycles_active.avg"] == 0.5 and isinstance(small["smsp__inst_executed.sum"], int)
    assert (small.cold_us.median, small.cold_us.count) == (4, 3)
    assert (small.warm.cycles.median, small.warm.counters["sm__cycles_active.avg"]) == (675, 2.5)
    assert small.warm.provenance["driver"] == "1.2.3" and small.warm.provenance["ncu"] == "Version 1"
    assert found.provenance.driver == "1.2.3" and found.provenance.clocks_mhz["sm_after_times"] == 1900
    assert importer.import_recording(raw, ["saxpy"], folder=folder) == {"saxpy": "same"}

    point = next(iter(recording["points"]))
    recording["points"][point]["profiles"][0]["metrics"][CYCLES] = 900.0
    save(raw, recording)
    before = baseline.path_of("saxpy", "x100_pcie", folder).read_text()
    monkeypatch.setattr(importer.import_recording, "__kwdefaults__", {"gpu": None, "force": False, "folder": folder})
    assert command.main(["import", str(raw), "--only", "saxpy"]) == 2
    assert "--force" in capsys.readouterr().err
    assert baseline.path_of("saxpy", "x100_pcie", folder).read_text() == before
    assert command.main(["import", str(raw), "--only", "saxpy", "--force"]) == 0
    assert capsys.readouterr().out == "saxpy: replaced\n"
    assert 900 in baseline.load("saxpy", "x100_pcie", folder).sizes[0].counters[CYCLES]


def test_counts_of_a_program_that_polls_may_vary(recording):
    row = copy.deepcopy(recording["points"][str(select(["saxpy"], "large")[0])])
    row["profiles"][1]["metrics"][EXACT[0]] += 1
    assert importer._problem(row, row["image"]["cubin_sha256"], polls=True) is None
    row["profiles"][1]["metrics"]["memory_l1_tag_requests_global"] += 1
    problem = importer._problem(row, row["image"]["cubin_sha256"], polls=True)
    assert problem and problem.startswith("memory_l1_tag_requests_global varies")


DAMAGES = {
    "wrong outputs: argument 2 differs": lambda row: row["check"].update(ok=False, mismatch="argument 2 differs"),
    "other code": lambda row: row["image"].update(cubin_sha256="0"),
    "fewer than two": lambda row: row["profiles"].__delitem__(slice(1, None)),
    f"not measured: {EXACT[0]}": lambda row: [each["metrics"].pop(EXACT[0]) for each in row["profiles"]],
    "varies from launch to launch": lambda row: row["profiles"][1]["metrics"].update({EXACT[0]: 11.0}),
    "profiled with grid": lambda row: row["profiles"][1].update(grid=[1, 1, 1]),
    "no times": lambda row: row["cold_us"].clear(),
}


@pytest.mark.parametrize("reason", DAMAGES)
def test_an_incomplete_recording_is_refused_whole(tmp_path, recording, reason):
    damaged = copy.deepcopy(recording)
    DAMAGES[reason](damaged["points"][str(select(["saxpy"], "large")[0])])
    with pytest.raises(importer.ImportRefused, match=reason):
        importer.import_recording(save(tmp_path / "raw.gz", damaged), ["saxpy"], folder=tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_points_and_files_that_are_not_there_are_refused(tmp_path, recording):
    raw = save(tmp_path / "raw.gz", recording)
    with pytest.raises(importer.ImportRefused, match="vector_add@10000: not in the recording"):
        importer.import_recording(raw, ["saxpy", "vector_add"], folder=tmp_path / "b")
    recording["failures"]["saxpy@10000"] = "under ncu: wrong"
    with pytest.raises(importer.ImportRefused, match="under ncu"):
        importer.import_recording(save(raw, recording), ["saxpy"], folder=tmp_path / "b")
    (tmp_path / "text.gz").write_text("no archive")
    for path, reason in ((tmp_path / "text.gz", "no recording"), (save(raw, {}), "format 2")):
        with pytest.raises(importer.ImportRefused, match=reason):
            importer.import_recording(path, folder=tmp_path / "b")
    assert not (tmp_path / "b").exists()
