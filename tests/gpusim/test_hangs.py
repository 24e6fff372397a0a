"""A launch that never ends is found while it runs, and the error says what its warps wait for."""

from pathlib import Path

import numpy as np
import pytest

import gpusim
from gpusim.errors import CyclesExceeded, DataRaceError, DeadlockError
from tests.gpusim.kernels import Kernels

SOURCE = Path(__file__).parent / "data" / "hangs.cu"
KERNELS = Kernels(SOURCE.read_text("utf-8"), "sm_90", str(SOURCE))
FOUR = ["sm.count=4", "sm.gpcs=1"]
MODES = pytest.mark.parametrize("mode", ["detailed", "functional"])
pytestmark = pytest.mark.usefixtures("toolchain")


def run(kernel, grid, block, *arguments, **options):
    return gpusim.simulate(KERNELS[kernel], grid, block, arguments, overrides=FOUR, **options)


def test_blocks_that_find_no_room_while_others_wait_for_them():
    count, out = np.zeros(1, np.int32), np.zeros(12, np.int32)
    with pytest.raises(DeadlockError) as caught:
        run("all_blocks", 12, 1024, count, out, np.int32(12))
    barrier, blocks, spins = caught.value.waiting
    assert barrier == "248 warps wait at barrier 0 of their block (line 9)"
    assert blocks == "4 blocks cannot start until one of those that run has ended"
    assert spins.endswith("warps spin (line 6) on byte 0 of 'argument 0' (4 bytes), which nobody writes")
    run("all_blocks", 8, 1024, np.zeros(1, np.int32), out, np.int32(8))
    assert out[:8].all() and caught.value.line in (6, 7)


@MODES
@pytest.mark.parametrize(("announced", "arrivals", "missing", "nbytes"), [(1024, 1, 0, 512), (512, 3, 2, 0)])
def test_a_phase_that_never_ends(announced, arrivals, missing, nbytes, mode):
    with pytest.raises(DeadlockError) as caught:
        run("copies", 1, 128, np.zeros(256, np.int32), np.zeros(128, np.int32), np.int32(announced), np.int32(arrivals),
            mode=mode)  # fmt: skip
    (waiting,) = caught.value.waiting
    words = f"in its phase of parity 0 {missing} of {arrivals} arrivals are missing, and {nbytes} bytes of copies"
    assert waiting.startswith("4 warps wait (line ") and "for the mbarrier at 0x" in waiting and words in waiting


def test_a_run_past_its_limit_says_what_it_waits_for():
    with pytest.raises(CyclesExceeded, match=r"for the mbarrier at .* and 512 bytes of copies") as caught:
        run("copies", 1, 128, np.zeros(256, np.int32), np.zeros(128, np.int32), np.int32(1024), np.int32(1),
            max_cycles=50_000)  # fmt: skip
    assert len(caught.value.waiting) == 1
    with pytest.raises(CyclesExceeded) as caught:  # others read a word while a loop takes long
        run("late", 4, 32, np.zeros(1, np.int32), np.zeros(2, np.int32), np.int64(20_000), max_cycles=50_000)
    assert caught.value.waiting == ()


def test_who_waits_for_what_comes_late_is_not_reported(monkeypatch):
    # Looked at often, while one block stores and the others read the same word again and again.
    monkeypatch.setattr("gpusim.engine.endless._LATER", 8)
    flag, out = np.zeros(1, np.int32), np.zeros(2, np.int32)
    result = run("late", 4, 32, flag, out, np.int64(20_000))
    assert flag[0] == 1 and result.cycles > 100_000


def test_a_copy_that_no_group_holds():
    arguments = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    with pytest.raises(DataRaceError, match=r"none is committed \(cp.async.commit_group\)"):
        run("uncommitted", 1, 256, *arguments, np.int32(0), check="racecheck")
    run("uncommitted", 1, 256, *arguments, np.int32(1), check="racecheck")
    assert (arguments[1] == arguments[0][::-1]).all()
