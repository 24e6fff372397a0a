"""`gpusim script`: scripts run as under `python FILE.py`, on the simulated GPU, with a table of launches at the end."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpusim.cli import main
from gpusim.cli.exec import _tell_progress
from gpusim.driver.caller import serving
from gpusim.driver.codes import ResultCode
from gpusim.driver.exports import declare_all
from gpusim.driver.registry import ENTRY_POINTS, answer
from gpusim.driver.state import Driver
from gpusim.engine.state import code_cache
from isa.folders import cache_folder
from tests import forks

pytest.importorskip("cuda.bindings")
fcntl, termios = map(pytest.importorskip, ("fcntl", "termios"))
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
        assert a.copy_to_host().sum() == 500 * 7.5
        atexit.register(print, "the script's end")
        print(__name__, __file__, sys.argv, a.copy_to_host()[0])
        unwaited = cuda.cudadrv.driver.driver.cuStreamCreate(1)  # Numba does not destroy it, and nobody waits for it
        add[1, 32, cuda.external_stream(int(unwaited))](a, 1.0)
        sys.exit(7)
        """,
    )
    done = gpusim("script", "--gpu", "tiny", "--threads", "1", "sub/run.py", "--gpu", "x", folder=tmp_path)
    assert done.returncode == 7 and "cudart" not in done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"__main__ {tmp_path}/sub/run.py ['sub/run.py', '--gpu', 'x'] 7.5"
    assert lines[1] == "the script's end"
    rows = [line.split() for line in lines if line.strip().startswith("add ")]
    assert [row[:4] for row in rows] == [["add", "8", "64", "3"], ["add", "1", "32", "1"]]
    assert next(line.split() for line in lines if line.strip().startswith("all"))[1] == "4"


