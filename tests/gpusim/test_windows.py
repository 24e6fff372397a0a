"""Windows going round a device's processes: what a device does after a launch that did not end, and full slots."""

import os
import signal
import sys
import threading
import time
from contextlib import suppress

import numpy as np
import pytest
import simpy
from numba import cuda

import gpusim
from gpusim.config import load_config
from gpusim.engine import processes
from gpusim.engine.device import Engine
from gpusim.engine.dispatcher import C_FIELDS, G_FIELDS, fill, start_block, start_warp
from gpusim.engine.grid import Grid, NothingMoves
from gpusim.engine.state import L, P

THREADS = pytest.mark.parametrize("threads", [1, 2])
WORDS = 4096


def long(x):
    """Reads for some windows, and writes at the end."""
    i = cuda.grid(1)
    total = 0
    for k in range(60):
        total += x[(i * 37 + k * 101) % x.size]
    x[i] = total


def add_one(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


class Awkward(Exception):
    """An exception that cannot be made again from its arguments."""

    def __init__(self, one, other):
        super().__init__(f"{one} and {other}")


@pytest.fixture(autouse=True)
def small_launches_too(monkeypatch):
    """Several threads take part in every window, though these launches are too small to be worth it."""
    monkeypatch.setattr(processes, "WARPS_APART", 0)


def long_launch(threads):
    """A device, an array on it, and a launch that lasts long enough for `progress` to be called."""
    device = gpusim.Device("tiny", threads=threads)
    x = device.to_device(np.zeros(WORDS, np.int32))
    return device, x, lambda progress=None: device.launch(long, 4, 128, (x,), progress=progress)


@pytest.mark.parametrize(("blocks", "others"), [(1, 0), (12, 0), (16, 1)])
def test_other_threads_are_woken_where_they_have_enough_to_do(monkeypatch, blocks, others):
    """Of two SMs one has half of the warps at most: the other thread's are 32 of 64."""
    monkeypatch.undo()
    seen, real = set(), processes.advance_range

    def advance_range(*work):
        seen.add(threading.get_ident())
        return real(*work)

    monkeypatch.setattr(processes, "advance_range", advance_range)
    x = np.zeros(WORDS, np.int32)
    gpusim.simulate(long, blocks, 128, (x,), "tiny", threads=2)
    assert len(seen - {threading.get_ident()}) == others


def assert_works_as_new(device, x, threads):
    """The next launches are right, and take the time that they take on a new device whose clock stands as this one's:
    caches are cold, queues idle."""
    other, same, _ = long_launch(threads)
    other._session.engine.env.run(until=device._session.engine.env.now)
    for _ in range(2):
        result, expected = (each.launch(add_one, 32, 128, (array,)) for each, array in ((device, x), (other, same)))
        ours, theirs = x.copy_to_host(), same.copy_to_host()  # once each, for it takes time
        assert (ours == theirs).all() and ours.any()
        assert result.cycles == expected.cycles
        assert result.metrics["dram__bytes_read.sum"] == expected.metrics["dram__bytes_read.sum"]


# --- launches that do not end ----------------------------------------------------------------------------------------
@THREADS
@pytest.mark.parametrize("error", [Awkward(1, 2), KeyboardInterrupt(), SystemExit(3)], ids=lambda e: type(e).__name__)
def test_a_device_works_on_after_an_exception_of_progress(error, threads):
    device, x, launch = long_launch(threads)

    def fail(*_):
        raise error

    for _ in range(2):
        with pytest.raises(type(error)):
            launch(fail)
    assert_works_as_new(device, x, threads)


@THREADS
def test_a_device_works_on_after_ctrl_c_in_a_window(monkeypatch, threads):
    """Host threads have left the launch's memory alone when the interrupt is seen."""
    device, x, launch = long_launch(threads)
    running, begun, real = [], [], processes.advance_range

    def advance_range(state, first, *rest):
        begun.append(first)
        running.append(first)
        try:
            if len(begun) == 9:
                os.kill(os.getpid(), signal.SIGINT)
            if len(begun) >= 9 and threads > 1:
                time.sleep(0.05)
            return real(state, first, *rest)
        finally:
            running.remove(first)

    monkeypatch.setattr(processes, "advance_range", advance_range)
    with pytest.raises(KeyboardInterrupt):
        launch()
    assert threads == 1 or not running
    monkeypatch.undo()
    assert_works_as_new(device, x, threads)


@THREADS
def test_an_interrupt_on_any_line_leaves_the_device_alive(threads):
    """Wherever Ctrl-C falls, in SimPy's own code too: first on each line of a window or two, then anywhere."""
    device, x, launch = long_launch(threads)
    files = os.path.dirname(simpy.__file__), processes.__file__
    seen = 0

    def run(last):
        def trace(frame, event, _):
            nonlocal seen
            if not frame.f_code.co_filename.startswith(files):
                return None
            seen += event == "line"
            if seen == last:
                seen += 1
                raise KeyboardInterrupt
            return trace

        nonlocal seen
        seen = 0
        sys.settrace(trace)
        try:
            launch()
        finally:
            sys.settrace(None)

    run(-1)
    total = seen
    rng = np.random.default_rng(0)
    for last in [*range(400, 600, 7), *rng.integers(1, total, 10).tolist()]:
        with suppress(KeyboardInterrupt):  # of what it falls on SimPy forgives some
            run(last)
    assert_works_as_new(device, x, threads)


def test_a_closed_device_starts_its_threads_again():
    device, x, _ = long_launch(2)
    with device:
        device.launch(add_one, 32, 128, (x,))
    device.launch(add_one, 32, 128, (x,))
    assert (x.copy_to_host() == 2).all()


class Taken(Exception):
    """A launch's grid, on its way to a device."""


class Taking(Engine):
    """Keeps what is submitted."""

    def submit(self, grid, *_args):
        raise Taken(grid)


@pytest.fixture
def grids():
    """Makes grids for an engine, each with arrays of its own."""
    devices = []

    def make(engine, kernel=add_one, blocks=4, **options):
        device, x, _ = long_launch(1)
        devices.append(device)  # whose memory the state works on
        device._session._engine = Taking(device.config)
        with pytest.raises(Taken) as taken:
            device.launch(kernel, blocks, 128, (x,))
        (run,) = taken.value.args

        class Lent(Grid):
            def prepare(self, seat):
                run.prepare(seat)
                self.state, self.host = run.state, run.host

        return Lent(engine.env, run.launch.blocks, **options)

    return make


def test_grids_behind_one_that_failed_still_run(grids):
    device = Engine(load_config("tiny"))

    def fail(*_):
        raise Awkward(1, 2)

    first, failing, last = (grids(device, long, progress=progress) for progress in (None, fail, None))
    for grid in (first, failing, last):
        device.submit(grid)
    device.wait(first.done)
    with pytest.raises(Awkward):
        device.wait(failing.done)
    device.wait(last.done)
    assert last.end > last.start >= first.end > first.start


@pytest.mark.parametrize("start", [0, 123_457])
def test_what_stops_for_good_says_at_which_cycle_of_the_launch(grids, start, monkeypatch):
    def stops(state, *rest):
        fill(state, *rest)
        state.ready[:] = state.smsp[:, [L.SMSP_NEXT]] = L.NEVER

    monkeypatch.setattr("gpusim.engine.dispatcher.fill", stops)
    config = load_config("tiny")
    device = Engine(config)
    if start:
        device.env.run(until=start)
    grid = grids(device)
    device.submit(grid)
    with pytest.raises(NothingMoves) as stopped:
        device.wait(grid.done)
    assert stopped.value.cycle == config.launch.overhead_cycles + config.l2.lookahead_cycles


# --- slots -----------------------------------------------------------------------------------------------------------
def test_slots_that_run_out_are_named(grids):
    made = grids(Engine(load_config("tiny")))
    made.prepare(None)
    state, grid = made.state, np.zeros(G_FIELDS, np.int64)
    fill(state, grid, np.zeros(C_FIELDS, np.int64), 0, np.arange(2), 256)
    with pytest.raises(RuntimeError, match="block slots ran out"):
        start_block(state, grid, 0, 0, 0, 0)
    for _ in range(int(state.par[P.WARP_SLOTS]) - 1):
        start_warp(state, 0, 0, 0, 0, 0)
    with pytest.raises(RuntimeError, match="warp slots ran out"):
        start_warp(state, 0, 0, 0, 0, 0)
