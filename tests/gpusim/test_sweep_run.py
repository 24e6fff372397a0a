"""A sweep gives the same table whoever runs it, keeps it through kills, and turns what fails into rows."""

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from gpusim.cli import main
from gpusim.explore import Point, Space, interrupt, sweep
from gpusim.explore import workers as workers_module
from gpusim.explore.journal import read_journal
from gpusim.explore.sweep import collect
from gpusim.explore.workers import Ended, WorkerFailed, Workers, dask_executor
from tests import forks
from tests.processes import all_gone, descendants

sweep_module = sys.modules["gpusim.explore.sweep"]  # not the function of this name
pytestmark = pytest.mark.usefixtures("toolchain")
pandas = pytest.importorskip("pandas")
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
# Two programs, sizes of their own, an axis of each kind, and machines that cannot be: 33 warps in 4 sub-partitions.
SPACE = Space(
    [{"name": "saxpy", "size": [600, 1200]}, {"name": "matmul/tiled", "size": 32}],
    "tiny",
    {"sm.count": [1, 3], "sm.max_warps": [32, 33], "dram.bandwidth_gb_s": [40, 80.5]},
)
POINTS = SPACE.grid()
METRICS = ("dram__bytes_read.sum",)
FAILED = len(POINTS) // 2


@pytest.fixture(scope="module")
def table():
    """The sweep in this process: what all others have to be equal to."""
    return sweep(POINTS, workers=0, metrics=METRICS)


def same(a, b):
    """That two tables are equal in everything but the host's seconds."""
    pandas.testing.assert_frame_equal(a.drop(columns="seconds"), b.drop(columns="seconds"))


def keys(journal: Path):
    """Keys of the rows of a journal that nobody writes, as they were finished."""
    return [row["key"] for row in read_journal(journal)[1]]


def rows_at_least(journal: Path, count: int) -> bool:
    """Whether a journal that is being written has so many rows: a page of its log each, behind those of its header."""
    log = Path(f"{journal}-wal")
    return log.exists() and log.stat().st_size > (6 + count) * 4200


def test_a_table_has_the_points_in_order_and_errors_as_rows(table):
    assert list(table["key"]) == [point.key for point in POINTS]
    assert list(table.columns) == [
        "key", "program", "gpu", "size", "seed", "dram.bandwidth_gb_s", "sm.count", "sm.max_warps", "cycles",
        "cycles_low", "cycles_high", "time_us", "limited_by", "why", "energy_j", "launch_w", "energy_delay",
        "warp_instructions", "blocks", "waves",
        "bound_cycles", "bound_by", *METRICS, "seconds", "error",
    ]  # fmt: skip
    bad = table[table["sm.max_warps"] == 33]
    assert len(bad) == FAILED and bad["cycles"].isna().all() and bad["error"].str.contains("multiple of sub").all()
    good = table[table["sm.max_warps"] == 32]
    assert bad["cycles_low"].isna().all() and (good["cycles_low"] < good["cycles_high"]).all()
    assert (good["bound_cycles"] <= good["cycles"]).all() and (good["bound_by"] != "").all()
    assert good["error"].isna().all() and (good["cycles"] > 0).all() and (good[METRICS[0]] > 0).all()
    tiled = good[good["program"] == "matmul/tiled"].groupby("sm.count")["cycles"].mean()
    assert tiled[1] > tiled[3]


def test_two_workers_give_the_same_table(table, tmp_path):
    seen = []
    journal = tmp_path / "two.journal"
    result = sweep(POINTS, workers=2, metrics=METRICS, journal=journal, progress=lambda *now: seen.append(now))
    same(result, table)
    assert seen[0] == (0, 0, len(POINTS)) and seen[-1] == (len(POINTS), FAILED, len(POINTS))
    assert sorted(keys(journal)) == sorted(point.key for point in POINTS)
    asked = {"workers": 2, "metrics": METRICS, "journal": journal, "resume": True}
    pandas.testing.assert_frame_equal(sweep(POINTS, **asked, progress=lambda *now: seen.append(now)), result)
    assert seen[-1] == (len(POINTS), FAILED, len(POINTS)) and len(seen) == len(POINTS) + 2


