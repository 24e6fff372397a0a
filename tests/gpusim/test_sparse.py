"""The stand-in for cuSPARSE, called through ctypes as C programs call it, against NumPy."""

from __future__ import annotations

import sys
from functools import partial

import pytest

from tests.gpusim.driver_program import run

pytestmark = [
    pytest.mark.usefixtures("toolchain"),
    pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux"),
]
HEAD = """
from tests.gpusim.sparse_program import *
"""


_run = partial(run, head=HEAD)


def test_products_with_vectors_and_matrices():
    _run("""
        a = drawn(37, 50)
        for form, op in itertools.product((CSR, CSC, COO), (0, 1)):
            multiply(sparse_of(a, form, base=1), 0, ops=(op, 0))
            multiply(sparse_of(a, form), 9, ops=(op, 1), rows=(False, True), on_device=True)
        multiply(sparse_of(a, index=3), 70, rows=(True, False))
        multiply(sparse_of(drawn(300, 400, density=0.5)), 0)                     # a warp for each row
        multiply(sparse_of(np.zeros((5, 6))), 3)
        ran = {name.split("_")[2] for name in names()}
        assert {"rows", "scatter", "finish"} <= ran, ran
    """)


def test_types():
    _run("""
        for kind in (F64, F16, BF16, C32, C64):
            a, last = drawn(37, 50, kind), 2 if kind in (C32, C64) else 0
            multiply(sparse_of(a, CSR, kind, 3), 140, kind, ops=(0, last))
            if kind in (F16, C64):
                multiply(sparse_of(a, CSR, kind, 3), 0, kind, ops=(2, 0))
    """)


def test_blocks_and_the_older_interface():
    _run("""
        multiply(blocks_of(drawn(36, 48, density=0.05), 4), 5)
        multiply(blocks_of(drawn(36, 48, density=0.05), 3, by_rows=False), 0)
        for columns, op, order in ((0, 0, 0), (7, 0, 1), (7, 1, 0)):
            a, x = drawn(36, 48, F64, 0.05), drawn(48, columns or 1, F64, 1.0)
            of, y = blocks_of(a, 4, F64, order == 0), drawn(36, columns or 1, F64, 1.0)
            places = to_device(x if op else x.T.copy()), to_device(y.T.copy())
            values = p(of.places[2]), p(of.places[0]), p(of.places[1]), 4, p(places[0])
            head = 9, *((columns,) if columns else ()), 12, of.count, scalar(2, F64), legacy(), *values
            ops, leading = (0, op) if columns else (0,), (7 if op else 48,) if columns else ()
            given = order, *ops, *head, *leading, scalar(-1, F64), p(places[1]), *((36,) if columns else ())
            check((sparse.cusparseDbsrmm if columns else sparse.cusparseDbsrmv)(handle, *given))
            near(to_host(places[1], y.T.copy()).T, 2 * a @ x - y, F64, 48)
    """)


def test_sampled_products():
    _run("""
        for form in (CSR, CSC, COO):
            sampled(form, F32, (0, 1))
        sampled(CSR, C64, (2, 0), 3)
    """)


def test_products_and_sums_of_sparse_matrices():
    _run("""
        multiply_sparse(drawn(30, 40), drawn(40, 70))
        multiply_sparse(drawn(30, 40, C64), drawn(40, 70, C64), C64, 3, 1)
        multiply_sparse(drawn(30, 40, F16), drawn(40, 70, F16), F16)
        multiply_sparse(drawn(3, 40), drawn(40, 100_000, density=0.01))          # more columns than are marked at once
        multiply_sparse(np.zeros((4, 5)), drawn(5, 6))
        multiply_sparse(np.ones((1, 1)), np.ones((1, 3)), F32, 3)                # an odd number of sums
        add_sparse(drawn(30, 40), drawn(30, 40), "S", F32)
        add_sparse(drawn(30, 40, C64), drawn(30, 40, C64), "Z", C64)
    """)