def test_a_script_computes_the_same_on_later_gpus(tmp_path):
    """A softmax, a scatter and a product of halves, by code that is compiled for each."""
    write(
        tmp_path,
        "three.py",
        """
        import math

        @cuda.jit
        def softmax(x, out):
            total = cuda.shared.array(1, np.float32)
            t = cuda.threadIdx.x
            if t == 0:
                total[0] = 0
            cuda.syncthreads()
            own = math.exp(x[cuda.blockIdx.x, t])
            cuda.atomic.add(total, 0, own)
            cuda.syncthreads()
            out[cuda.blockIdx.x, t] = own / total[0]

        @cuda.jit
        def scatter(places, out):
            cuda.atomic.add(out, places[cuda.grid(1)], 1)

        @cuda.jit
        def product(a, b, out):
            row, column = cuda.grid(2)
            total = np.float32(0)
            for k in range(a.shape[1]):
                total += np.float32(a[row, k]) * np.float32(b[k, column])
            out[row, column] = total

        rng = np.random.default_rng(0)
        x, places = rng.standard_normal((4, 64), np.float32), rng.integers(0, 10, 256)
        a, b = (rng.standard_normal((16, 16)).astype(np.float16) for _ in "ab")
        weights, counts, sums = np.zeros_like(x), np.zeros(10, np.int64), np.zeros((16, 16), np.float32)
        softmax[4, 64](x, weights)
        scatter[8, 32](places, counts)
        product[(2, 2), (8, 8)](a, b, sums)
        assert np.allclose(weights, np.exp(x) / np.exp(x).sum(1, keepdims=True), rtol=1e-5)
        assert (counts == np.bincount(places, minlength=10)).all()
        assert np.allclose(sums, a.astype(np.float32) @ b.astype(np.float32), atol=1e-5)
        print(cuda.get_current_device().compute_capability[0], sums.tobytes().hex(), counts.tolist())
        """,
    )
    said = {}
    for gpu in ("h200", "b200", "rtx5090"):
        done = gpusim("script", "--gpu", gpu, "three.py", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        said[gpu] = re.match(r"(\d+) (.*)", done.stdout)
    assert [found[1] for found in said.values()] == ["9", "10", "12"]
    assert len({found[2] for found in said.values()}) == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [(["nowhere.py"], "nowhere.py: No such file"), (["--threads", "0", "x.py"], "must be positive")],
)
def test_mistakes_on_the_command_line(tmp_path, capsys, monkeypatch, arguments, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.py").touch()
    assert main(["script", *arguments]) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "by"),
    [((), "a terminal"), (("--functional",), "a signal"), (("--functional",), "a signal that comes late")],
    ids=["timed", "functional", "late"],
)
def test_an_interrupt_ends_the_call_and_fails_its_context(tmp_path, options, by):
    """The script hears of it as under python, and nothing that was lost passes for done. A terminal interrupts
    the script as well, while a signal reaches `gpusim script` alone. The call may end before the script has got
    its signal. Before, it says how far it is, and what ran."""
    late = "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])" if by.endswith("late") else ""
    write(
        tmp_path,
        "run.py",
        f"""
        import signal
        {late}
        @cuda.jit
        def forever(a):
            while a[0] < 1e30:
                a[0] += 1e-3

        a = cuda.to_device(np.zeros(64))
        add[2, 32](a, 1.0)
        cuda.synchronize()
        print("begins", flush=True)
        try:
            forever[1, 32](a)
            cuda.synchronize()
        except KeyboardInterrupt:
            print("interrupted")
        try:
            a.copy_to_host()
        except Exception as error:
            print("ERROR_UNKNOWN" in str(error))
        raise KeyboardInterrupt
        """,
    )
    command = [sys.executable, "-m", "gpusim.cli", "script", "--gpu", "tiny", "--progress", *options, "run.py"]
    keyboard, terminal = os.openpty()
    process = subprocess.Popen(
        command, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    try:
        assert process.stdout is not None and process.stdout.readline() == "begins\n"
        assert process.stderr is not None
        status = next(line for line in process.stderr if "1 launch done" in line)
        assert re.search(r"1 launch done, now 2, .*forever.*: 0 of 1 blocks, cycle [\d,]+; [\d.]+ M?", status)
        process.send_signal(signal.SIGUSR1)
        assert next(line for line in process.stderr if line == "gpusim: so far\n")
        assert next(line for line in process.stderr if line.lstrip().startswith("add "))
        os.write(keyboard, b"\x03") if by == "a terminal" else process.send_signal(signal.SIGINT)
        text, complaints = process.communicate(timeout=120)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert text.splitlines()[:2] == ["interrupted", "True"] and "add " in text, complaints
    assert process.returncode == 128 + signal.SIGINT and complaints.count("cannot be used any more") == 1


def test_an_interrupt_ends_a_compilation_between_two_functions(monkeypatch):
    """A server's thread compiles, which no signal interrupts, and a whole engine takes it a minute."""
    monkeypatch.setattr(code_cache, "watchers", [])
    monkeypatch.setattr("gpusim.driver.outputs.outputs.tell_when_asked", id)
    driver = Driver("tiny")
    _tell_progress(driver, SimpleNamespace(progress=False))
    driver.callers.append(None)
    driver.interrupt()
    with pytest.raises(KeyboardInterrupt):
        code_cache.watchers[0]("a function")


def test_an_interrupted_call_of_the_runtime_leaves_no_last_error():
    def interrupt(driver):
        raise KeyboardInterrupt

    declare_all()
    driver, called = Driver("tiny"), []
    interrupted = dataclasses.replace(ENTRY_POINTS["cudaDeviceSynchronize"], run=interrupt)
    how = {"process": None, "environment": lambda name: None, "interrupted": lambda: called.append(True)}
    with serving(SimpleNamespace(**how)):
        assert answer(driver, interrupted, []) == ResultCode.UNKNOWN and called
        assert answer(driver, ENTRY_POINTS["cudaGetLastError"], []) == 0
        assert answer(driver, ENTRY_POINTS["cudaDeviceSynchronize"], []) == ResultCode.UNKNOWN


def test_an_interrupt_while_a_server_begins_leaves_it_there(tmp_path):
    asks = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0), flush=True)"
    begins = f"""
    import os, signal, sys
    from gpusim.driver.state import Driver
    from gpusim.exec.program import run

    def interrupted(process):
        os.kill(os.getpid(), signal.SIGINT)
        return Driver("tiny")

    sys.exit(run([sys.executable, "-c", {asks!r}], interrupted, str).status)
    """
    done = forks.run("-c", textwrap.dedent(begins), cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(forks.ROOT)})
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def test_a_program_hides_the_device_from_others(tmp_path):
    """As on a machine with one GPU; what hides this machine's from gpusim hides none from the program."""
    code = """
    import ctypes, os, subprocess, sys
    if sys.argv[1:]:
        driver, runtime = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libcudart.so.13")
        count, place = ctypes.c_int(-1), ctypes.c_void_p()
        calls = driver.cuInit(0), runtime.cudaGetDeviceCount(ctypes.byref(count)), runtime.cudaFree(place)
        sys.exit(f"{sys.argv[1]}: {set(calls)}, {count.value}")
    for each in (os.environ.get("CUDA_VISIBLE_DEVICES", "all"), "", "-1", "1", "none", "0", "0,1", "GPU-"):
        environment = os.environ | ({} if each == "all" else {"CUDA_VISIBLE_DEVICES": each})
        subprocess.run([sys.executable, __file__, each], env=environment)
    """
    (tmp_path / "hide.py").write_text(textwrap.dedent(code))
    done = gpusim("script", "--no-report", "--functional", "hide.py", folder=tmp_path, CUDA_VISIBLE_DEVICES="-1")
    hidden = [f"{each}: {{100}}, -1" for each in ("", "-1", "1", "none")]
    assert done.stderr.splitlines() == [
        "all: {0}, 1",
        *hidden,
        *(f"{each}: {{0}}, 1" for each in ("0", "0,1", "GPU-")),
    ]


def test_a_machine_without_a_compiler_runs_it_inside(tmp_path):
    """The engine's compiled code is the one that is there; the libraries of `gpusim exec` are not."""
    write(
        tmp_path,
        "run.py",
        """
        a = cuda.to_device(np.zeros(500))
        add[8, 64](a, 2.5)
        assert (a.copy_to_host() == 2.5).all() and (__name__, sys.argv) == ("__main__", ["run.py", "7"])
        print("right")
        sys.exit(int(sys.argv[1]))
        """,
    )
    cache = tmp_path / "cache"
    cache.mkdir()
    for each in cache_folder().absolute().iterdir():
        if each.name != "exec":
            (cache / each.name).symlink_to(each)
    empty = {"GPUSIM_CACHE_DIR": str(cache), "PATH": str(tmp_path), "CC": ""}
    done = gpusim("script", "--gpu", "tiny", "run.py", "7", folder=tmp_path, **empty)
    if importlib.util.find_spec("ziglang") is None:
        assert "needs a C compiler" in done.stderr
    assert done.returncode == 7 and done.stdout.startswith("right\n"), done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.strip().startswith("add ")]
    assert [row[:4] for row in rows] == [["add", "8", "64", "1"]]
