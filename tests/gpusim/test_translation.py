"""Straight-line code that is compiled for one program: it computes and counts what the executors do row by row."""

import numpy as np
import pytest
from numba import cuda

import gpusim
from gpusim import translation
from gpusim.engine.state import code_cache
from gpusim.errors import MemoryAccessError
from programs import images, registry

pytestmark = pytest.mark.skipif(code_cache.BOUNDS_CHECK, reason="checked code is not translated")
_PROGRAMS = {
    "matmul_register/double_buffered": 64,
    "matmul_tensor/ldmatrix": 64,
    "black_scholes/fast": 1000,
    "low_precision/dot_dp4a": 4096,
    "reduction/shuffle": 5000,
}


@pytest.fixture
def eager(monkeypatch):
    """All that runs is hot from the second launch on at the latest."""
    for name, value in {"_SOME": 1, "_OFTEN": 1, "_HOT": 0, "_ROWS": 130}.items():
        monkeypatch.setattr(translation, name, value)
    made = []
    compiled = translation._compiled
    monkeypatch.setattr(translation, "_compiled", lambda *what: made.append(what) or compiled(*what))
    return made


def run(name, size, **options):
    launch = registry.get(name).make(size, 1)
    program = images.image(name)
    what = launch.grid, launch.block, launch.args, "h200", launch.shared_bytes
    result = gpusim.simulate(program, *what, mode="functional", threads=1, **options)
    return result.record.counters, [np.array(each) for each in launch.args]


@pytest.mark.parametrize("name", _PROGRAMS)
def test_compiled_rows_do_what_the_executors_do(eager, name):
    counters, arrays = run(name, _PROGRAMS[name])
    run(name, _PROGRAMS[name])
    again, arrays_too = run(name, _PROGRAMS[name])
    assert eager, "nothing was compiled"
    assert np.array_equal(counters, again)
    for one, other in zip(arrays, arrays_too, strict=True):
        np.testing.assert_array_equal(one, other)


@cuda.jit
def doubled(x, y, last):
    """Reads as far as it is told to."""
    i = cuda.grid(1)
    if i <= last:
        y[i] = 2 * x[i] + x[i ^ 1]


def test_error_in_a_compiled_row_is_told_as_before(eager):
    x, y = np.ones(96, np.float32), np.zeros(96, np.float32)

    def fails():
        with pytest.raises(MemoryAccessError) as told:
            gpusim.simulate(doubled, 4, 32, (x, y, 1000), mode="functional", threads=1)
        return str(told.value)

    before = fails()
    for _ in range(2):
        gpusim.simulate(doubled, 3, 32, (x, y, 95), mode="functional", threads=1)
    assert eager, "nothing was compiled"
    assert fails() == before
    assert (y == 3).all()

