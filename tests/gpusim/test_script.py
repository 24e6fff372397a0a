"""`gpusim script`: scripts run as under `python FILE.py`, on the simulated GPU, with a table of launches at the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests import forks

pytest.importorskip("cuda.bindings")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")

ROOT = Path(__file__).resolve().parents[2]
ADD = """
import sys, warnings
warnings.simplefilter("ignore")
import numpy as np
from numba import cuda

@cuda.jit
def add(a, b):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += b

"""


def gpusim(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a folder."""
    changed = os.environ | {"PYTHONPATH": str(forks.ROOT)} | environment
    return forks.run("-m", "gpusim.cli", *arguments, cwd=folder, env=changed)


def write(folder: Path, name: str, code: str) -> None:
    (folder / name).write_text(ADD + textwrap.dedent(code))


def test_a_script_finds_what_it_finds_under_python_and_its_launches_are_listed(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "neighbour.py").write_text("VALUE = 2.5\n")
    write(
        tmp_path,
        "sub/run.py",
        """
        import atexit, pickle, neighbour
        class Here: pass
        assert pickle.loads(pickle.dumps(Here())).__class__ is Here
        a = cuda.to_device(np.zeros(500))
        for _ in range(3):
            add[8, 64](a, neighbour.VALUE)
        add[1, 32](a, 1.0)
        assert a.copy_to_host().sum() == 500 * 7.5 + 32
        atexit.register(print, "the script's end")
        print(__name__, __file__, sys.argv, a.copy_to_host()[0])
        sys.exit(7)
        """,
    )
    done = gpusim("script", "--gpu", "tiny", "--threads", "1", "sub/run.py", "--gpu", "x", folder=tmp_path)
    assert done.returncode == 7 and "cudart" not in done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "__main__ sub/run.py ['sub/run.py', '--gpu', 'x'] 8.5"
    assert lines[1] == "the script's end"
    rows = [line.split() for line in lines if line.strip().startswith("add ")]
    assert [row[:4] for row in rows] == [["add", "8", "64", "3"], ["add", "1", "32", "1"]]
    assert next(line.split() for line in lines if line.strip().startswith("all"))[1] == "4"


def test_json_and_overrides(tmp_path):
    write(tmp_path, "run.py", "add[64, 128](np.zeros(64 * 128), 1.0)\n")
    times = []
    for sms in (1, 4):
        done = gpusim(
            "script", "--gpu", "tiny", "--set", f"sm.count={sms}", "--json", "--output", "out.json", "run.py",
            folder=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout == ""
        document = json.loads((tmp_path / "out.json").read_text())
        (launch,) = document["launches"]
        assert (launch["kernel"], launch["calls"]) == ("add", 1)
        assert (launch["grid"], launch["block"]) == ([64, 1, 1], [128, 1, 1])
        assert launch["cycles"] == document["total"]["cycles"] > 0
        times.append(launch["time_us"])
    assert times[0] > times[1]  # four SMs are faster than one


@pytest.mark.parametrize(
    ("code", "status", "text"),
    [
        ("raise ValueError('of the script')", 1, "ValueError: of the script"),
        ("sys.exit('bye')", 1, "bye"),
    ],
)
def test_the_exit_status_is_the_scripts(tmp_path, code, status, text):
    write(tmp_path, "run.py", code + "\n")
    done = gpusim("script", "--gpu", "tiny", "--no-report", "run.py", folder=tmp_path)
    assert (done.returncode, done.stdout) == (status, "")
    assert text in done.stderr
    assert "gpusim/cli" not in done.stderr


def test_an_exit_without_a_status_is_none():
    from gpusim.cli.script import _status

    assert (_status(None), _status(256 + 3)) == (0, 3)


def test_mistakes_on_the_command_line(tmp_path):
    (tmp_path / "broken.py").write_text("def f(:\n")
    for arguments, text in (
        (("nowhere.py",), "cannot read nowhere.py"),
        (("broken.py",), "SyntaxError"),
        (("--threads", "0", "broken.py"), "--threads must be positive"),
        (("--gpu", "nothing", "../run.py"), "run.py"),
    ):
        done = gpusim("script", *arguments, folder=tmp_path)
        assert done.returncode == 2
        assert text in done.stderr
        assert "Traceback" not in done.stderr


def test_child_processes_see_the_same_gpu(tmp_path):
    write(
        tmp_path,
        "run.py",
        """
        import subprocess
        name = cuda.get_current_device().name
        child = [sys.executable, "-c", "from numba import cuda; print(cuda.get_current_device().name)"]
        assert subprocess.check_output(child, text=True).strip() == name
        """,
    )
    done = gpusim("script", "--gpu", "tiny", "--no-report", "run.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_test_suite_runs_on_the_simulated_gpu(tmp_path):
    write(
        tmp_path,
        "test_add.py",
        """
        def test_it():
            a = np.zeros(9)
            add[1, 32](a, 2.0)
            assert (a == 2).all()
        """,
    )
    options = ["-p", "gpusim.integrations.pytest_plugin", "--gpusim-gpu", "tiny", "--gpusim-report"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, "test_add.py"],
        capture_output=True, text=True, cwd=tmp_path, timeout=300, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert "add " in done.stdout.partition("simulated GPU")[2]
