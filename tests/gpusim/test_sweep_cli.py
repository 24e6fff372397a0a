"""`gpusim sweep`: what is asked for, what is refused before anything runs, what is printed, exit codes."""

import json
import sys

import pytest

from gpusim.cli import UserError, main
from gpusim.cli.axes import parse_axis
from gpusim.explore.journal import read_journal

pandas = pytest.importorskip("pandas")
TINY = ("--gpu", "tiny", "--workers", "0")


def sweep(capsys, *argv):
    """Exit code, standard output and standard error."""
    code = main(["sweep", *map(str, argv)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("66", [66]),
        ("66,132, 264", [66, 132, 264]),
        ("1.5,true,lrr", [1.5, True, "lrr"]),
        ("[1,2,3],[4,5,6]", [[1, 2, 3], [4, 5, 6]]),
        ("66:264:66", {"low": 66, "high": 264, "step": 66}),
        ("32:256:2:log", {"low": 32, "high": 256, "step": 2, "log": True}),
    ],
)
def test_values_are_read(text, given):
    assert parse_axis(text, "--set x") == given


@pytest.mark.parametrize("text", ["", "1,,2", "1:2:3:4", "1200:9600", "32:256:log", "1:x", "a b"])
def test_what_is_no_value_is_refused(text):
    with pytest.raises(UserError):
        parse_axis(text, "--set x")


def test_a_sweep_prints_its_best_and_worst_points(capsys, toolchain):
    code, out, _ = sweep(capsys, "matmul/tiled", "saxpy", *TINY, "--size", 64, "--set", "sm.count=1,2")
    assert code == 0
    table = [line.split() for line in out.split("\n\n")[1].splitlines()]
    assert table[1][:3] == ["matmul/tiled", "64", "2"]
    assert table[2] == ["saxpy", "64", "2", table[2][3], "us", "all", "alike"]
    assert table[1][5] == "sm.count=2" and table[1][8] == "sm.count=1"
    assert float(table[1][3]) < float(table[1][6])
    assert out.splitlines()[-1].startswith("4 points, 0 failed; ") and out.endswith(" points/s\n")


def test_a_sweep_prints_its_table_with_failures_and_another_exit_code(capsys, tmp_path, toolchain):
    metrics = "energy_j,launch_w,smsp__inst_executed.sum"
    axes = ("--size", "64,128", "--set", "sm.max_warps=32,33,64", "--metrics", metrics)
    code, out, _ = sweep(capsys, "saxpy", *TINY, *axes, "--out", tmp_path / "table.csv")
    assert code == 3 and (tmp_path / "table.journal").exists()
    assert "2 failed: sm: max_warps must be a multiple of sub_partitions\n  such as saxpy on tiny size=64" in out
    fill, _, more, *lines = out.split("\n\n")[0].splitlines()
    assert fill.startswith("saxpy 64 fills ") and " % of the largest machine: 1 of the " in fill
    assert more.startswith("A launch that leaves a machine partly empty shows less")
    head, *rows = [line.split() for line in lines]
    assert head == [
        "program", "size", "sm.max_warps", "time_us", "cycles", "energy_j", "bound_cycles", "bound_by", "launch_w",
        "smsp__inst_executed.sum",
    ]  # fmt: skip
    assert [row[1:3] for row in rows] == [[size, warps] for size in ("64", "128") for warps in ("32", "33", "64")]
    assert [row[3] == "failed" for row in rows] == [False, True, False] * 2
    written = pandas.read_csv(tmp_path / "table.csv")
    assert written["error"].notna().sum() == written["cycles"].isna().sum() == 2
    for row in rows:
        mine = (written["size"] == int(row[1])) & (written["sm.max_warps"] == int(row[2]))
        (cycles,), (count,) = written[mine]["cycles"], written[mine]["smsp__inst_executed.sum"]
        (joules,) = written[mine]["energy_j"]
        assert row[5] == ("-" if joules != joules else f"{joules:.4g}")
        assert row[4] == ("-" if cycles != cycles else f"{cycles:,.0f}") and row[-1] == (
            "-" if count != count else f"{count:,.0f}"
        )


def test_a_long_table_is_cut_unless_all_of_it_is_asked_for(capsys):
    argv = ("saxpy", *TINY, "--size", 64, "--set", "sm.count=1:44:1", "--bound-only")
    lines = sweep(capsys, *argv)[1].split("\n\n")[0].splitlines()
    assert len(lines) == 42 and lines[-1].startswith("40 of 44 rows, all with --all; ")
    lines = sweep(capsys, *argv, "--all")[1].split("\n\n")[0].splitlines()
    assert len(lines) == 45 and lines[-1].split()[2] == "44"