KILLED = """
import json, os, random, signal, sys, time
from gpusim.explore import Point
from gpusim.explore.journal import Journal, read_journal
from gpusim.explore.sweep import collect

points = [Point(**each) for each in json.loads(sys.argv[1])]
journal, metrics = sys.argv[2], json.loads(sys.argv[3])
collect(points[:1] + points[-1:], workers=0)  # loads the simulator once, for all the processes that are killed
began = time.monotonic()
collect(points, workers=0, metrics=metrics)
patience = (time.monotonic() - began) / 8  # so that kills fall everywhere, between two rows and within one point
source = random.Random(2026)


def kept():
    return len(read_journal(journal)[1]) if os.path.exists(journal) else 0


append = Journal.append
for attempt in range(10):
    rows, row = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(rows)
        Journal.append = lambda self, *asked: (append(self, *asked), os.write(row, b"."))
        collect(points, workers=0, metrics=metrics, journal=journal, resume=True)
        os._exit(0)
    os.close(row)
    if attempt % 2:
        os.read(rows, 1)  # a further row is kept, or all are, however busy the machine is
    time.sleep(source.uniform(0.0, patience))
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    os.close(rows)
    print(kept(), os.WIFSIGNALED(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_ten_kills_lose_and_repeat_nothing(table, tmp_path):
    journal = tmp_path / "killed.journal"
    points = json.dumps([point.to_dict() for point in POINTS])
    told = forks.run("-c", KILLED, points, journal, json.dumps(METRICS), env=ENVIRONMENT, timeout=120)
    assert told.returncode == 0, told.stderr
    progress = [line.split() for line in told.stdout.splitlines()]
    counts = [int(count) for count, _ in progress]
    assert len(counts) == 10 and counts == sorted(counts) and len(set(counts)) > 3
    assert progress[0][1] == progress[1][1] == "True"  # killed, not finished before
    same(sweep(POINTS, workers=0, metrics=METRICS, journal=journal, resume=True), table)
    assert sorted(keys(journal)) == sorted(point.key for point in POINTS)


DEADLY = """
import os, signal, time

from numba import cuda

what = os.path.basename(__file__)
if what == "killed.py":
    os.kill(os.getpid(), signal.SIGKILL)
if what == "raised.py":
    raise RuntimeError("no luck")
if what == "endless.py":
    open(__file__ + ".began", "w").close()
    while True:
        time.sleep(1)
"""


def deadly(folder: Path, name: str) -> Point:
    """A point whose module does, when it is imported, what its name says."""
    (folder / f"{name}.py").write_text(DEADLY)
    return Point(f"{folder / name}.py:kernel", "tiny", (), {"grid": 1, "block": 1})


def test_points_that_end_their_worker_are_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(workers_module, "GRACE_S", 0.2)
    killed, raised, endless = (deadly(tmp_path, name) for name in ("killed", "raised", "endless"))
    first, second, ended, fourth, last = collect(
        [raised, POINTS[0], killed, POINTS[1], endless], workers=1, timeout_s=5
    )
    assert "RuntimeError: no luck" in first["error"]
    assert ended["error"] == "the worker process was ended by SIGKILL, perhaps for want of memory"
    assert last["error"] == "not finished after 5 s, nor 0.2 s later"
    assert second["error"] is fourth["error"] is None and second["cycles"] > 0 < fourth["cycles"]


def test_workers_call_any_function_and_replace_what_ends(monkeypatch):
    """Tasks and results need not be points and rows; a process is used again, and another function may follow.

    Where the core has to be compiled, a pool of one process does it for all, behind the announcement.
    """
    made, real = [], workers_module._processes
    monkeypatch.setattr("gpusim.engine.warm.core_is_cached", lambda: False)
    monkeypatch.setattr(workers_module, "_processes", lambda count: made.append(count) or real(count))
    with closing(Workers(1, lambda: made.append("announced"))) as pool:
        found = dict(pool.run(math.sqrt, [1.0, 4.0, -1.0, 9.0]))
        assert {task: found.pop(task) for task in (1.0, 4.0, 9.0)} == {1.0: 1.0, 4.0: 2.0, 9.0: 3.0}
        assert found[-1.0].how.startswith("ValueError: ")
        assert sorted(pool.run(abs, [-3, 2])) == [(-3, 3), (2, 2)]
        threading.Timer(0.2, pool.stop).start()
        ((_, ended),) = pool.run(time.sleep, [1000])
        assert isinstance(ended, Ended) and ended.how == "stopped: the run was ended"
        assert list(pool.run(abs, [-1])) == [(-1, 1)]
    assert made == ["announced", 1, 1]


def test_any_executor_evaluates_points(table, tmp_path):
    """The same table from threads; an executor that is closed is told, and what was finished is kept."""
    journal = tmp_path / "threads.journal"
    with ThreadPoolExecutor(1) as executor:
        same(sweep(POINTS, metrics=METRICS, executor=executor, journal=journal), table)
    with pytest.raises(WorkerFailed, match="shutdown"):
        sweep(POINTS[:2], executor=executor)
    same(sweep(POINTS, metrics=METRICS, executor=executor, journal=journal, resume=True), table)


@pytest.fixture(scope="module")
def cluster():
    """The address of a Dask scheduler on loopback, which has a worker in a process of its own."""
    distributed, dask = map(pytest.importorskip, ("distributed", "dask"))
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, memory_limit=0
        ) as made,
    ):
        yield made.scheduler_address


def test_a_dask_cluster_gives_the_same_table(table, cluster, tmp_path):
    with dask_executor(cluster) as executor:
        same(sweep(POINTS, metrics=METRICS, executor=executor), table)
        large = Point("matmul/tiled", "h200", (), {"size": 1024})
        (late,) = collect([large], executor=executor, timeout_s=0.5, bound=False)
        (raised,) = collect([deadly(tmp_path, "raised")], executor=executor)
        (killed,) = collect([deadly(tmp_path, "killed")], executor=executor)  # alone: it takes its neighbours with it
        assert "KilledWorker" in killed["error"] and "no luck" in raised["error"]
        assert late["error"].startswith("not finished after 0.5 s: ")


def test_the_command_runs_on_a_dask_cluster_and_goes_on_after_a_kill(cluster, tmp_path, capsys):
    with pytest.importorskip("distributed").Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(1)  # the one before may have been killed by a test
    journal, out = tmp_path / "dask.journal", tmp_path / "dask.parquet"
    command = ["sweep", "saxpy", "--gpu", "tiny", "--size", "600:640:1"]
    command += ["--journal", str(journal), "--out", str(out), "--resume", "--dask", cluster]
    process = subprocess.Popen([sys.executable, "-m", "gpusim.cli", *command], env=ENVIRONMENT)
    while not rows_at_least(journal, 4):
        assert process.poll() is None
        time.sleep(0.002)
    process.kill()
    process.wait()
    kept = keys(journal)
    assert 0 < len(kept) < 41
    assert main(command) == 0
    assert f"41 points, 0 failed, {len(kept)} of them from the journal" in capsys.readouterr().out
    assert keys(journal)[: len(kept)] == kept and len(set(keys(journal))) == 41
    assert list(pandas.read_parquet(out)["size"]) == list(range(600, 641))


def test_no_cluster_is_one_line(capsys):
    pytest.importorskip("distributed")
    assert main(["sweep", "saxpy", "--gpu", "tiny", "--dask", "nowhere"]) == 2
    assert "no Dask cluster at nowhere" in capsys.readouterr().err


def test_a_worker_in_a_long_point_ends_with_its_sweep(tmp_path):
    (tmp_path / "endless.py").write_text(DEADLY)
    command = [sys.executable, "-m", "gpusim.cli", "sweep", f"{tmp_path}/endless.py:kernel", "--workers", "1"]
    process = subprocess.Popen([*command, "--gpu", "tiny", "--grid", "1", "--block", "1"], env=ENVIRONMENT)
    while not (tmp_path / "endless.py.began").exists():
        assert process.poll() is None
        time.sleep(0.02)
    family = descendants(process.pid)
    process.kill()
    process.wait()
    assert sys.platform != "linux" or family
    assert all_gone(family), "processes outlive their sweep"


def usual_interrupts():
    """As from a terminal: tests that a shell runs in the background ignore interrupts, and so would what they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_an_interrupt_ends_cleanly(tmp_path):
    journal = tmp_path / "sweep.journal"
    command = [sys.executable, "-m", "gpusim.cli", "sweep", "saxpy", "--gpu", "tiny", "--size", "600:6000:1"]
    command += ["--journal", str(journal), "--workers", "1", "--progress"]
    process = subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=usual_interrupts
    )
    while not rows_at_least(journal, 4):
        assert process.poll() is None
        time.sleep(0.01)
    family = descendants(process.pid)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=120)
    assert process.returncode == 130
    kept = len(keys(journal))
    assert kept > 0
    assert f"interrupted; {kept} of 5,401 points kept in {journal}, --resume goes on" in told
    assert "Traceback" not in told, told
    assert all_gone(family), "processes outlive their sweep"


