"""`gpusim compare`: machines side by side, their launches added up, by the numbers that other commands give."""

import json
import re
import sys

import pytest

import gpusim
from gpusim.cli import main
from gpusim.config import load_config
from gpusim.explore import Point, cost, evaluate
from tests.gpusim.test_script import gpusim as run_gpusim

HERE = ("--workers", "0")
WORKLOAD = """
program = [{ name = "saxpy", size = 256, weight = 10 }, { name = "matmul/tiled", size = 32 }]
"""
SCRIPT = """
import numpy as np
from numba import cuda

@cuda.jit
def scale(x):
    x[cuda.grid(1)] *= 2

x = cuda.to_device(np.ones(64, np.float32))
for _ in range(3):
    scale[2, 32](x)
"""


def compare(capsys, *words):
    """The rows that the command prints as JSON."""
    assert main(["compare", *map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)["machines"]


def test_a_program_on_two_machines_is_two_runs_beside_each_other(capsys):
    rows = compare(capsys, "tiny", "tiny", "sm.count=1", "dram.channels=4", "--program", "saxpy", "--size", 4096, *HERE)
    assert [row["machine"] for row in rows] == ["tiny", "tiny sm.count=1 dram.channels=4"]
    for row, changes in zip(rows, ({}, {"sm.count": 1, "dram.channels": 4}), strict=True):
        alone = evaluate(Point("saxpy", "tiny", changes, {"size": 4096}))
        result = gpusim.simulate(*launch(4096), gpu=load_config("tiny", changes))
        assert row["time_us"] == pytest.approx(alone["time_us"]) == pytest.approx(result.time_us)
        assert (row["limited_by"], row["why"]) == (result.limiter.kind, result.limiter.sentence)
        assert row["power_w"] == pytest.approx(result.power_w)
        assert row["low_us"] < row["time_us"] < row["high_us"]
        assert row["area_mm2"] == cost(load_config("tiny", changes)).area_mm2
    assert rows[1]["time_us"] > rows[0]["time_us"]


def launch(size):
    from programs import registry

    made = registry.get("saxpy").make(size, 0)
    return made.kernel, made.grid, made.block, made.args


def test_weights_of_a_workload_say_how_often_a_launch_runs(tmp_path, capsys):
    file = tmp_path / "work.toml"
    file.write_text(WORKLOAD)
    (row,) = compare(capsys, "tiny", "--workload", file, *HERE)
    one, other = (evaluate(Point(name, "tiny", (), {"size": n})) for name, n in (("saxpy", 256), ("matmul/tiled", 32)))
    assert row["time_us"] == pytest.approx(10 * one["time_us"] + other["time_us"])
    assert row["energy_j"] == pytest.approx(10 * one["energy_j"] + other["energy_j"])
    assert row["why"].startswith(f"saxpy 256, {1000 * one['time_us'] / row['time_us']:.0f} % of the time: ")
    for weight in ("0", "-1", "'often'"):
        file.write_text(WORKLOAD.replace("10", weight))
        assert main(["compare", "tiny", "--workload", str(file), *HERE]) == 2
        assert "a weight says how often a launch runs, a number above 0" in capsys.readouterr().err


def test_the_table_says_what_is_filled_and_who_does_not_fit_a_mask(capsys):
    words = ["tiny", "h200", "sm.count=264", "--program", "saxpy", "--size", "256", *HERE]
    assert main(["compare", *words]) == 0
    first, more, _, head, *lines = capsys.readouterr().out.splitlines()
    assert first.startswith("saxpy 256 fills ") and "of the largest machine: 1 of the 2,112 blocks" in first
    assert more.startswith("A launch that leaves a machine partly empty shows less of more SMs or bandwidth")
    assert head.split()[0] == "time," and lines[0].split()[:1] == ["tiny"]
    assert "1.00" in lines[0].split() and lines[1].split()[:2] == ["h200", "sm.count=264"] and " * " in lines[1]
    assert any(line.startswith("* a die of more than the 858 mm^2") for line in lines)
    assert lines[-3].startswith("errors: areas of known dies are off by")


def test_it_says_who_is_told_apart_and_who_was_never_measured(capsys):
    words = ["h200", "h200", "gpu.clock_mhz=6000", "gb300", "--program", "saxpy", "--size", "256", *HERE]
    assert main(["compare", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {row["machine"]: row for row in compare(capsys, *words)}
    fast, other = "h200 gpu.clock_mhz=6000", rows["gb300"]
    assert rows[fast]["high_us"] < rows["h200"]["low_us"] < other["high_us"]
    assert f"Faster than h200, beyond both intervals: {fast}" in lines
    assert "Not told apart from h200, since the intervals overlap: gb300" in lines
    (far,) = [line for line in lines if line.startswith("No measurement has tested the times of")]
    assert f"gb300 ({other['distance']:.2f}); in brackets: steps from a measured GPU" in far and " h200 (" not in far
    assert any(line.startswith("Simulated without tensor memory") and line.endswith(": gb300") for line in lines)
    (kept,) = [line for line in lines if "1980 in h200" in line]
    assert kept.startswith(fast) and "warning: gpu.clock_mhz: 6000 MHz, 1980 in h200" in kept
    assert "memory has become faster" in kept


def test_names_that_begin_alike_are_short_and_numbered(capsys):
    words = ["gpu.dies=2", "l2.slices=16", "l2.bytes=4194304", "dram.channels=4"]
    machines = ["tiny", "tiny", *words, "tiny", *words, "dram.latency_cycles=500", "tiny", "gpu.dies=2"]
    assert main(["compare", *machines, "--program", "saxpy", "--size", "256", *HERE]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [f"tiny gpu.dies=2 l2.slices=16 ... ({number})" for number in (1, 2)]
    assert all(any(line.startswith(f"{name}  ") for line in lines) for name in names)
    (verdict,) = [line for line in lines if line.startswith("Not told apart from tiny")]
    assert verdict.endswith(f": {names[0]}, {names[1]}, tiny gpu.dies=2")
    (link,) = [line for line in lines if line.startswith("tiny gpu.dies=2: warning: gpu.dies: 2 dies, 1 in tiny")]
    assert link.endswith("launches take as long as before")


def test_the_page_has_all_of_it(tmp_path, capsys):
    file, page = tmp_path / "work.toml", tmp_path / "page.html"
    file.write_text(WORKLOAD)
    rows = compare(capsys, "tiny", "tiny", "sm.count=1", "--workload", file, "--report", page, *HERE)
    document = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text()).group(1))
    assert document["machines"] == rows and document["title"] == f"2 machines for {file}"
    assert [each["program"] for each in rows[0]["launches"]] == ["saxpy 256", "matmul/tiled 32"]
    for row in rows:
        assert sum(each["weight"] * each["time_us"] for each in row["launches"]) == pytest.approx(row["time_us"])
    assert any(each.startswith("No measurement has tested") for each in document["notes"])
    assert any("areas of known dies are off by" in each for each in document["priced"])
    assert main(["compare", "tiny", "--program", "saxpy", "--report", "page.txt"]) == 2
    assert "page.txt: the file's name ends in .html" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tiny"], "either --program or --workload"),
        (["sm.count=1", "--program", "saxpy"], "sm.count=1 changes a GPU, whose name stands before it"),
        (["tiny", "sm.cout=1", "--program", "saxpy"], "did you mean 'sm.count'"),
        (["tiny", "--program", "saxpi"], "did you mean saxpy"),
        (["tiny", "sm.count", "=", "1", "--program", "saxpy"], "a change is one word without spaces"),
        (["tiny", "sm.count=1", "sm.count=2", "--program", "saxpy"], "name the GPU again, tiny sm.count=2"),
        (["tiny", "l2.bytes=60MB", "--program", "saxpy"], "62914560 for 60 MiB, 60000000 for 60 MB"),
        (["tiny", "--workload", "axes.toml", "--workload", "a.launches"], "takes one FILE.toml"),
        (["tiny", "--workload", "axes.toml"], "axes.toml varies sm.count; the machines are those of the command line"),
    ],
)
def test_mistakes_are_one_line(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "axes.toml").write_text('program = "saxpy"\naxes.sm.count = [1, 2]\n')
    assert main(["compare", *words]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")
def test_saved_launches_are_replayed_on_each_machine(tmp_path, capsys, toolchain):
    (tmp_path / "scale.py").write_text(SCRIPT)
    saved = tmp_path / "scale.launches"
    done = run_gpusim("script", "--gpu", "tiny", "--save", str(saved), "--json", "scale.py", folder=tmp_path)
    total = json.loads(done.stdout)["total"]
    same, slower = compare(capsys, "tiny", "tiny", "launch.overhead_cycles=9000", "--workload", saved)
    assert same["time_us"] == pytest.approx(total["time_us"]) and same["energy_j"] == pytest.approx(total["energy_j"])
    assert (same["low_us"], same["high_us"]) == pytest.approx((total["low_us"], total["high_us"]))
    assert slower["time_us"] > same["time_us"] and slower["limited_by"] == "launch overhead"
    assert main(["compare", "tiny", "b200", "--workload", str(saved)]) == 3
    assert "does not run on a GPU of sm_100, and it came without PTX" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")
def test_each_machine_takes_the_run_that_was_saved_on_its_architecture(tmp_path, capsys, toolchain):
    (tmp_path / "scale.py").write_text(SCRIPT)
    for arch in ("sm_80", "sm_90"):
        words = ("--gpu", "tiny", "--set", f"gpu.arch={arch}", "--save", f"{arch}.launches", "scale.py")
        run_gpusim("script", *words, folder=tmp_path)
    files = [word for arch in ("sm_80", "sm_90") for word in ("--workload", tmp_path / f"{arch}.launches")]
    rows = compare(capsys, "tiny", "tiny", "gpu.arch=sm_80", *files)
    assert [row["error"] for row in rows] == [None, None]
    (launch,) = rows[0]["launches"]
    assert launch["weight"] == 3 and 3 * launch["time_us"] == pytest.approx(rows[0]["time_us"])
    assert main(["compare", "tiny", "gpu.arch=sm_80", *map(str, files[2:])]) == 3  # the other file alone
    assert "machine code for sm_90 does not run on a GPU of sm_80" in capsys.readouterr().out
