"""The command line: exit codes, one-line errors, and that each command prints what it promises."""

import importlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from gpusim.cli import main
from gpusim.config import describe_keys, shipped_names
from gpusim.errors import WorkloadError
from gpusim.lab.play import CUBIN
from gpusim.results.metrics import METRICS
from gpusim.units import joule_text
from gpusim.workload.target import parse_arguments
from programs import registry

ROOT = Path(__file__).parents[2]

KERNELS = '''
"""Kernels of a user's own file."""
from dataclasses import dataclass

import helper
from numba import cuda


@dataclass
class Unused:
    value: int


@cuda.jit
def scale(x, factor):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = helper.twice(x[i]) * factor


def fill(x, value):
    x[cuda.grid(1)] = value


THREE = 3
'''
HELPER = """
from numba import cuda


@cuda.jit(device=True)
def twice(value):
    return value + value
"""


@pytest.fixture
def kernels(tmp_path):
    """A Python file with a dispatcher and a plain function, beside a module that it imports."""
    (tmp_path / "helper.py").write_text(HELPER)
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    return path


def run(capsys, *argv):
    """Exit code, standard output and standard error of one command."""
    code = main([str(each) for each in argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refused(capsys, *argv):
    """The one line that a user's mistake prints."""
    code, out, err = run(capsys, *argv)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1, err
    assert err.startswith("gpusim: error: ") or err.startswith("usage:"), err
    return err


# --- arguments on the command line --------------------------------------------------------------------------------


def test_arguments():
    zeros, ramp, ones, sevens = parse_arguments("float32[4], int64[2,3]=arange, uint8[2]=ones, float64[2]=7.5")
    for found, wanted in ((zeros, np.zeros(4, np.float32)), (ramp, np.arange(6).reshape(2, 3)),
                          (ones, np.ones(2, np.uint8)), (sevens, np.full(2, 7.5))):  # fmt: skip
        assert found.dtype == wanted.dtype and np.array_equal(found, wanted)
    assert parse_arguments("") == parse_arguments("  ") == ()
    values = parse_arguments("3, -2, 0x10, 2.5, 1e-3, true, False, int32(7), float32(2.5), bool(true)")
    assert values == (3, -2, 16, 2.5, 1e-3, True, False, 7, 2.5, True)
    kinds = [int, int, int, float, float, bool, bool, np.int32, np.float32, np.bool_]
    assert [type(each) for each in values] == kinds


def test_random_arrays_depend_on_the_seed_alone():
    a, b = parse_arguments("float32[1000]=random, int8[1000]=random", seed=3)
    again, _ = parse_arguments("float32[1000]=random, int8[1000]=random", seed=3)
    (other,) = parse_arguments("float32[1000]=random", seed=4)
    assert np.array_equal(a, again) and not np.array_equal(a, other)
    assert a.dtype == np.float32 and a.min() >= 0 and a.max() < 1 and a.std() > 0.2
    assert b.dtype == np.int8 and b.min() >= 0 and b.max() <= 99 and len(set(b.tolist())) > 50


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("float33[4]", "float33"),
        ("object[4]", "object"),
        ("str[4]", "str"),
        ("float32[4", "float32[4"),
        ("float32[]", "float32[]"),
        ("float32[4]=randon", "randon"),
        ("uint8(300)", "300"),
        ("uint8[2]=-1", "-1"),
        ("int32(2.5)", "2.5"),
        ("banana", "banana"),
        ("1,,2", "''"),
        ("float64[1000000,1000000]", "8,000,000,000,000"),
    ],
)
def test_bad_arguments(text, named):
    with pytest.raises(WorkloadError) as caught:
        parse_arguments(text)
    assert named in str(caught.value) and "--args" in str(caught.value)


# --- commands that do not simulate ----------------------------------------------------------------------------------


def test_version(capsys):
    import gpusim

    assert run(capsys, "--version")[:2] == (0, f"gpusim {gpusim.__version__}\n")


