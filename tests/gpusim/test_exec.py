"""`gpusim exec`: programs that nothing has been changed in, their ends, threads, children and output."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gpusim.cli import main
from gpusim.errors import SimulationError
from gpusim.exec import wire
from gpusim.exec.libraries import library_folder
from tests.gpusim.cuda_program import DATA, build, command, environment, run
from tests.processes import all_gone, descendants, names


@pytest.fixture(scope="module")
def probe(tmp_path_factory) -> Path:
    """Built, and run once: the first program to be run compiles the engine, which may take minutes."""
    folder = tmp_path_factory.mktemp("exec")
    made = build(build(DATA / "probe.cu", folder / "probe.o", "-c"), folder / "probe", "-ldl", "-lpthread")
    run(made, "works", timeout=900)
    return made


WAYS = ("works", "threads 8", "small-stack", "deep-stack", "fork-before", "fork-after", "close-all", "open")


def test_a_program_finds_what_it_computes_right(probe, tmp_path):
    """In threads that launch at once, on small stacks and deep ones, on both sides of a fork, without the files it had
    open, and by libraries that it opens itself."""
    done = run("sh", "-c", "; ".join(f"'{probe}' {way}; echo {way}: $?" for way in WAYS), cwd=tmp_path)
    assert done.stdout.splitlines() == [line for way in WAYS for line in ("PASS", f"{way}: 0")]
    # close-all asks for a null pointer.
    assert [line for line in done.stderr.splitlines() if "null pointer" not in line] == []


@pytest.mark.parametrize(("words", "status"), [("exit 7", 7), (f"raise {int(signal.SIGSEGV)}", 128 + signal.SIGSEGV)])
def test_the_programs_end_is_passed_on(probe, words, status):
    assert run(probe, *words.split()).returncode == status


def test_two_at_once_in_one_and_in_two(probe):
    words = ("sh", "-c", f"'{probe}' works & '{probe}' threads 2; wait")
    beside = subprocess.Popen(command(*words), stdout=subprocess.PIPE, text=True)
    assert run(*words).stdout.split() == beside.communicate(timeout=120)[0].split() == ["PASS", "PASS"]


def test_the_report_tells_each_process_apart(probe):
    """And what kernels print comes in order with a program's own words."""
    done = run("sh", "-c", f"'{probe}' works; '{probe}' print", options=())
    printed = [line for line in done.stdout.splitlines() if line in ("before", "kernel", "after")]
    assert printed == ["before", "kernel", "kernel", "after"]
    tables = done.stdout.split("Launches on a simulated tiny")[1:]
    assert ["add" in each for each in tables] == [True, False] and ["speak" in each for each in tables] == [False, True]


def test_a_text_is_in_the_program_before_other_threads_learn_of_it():
    """Else a thread that looks up the same function finds anything at its name."""
    ours, its = socket.socketpair()
    connection, memory = wire.Connection(ours, wire.CallingProcess(), 0), bytearray(64)
    order = struct.Struct("<II6Q")

    def program() -> None:
        while head := its.recv(order.size, socket.MSG_WAITALL):
            what, _, first, nbytes, *_ = order.unpack(head)
            if what == wire._KEEP:
                its.sendall((16).to_bytes(8, "little"))
            elif what == wire._WRITE:
                time.sleep(0.1)
                memory[first : first + nbytes] = its.recv(nbytes, socket.MSG_WAITALL)
            else:
                its.sendall(memory[first : first + nbytes])

    thread = threading.Thread(target=program)
    thread.start()
    with ours:
        address = connection.keep(b"cuInit\0")
        found = bytes(memory[address : address + 7])
        ours.shutdown(socket.SHUT_RDWR)
    thread.join()
    its.close()
    assert (found, connection.process.kept) == (b"cuInit\0", {b"cuInit\0": 16})


# --- ends that nobody planned -----------------------------------------------------------------------------------------


