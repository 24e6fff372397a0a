"""What Numba offers to kernels compiles, links and runs: each kernel against NumPy or Python.

PYTEST_DONT_REWRITE: an assertion in a kernel has to stay one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numba import cuda, float32, int32
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32  # noqa: F401

import gpusim
from gpusim.errors import KernelRaised

N = 32
INT, FLOAT, DOUBLE = (np.arange(1, N + 1, dtype=kind) for kind in (np.int32, np.float32, np.float64))
RECORD = np.dtype([("a", np.int32), ("b", np.float64), ("c", np.float32, (3,))], align=True)
TABLE = np.arange(N, dtype=np.float32) ** 2


def simulate(kernel: Any, *args: Any, grid: int = 1, block: int = N, **settings: Any) -> None:
    gpusim.simulate(kernel, grid, block, args, overrides=["sm.count=2"], threads=1, max_cycles=2_000_000, **settings)


def half_arithmetic(a, b, out):
    i = cuda.grid(1)
    if a[i] < b[i]:
        out[0, i] = a[i] * b[i] + a[i]
    else:
        out[0, i] = cuda.fp16.hfma(a[i], b[i], b[i]) - cuda.fp16.hmax(a[i], b[i])
    size = abs(a[i])
    out[1, i] = cuda.fp16.hexp(a[i]) + cuda.fp16.hsqrt(size) + cuda.fp16.hsin(a[i])


def test_float16() -> None:
    a = np.linspace(-2, 2, N).astype(np.float16)
    b, out = a[::-1].copy(), np.zeros((2, N), np.float16)
    simulate(half_arithmetic, a, b, out)
    x, y = a.astype(np.float64), b.astype(np.float64)
    expected = np.where(x < y, x * y + x, x * y + y - np.maximum(x, y))
    np.testing.assert_allclose(out[0].astype(np.float64), expected, atol=8e-3)  # two roundings of values below 16
    np.testing.assert_allclose(out[1], np.exp(x) + np.sqrt(abs(x)) + np.sin(x), rtol=4e-3, atol=4e-3)


def complex_arithmetic(a, out):
    i = cuda.grid(1)
    out[i] = a[i] * a[i] / (a[i] + 1) + abs(a[i])


def test_complex_numbers() -> None:
    a = np.arange(N) + 1j * np.arange(N)[::-1]
    out = np.zeros_like(a)
    simulate(complex_arithmetic, a, out)
    np.testing.assert_allclose(out, a * a / (a + 1) + abs(a), rtol=1e-13)


def record_fields(r):
    i = cuda.grid(1)
    r[i].a += 1
    r[i].b *= 2
    r[i].c[1] = r[i].a


def test_records() -> None:
    r = np.zeros(N, RECORD)
    r["a"], r["b"] = np.arange(N), np.arange(N) / 4
    simulate(record_fields, r)
    np.testing.assert_array_equal(r["a"], np.arange(N) + 1)
    np.testing.assert_array_equal(r["b"], np.arange(N) / 2)
    np.testing.assert_array_equal(r["c"][:, 1], np.arange(N) + 1)


def vectors(out):
    i = cuda.grid(1)
    v = cuda.float4(i, 2.0, i * i, -1.0)
    out[i] = v.x + v.y * v.z + v.w


def test_vector_types() -> None:
    out, i = np.zeros(N, np.float32), np.arange(N)
    simulate(vectors, out)
    np.testing.assert_array_equal(out, i + 2 * i * i - 1)


@cuda.jit(device=True)
def power(x, n):
    result = 1
    for _ in range(n):
        result *= x
    return result


def make_scaled(scale: int) -> Any:
    def scaled(a, out):
        i = cuda.grid(1)
        local = cuda.local.array(5, int32)
        for k in range(5):
            local[k] = a[i] * k
        shared = cuda.shared.array(0, int32)
        shared[i] = local[a[i] % 5] * scale + power(a[i] % 3, 3)
        cuda.syncthreads()
        out[i] = shared[cuda.blockDim.x - 1 - i] + cuda.const.array_like(TABLE)[i]

    return scaled


def test_device_functions_closures_local_dynamic_shared_and_constant_arrays() -> None:
    out = np.zeros(N, np.int32)
    simulate(make_scaled(7), INT, out, shared_bytes=4 * N)
    np.testing.assert_array_equal(out, (INT * (INT % 5) * 7 + (INT % 3) ** 3)[::-1] + TABLE.astype(np.int32))


def atomics(a, u, x, old):
    i = cuda.grid(1)
    cuda.atomic.add(a, 0, i)
    cuda.atomic.sub(a, 1, i)
    cuda.atomic.and_(a, 2, ~(1 << (i % 8)))
    cuda.atomic.or_(a, 3, 1 << (i % 8))
    cuda.atomic.xor(a, 4, i)
    cuda.atomic.max(a, 5, i)
    cuda.atomic.min(a, 6, -i)
    cuda.atomic.cas(a, 7, 0, 1)
    cuda.atomic.exch(a, 8, 9)
    old[i] = cuda.atomic.inc(u, 0, 4)
    cuda.atomic.dec(u, 1, 4)
    cuda.atomic.add(x, 0, i)
    cuda.atomic.max(x, 1, i)
    cuda.atomic.nanmin(x, 2, -i)


@pytest.mark.parametrize(
    ("kind", "real"),
    [(np.int64, np.float32), (np.uint32, np.float64)],
)
def test_atomics(kind: Any, real: Any) -> None:
    a, u, x, old = np.zeros(9, kind), np.zeros(2, np.uint32), np.zeros(3, real), np.zeros(N, np.uint32)
    a[2] = 0xFFFF
    x[2] = np.nan
    simulate(atomics, a, u, x, old)
    total = N * (N - 1) // 2
    lowest = np.array(1 - N).astype(kind) if np.issubdtype(kind, np.signedinteger) else 0
    expected = [
        total,
        np.array(-total).astype(kind),
        0xFF00,
        0xFF,
        np.bitwise_xor.reduce(np.arange(N)),
        N - 1,
    ]
    assert list(a) == [*expected, lowest, 1, 9]
    assert list(u) == [N % 5, (5 - N % 5) % 5]
    assert sorted(old) == sorted(i % 5 for i in range(N))
    assert list(x) == [total, N - 1, 1 - N]


def between_lanes(a, out):
    i = cuda.laneid
    v = a[i]
    m = cuda.activemask()
    out[0, i] = cuda.ballot_sync(m, v > 3)
    out[1, i] = cuda.all_sync(m, v > 0) + 2 * cuda.any_sync(m, v > N) + 4 * cuda.eq_sync(m, v > 3)
    out[2, i] = cuda.match_any_sync(m, v // 4)
    out[3, i] = cuda.shfl_sync(m, v, 5) + cuda.shfl_xor_sync(m, v, 1)
    out[4, i] = cuda.shfl_up_sync(m, v, 2) + 100 * cuda.shfl_down_sync(m, v, 3)
    out[5, i] = cuda.lanemask_lt()
    over, positive, large = int32(v > 4), int32(v > 0), int32(v > N)
    out[6, i] = cuda.syncthreads_count(over) + 100 * cuda.syncthreads_and(positive)
    out[6, i] += 1000 * cuda.syncthreads_or(large)
    out[7, i] = cuda.popc(v) + 100 * cuda.clz(v) + 10000 * cuda.ffs(v)
    out[8, i] = cuda.brev(v)
    out[9, i] = cuda.selp(v > 9, 3, 4) + 10 * cuda.warpsize + cuda.gridsize(1)
    cuda.syncwarp(m)
    cuda.nanosleep(np.uint32(20))
    cuda.threadfence()
    cuda.threadfence_block()
    cuda.threadfence_system()


def test_between_lanes() -> None:
    out, lane = np.zeros((10, N), np.uint32), np.arange(N)
    simulate(between_lanes, INT, out)
    v = INT.astype(np.int64)
    assert (out[0] == sum(1 << i for i in range(N) if v[i] > 3)).all()
    assert (out[1] == 1).all()
    assert list(out[2]) == [sum(1 << k for k in range(N) if v[k] // 4 == x // 4) for x in v]
    assert list(out[3]) == list(v[5] + v[lane ^ 1])
    up, down = np.where(lane < 2, lane, lane - 2), np.where(lane > N - 4, lane, lane + 3)
    assert list(out[4]) == list(v[up] + 100 * v[down])
    assert list(out[5]) == [(1 << i) - 1 for i in range(N)]
    assert (out[6] == (v > 4).sum() + 100).all()
    bits = [(bin(x).count("1"), 32 - int(x).bit_length(), (int(x) & -int(x)).bit_length()) for x in v]
    assert list(out[7]) == [ones + 100 * zeros + 10000 * first for ones, zeros, first in bits]
    assert list(out[8]) == [int(f"{x:032b}"[::-1], 2) for x in v]
    assert list(out[9]) == list(np.where(v > 9, 3, 4) + 320 + N)


def functions(a, out):
    i = cuda.grid(1)
    x = a[i]
    out[0, i] = math.sin(x)
    out[1, i] = math.exp(x)
    out[2, i] = math.log1p(x)
    out[3, i] = math.sqrt(x)
    out[4, i] = math.pow(x, a[0] + a[0] / 2)
    out[5, i] = math.atan2(x, a[1])
    out[6, i] = math.erf(x)
    out[7, i] = math.lgamma(x)
    out[8, i] = math.hypot(x, a[2])
    out[9, i] = cuda.cbrt(x)
    out[10, i] = cuda.fma(x, x, a[0])
    out[11, i] = math.tanh(x)


# Units in the last place: CUDA C++ Programming Guide, "Mathematical Functions", the largest of the ones used here.
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_mathematical_functions(kind: Any) -> None:
    a = np.linspace(0.25, 6, N).astype(kind)
    out = np.zeros((12, N), kind)
    simulate(functions, a, out)
    x = [float(value) for value in a]
    references = (
        math.sin, math.exp, math.log1p, math.sqrt, lambda v: math.pow(v, x[0] + x[0] / 2),
        lambda v: math.atan2(v, x[1]), math.erf, math.lgamma, lambda v: math.hypot(v, x[2]),
        lambda v: v ** (1 / 3), lambda v: v * v + x[0], math.tanh,
    )  # fmt: skip
    expected = np.array([[function(value) for value in x] for function in references])
    scale = np.maximum(np.abs(expected), 1 if kind == np.float64 else 0.05)  # lgamma has zeros at 1 and 2
    assert (np.abs(out - expected) <= 8 * np.finfo(kind).eps * scale).all()


def speak(a):
    i = cuda.grid(1)
    if i < 2:
        print("value", a[i], a[i] * float32(0.5), i)


def test_print(capsys: pytest.CaptureFixture[str]) -> None:
    simulate(speak, INT)
    assert capsys.readouterr().out == "value 1 0.500000 0\nvalue 2 1.000000 1\n"


@cuda.jit(debug=True, opt=False)
def refuse(a):
    i = cuda.grid(1)
    if a[i] > 30:
        raise ValueError("too large")
    assert a[i] > 0, "not positive"
    a[i] += 1


def test_exceptions_of_debug_kernels() -> None:
    a = np.arange(1, N - 1, dtype=np.int32)
    simulate(refuse, a, block=N - 2)
    np.testing.assert_array_equal(a, np.arange(2, N))
    with pytest.raises(KernelRaised, match=r"ValueError: too large \(.*test_numba_corpus.py:\d+") as caught:
        simulate(refuse, a, block=N - 2)
    assert caught.value.thread == (N - 3, 0, 0)
    np.testing.assert_array_equal(a, np.arange(2, N))
    a[5] = 0
    with pytest.raises(KernelRaised, match="AssertionError: not positive"):
        simulate(refuse, a, block=6)


def meet(a):
    everyone = cuda.cg.this_grid()
    i = cuda.grid(1)
    a[i] = i
    everyone.sync()
    other = a[a.size - 1 - i]
    everyone.sync()
    a[i] += other


def test_grid_barrier() -> None:
    a = np.zeros(4 * N, np.int32)
    simulate(meet, a, grid=4)
    assert (a == a.size - 1).all()


def draw(states, out):
    i = cuda.grid(1)
    out[i] = xoroshiro128p_uniform_float32(states, i)


def test_random_numbers() -> None:
    from numba.cuda.random import init_xoroshiro128p_states_cpu, xoroshiro128p_dtype

    states = np.zeros(N, xoroshiro128p_dtype)
    init_xoroshiro128p_states_cpu(states, 1, 0)
    out, first = np.zeros(N, np.float32), states.copy()
    simulate(draw, states, out)
    sums = first["s0"] + first["s1"]
    np.testing.assert_allclose(out, (sums >> np.uint64(11)) * 2.0**-53, rtol=1e-6)


def linked(a):
    i = cuda.grid(1)
    a[i] = outside(a[i])


SOURCE = 'extern "C" __device__ int outside(int *result, int x) { *result = 3 * x + 1; return 0; }'
outside = cuda.declare_device("outside", "int32(int32)", link=cuda.CUSource(SOURCE))


def test_linked_source() -> None:
    a = INT.copy()
    simulate(linked, a)
    np.testing.assert_array_equal(a, 3 * INT + 1)