def test_list(capsys):
    code, out, _ = run(capsys, "list")
    assert code == 0 and all(name in out for name in registry.names())
    rows = json.loads(run(capsys, "list", "--json")[1])
    assert [row["name"] for row in rows] == registry.names()
    last = registry.get(rows[-1]["name"])
    assert (rows[-1]["teaches"], rows[-1]["default_size"]) == (last.teaches, last.default_size)
    assert [row["name"] for row in json.loads(run(capsys, "list", "--metrics", "--json")[1])] == list(METRICS)
    assert "gpu__time_duration.sum [ns]\n" in run(capsys, "list", "--metrics")[1]


def test_config_show(capsys, tmp_path):
    """What is printed is a configuration file, and reads back to what was printed."""
    _, out, _ = run(capsys, "config", "show", "h200", "--set", "sm.count=66")
    assert 'count = { value = 66, source = "override" }' in out
    file = tmp_path / "mine.toml"
    file.write_text(out)
    assert run(capsys, "config", "show", file)[1] == out
    values = json.loads(run(capsys, "config", "show", file, "--json")[1])
    assert values["sm.count"] == {"value": 66, "source": "override"}
    assert list(values) == [*describe_keys(), "derived"]


def test_config_diff_keys_and_list(capsys):
    changes = ["--set", "sm.count=66", "--set", "issue.policy=lrr"]
    changed = json.loads(run(capsys, "config", "diff", "h200", *changes, "--json")[1])
    assert changed == {"sm.count": [132, 66], "issue.policy": ["block", "lrr"]}
    lines = run(capsys, "config", "diff", "h200", "a100")[1].splitlines()
    assert ["sm.count", "132", "108"] in [line.split() for line in lines]
    assert run(capsys, "config", "diff", "h200", "H200")[1] == "h200 and H200 do not differ\n"
    keys = json.loads(run(capsys, "config", "keys", "dram", "--json")[1])
    assert "dram.bandwidth_gb_s" in keys and all(key.startswith("dram.") for key in keys)
    rows = json.loads(run(capsys, "config", "list", "--json")[1])
    assert [row["name"] for row in rows] == list(shipped_names())


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["run", "reduction/sequentiel"], "reduction/sequential"),
        (["run", "vector_add", "--size", "-5"], "size"),
        (["run", "vector_add", "--gpu", "h300"], "h200"),
        (["run", "vector_add", "--set", "sm.cuont=66"], "sm.count"),
        (["run", "vector_add", "--set", "sm.count"], "key=value"),
        (["run", "vector_add", "--grid", "8"], "--grid"),
        (["run", "vector_add", "--threads", "0"], "--threads"),
        (["run", "vector_add", "--max-cycles", "0"], "--max-cycles"),
        (["run", "missing.py:kernel"], "missing.py"),
        (["run", "missing.cubin"], "missing.cubin"),
        (["show", "missing.ptx"], "missing.ptx"),
        (["config", "show", "missing.toml"], "missing.toml"),
        (["config", "diff", "h200"], "config diff takes two"),
        (["config", "keys", "dran"], "no section 'dran'"),
        (["run", "vector_add", "--report", "absent/out.html"], "--report absent/out.html: "),
        (["run", "vector_add", "--report", "."], "--report .: "),
    ],
)
def test_mistakes_are_one_line(capsys, argv, named):
    assert named in refused(capsys, *argv)


@pytest.mark.parametrize("argv", [[], ["runn"], ["run"], ["run", "vector_add", "--size", "many"], ["config"]])
def test_usage_errors(capsys, argv):
    code, out, err = run(capsys, *argv)
    assert (code, out) == (2, "")
    assert err.startswith("usage: gpusim")


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["missing", "--grid", "1", "--block", "32"], "there are: scale, fill"),
        (["THREE", "--grid", "1", "--block", "32"], "not a function but int"),
        (["scale", "--grid", "1"], "--block is missing"),
        (["scale", "--size", "4", "--grid", "1", "--block", "32"], "--size is for bundled programs"),
        (["fill", "--grid", "0", "--block", "1"], "must be positive"),
        (["fill", "--grid", "1,2,3,4", "--block", "1"], "--grid takes one to three integers"),
        (["fill", "--grid", "(2, 1)", "--block", "1.5"], "--block takes one to three integers"),
    ],
)
def test_mistakes_about_a_users_file(capsys, kernels, argv, named):
    assert named in refused(capsys, "run", f"{kernels}:{argv[0]}", *argv[1:])


