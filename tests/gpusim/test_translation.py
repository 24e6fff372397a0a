"""Straight-line code that goes by machine code of the host: it computes and counts what the executors do row by row."""

import copy

import numpy as np
import pytest
from numba import cuda

import gpusim
from gpusim import translation
from gpusim.engine.state import L, code_cache
from gpusim.engine.state.table import REGISTER, VARIES
from gpusim.engine.straight import run_table, shapes_of, straight_runs
from gpusim.errors import MemoryAccessError
from isa import microops as M
from isa.lower import lower
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
    for name, value in {"_SOME_BITS": 0, "_HOT": 0, "_WORTH": 1e-9}.items():
        monkeypatch.setattr(translation, name, value)
    found, copies = images.image, {}
    # Programs of which nothing has run in this process: when it looks depends on what a program has executed.
    monkeypatch.setattr(images, "image", lambda name: copies.setdefault(name, copy.copy(found(name))))
    ran = []
    count = translation.Translation._count

    def watched(self, counters):
        ran.append(int(counters[:, :, L.COUNT_RUNS].sum()))
        count(self, counters)

    monkeypatch.setattr(translation.Translation, "_count", watched)
    return ran


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
    assert any(eager), "nothing was compiled"
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
    assert any(eager), "nothing was compiled"
    assert fails() == before
    assert (y == 3).all()


def test_rows_of_one_shape_share_machine_code():
    """Registers, predicates, offsets and scoreboards differ, and what is computed does not."""
    code = lower(images.image("matmul_register/eight_by_eight")).code
    products = code[code[:, M.COL_OP] == M.OP_FFMA]
    loads = code[(code[:, M.COL_OP] == M.OP_LOAD) & (code[:, M.COL_AUX0] == M.SPACE_SHARED)]
    for rows, most in ((products, 1), (loads, 3)):
        assert len(rows) >= 40 and len(set(shapes_of(rows))) <= most
    assert not set(shapes_of(products)) & set(shapes_of(loads))


def test_a_number_that_marks_registers_is_itself():
    """Elsewhere than in a register's column, where it would be read without its sign."""
    code = lower(images.image("vector_add")).code.copy()
    code[:, M.COL_AUX3] = REGISTER
    shapes = np.frombuffer(b"".join(shapes_of(code)), np.int32).reshape(code.shape)
    assert (shapes[:, M.COL_AUX3] == VARIES).all()


def test_shapes_that_are_on_disk_are_there_for_all_programs(eager, monkeypatch):
    name = "reduction/shuffle"
    for _ in range(2):
        counters, _ = run(name, _PROGRAMS[name])
    monkeypatch.setattr(translation, "_FOUND", {})  # as in another process
    monkeypatch.setattr(translation, "_compile", lambda shapes: shapes and pytest.fail("compiled again"))
    code = lower(images.image(name)).code
    table = run_table(code)
    translation.Translation(code, table).look(counters[None].copy(), 1)
    firsts = [first for first, _ in straight_runs(code) if counters[first, L.COUNT_EXECUTED]]
    assert firsts and table[firsts, L.RUN_ADDRESS].all()
