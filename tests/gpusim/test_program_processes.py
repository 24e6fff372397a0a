"""Processes of one program that share simulated GPUs: what they compute, how long it takes, and how they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpusim.driver.work.processes import SharedTime
from gpusim.exec import wire
from gpusim.exec.server import ServedProcess
from tests.gpusim import ranks_program
from tests.gpusim.cuda_program import command, environment, require_compiler
from tests.processes import all_gone, descendants

PROGRAM = ranks_program.__file__
TIMEOUT = 300


@pytest.fixture(autouse=True)
def compiler():
    require_compiler()


def ranks(way, size=2, *, gpus=None, options=("--functional", "--no-report"), before=()):
    """What the ranks of a program print, by rank, and the whole run."""
    words = [sys.executable, "-m", "gpusim.cli", "exec", "--gpu", "tiny", "--gpus", str(gpus or size), *options]
    how = {"capture_output": True, "text": True, "env": environment(), "timeout": TIMEOUT}
    done = subprocess.run([*words, *before, sys.executable, PROGRAM, way, str(size)], **how)
    lines = [each.split(" ", 1) for each in done.stdout.splitlines()]
    return [[text for rank, text in lines if rank == str(number)] for number in range(size)], done


@pytest.mark.parametrize(("way", "size"), [("sums", 4), ("sums", 8), ("hidden", 2)])
def test_ranks_reduce(way, size):
    total = float(size + sum(range(1, size + 1)))
    assert ranks(way, size)[0] == [[f"[{total}]", "ended with 0"]] * size


def test_two_processes_on_one_gpu():
    assert ranks("shares", 4, gpus=2)[0] == [[f"[{2.0 + rank}]", "ended with 0"] for rank in range(4)]


def test_ranks_that_come_late():
    found, _ = ranks("late", 3)
    assert found == [["[6.0]", "[9.0]", "ended with 0"], *[["[9.0]", "ended with 0"]] * 2]


@pytest.mark.parametrize(("way", "size"), [("times", 2), ("times", 4), ("turns", 2)])
def test_times_are_the_same_beside_a_busy_machine(way, size, tmp_path):
    """However the system schedules the processes, which sleep for random times and look on at random times."""
    found = []
    for busy in (False, True):
        table = tmp_path / f"{busy}.json"
        load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() * busy)]
        try:
            printed, _ = ranks(way, size, options=("--json", "--output", str(table)))
        finally:
            for each in load:
                each.kill()
                each.wait()
        launches = json.loads(table.read_text())["launches"]
        cycles = [[each[key] for key in ("grid", "calls", "cycles", "most_cycles")] for each in launches]
        found.append((printed, sorted(cycles)))
        assert all(lines[-1] == "ended with 0" for lines in printed)
    assert found[0] == found[1]


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize(("counts", "least_s", "most_s"), [("none", 0, 0.01), ("measured", 0.3, 1)])
def test_what_a_process_computes_takes_time_if_that_is_measured(size, counts, least_s, most_s):
    found, _ = ranks("computes", size, options=("--no-report", "--host-time", counts))
    for took, end in found:
        assert least_s <= int(took) / 1e9 < most_s and end == "ended with 0"


@pytest.mark.parametrize(
    ("does", "where", "at_once"),
    [("input()", "pipe_read", True), ("time.sleep(99)", "nanosleep", False), ("t.Event().wait(99)", "futex", False)],
)
def test_who_waits_for_a_message_rests_at_once_and_who_sleeps_after_a_while(does, where, at_once):
    words = [sys.executable, "-c", f"import time, threading as t; {does}"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        try:
            told = Path(f"/proc/{process.pid}/task/{process.pid}/wchan")
            deadline = time.monotonic() + 60
            while where not in told.read_text():
                assert time.monotonic() < deadline or pytest.skip("the system does not tell where a thread sleeps")
                time.sleep(0.01)
            shared = SharedTime(threading.RLock())
            assert shared._rests(process.pid) == at_once and not shared._rests(os.getpid())
            time.sleep(0.1)
            assert shared._rests(process.pid)
        finally:
            process.kill()


FAILURES = {
    "killed": (["cuStreamSynchronize: ", None], "the process of rank 1 has ended"),
    "raises": (["cuStreamSynchronize: ", "a mistake"], "the process of rank 1 has ended"),
    "absent": (["cuStreamSynchronize: ", None], "all_reduce of 2 ranks waits for rank 1"),
    "wild": (["cuStreamSynchronize: ", ""], "out of bounds: global read of 4 bytes at address 0x10"),
}


@pytest.mark.parametrize("way", FAILURES)
@pytest.mark.parametrize("mode", ["functional", "detailed"])
def test_a_rank_that_fails_is_told_to_the_others(way, mode):
    errors, told = FAILURES[way]
    found, done = ranks(way, options=("--mode", mode, "--no-report"))
    assert told in done.stderr
    for lines, error in zip(found, errors, strict=True):
        assert error is None or error in lines[0]
    if way == "wild":
        assert "GPU work of process" in done.stderr and found[1][-1] == "ended with 3"


def test_a_process_that_says_good_bye_is_answered_whatever_has_become_of_its_work():
    def finish():
        raise RuntimeError("planted")

    answers = []
    served = ServedProcess(SimpleNamespace(serving={}, finish=finish))
    connection = SimpleNamespace(calls=lambda: iter([(wire.GOOD_BYE, (), True)]), answer=answers.append)
    with pytest.raises(RuntimeError, match="planted"):
        served._answer_all(connection, 1)
    assert answers == [0]


def test_calls_that_do_not_fit():
    found, done = ranks("differs")
    assert "all_reduce of 1,023 elements" in done.stderr and "all_reduce of 1,024 elements" in done.stderr
    assert "5" in [lines[0].split()[-1] for lines in found]  # the other one waits for a process that has ended


def begun(words, out, temporary, count):
    """A program in a session of its own, and its processes when there are as many."""
    places = environment(TMPDIR=str(temporary))
    program = subprocess.Popen(words, env=places, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    deadline = time.monotonic() + TIMEOUT
    while len(started := descendants(program.pid)) < count and time.monotonic() < deadline:
        time.sleep(0.05)
    return program, started


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_behind(number, tmp_path):
    """By an interrupt of the terminal, or where the program's parent is killed."""
    words = command(sys.executable, "-u", PROGRAM, "waits", 2, options=("--gpus", "2", "--no-report"))
    held = set(Path("/dev/shm").iterdir())
    with open(tmp_path / "out", "w+") as out:
        program, started = begun(words, out, tmp_path, 4)
        time.sleep(2)  # most often one waits for the other by then
        os.killpg(program.pid, number) if number == signal.SIGINT else program.kill()
        assert all_gone(started | descendants(program.pid))
        assert program.wait(TIMEOUT) != 0
    assert not list(tmp_path.glob("gpusim-exec-*")) and set(Path("/dev/shm").iterdir()) <= held


