"""The fixture `gpusim_pin` in a repository that uses gpusim, each made by pytester."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

# Imported here, so that the tests inside do not bring up the engine once more.
import gpusim.host.launch_run
import gpusim.integrations.pin
from gpusim.cli import main
from gpusim.difference.recorded import recording_of
from gpusim.integrations.pin import CYCLES
from programs import images

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]
PROFILE = Path(__file__).parent / "data" / "vector_add_ncu.csv"
BASELINE = recording_of("vector_add")
MEASURED = 4627
"""Cycles of vector_add@10000 on an H200, the median in both files."""

CASE = """
from programs import images, registry

def launch():
    made = registry.get("vector_add").make(10000, 0)
    return images.image("vector_add"), made.grid, made.block, made.args
"""


@pytest.fixture
def run(pytester):
    """Runs a test file of this content with these options, with the plugin once, whether installed or not."""

    def run(content, *options):
        pytester.makepyfile(test_mine=CASE + content)
        return pytester.runpytest_inprocess("-p", "no:gpusim-pin", "-p", "gpusim.integrations.pytest_pin", *options)

    assert gpusim.host.launch_run and gpusim.integrations.pin and images
    return run


def test_the_package_brings_the_plugin():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"gpusim-pin": "gpusim.integrations.pytest_pin"}


@pytest.mark.parametrize("measured", [str(PROFILE), str(BASELINE), 4627, {CYCLES: 4627, "dram__bytes_read.sum": 82944}])
def test_a_kernel_near_its_measurement_passes(run, measured):
    provenance = "" if isinstance(measured, str) else ", provenance='H200, ncu 2025.3, driver 580'"
    counters = ", counters={'dram__bytes_read.sum': 0.05}" if measured != MEASURED else ""
    found = run(
        f"""
def test_it(gpusim_pin):
    result = gpusim_pin(*launch(), measured={measured!r}, tolerance=0.2{provenance}{counters})
    assert result.cycles > 0
"""
    )
    found.assert_outcomes(passed=1)


def test_a_kernel_that_leaves_its_measurement_fails_and_says_how(run):
    found = run(
        f"""
def test_it(gpusim_pin):
    counters = {{"dram__bytes_read.sum": 0.05, "smsp__inst_executed.sum": 0}}
    gpusim_pin(*launch(), measured={str(PROFILE)!r}, tolerance=0.001, counters=counters)
"""
    )
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(
        [
            "*vector_add on NVIDIA H200 leaves what it is pinned to (vector_add_ncu.csv, 3 launches profiled)*",
            "*LEFT *gpc__cycles_elapsed.max: 4627 (4453 to 4745), predicted *, allowed ±0.10%*",
            "*ok *dram__bytes_read.sum: 82944 (82944 to 83200), predicted *, allowed ±5.00%*",
            "*ok *smsp__inst_executed.sum: 13216, predicted 13216: +0.00%, allowed ±0.00%*",
            "*Predicted warps spend their time in long_scoreboard *",
            "*Most of it at line *",
            "*From the measurement (A) to the prediction (B):*",
            "*B takes *",
            "*The stall reason that changed most is *cycles per instruction*",
            "*The difference: *gpusim-pins?test_it.html*",
        ]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("measured=4627, tolerance=0.2", "*say with provenance= where*"),
        ("measured=4627, provenance='H200'", "*the tolerance of gpc__cycles_elapsed.max is a share*not None"),
        ("measured='absent.csv', tolerance=0.2", "*absent.csv cannot be read*"),
        ("measured='x.txt', tolerance=0.2", "*a measurement is an ncu export*"),
        (
            "measured=4627, provenance='H200', tolerance=0.2, counters=['dram__bytes']",
            "*no metric 'dram__bytes'; did you mean 'dram__bytes*",
        ),
        (
            "measured=4627, provenance='H200', tolerance='15%'",
            "*a share, such as 0.05 for 5 %, or 'interval', not '15%'*",
        ),
        ("measured={'dram__bytes.sum': 5}, provenance='H200', tolerance=0.2", "*H200 has no gpc__cycles_elapsed.max*"),
        ("measured='often', provenance='H200', tolerance=0.2", "*a measurement is an ncu export*"),
    ],
)
def test_a_pin_that_says_nothing_is_refused(run, options, message):
    found = run(f"def test_it(gpusim_pin):\n    gpusim_pin(*launch(), {options})\n")
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines([message])


def test_a_number_alone_leaves_the_report_as_its_page(run, pytester):
    found = run(
        """
