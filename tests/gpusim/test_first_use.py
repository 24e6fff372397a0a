"""What a new user meets first: how sizes, names and types are spelled, what small mistakes say, and a cache or a disk
that cannot be written."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import gpusim
from gpusim.cli import main, progress
from gpusim.cli.collective import _bytes
from gpusim.cli.parser import UserError
from gpusim.engine.warm import prepare_core
from gpusim.explore.journal import Journal, JournalError
from gpusim.explore.space import Space
from gpusim.units import counted, whole
from gpusim.workload.request import Request
from gpusim.workload.target import parse_arguments
from isa import folders

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "value"), [("1e6", 1_000_000), ("1.5e3", 1500), ("1_000", 1000), ("7", 7), ("0x10", 16), ("010", 10)]
)
def test_a_size_may_be_spelled_as_people_spell_one(text, value):
    assert whole(text) == value


@pytest.mark.parametrize("text", ["1.5", "inf", "nan", "1e-3", "many", ""])
def test_what_is_no_size(text):
    with pytest.raises((ValueError, OverflowError)):
        whole(text)


def test_a_size_may_be_spelled_so_wherever_one_is_asked_for(capsys):
    assert parse_arguments("float32[1e3], int8[2, 1e1]")[1].shape == (2, 10)
    assert _bytes("1e6") == 1_000_000 and _bytes("1.5e3KiB") == 1500 << 10
    with pytest.raises(UserError, match="1e6"):
        _bytes("1.5")
    points = Space([{"name": "vector_add", "size": [1e3]}, "saxpy"], "tiny", {"size": [2e3]}).grid()
    assert [dict(point.parameters)["size"] for point in points] == [1000, 2000]
    assert main(["sweep", "vector_add", "--size", "1e3,2e3", "--dry-run"]) == 0
    assert main(["run", "vector_add", "--gpu", "TINY", "--size", "1e3", "--functional"]) == 0
    assert "size 1,000 elements" in capsys.readouterr().out
    assert main(["run", "vector_add", "--size", "1.5"]) == 2
    assert "--size: a whole number such as 1000 or 1e6, not '1.5'" in capsys.readouterr().err


def test_types_of_arguments_are_those_of_cuda():
    single, number, integers = parse_arguments("float[32], float(2), int[3]")
    assert (single.dtype, single.shape, type(number), integers.dtype) == (np.float32, (32,), np.float32, np.int32)


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [(1, "launch", "1 launch"), (2, "launch", "2 launches"), (0, "copy", "0 copies"), (1234, "point", "1,234 points")],
)
def test_numbers_of_things(number, noun, text):
    assert counted(number, noun) == text
    assert counted(number, noun, "occupy") == f"{text} {'occupies' if number == 1 else 'occupy'}"


@pytest.mark.parametrize(
    ("program", "file", "kernel"),
    [
        ("k.py:add", "k.py", "add"),
        ("some.py/k.cu:add", "some.py/k.cu", "add"),
        ("k.cu:ns::add<float, 4>(float*)", "k.cu", "ns::add<float, 4>(float*)"),
        ("C:/k.PTX", "C:/k.PTX", None),
        ("matmul/tiled", None, None),
    ],
)
def test_a_kernel_of_any_file_is_spelled_alike(program, file, kernel):
    assert (Request(program).file, Request(program).kernel) == (file, kernel)
    if file and not kernel:
        assert Request(program, entry="add").kernel == "add"


def test_a_name_is_offered_once(capsys):
    assert main(["run", "vectoradd"]) == 2
    assert capsys.readouterr().err.count("vector_add") == 1


def kernel(x):
    x[0] = no_such_name(3)  # noqa: F821


@pytest.mark.parametrize(
    ("grid", "args", "options"),
    [
        (0, (), {}),
        (1.5, (), {}),
        (1, np.ones(3), {}),
        (1, (), {"shared_bytes": -1}),
        (1, (np.ones(3),), {}),
        (1, (), {}),
        (1, (), {"gpu": "b300"}),
    ],
)
def test_one_class_catches_whatever_is_wrong(grid, args, options):
    with pytest.raises(gpusim.SimulationError):
        gpusim.simulate(kernel, grid, 32, args, **{"gpu": "tiny"} | options)


def test_an_old_python_is_named(monkeypatch):
    code = compile((ROOT / "gpusim" / "__init__.py").read_text("utf-8"), "gpusim/__init__.py", "exec")
    monkeypatch.setattr(sys, "version_info", (3, 10, 12))
    with pytest.raises(ImportError, match=r"needs Python 3\.11 or newer, and this is \d"):
        exec(code, {"__name__": "gpusim"})


def test_a_configuration_in_a_folder_that_is_not_there(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["config", "new", "designs/Mine.toml", "--base", "H200"]) == 0
    assert gpusim.load_config("designs/mine.toml").gpu.name == "Mine"
    assert main(["config", "new", "mine", "-o", "deep/er/mine.toml"]) == 0
    (tmp_path / "file").touch()
    assert main(["config", "new", "mine", "-o", "file/mine.toml"]) == 2
    assert capsys.readouterr().err.startswith("gpusim: error: file: ")


def test_a_port_in_use_names_it_and_the_option(capsys):
    pytest.importorskip("uvicorn")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert main(["lab", "--no-browser", "--port", str(port)]) == 2
    error = capsys.readouterr().err
    assert f"--port {port}: this port is in use" in error and "Errno" not in error


def test_a_journal_that_is_there_names_the_option(tmp_path):
    with Journal(tmp_path / "a.journal", {}) as book:
        book.append({"key": "a"})
    with pytest.raises(JournalError, match="--resume"):
        Journal(tmp_path / "a.journal", {})


def test_a_long_launch_is_named_off_a_terminal(capsys, monkeypatch):
    clock = iter((100.0, 100.0, 140.0, 150.0, 160.0))  # the compiler has come before the first call
    monkeypatch.setattr(progress, "is_shown", lambda wanted: bool(wanted))
    with progress.show_progress(None) as tell, progress.show_progress(False) as quiet:
        monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
        for cycle in (1000, 2000, 3000):
            tell(cycle, 0, 1, 5000)
        monkeypatch.undo()
    told = capsys.readouterr().err
    assert quiet is None and told.count("\n") == 1
    assert "still running" in told and "cycle 2,000, 0 of 1 block done" in told and "--max-cycles" in told


# --- disks and caches -------------------------------------------------------------------------------------------------


def test_a_full_disk_leaves_what_was_there(tmp_path):
    file = tmp_path / "page.html"
    file.write_text("before")
    with pytest.raises(OSError), folders.replacing(file) as part:
        part.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert file.read_text() == "before" and list(tmp_path.iterdir()) == [file]
    with folders.replacing(file) as part:
        part.write_text("after")
    assert file.read_text() == "after" and list(tmp_path.iterdir()) == [file]
    with folders.replacing("/dev/null") as part:
        assert part == Path("/dev/null")


def test_a_cache_that_cannot_be_written_is_a_warning(capsys, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    (cache / "engine").mkdir(parents=True)
    (cache / "engine" / "kept").write_text("code")
    usual = folders.put_file

    def full(path, content, mode=0o644):
        if path.is_relative_to(cache):
            raise OSError(errno.ENOSPC, "No space left on device")
        return usual(path, content, mode)

    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(folders, "put_file", full)
    monkeypatch.setattr(folders.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    monkeypatch.setenv("GPUSIM_CACHE_DIR", str(cache))
    found = folders.cache_folder()
    assert found.is_relative_to(tmp_path / "tmp") and (found / "engine" / "kept").read_text() == "code"
    assert os.environ["GPUSIM_CACHE_DIR"] == str(found) and folders.cache_folder() == found
    told = capsys.readouterr().err
    assert told.startswith("gpusim: warning: ") and "No space left on device" in told and told.count("\n") == 1


def test_any_other_error_of_the_system_is_one_line(capsys, monkeypatch):
    def fails(options):
        raise PermissionError(errno.EACCES, "Permission denied", "/some/file")

    monkeypatch.setattr("gpusim.cli.listing.execute", fails)
    assert main(["list"]) == 2
    assert capsys.readouterr().err == "gpusim: error: /some/file: Permission denied\n"


def test_one_process_compiles_and_the_other_waits(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    held = []

    def prepare(*what):
        code = f"import fcntl; fcntl.flock(open({str(tmp_path / 'lock')!r}), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        held.append(subprocess.run([sys.executable, "-c", code], capture_output=True).returncode)

    home = sys.modules[prepare_core.__module__]
    monkeypatch.setattr(home, "_prepare", prepare)
    monkeypatch.setattr(home, "core_folder", lambda: tmp_path)
    for cached, outcome in ((False, 1), (True, 0)):
        monkeypatch.setattr(home, "core_is_cached", lambda cached=cached: cached)
        prepare_core(None, None)
        assert held.pop() == outcome
    monkeypatch.setattr(home, "core_is_cached", lambda: False)
    told = []
    monkeypatch.setattr(home.code_cache, "watchers", [told.append])
    with (tmp_path / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        real = types.SimpleNamespace(**vars(fcntl))

        def flock(file, how):
            if not how & fcntl.LOCK_NB:  # this process would wait for itself
                fcntl.flock(lock, fcntl.LOCK_UN)
            fcntl.flock(file, how)

        real.flock = flock
        monkeypatch.setattr(home, "fcntl", real)
        prepare_core(None, None)
    assert told == ["what another process is compiling"] and held == [1]