LAUNCHER = """
import subprocess, sys, time
subprocess.Popen([sys.executable, sys.argv[1], "waits", "2"])
for words in ("sleep 1000; sleep 1001", "trap '' TERM; sleep 1000; sleep 1001"):
    subprocess.Popen(["sh", "-c", words], start_new_session=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_what_a_killed_launcher_leaves_behind_ends(number, tmp_path):
    """Ranks that wait, and processes in sessions of their own that sleep, also where they hear nothing of a SIGTERM."""
    words = command(sys.executable, "-c", LAUNCHER, PROGRAM, options=("--gpus", "2", "--no-report"))
    held = set(Path("/dev/shm").iterdir())
    with open(tmp_path / "out", "w+") as out:
        program, started = begun(words, out, tmp_path, 9)
        launcher = next(int(each) for each in _children(program.pid) if "sleep 1001" in _words(each))
        os.killpg(program.pid, number) if number == signal.SIGINT else os.kill(launcher, number)
        assert program.wait(TIMEOUT) == 128 + number
        assert all_gone(started)
    assert not list(tmp_path.glob("gpusim-exec-*")) and set(Path("/dev/shm").iterdir()) <= held


def _children(process):
    return Path(f"/proc/{process}/task/{process}/children").read_text().split()


def _words(process):
    return Path(f"/proc/{process}/cmdline").read_text()


DAEMON = """
import sys, time
from tests.gpusim.ranks_program import Rank
own = Rank(0, 1)
print("begins", flush=True)
time.sleep(1)
own.launch(4)
open(sys.argv[1], "w").write(str(own.values()))
"""
MAKES_DAEMON = """
import subprocess, sys
words = [sys.executable, "-c", *sys.argv[1:]]
assert subprocess.Popen(words, start_new_session=True, stdout=subprocess.PIPE).stdout.readline() == b"begins\\n"
"""


def test_a_daemon_of_a_program_that_ends_by_itself_is_waited_for(tmp_path):
    words = command(
        sys.executable, "-c", MAKES_DAEMON, DAEMON, tmp_path / "found", options=("--gpus", "2", "--no-report")
    )
    assert subprocess.run(words, env=environment(), timeout=TIMEOUT).returncode == 0
    assert (tmp_path / "found").read_text() == "[5.0]"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount")
def test_a_full_place_for_shared_memory_is_of_no_matter():
    """Memory of devices is in files that no folder holds."""
    script = 'mount -t tmpfs -o size=4k tmpfs /dev/shm && head -c 4096 /dev/zero >/dev/shm/full && exec "$@"'
    words = command(sys.executable, PROGRAM, "sums", 2, options=("--gpus", "2", "--no-report"))
    how = {"capture_output": True, "text": True, "env": environment(), "timeout": TIMEOUT}
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", *words], **how)
    if "ermitted" in done.stderr:
        pytest.skip("nothing can be mounted here")
    assert done.returncode == 0 and done.stdout.count("[5.0]") == 2


def test_how_the_simulator_ended_is_told():
    """A lack of memory for that of devices ends it by this signal, or by SIGKILL."""
    program = (
        "import os, time, ctypes; ctypes.CDLL('libcuda.so.1').cuInit(0); print('began', flush=True); time.sleep(9e3)"
    )
    words = command(sys.executable, "-c", program, options=("--gpus", "2", "--no-report"))
    begun = subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert begun.stdout.readline() == "began\n"
    server = next(int(each) for each in _children(begun.pid) if "gpusim.cli" in _words(each))
    os.kill(server, signal.SIGBUS)
    deadline = time.monotonic() + TIMEOUT
    while str(server) in _children(begun.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    begun.terminate()
    assert f"signal {int(signal.SIGBUS)} has ended the simulator's process" in begun.communicate(timeout=TIMEOUT)[1]