def test_it(gpusim_pin):
    gpusim_pin(*launch(), measured=3000, provenance="H200", tolerance="interval")
""",
        "--gpusim-pages=pages",
    )
    found.assert_outcomes(failed=1)
    told = str(found.stdout).partition("short test summary")[0]  # which has all of it again where CI is set
    assert told.count("LEFT") == 1 and "During handling" not in told
    left = "*LEFT *3000, predicted *, allowed * to * measured*"
    found.stdout.fnmatch_lines([left, "*The report: *pages?test_it.html*"])
    assert "vector_add" in (pytester.path / "pages" / "test_it.html").read_text("utf-8")


def test_the_model_s_own_interval_is_a_tolerance_of_cycles(run):
    found = run(
        f"""
def test_it(gpusim_pin):
    gpusim_pin(*launch(), measured=4_850, provenance="made up", tolerance="interval")

def test_counter(gpusim_pin):
    gpusim_pin(*launch(), measured={str(PROFILE)!r}, tolerance="interval", counters=["smsp__inst_executed.sum"])
"""
    )
    found.assert_outcomes(passed=1, failed=1)
    found.stdout.fnmatch_lines(["*no interval for smsp__inst_executed.sum of this launch*"])


def test_a_file_of_pins_without_pytest(tmp_path, capsys):
    file = tmp_path / "pins_alone.py"
    pin = "    gpusim_pin(*launch(), measured={}, provenance='H200', tolerance=0.2)\n"
    good = f"def test_good(gpusim_pin):\n{pin.format(MEASURED)}"
    file.write_text(f"{CASE}\n{good}\ndef test_bad(gpusim_pin):\n{pin.format(99)}\ndef test_other(): ...\n")
    assert main(["pin", str(file), "--pages", str(tmp_path / "pages")]) == 1
    told = capsys.readouterr().out
    assert "ok      test_good" in told and "FAILED  test_bad: vector_add on NVIDIA H200 leaves" in told
    assert [each.name for each in (tmp_path / "pages").iterdir()] == ["test_bad.html"]
    wrong = "assert launch() == 3", "gpusim_pin(*launch(), measured=99)", pin.format(99).strip().replace("0.2", "20")
    tests = [f"def test_{k}(gpusim_pin):\n    {text}\n" for k, text in enumerate(wrong)]
    file.write_text("\n".join([CASE, *tests, good]))
    assert main(["pin", str(file), "--pages", str(tmp_path / "pages")]) == 1
    told = capsys.readouterr().out
    assert "FAILED  test_0:  (AssertionError at line " in told and ": assert launch() == 3)" in told
    assert "FAILED  test_1: say with provenance= where these numbers were measured" in told
    assert "FAILED  test_2: the tolerance of gpc__cycles_elapsed.max is a share, such as 0.05 for 5 %" in told
    assert "ok      test_good" in told
    file.write_text(f"{CASE}\n{good}")
    assert main(["pin", str(file)]) == 0
    file.write_text("x = 1")
    assert main(["pin", str(file)]) == 2 and "no function test_" in capsys.readouterr().err


def test_another_launch_is_not_the_one_that_was_measured(run):
    found = run(
        f"""
def test_export(gpusim_pin):
    kernel, _, block, args = launch()
    gpusim_pin(kernel, 41, block, args, measured={str(PROFILE)!r}, tolerance=0.2)

def test_baseline(gpusim_pin):
    kernel, _, block, args = launch()
    gpusim_pin(kernel, 41, block, args, measured={str(BASELINE)!r}, tolerance=0.2)
"""
    )
    found.assert_outcomes(failed=2)
    found.stdout.fnmatch_lines(["*no such launch*", "*no launch with grid (41, 1, 1)*"])