def test_mistakes_in_a_users_file(capsys, kernels):
    kernels.write_text("import sys\nsys.exit('no')\n")
    assert "cannot be imported: SystemExit" in refused(capsys, "show", f"{kernels}:scale")
    kernels.write_text("x = 1\ny = = 2\n")
    assert "line 2" in refused(capsys, "show", f"{kernels}:scale")


def test_a_users_module_does_not_replace_one_that_is_loaded(capsys, tmp_path):
    """A file named json.py must not become the json of everybody else."""
    (tmp_path / "json.py").write_text("def kernel(x):\n    x[0] = 1\n")
    assert run(capsys, "show", tmp_path / "json.py:kernel", "--args", "float32[1]")[0] == 0
    assert sys.modules["json"] is json
    assert str(tmp_path) not in sys.path


def test_show(capsys):
    code, out, err = run(capsys, "show", "vector_add", "--control")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    source = next(k for k, line in enumerate(lines) if line.endswith("c[i] = a[i] + b[i]"))
    assert lines[source].startswith("vector_add.py:")
    below = lines[source + 1 : lines.index("", source) if "" in lines[source:] else None]
    assert any("FADD" in line for line in below) and any("LDG.E" in line for line in below)
    document = json.loads(run(capsys, "show", "vector_add", "--json")[1])
    assert document["kernel"] == "vector_add" and document["arch"] == "sm_90"
    assert [row["address"] for row in document["instructions"]] == [*range(0, 16 * len(document["instructions"]), 16)]
    load = next(row for row in document["instructions"] if row["text"].startswith("LDG"))
    assert load["source"] == "c[i] = a[i] + b[i]" and "costs" not in load
    assert load["control"]["write_barrier"] < 6, "a load sets a scoreboard"


def test_show_own_kernel(capsys, kernels):
    """A plain function needs its name and a signature."""
    _, out, _ = run(capsys, "show", f"{kernels}:fill", "--signature", "void(int32[::1], int32)")
    assert out.startswith("fill: ") and "STG.E " in out


# --- commands that simulate -----------------------------------------------------------------------------------------

FAST = ["--set", "sm.count=4", "--threads", "1"]
"""A small machine: quicker to set up, and exact counts do not depend on it."""


def test_run_reports_and_checks(capsys, tmp_path):
    page = tmp_path / "out.html"
    options = ["--report", page, "--trace-blocks", "1", *FAST]
    code, out, err = run(capsys, "run", "vector_add", "--size", "2000", *options)
    assert code == 0, err
    assert out.startswith("vector_add, size 2,000 elements, seed 0\nvector_add on NVIDIA H200")
    assert out.endswith("output equals the NumPy reference\n")
    assert "sectors per request: loads 3.97" in out
    text = page.read_text("utf-8")
    assert "<title>vector_add" in text and '"label":"block 1,0,0 warp 0"' in text