def test_a_second_sweep_resumes_only_on_request(capsys, tmp_path, toolchain):
    argv = ("saxpy", *TINY, "--size", "64,128", "--journal", tmp_path / "x.journal")
    assert sweep(capsys, *argv)[0] == 0
    code, _, err = sweep(capsys, *argv)
    assert code == 2 and "exists already" in err
    before = read_journal(tmp_path / "x.journal")
    code, out, _ = sweep(capsys, *argv, "--resume", "--json")
    assert [row["size"] for row in json.loads(out)["points"]] == [64, 128]
    code, out, _ = sweep(capsys, *argv, "--resume")
    assert read_journal(tmp_path / "x.journal") == before
    assert code == 0 and out.splitlines()[-1] == "2 points, 0 failed, 2 of them from the journal"
    code, _, err = sweep(capsys, "saxpy", *TINY, "--size", "64", "--journal", tmp_path / "x.journal", "--resume")
    assert code == 2 and "of another sweep, of 2 points, and this one has 1" in err


FILE = """
program = "saxpy"
gpu = "tiny"
[axes]
size = { low = 64, high = 1024, step = 4, log = true }
"""


def test_options_replace_what_a_file_says(capsys, tmp_path, toolchain):
    file = tmp_path / "study.toml"
    file.write_text(FILE)
    rows = json.loads(sweep(capsys, file, "--workers", 0, "--json")[1])["points"]
    assert [row["size"] for row in rows] == [64, 256, 1024]
    options = ("--size", "64,65", "--set", "sm.count=1,2")
    grid = json.loads(sweep(capsys, file, "--workers", 0, "--json", *options)[1])["points"]
    assert [(row["size"], row["sm.count"]) for row in grid] == [(64, 1), (64, 2), (65, 1), (65, 2)]


def test_dry_run_counts(capsys, tmp_path):
    journal = tmp_path / "x.journal"
    argv = ("saxpy", "vector_add", *TINY, "--size", "64:1024:64", "--set", "sm.max_warps=32,33", "--journal", journal)
    code, out, _ = sweep(capsys, *argv, "--dry-run")
    assert (code, out) == (0, "64 points\n")
    assert not journal.exists()


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("saxpi",), "no program named 'saxpi'; did you mean saxpy"),
        (("absent.py:kernel",), "no such file: absent.py"),
        (("absent.toml",), "absent.toml: cannot be read"),
        (("saxpy", "--gpu", "tinny"), "no configuration 'tinny'"),
        (("saxpy", "--set", "sm.cout=1"), "sm.cout: unknown key; did you mean 'sm.count'"),
        (("saxpy", "--set", "sm.count"), "--set takes KEY=VALUES"),
        (("saxpy", "--set", "sm.count=1", "--set", "sm.count=2"), "stands twice"),
        (("saxpy", "--set", "sm.count=1,1"), "has the value 1 twice"),
        (("saxpy", "--set", "sm.count=1:5"), "a range is spelled LOW:HIGH:STEP"),
        (("saxpy", "--grid", "4"), "grid: not a parameter of saxpy, which takes size, seed"),
        (("saxpy", "--metrics", "dram__bytes"), "no metric named 'dram__bytes'"),
        (("saxpy", "--out", "x.txt"), "--out x.txt: the file's name ends in .parquet or .csv"),
        (("saxpy", "--out", "absent/x.csv"), "no such folder"),
        (("saxpy", "--journal", "absent/x"), "the journal absent/x cannot be written"),
        (("saxpy", "--resume"), "--resume needs --journal"),
        (("saxpy", "--workers", "-1"), "--workers must not be below 0"),
        (("saxpy", "--size", "1:2000000:1"), "at most 100,000 are allowed"),
        (("saxpy", "--size", "1:2000:1", "--set", "sm.count=1:2000:1"), "the grid has 4,000,000 points"),
    ],
)
def test_a_mistake_is_one_line_before_anything_runs(capsys, monkeypatch, tmp_path, argv, told):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.modules["gpusim.explore.sweep"], "evaluate", lambda *_, **__: pytest.fail("a point ran"))
    code, out, err = sweep(capsys, *argv, *(() if "--workers" in argv else ("--workers", "0")))
    assert code == 2 and out == "" and err.count("\n") == 1 and told in err, err
    assert list(tmp_path.iterdir()) == []


def test_the_bound_alone(capsys, toolchain):
    argv = ("matmul/tiled", *TINY, "--size", 96, "--set", "sm.count=1,2,3,6", "--json")
    bounds = json.loads(sweep(capsys, *argv, "--bound-only")[1])["points"]
    assert all(row["cycles"] is None and row["bound_cycles"] > 0 and row["bound_by"] for row in bounds)
    assert bounds[0]["bound_cycles"] > bounds[1]["bound_cycles"] > bounds[3]["bound_cycles"]
    told = sweep(capsys, *argv[:-1], "--bound-only")[1]
    assert "cycles at least  sm.count=6" in told and "points/s" in told