class _Callback:
    """Python drops what a finaliser raises."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0)  # the handler runs here


@pytest.mark.parametrize("where", ["between two rows", "between two windows", "at the end"])
def test_an_interrupt_within_a_callback_is_not_lost(where, tmp_path, monkeypatch):
    usual = signal.getsignal(signal.SIGINT)
    journal = tmp_path / "sweep.journal"
    real, left = sweep_module.evaluate, {"between two rows": 2, "between two windows": 2, "at the end": 4}[where]

    def evaluate(point, stop=None, **options):
        def ask():
            if where == "between two windows" and finished[-1] == left - 1:
                _Callback()
            return interrupt.interrupted()

        return real(point, stop=ask, **options)

    finished = []

    def progress(done, failed, wanted):
        finished.append(done)
        if where != "between two windows" and done == left:
            _Callback()

    monkeypatch.setattr(sweep_module, "evaluate", evaluate)
    points = [Point("saxpy", "tiny", (), {"size": size}) for size in (40000, 40001, 40002, 40003)]
    with pytest.raises(KeyboardInterrupt):
        collect(points, workers=0, journal=journal, progress=progress)
    assert len(keys(journal)) == (left if where != "between two windows" else left - 1)
    assert signal.getsignal(signal.SIGINT) is usual and not interrupt.interrupted()
    monkeypatch.undo()
    assert [row["error"] for row in collect(points, workers=0, journal=journal, resume=True)] == [None] * 4


def test_a_second_interrupt_ends_the_process_at_once():
    code = (
        "import os, signal\nfrom gpusim.explore.interrupt import interruptible\n"
        "with interruptible():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n    print('goes on', flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n    print('never')\n"
    )
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, preexec_fn=usual_interrupts)
    assert (ended.returncode, ended.stdout) == (-signal.SIGINT, "goes on\n")