def test_run_json(capsys):
    """2,000 elements in 8 blocks: 62 full warps and one half, each with 2 loads and a store of 4-byte words."""
    code, out, err = run(capsys, "run", "vector_add", "--size", "2000", "--seed", "5", "--json", *FAST)
    assert code == 0, err
    document = json.loads(out)
    assert (document["program"], document["size"], document["seed"]) == ("vector_add", 2000, 5)
    assert document["check"] == {"equal": True, "message": "output equals the NumPy reference"}
    metrics = document["metrics"]
    assert set(metrics) == set(METRICS)
    assert metrics["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == 2 * 63
    assert metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == 250
    assert metrics["smsp__inst_executed.sum"] == sum(row["instructions"] for row in document["instructions"])
    assert document["cycles"] == metrics["gpc__cycles_elapsed.max"] > 2415


def test_wrong_output_is_exit_code_1(capsys, monkeypatch):
    """The check must be able to fail: the reference is made to disagree in one element."""
    import dataclasses

    variant = registry.get("vector_add")

    def wrong(launch):
        (expected,) = variant.reference(launch)
        expected[7] += 1
        return (expected,)

    monkeypatch.setattr(registry, "get", lambda name: dataclasses.replace(variant, reference=wrong))
    code, out, err = run(capsys, "run", "vector_add", "--size", "600", *FAST)
    assert code == 1
    assert "differs in 1 of 600 elements, first at (7,)" in err and err.count("\n") == 1
    assert "output equals" not in out and out.startswith("vector_add, size 600")
    code, out, _ = run(capsys, "run", "vector_add", "--size", "600", "--json", *FAST)
    assert code == 1 and json.loads(out)["check"]["equal"] is False
    code, out, _ = run(capsys, "run", "vector_add", "--size", "600", "--no-check", *FAST)
    assert code == 0 and "reference" not in out


def test_run_own_kernel(capsys, kernels):
    """The only dispatcher needs no name; its types come from the arguments."""
    argv = ["--grid", "2", "--block", "32", "--args", "float32[50]=arange, float32(3)", *FAST]
    code, out, err = run(capsys, "run", kernels, "--json", *argv)
    assert code == 0, err
    document = json.loads(out)
    assert document["check"] is None and document["size"] is None
    assert document["metrics"]["launch__thread_count"] == 64
    assert document["metrics"]["l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"] == 2


def test_run_a_compiled_file(capsys):
    """The kernel chosen runs, and without a choice all are named."""
    argv = ["run", CUBIN, "--grid", "8,8", "--block", "32,8", *FAST]
    argv += ["--args", "float32[16384], float32[16384], int32(256), int32(64)"]
    code, out, err = run(capsys, *argv, "--entry", "pixels", "--json")
    assert (code, json.loads(out)["kernel"]) == (0, "pixels"), err
    message = refused(capsys, *argv)
    assert "banks1" in message and "pixels" in message


def test_kernel_errors_are_one_line(capsys, kernels):
    argv = ["--grid", "1", "--block", "64", *FAST]
    message = refused(capsys, "run", f"{kernels}:fill", "--args", "float32[8], 1.0", *argv)
    line = KERNELS.splitlines().index("    x[cuda.grid(1)] = value") + 1
    assert "out of bounds" in message and "'x' (32 bytes)" in message
    assert f"kernels.py:{line}, block (0, 0, 0), thread (8, 0, 0), instruction 'STG.E " in message
    message = refused(capsys, "run", f"{kernels}:fill", "--args", "float32[64]", *argv)
    assert "argument" in message
    message = refused(capsys, "run", "vector_add", "--size", "600", "--max-cycles", "100", *FAST)
    assert "max_cycles = 100" in message


def test_show_with_costs(capsys):
    argv = ("show", "vector_add", "--run", "--size", "2000", *FAST)
    out, document = run(capsys, *argv)[1], json.loads(run(capsys, *argv, "--json")[1])
    row = next(line for line in out.splitlines() if "FADD" in line).split()
    assert (row[0], row[1]) == ("63", "31.7"), "62 full warps and one half"
    add = next(row for row in document["instructions"] if row["text"].startswith("FADD"))
    assert (add["costs"]["instructions"], add["costs"]["thread_instructions"]) == (63, 2000)
    told = [line.split()[3:5] for line in out.splitlines() if re.match(r" +[\d,]+ +\d+\.\d ", line)]
    assert told == [joule_text(row["costs"]["energy_j"]).split() for row in document["instructions"]]


# --- the process ----------------------------------------------------------------------------------------------------


def test_help_starts_without_the_heavy_imports():
    """A help text must not wait for NumPy, Numba, pydantic, rich or argcomplete, nor for the decoder; a configuration
    not for Numba."""
    code = (
        "import sys; from gpusim.cli import main; main(['--help']); "
        "assert not {'isa', 'numpy', 'numba', 'pydantic', 'rich', 'argcomplete'} & set(sys.modules); "
        "from gpusim.config import load_config; load_config('a100'); assert 'numba' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""


def test_a_warm_run_starts_without_what_compiles_kernels():
    """A kernel that has been compiled before must not wait for `numba.cuda`, nor a report for what draws."""
    code = (
        "import gc, sys; from gpusim.cli import main; main(['run', 'vector_add', '--size', '2000', '--gpu', 'tiny']); "
        "assert gc.isenabled() and gc.get_freeze_count(); "
        "unwanted = 'numba.cuda.typing', 'cuda', 'matplotlib'; "
        "print([m for m in unwanted if m in sys.modules], file=sys.stderr)"
    )
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=600)
        if done.stderr == "[]\n":
            break  # otherwise it may have compiled, and a second one need not
    assert done.stderr == "[]\n"


@pytest.mark.parametrize(
    ("wrong", "who", "meant"),
    [
        ("rnu vector_add", "gpusim", "run"),
        ("run vector_add --gird 3", "gpusim run", "--grid"),
        ("run vector_add --szie=3", "gpusim run", "--size"),
        ("config shwo", "gpusim config", "show"),
        ("config show --derivd", "gpusim config show", "--derived"),
        ("figures vector_add out --kind sgv", "gpusim figures", "svg"),
        ("run vector_add --mode detaild", "gpusim", "detailed"),
        ("run vector_add --gpu tiny --check racechek", "gpusim", "racecheck"),
    ],
)
def test_a_misspelled_command_or_option_is_told_what_is_near(capsys, wrong, who, meant):
    code, out, err = run(capsys, *wrong.split())
    last = err.splitlines()[-1]
    assert (code, out) == (2, "") and last.startswith(f"{who}: error: ") and last.endswith(f"; did you mean {meant}?")


def test_reader_that_goes_away(capsys, monkeypatch):
    """`gpusim list --metrics | head -1` ends quietly, and so does the interpreter when it closes standard output."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", encoding="utf-8") as stdout, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", stdout)
        assert main(["list", "--metrics"]) == 141
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt, 130, "gpusim: interrupted\n"),
        (MemoryError, 2, "gpusim: error: this needs more memory than the host has\n"),
    ],
)
def test_what_may_happen_during_a_run(capsys, monkeypatch, error, code, message):
    from gpusim.cli import run as command

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(command, "simulate_target", fail)
    assert run(capsys, "run", "vector_add", "--size", "600") == (code, "", message)


def test_progress_appears_after_two_seconds(monkeypatch, capfd):
    from gpusim.cli import progress

    with progress.show_progress(False) as callback:
        assert callback is None
    with progress.show_progress(None) as callback:  # standard error is no terminal here
        callback(100, 1, 4, 2_500)
    shown, now = [], [0.0]
    monkeypatch.setattr(progress.Bar, "show", lambda bar, *what: shown.append(what))
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with progress.show_progress(True, lambda: 300.0) as callback:
        callback(1000, 0, 10, 1000)
        assert not shown, "too early"
        now[0] = 2.5
        callback(2000, 1, 10, 2000)
        callback(2500, 8, 10, 4000)  # more than there were to be: the blocks that have ended tell
    assert shown == [
        (2000, 3000, "2.0 k of 3.0 kinstructions; cycle 2,000, 1 of 10 blocks done"),
        (4000, 5000, "4.0 k of 5.0 kinstructions; cycle 2,500, 8 of 10 blocks done"),
    ]


def test_progress_counts_the_instructions_of_the_run(capsys, monkeypatch):
    """What it says last is near what the report says, and what it expects is known before any block has ended."""
    from gpusim.cli import progress

    told = []
    monkeypatch.setattr(progress, "PATIENCE_S", -1.0)
    monkeypatch.setattr(progress, "launch_text", lambda *facts: told.append(facts) or "")
    arguments = ("run", "matmul/tiled", "--size", 96, "--gpu", "tiny", "--progress", "--json")
    code, out, _ = run(capsys, *arguments)
    total = json.loads(out)["metrics"]["smsp__inst_executed.sum"]
    assert code == 0 and told
    issued, expected, _, finished, blocks = zip(*told, strict=True)
    assert list(issued) == sorted(issued) and 0.8 * total < issued[-1] <= total and blocks[0] == 36
    assert finished[0] == 0 and expected[0] == pytest.approx(total, rel=0.02)


def test_bundled_programs_run_from_recorded_images_without_the_tool_chain(monkeypatch, capsys):
    from gpusim.cli import main
    from isa import ToolchainMissing, toolchain

    def missing(name):
        raise ToolchainMissing(f"{name} is not installed")

    monkeypatch.setattr(toolchain, "find_tool", missing)
    monkeypatch.setattr(importlib.import_module("isa.assemble"), "find_tool", missing)
    assert main(["run", "vector_add", "--size", "2000", "--gpu", "tiny"]) == 0
    assert "output equals the NumPy reference" in capsys.readouterr().out
