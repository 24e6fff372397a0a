"""`python -m validate cupy-suite` on tests that stand for CuPy's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from validate.__main__ import main
from validate.cupy_suite import inside

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")
TESTS = """
import os, time
import pytest

def test_passes(): assert os.environ["CUPY_TEST_GPU_LIMIT"] == "1"
def test_fails(): raise AssertionError("wrong")
@pytest.mark.skip("no reason")
def test_is_skipped(): pass
def test_without_a_library():
    try:
        raise ImportError('Failure finding "libcusolver.so.12": No such file')
    except ImportError as error:
        raise AssertionError("Only cupy raises error") from error
def test_ends_the_process(): os._exit(7)
def test_hangs(): time.sleep(100)
def test_after_that(): pass
"""


@pytest.mark.long
def test_what_comes_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder, results = tmp_path / "tests/cupy_tests/some_tests", tmp_path / "results.jsonl"
    folder.mkdir(parents=True)
    (folder / "test_some.py").write_text(TESTS)
    (folder / "test_cufft.py").write_text("raise SystemExit")
    (folder / "test_broken.py").write_text("import gpusim.nonsense")
    command = ["cupy-suite", "--checkout", str(tmp_path), "--results", str(results), "--timeout", "1"]
    assert main(command) == 1
    found = {row["test"].split("::")[-1]: (row["verdict"], row["reason"]) for row in inside.rows(results)}
    assert found.pop("tests/cupy_tests/some_tests/test_broken.py")[0] == "failed"
    assert found == {
        "test_passes": ("passed", ""),
        "test_fails": ("failed", "AssertionError: wrong"),
        "test_is_skipped": ("skipped", "Skipped: no reason"),
        "test_without_a_library": ("excluded", "needs cusolver"),
        "test_ends_the_process": ("failed", "the process ended with status 7"),
        "test_hangs": ("timeout", ""),
        "test_after_that": ("passed", ""),
    }
    assert "2       4  33.3%         1        1" in capsys.readouterr().out.splitlines()[-3]
    (folder / "test_some.py").write_text("def test_passes(): raise SystemExit\ndef test_fails(): pass")
    assert main([*command, "--only", "test_some"]) == 1  # what has failed, and nothing else, is run again
    assert main([*command, "--list"]) == 1  # what was not chosen is as it was
    assert "nonsense" in capsys.readouterr().out
