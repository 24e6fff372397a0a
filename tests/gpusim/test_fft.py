"""The stand-in for cuFFT, called through ctypes as C programs call it, against NumPy."""

from __future__ import annotations

import math
import sys
from functools import partial

import pytest

from gpusim.driver.libraries.fft.passes import is_smooth, stages
from tests.gpusim.driver_program import run

pytestmark = [
    pytest.mark.usefixtures("toolchain"),
    pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux"),
]
HEAD = """
import itertools
from tests.gpusim.blas_program import runtime
from tests.gpusim.fft_program import *
"""


_run = partial(run, head=HEAD)


def test_stages_have_a_thread_for_every_butterfly():
    for n in filter(is_smooth, (*range(1, 2000), 4096, 10000, 1 << 14)):
        for unit in (8, 16):
            radices, threads, gap = stages(n, unit)
            assert math.prod(radices) == n and max(radices) <= 16
            assert n // 16 <= threads <= 1024 and gap in (unit, n + 1), (n, threads, gap)
            done = 1
            for radix in radices:  # a butterfly's numbers are apart as if there were no other ones
                count = n // radix
                for j in {0, 1 % count, count // 2, count - 1}:
                    k = j % done
                    for first, step in ((j, count), ((j - k) * radix + k, done)):
                        for r in range(radix):
                            last = first + r * step
                            assert last + last // gap == first + first // gap + r * step + r * step // gap, (n, radix)
                done *= radix


def test_lengths_and_directions():
    _run("""
        for n in (1, 7, 13, 16, 60, 127, 1000):
            transform("C2C", (n,), 5)
            transform("C2C", (n,), 5, INVERSE, in_place=True)
        transform("C2C", (4096,), 2)
        transform("Z2Z", (100,), 3, INVERSE)
        transform("Z2Z", (31,), 3)
        assert names() >= {"gpusim_fft_f32_127", "gpusim_fft_f64_31"}, names()
    """)


def test_real_numbers():
    _run("""
        for n, in_place in itertools.product((15, 64), (False, True)):
            transform("R2C", (n,), 3, in_place=in_place)
            transform("C2R", (n,), 3, in_place=in_place)
        transform("R2C", (34,), 2)                           # 17 pairs: no packing
        transform("D2Z", (24,), 2)
        transform("Z2D", (24,), 2)
    """)


def test_dimensions_and_layouts():
    _run("""
        transform("C2C", (4, 6, 12), 2)
        for in_place in (False, True):
            transform("R2C", (4, 6, 24), 2, in_place=in_place)
            transform("C2R", (4, 6, 24), 2, in_place=in_place)
        rows = some((24, 10), "C2C")                         # columns, where they lie
        place = to_device(rows)
        handle = plan_many((24,), "C2C", 10, ((24,), 10, 1), ((24,), 10, 1))
        execute(handle, "C2C", place, place)
        assert_near(to_host(place, rows), np.fft.fft(rows, axis=0), (24,), False)
        wide = some((4, 30), "R2C")                          # every second number of longer rows, to columns
        target = to_device(np.zeros((13, 4), "c8"))
        handle = plan_many((24,), "R2C", 4, ((30,), 1, 30), ((13,), 4, 1))
        execute(handle, "R2C", to_device(wide), target)
        assert_near(to_host(target, np.zeros((13, 4), "c8")), np.fft.rfft(wide[:, :24]).T, (24,), False)
        box = some((2, 7, 6, 24), "R2C")                     # part of a box, at an odd place
        target = to_device(np.zeros((2, 4, 6, 13), "c8"))
        handle = plan_many((4, 6, 24), "R2C", 2, ((7, 6, 24), 1, 7 * 6 * 24), ((4, 6, 13), 1, 4 * 6 * 13))
        execute(handle, "R2C", to_device(box), target)
        wanted = np.fft.rfftn(box[:, :4], axes=(1, 2, 3))
        assert_near(to_host(target, np.zeros(wanted.shape, "c8")), wanted, (4, 6, 24), False)
    """)


def test_lines_that_no_block_can_hold():
    _run("""
        transform("C2C", (30000,), 2)
        transform("C2C", (1 << 17,), 1, INVERSE, in_place=True)
        transform("D2Z", (1 << 15,))
        transform("Z2D", (1 << 15,), in_place=True)
        transform("R2C", (16875,))                           # odd
        transform("C2C", (8209,), 2)                         # a prime
        assert "gpusim_fft_f32_map" in names(), names()
    """)


def test_plans_and_wrong_calls():
    _run("""
        number = ctypes.c_int()
        check(fft.cufftGetVersion(ctypes.byref(number)))
        assert number.value == 12000
        old = ctypes.CDLL("libcufft.so.11")
        check(old.cufftGetProperty(1, ctypes.byref(number)))
        assert number.value == 4
        handle, size, again = ctypes.c_int(), ctypes.c_size_t(), ctypes.c_size_t()
        check(fft.cufftCreate(ctypes.byref(handle)))
        check(fft.cufftSetAutoAllocation(handle, 0))
        n = (ctypes.c_longlong * 1)(8209)
        check(fft.cufftEstimate1d(8209, TYPES["C2C"], 1, ctypes.byref(again)))
        c32 = 4
        numbers = handle, 1, n, None, q(1), q(1), c32, None, q(1), q(1), c32, q(1), ctypes.byref(size), c32
        check(fft.cufftXtMakePlanMany(*numbers))
        assert size.value == again.value > 8 * 2 * 8209, (size, again)
        assert fft.cufftXtMakePlanMany(*numbers) == INVALID_PLAN
        values = some((8209,), "C2C")
        source, target = to_device(values), to_device(values)
        assert fft.cufftXtExec(handle, p(source), p(target), FORWARD) == INVALID_VALUE    # there is no work area
        check(fft.cufftSetWorkArea(handle, p(to_device(np.zeros(size.value, "u1")))))
        stream = ctypes.c_void_p()
        check(runtime.cudaStreamCreate(ctypes.byref(stream)))
        check(fft.cufftSetStream(handle, stream))
        check(fft.cufftXtExec(handle, p(source), p(target), FORWARD))
        check(runtime.cudaStreamSynchronize(stream))
        assert_near(to_host(target, values), np.fft.fft(values), (8209,), False)
        assert fft.cufftExecZ2Z(handle, p(source), p(target), FORWARD) == INVALID_VALUE
        check(fft.cufftDestroy(handle))
        assert fft.cufftDestroy(handle) == INVALID_PLAN
        assert fft.cufftPlan1d(ctypes.byref(handle), 0, TYPES["C2C"], 1) == INVALID_SIZE
        assert fft.cufftPlan2d(ctypes.byref(handle), 4, 4, 7) == INVALID_TYPE
        assert fft.cufftXtSetCallback(handle) == NOT_SUPPORTED
        halves = RNG.standard_normal((2, 64)).astype("f2")
        check(fft.cufftCreate(ctypes.byref(handle)))
        n = (ctypes.c_longlong * 1)(64)
        r16, c16 = 2, 6
        numbers = handle, 1, n, None, q(1), q(1), r16, None, q(1), q(1), c16, q(2), ctypes.byref(size), c16
        check(fft.cufftXtMakePlanMany(*numbers))
        target = to_device(np.zeros((2, 33, 2), "f2"))
        check(fft.cufftXtExec(handle, p(to_device(halves)), p(target), FORWARD))
        found = to_host(target, np.zeros((2, 33, 2), "f2")).astype("f4").view("c8")[..., 0]
        wanted = np.fft.rfft(halves.astype("f8"))
        assert np.linalg.norm(found - wanted) < 1e-3 * np.linalg.norm(wanted)
    """)