def test_conversions():
    _run("""
        for form in (CSR, CSC, COO):
            from_dense(drawn(30, 45), form, F32, 2)
        from_dense(drawn(40, 20, C32), CSR, C32, 3)
        turn(drawn(30, 50), F32, 1)
        turn(drawn(60, 50, C64), C64, 0)
    """)


def test_orders():
    _run("""
        for symbol in ("coosortByRow", "coosortByColumn", "csrsort", "cscsort"):
            sort(symbol, 1500, (40, 70))
            sort(symbol, 3, (5, 4))
    """)


def test_triangular_systems():
    _run("""
        for form, lower, op in itertools.product((CSR, CSC, COO), (True, False), (0, 1)):
            solve(form, F64, lower, op, unit=op == 1, columns=2 * lower)
        solve(CSR, C64, False, 2, columns=3)
    """)


def test_sparse_vectors():
    _run("""
        indices = np.array([1, 4, 7, 30], "i4")
        values, dense = (drawn(count, 1, F64, 1.0)[:, 0] for count in (4, 40))
        places = to_device(indices), to_device(values)
        of, y = made("SpVec", q(40), q(4), p(places[0]), p(places[1]), 2, 0, F64), dense_of(dense, F64)
        check(sparse.cusparseAxpby(handle, scalar(2, F64), of, scalar(-1, F64), y[0]))
        wanted = -dense
        wanted[indices] += 2 * values
        near(found_in(y, dense, F64), wanted, F64)
        check(sparse.cusparseScatter(handle, of, y[0]))
        wanted[indices] = values
        near(found_in(y, dense, F64), wanted, F64)
        other = dense_of(dense, F64)
        check(sparse.cusparseGather(handle, other[0], of))
        near(to_host(places[1], values), dense[indices], F64)
    """)


def test_descriptors_tell_what_they_are_made_of_and_wrong_calls():
    _run("""
        a = sparse_of(drawn(6, 9), CSR, F32, 3, 1)
        told = [ctypes.c_int64() for _ in range(6)] + [ctypes.c_int() for _ in range(4)]
        check(sparse.cusparseConstCsrGet(a.handle, *map(ctypes.byref, told)))
        assert [each.value for each in told] == [6, 9, a.count, *a.places, 3, 3, 1, F32]
        number = ctypes.c_int()
        check(sparse.cusparseGetVersion(handle, ctypes.byref(number)))
        assert number.value == 12603
        check(sparse.cusparseGetProperty(1, ctypes.byref(number)))
        assert number.value == 6 and sparse.cusparseGetProperty(3, ctypes.byref(number)) == INVALID_VALUE
        sparse.cusparseGetErrorName.restype = sparse.cusparseGetErrorString.restype = ctypes.c_char_p
        assert sparse.cusparseGetErrorName(1) == b"CUSPARSE_STATUS_NOT_INITIALIZED"
        assert sparse.cusparseGetErrorString(1) == b"initialization error"
        stream, found = ctypes.c_void_p(), ctypes.c_void_p()
        check(runtime.cudaStreamCreate(ctypes.byref(stream)))
        check(sparse.cusparseSetStream(handle, stream))
        check(sparse.cusparseGetStream(handle, ctypes.byref(found)))
        assert found.value == stream.value
        multiply(a, 4)
        x, y = dense_of(np.zeros(9))[0], dense_of(np.zeros(6))[0]
        one = scalar(1, F32)
        for wanted, given in (
            (INVALID_VALUE, (0, one, a.handle, y, one, y, F32, 0, None)),        # of another length
            (INVALID_VALUE, (1, one, a.handle, y, one, x, F32, 0, None)),        # without a buffer
            (INVALID_VALUE, (0, one, x, x, one, y, F32, 0, None)),               # no matrix
            (NOT_SUPPORTED, (0, one, a.handle, x, one, y, 10, 0, None)),         # in integers
        ):
            assert sparse.cusparseSpMV(handle, *given) == wanted, (wanted, given)
        assert sparse.cusparseSpVV(handle) == NOT_SUPPORTED
        check(sparse.cusparseDestroySpMat(a.handle))
        assert sparse.cusparseDestroySpMat(a.handle) == INVALID_VALUE
        check(sparse.cusparseDestroy(handle))
    """)