def begin_forever(
    words: list[object], temporary: Path, *, computes: bool = True
) -> tuple[subprocess.Popen[str], set[int]]:
    """A program in the middle of a kernel that has no end, or right before it, and the processes that belong to it."""
    process = subprocess.Popen(
        command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env=environment(TMPDIR=str(temporary)),
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "running\n"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = names(descendants(process.pid))
        servers = [each for each, name in found.items() if name != "probe" and name != "sh"]
        if servers and (not computes or all(busy(each) for each in servers)):
            return process, set(found)
        time.sleep(0.05)
    raise AssertionError("the kernel does not begin")


def busy(process: int) -> bool:
    """Whether a process has computed for longer than it takes to begin."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK") > 1


@pytest.mark.parametrize(("killed", "started_by"), [("program", "a shell"), ("gpusim", "itself")])
def test_a_kill_in_the_middle_leaves_nothing(probe, tmp_path, killed, started_by):
    words: list[object] = [probe, "forever"] if started_by == "itself" else ["sh", "-c", f"'{probe}' forever; exit $?"]
    process, others = begin_forever(words, tmp_path)
    try:
        program = next(each for each, name in names(others).items() if name == "probe")
        os.kill(program if killed == "program" else process.pid, signal.SIGKILL)
        assert all_gone(others)
        assert process.wait(60) == (128 + signal.SIGKILL if killed == "program" else -signal.SIGKILL)
        assert list(tmp_path.iterdir()) == []
        assert process.stderr is not None
        # What the kernel spends its time in may have been worth compiling by then.
        assert process.stderr.read().replace("gpusim: compiling the simulator core (once)\n", "") in ("", "Killed\n")
    finally:
        os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else None


def test_ctrl_c_ends_the_program_and_reports(probe, tmp_path):
    process, others = begin_forever([probe, "forever"], tmp_path)
    os.killpg(process.pid, signal.SIGINT)
    complaints = process.communicate(timeout=60)[1]
    assert process.returncode == 128 + signal.SIGINT and all_gone(others)
    assert "Traceback" not in complaints and list(tmp_path.iterdir()) == []


def test_sigterm_goes_to_the_program(probe, tmp_path):
    process, others = begin_forever([probe, "forever"], tmp_path, computes=False)
    process.terminate()
    assert process.wait(60) == 128 + signal.SIGTERM and all_gone(others)


# --- what a program may be that cannot use it -------------------------------------------------------------------------


LATE_THREADS = """
import atexit, ctypes, sys, time

library = ctypes.PyDLL(sys.argv[1])

class Ending:
    def __del__(self, sleep=time.sleep):
        sleep(1)

if sys.argv[2] == "waits":
    atexit.register(library.ask_in_vain)
else:
    ending = Ending()
    library.ask_after(300)
"""


@pytest.mark.parametrize(("when", "printed"), [("waits", "had it"), ("late", "")])
def test_a_thread_that_wants_pythons_lock_at_the_end_aborts_nothing(tmp_path, when, printed):
    """Where it waits for it already, it has it; where it comes while the interpreter ends, it stays."""
    built = build(DATA / "late_threads.cpp", tmp_path / "late.so", "-shared", "-Xcompiler", "-fPIC")
    done = run(sys.executable, "-c", LATE_THREADS, built, when)
    assert (done.returncode, done.stderr) == (0, "") and printed in done.stdout


def test_the_static_runtime_is_told_how_to_be_linked(probe, tmp_path):
    done = run(build(probe.with_suffix(".o"), tmp_path / "static", static=True), "count")
    assert done.stdout == "0 cudaErrorNotSupported\n" and done.returncode == 1
    assert done.stderr.count("\n") == 1 and "nvcc --cudart shared" in done.stderr


@pytest.mark.parametrize("name", ["absent", "folder", "text", "k.cu", "k.py"])
def test_what_cannot_be_started(tmp_path, name):
    (tmp_path / "folder").mkdir()
    for each in ("text", "k.cu", "k.py"):
        (tmp_path / each).write_text("hello")
    done = run(tmp_path / name)
    assert done.returncode == (127 if name == "absent" else 126)
    assert done.stderr.count("\n") == 1 and str(tmp_path / name) in done.stderr
    assert {"k.cu": "gpusim nvcc", "k.py": "gpusim script"}.get(name, "cannot run") in done.stderr


# --- security, and places that cannot be written ----------------------------------------------------------------------


def test_nothing_is_loaded_from_the_working_directory(monkeypatch):
    from gpusim.exec import program

    for given in ("", ":", "/a::/b:", ";/a"):
        monkeypatch.setenv("LD_LIBRARY_PATH", given)
        monkeypatch.setenv("LD_PRELOAD", "")
        made = program.environment("x")
        for name in ("LD_LIBRARY_PATH", "LD_PRELOAD"):
            assert all(each.startswith("/") for each in made[name].split(":")), (given, made[name])
    monkeypatch.delenv("LD_LIBRARY_PATH")
    assert program.environment("x")["LD_LIBRARY_PATH"] == str(library_folder())


def libraries_in(folder: Path) -> Path:
    """A copy of the libraries, where they are looked for if GPUSIM_CACHE_DIR names the folder."""
    made = library_folder()
    return Path(shutil.copytree(made, folder / "exec" / made.name, symlinks=True))


def test_a_cache_folder_that_is_of_no_use(tmp_path, monkeypatch, capfd):
    libraries_in(tmp_path / "a b")
    (tmp_path / "file").write_text("")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    for place in (str(tmp_path / "file"), "/proc/gpusim"):
        monkeypatch.setenv("GPUSIM_CACHE_DIR", place)
        assert main(["exec", "true"]) == 0
        said = [each for each in capfd.readouterr().err.splitlines() if "warning" in each]
        assert len(said) == 1 and place in said[0] and "GPUSIM_CACHE_DIR" in said[0]
    monkeypatch.setenv("GPUSIM_CACHE_DIR", str(tmp_path / "a b"))
    with pytest.raises(SimulationError, match=r"for the space.*GPUSIM_CACHE_DIR"):
        library_folder()


def test_a_place_for_compiled_code_that_takes_none_is_named(probe, tmp_path):
    (tmp_path / "engine").write_text("")
    libraries_in(tmp_path)
    done = run(probe, "works", env={"GPUSIM_CACHE_DIR": str(tmp_path)})
    assert f"GPUSIM_CACHE_DIR says where compiled code goes ({tmp_path})" in done.stderr
    assert "PASS" not in done.stdout and "Traceback" not in done.stderr


def test_a_full_disk_leaves_no_half_library(tmp_path, monkeypatch):
    import resource

    monkeypatch.setenv("GPUSIM_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(SimulationError, match=r"cannot be written.*GPUSIM_CACHE_DIR"):
            library_folder()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_libraries_of_another_user_are_not_loaded(tmp_path, monkeypatch):
    made = libraries_in(tmp_path)
    monkeypatch.setenv("GPUSIM_CACHE_DIR", str(tmp_path))
    assert library_folder() == made
    os.chown(made, 12345, 12345)
    with pytest.raises(SimulationError, match="another user's"):
        library_folder()
    os.chown(made, 0, 0)
    made.chmod(0o777)
    with pytest.raises(SimulationError, match="written by all"):
        library_folder()


def test_only_the_own_user_is_served(monkeypatch):
    from gpusim.exec import server

    listener, name = server.listen()
    with listener:
        for user, served in ((os.getuid(), True), (os.getuid() + 1, False)):
            with server.socket.socket(server.socket.AF_UNIX) as calls:
                calls.connect("\0" + name)
                monkeypatch.setattr(server.os, "getuid", lambda user=user: user)
                found = server.accept(listener)
                assert (found is not None and found[1] == os.getpid()) == served


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_a_program_calls_nobody_elses_server(probe):
    """A listener of another user, which could have functions called, gets no connection that says anything."""
    import socket

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0gpusim-test-of-another-user")
        os.seteuid(12345)
        try:
            listener.listen()
        finally:
            os.seteuid(0)
        folder = library_folder()
        changed = {"LD_LIBRARY_PATH": str(folder), "GPUSIM_EXEC": "gpusim-test-of-another-user"}
        done = subprocess.run([probe, "count"], env=os.environ | changed, capture_output=True, text=True, timeout=60)
        assert done.stdout == "0 cudaErrorUnknown\n" or "process is gone" in done.stderr
        listener.settimeout(60)
        assert listener.accept()[0].recv(1) == b""
