"""The stand-in for cuBLAS, called through ctypes as C programs call it, against NumPy."""

from __future__ import annotations

import sys
from functools import partial

import pytest

from gpusim.driver.libraries.blas import kernels
from tests.gpusim.driver_program import run

pytestmark = [
    pytest.mark.usefixtures("toolchain"),
    pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux"),
]
HEAD = """
import ctypes
from tests.gpusim.blas_program import *
handle = new_handle()
"""


_run = partial(run, head=HEAD)


def test_shapes_transposes_and_scalars():
    _run("""
        for operations in ALL:
            gemm_ex(handle, (70, 67, 45), operations, extra=3, scalars=(1.5, 0.5))
            gemm_ex(handle, (64, 64, 32), operations, on_device=True, scalars=(-2, 1))
        for extents in ((1, 1, 1), (0, 3, 3), (3, 0, 3), (65, 1, 17), (1, 129, 4)):
            gemm_ex(handle, extents)
        gemm_ex(handle, (5, 6, 0), scalars=(1, 0.5))            # no sum: C is only scaled
        gemm_ex(handle, (5, 6, 0), scalars=(1, 0))
        assert {f"gpusim_{each}" for each in ("gemm_f32_32x32", "gemm_f32_thin", "sgemm_64x64_8x5")} <= names(), names()
    """)


def test_every_tile_and_thin_products():
    _run("""
        from dataclasses import replace
        from gpusim.driver.libraries.blas import choice, sgemm
        sgemm.is_known = lambda *_: False
        every = choice.tiles()
        of = {"wgmma": ("f16", F16, 68), "mma": ("tf32", F32, 74), "dmma": ("f64", F64, 70), "fma": ("f32", F32, 68)}
        for tile, number in zip(every, range(99)):
            if tile.way == "simt":
                continue
            choice.tiles = lambda: (replace(tile, first=0, more=0, step=.01, join=0, joins=.02), *every)
            name, kind, compute = of[tile.way]
            how = {"kinds": (kind,) * 3, "compute": compute, "tolerance": 2e-3 if tile.way == "mma" else None}
            # mma takes what wgmma cannot take as it lies.
            operations = ((T, N), (N, T), (N, N))[1 if tile.way == "mma" else number % 3 if tile.n > 32 else 0]
            gemm_ex(handle, (152, 144, 40), operations, **how)              # no tile fits rows, columns or the sum
            gemm_ex(handle, (24, 32, 704), operations, **how)               # one tile, whose sum blocks share
            shapes = {(group.symbol, group.grid[2] > 1) for group in driver.log.groups.values()}
            symbol = f"gpusim_gemm_{name}_{tile.m}x{tile.n}"
            assert (symbol, False) in shapes and (tile.parts == 1 or (symbol, True) in shapes), (tile, shapes)
        choice.tiles = lambda: every
        for kinds, compute, more in (
            ((F32, F32, F32), 68, {}), ((F16, F16, F16), 68, {}), ((BF16, BF16, F32), 68, {"tolerance": 1e-5}),
            ((F64, F64, F64), 70, {}), ((I8, I8, I32), 72, {"scalars": (2, 1)}), ((E4M3, E5M2, BF16), 68, {}),
            ((C32, C32, C32), 68, {"scalars": (2 + 1j, 1 - 2j)}),
        ):
            for extents in ((1, 70, 300), (70, 1, 300), (3, 41, 261), (130, 4, 64)):
                for operations in ((C if kinds[0] == C32 else T, N), (N, T)):
                    gemm_ex(handle, extents, operations, kinds, compute, extra=1, **more)
                    gemm_ex(handle, extents, operations, kinds, compute, **more)
    """)


def test_factors_that_bulk_copies_cannot_take():
    """Halves and bytes are copied to where they can, and so is tf32 that lies across k where that is faster; floats and
    doubles come number by number."""
    _run("""
        from gpusim.driver.libraries.blas import sgemm
        sgemm.is_known = lambda *_: False
        def all_of(kinds, compute, large, **more):
            for extents in (large, (large[0] + 60, large[1], large[2] + 7)):    # the second has no room in the first's
                for operations in ((T, N), (N, N), (N, T), (T, T)):
                    gemm_ex(handle, extents, operations, kinds, compute, extra=1, **more)
        for kinds, compute, more in (
            ((F16, F16, F16), 68, {}), ((I8, I8, I32), 72, {}), ((E4M3, E5M2, BF16), 68, {}),
            ((F32, F32, F32), 74, {"tolerance": 2e-3}), ((F32, F32, F32), 68, {}), ((F64, F64, F64), 70, {}),
        ):
            all_of(kinds, compute, (70, 33, 275), **more)                       # sums that blocks share
        assert {"gpusim_pack_8", "gpusim_pack_16"} <= names(), names()
    """)


def test_every_kernel_of_floats():
    """With each way to share a sum, factors that lie along and across k, and where 16 bytes can be copied or not."""
    _run("""
        from gpusim.driver.libraries.blas import sgemm
        ways = (("whole", 1), ("pieces", 3), ("chain", 2), ("pieces", 5), ("onto", 3))
        tiles = [name for name, macros in sgemm.tables()[0].items() if "WARPS_M" in macros]
        for number, tile in enumerate(tiles):
            way, operations = ways[4 if tile == "largek" else number % 4], ALL[(number + number // 4) % 4]
            sgemm.choose = lambda *_: (tile, *way)
            k, extra = (61, 3) if operations == (T, N) else (61, 0) if operations == (N, T) else (60, 0)
            odd = number % 3 == 0                                           # else 16 bytes can be copied at once
            gemm_ex(handle, (148 + odd, 76 + odd, k), operations, scalars=(1.5, .5 * (number % 2)), extra=extra)
            assert f"gpusim_sgemm_{tile}" in names(), names()
        sgemm.choose = lambda *_: ("64x64_8x5", *ways[1])
        gemm_ex(handle, (40, 24, 7))                                        # fewer steps than blocks that share them
    """)


@pytest.mark.parametrize("gpu", ["a100", "rtx5090", "b200"])
def test_other_gpus(gpu):
    """An A100 has no clusters, and of later ones bulk copies were not measured."""
    _run(
        """
        for kind, compute in ((F16, 68), (F32, 68), (F32, 74), (F64, 70)):
            for extents, operations in (((70, 33, 75), (T, N)), ((24, 32, 704), (N, T))):
                tolerance = 2e-3 if compute == 74 else None
                gemm_ex(handle, extents, operations, (kind,) * 3, compute, tolerance=tolerance)
        """,
        gpu=gpu,
    )


def test_every_type():
    _run("""
        for kinds, compute, more in (
            ((F16, F16, F16), 68, {}), ((F16, F16, F16), 64, {}), ((BF16, BF16, F32), 68, {"tolerance": 1e-5}),
            ((F64, F64, F64), 70, {}), ((E4M3, E5M2, BF16), 68, {}),
            ((I8, I8, I32), 72, {"scalars": (2, 1)}), ((C32, C32, C32), 68, {"scalars": (2 + 1j, 1 - 2j)}),
        ):
            transposed = C if kinds[0] == C32 else T
            for operations in ((transposed, N), (N, transposed)):
                gemm_ex(handle, (70, 19, 45), operations, kinds, compute, extra=1, **more)
            gemm_ex(handle, (72, 16, 64), (T, N), kinds, compute, **more)      # whole chunks of 16 bytes
    """)


def test_what_is_not_asked_for_is_not_read():
    _run("""
        bad = np.full((8, 8), np.nan, np.float32)
        good = np.ones((8, 8), np.float32)
        def product(a, b, c, alpha, beta):
            where = [to_device(each) for each in (a, b, c)]
            x, y = scalar(alpha, F32), scalar(beta, F32)
            check(blas.cublasSgemm_v2(handle, N, N, 8, 8, 8, pointer_of(x), p(where[0]), 8, p(where[1]), 8,
                                      pointer_of(y), p(where[2]), 8))
            return to_host(where[2], c)
        assert (product(good, good, bad, 1, 0) == 8).all()
        assert (product(bad, good, good, 0, 3) == 3).all()
        assert np.isnan(product(good, bad, good, 1, 1)).all()
        assert np.isnan(product(good, good, bad, 1, 1)).all()
    """)


def test_batches():
    _run("""
        rng = np.random.default_rng(1)
        a, b, c = (rng.standard_normal((3, *shape)).astype(np.float32) for shape in ((5, 7), (6, 5), (6, 7)))
        wanted = 2 * np.einsum("znk,zkm->znm", b.astype(float), a.astype(float)) + c        # columns are rows here
        where = [to_device(each) for each in (a, b, c)]
        two, one = scalar(2, F32), scalar(1, F32)
        size = ctypes.c_longlong
        check(blas.cublasSgemmStridedBatched(handle, N, N, 7, 6, 5, pointer_of(two), p(where[0]), 7, size(35),
                                             p(where[1]), 5, size(30), pointer_of(one), p(where[2]), 7, size(42), 3))
        np.testing.assert_allclose(to_host(where[2], c), wanted, rtol=1e-5, atol=1e-5)
        check(runtime.cudaMemcpy(p(where[2]), pointer_of(c), ctypes.c_size_t(c.nbytes), 1))
        lists = [to_device(at + 4 * n * np.arange(3, dtype=np.uint64)) for at, n in zip(where, (35, 30, 42))]
        check(blas.cublasGemmBatchedEx(handle, N, N, 7, 6, 5, pointer_of(two), p(lists[0]), F32, 7, p(lists[1]), F32, 5,
                                       pointer_of(one), p(lists[2]), F32, 7, 3, 68, -1))
        np.testing.assert_allclose(to_host(where[2], c), wanted, rtol=1e-5, atol=1e-5)
        # One matrix for all of a batch: a stride of nothing.
        check(blas.cublasGemmStridedBatchedEx_64(
            handle, N, N, size(7), size(6), size(5), pointer_of(two), p(where[0]), F32, size(7), size(0), p(where[1]),
            F32, size(5), size(30), pointer_of(scalar(0, F32)), p(where[2]), F32, size(7), size(42), size(3), 68, -1))
        wanted = 2 * np.einsum("znk,km->znm", b.astype(float), a[0].astype(float))
        np.testing.assert_allclose(to_host(where[2], c), wanted, rtol=1e-5, atol=1e-5)
    """)


def test_vectors():
    _run("""
        rng = np.random.default_rng(2)
        for kind, letter, dot in ((F32, "S", "dot"), (C64, "Z", "dotc")):
            a, x, y = (some(rng, shape, kind) for shape in ((300, 37), (2 * 37,), (300,)))
            where = [to_device(each) for each in (a, x, y)]
            alpha, beta = scalar(2 + 1j, kind), scalar(0.5, kind)
            call = getattr(blas, f"cublas{letter}gemv_v2")
            one, two = pointer_of(alpha), pointer_of(beta)
            check(call(handle, N, 300, 37, one, p(where[0]), 300, p(where[1]), -2, two, p(where[2]), 1))
            wanted = alpha[0] * (exact(a, kind) @ exact(x, kind)[::2][::-1]) + 0.5 * exact(y, kind)
            assert_near(to_host(where[2], y), wanted, kind, 37, 1e-5)
            check(call(handle, C, 300, 37, one, p(where[0]), 300, p(where[2]), 1, two, p(where[1]), 2))
            wanted = alpha[0] * (exact(a, kind).conj().T @ wanted) + 0.5 * exact(x, kind)[::2]
            found = to_host(where[1], x)
            assert_near(found[::2], wanted, kind, 300, 1e-5)
            assert (found[1::2] == x[1::2]).all()
            result = np.zeros(1, NUMPY[kind])
            check(blas.cublasSetPointerMode_v2(handle, 0))
            call = getattr(blas, f"cublas{letter}{dot}_v2")
            check(call(handle, 37, p(where[1]), 2, p(where[0]), 1, pointer_of(result)))
            assert_near(result, np.vdot(exact(found, kind)[::2], exact(a, kind)[:37, 0]), kind, 37, 1e-5)
            there = to_device(result * 0)
            check(blas.cublasSetPointerMode_v2(handle, 1))
            check(call(handle, 37, p(where[1]), 2, p(where[0]), 1, p(there)))
            assert to_host(there, result) == result
            check(blas.cublasSetPointerMode_v2(handle, 0))
    """)


@pytest.mark.parametrize("letter", ["S", "Z"])
def test_elements(letter):
    """Every function against the same expression in NumPy, with steps apart and from the end; with complex numbers
    those that conjugate, scale by real ones, or take absolute values."""
    kind, real = {"S": ("F32", "S"), "Z": ("C64", "Dz")}[letter]
    _run(f"""
        kind, of = {kind}, {letter!r}
        rng = np.random.default_rng(4)
        a, b, x, y = (some(rng, shape, kind) for shape in ((300, 7), (7, 300), (2 * 300,), (7,)))
        alpha, beta = scalar(2 - 1j, kind), scalar(0.5, kind)
        one, two = pointer_of(alpha), pointer_of(beta)
        def after(call, *given, at, like):                    # what an array is when a function has been called
            places = [to_device(each) if isinstance(each, np.ndarray) else each for each in given]
            check(getattr(blas, call)(handle, *(p(each) if isinstance(each, int) and each > 1 << 20 else each
                                                for each in places)))
            return to_host(places[at], like)
        def near(found, wanted):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
        z = some(rng, (300,), kind)
        if of == "S":
            near(after("cublasSaxpy_v2", 300, one, x, -2, z, 1, at=4, like=z), alpha * x[::2][::-1] + z)
            near(after("cublasScopy_v2", 300, x, 2, z, -1, at=3, like=z), x[::2][::-1])
            near(after("cublasSscal_v2", 300, one, x, 2, at=2, like=x)[::2], alpha * x[::2])
            near(after("cublasSdgmm", 0, 300, 7, a, 300, x, 2, b, 300, at=7, like=a), a * x[::2, None])
            near(after("cublasSdgmm", 1, 300, 7, a, 300, y, -1, b, 300, at=7, like=a), a * y[::-1])
        c = some(rng, (300, 7), kind)
        near(after(f"cublas{{of}}geam", N, C, 300, 7, one, a, 300, two, b, 7, c, 300, at=10, like=c),
             alpha * a + beta * b.T.conj())
        ger = {{"S": "ger", "Z": "gerc"}}[of]
        near(after(f"cublas{{of}}{{ger}}_v2", 300, 7, one, x, 2, y, 1, a, 300, at=7, like=a),
             a + alpha * x[::2, None] * y.conj())
        if of == "Z":
            factor = pointer_of(np.array([3.0]))
            near(after("cublasZdscal_v2", 300, factor, z, 1, at=2, like=z), 3 * z)
        size = abs(z.real) + abs(z.imag)
        number = np.zeros(1, z.real.dtype)
        for name, wanted in (("asum", size.sum()), ("nrm2", np.linalg.norm(z))):
            check(getattr(blas, f"cublas{real}{{name}}_v2")(
                handle, 300, p(to_device(z)), 1, pointer_of(number)))
            near(number, wanted)
        place = np.zeros(1, np.int32)
        z[[40, 250]] = 0
        z[[70, 71]] = 1000
        for name, wanted in (("amax", 71), ("amin", 41)):
            check(getattr(blas, f"cublasI{{of.lower()}}{{name}}_v2")(
                handle, 300, p(to_device(z)), 1, pointer_of(place)))
            assert place[0] == wanted, (name, place)
    """)


def test_epilogues():
    _run("""
        rng = np.random.default_rng(3)
        m, n, k = 40, 33, 24
        a, b, c = (some(rng, shape, F16) for shape in ((k, m), (k, n), (m, n)))
        bias = some(rng, (m,), F16)
        d, aux, mask = to_device(c), to_device(c), to_device(np.zeros((64, n), np.uint8))
        layouts = layout(F16, k, m, k), layout(F16, k, n, k), layout(F16, m, n, m), layout(F16, m, n, m)
        where = [to_device(each) for each in (a, b, c)] + [d]
        sums = exact(a, F16).T @ exact(b, F16)
        biased = sums + exact(bias, F16)[:, None]
        def gelu(x):
            return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
        def run(epilogue, scalars=(1, 0), **more):
            product = descriptor(68, F32, _3=T, _7=epilogue, _8=to_device(bias), **more)
            check(matmul(handle, product, list(zip(where, layouts)), scalars))
            return to_host(d, c)
        assert_near(run(4), biased, F16, k)
        assert_near(run(6, (1, 1)), np.maximum(biased + exact(c, F16), 0), F16, k)
        assert_near(run(36), gelu(biased), F16, k)
        assert_near(run(164, _11=aux, _12=m), gelu(biased), F16, k)             # GELU_AUX_BIAS
        assert_near(to_host(aux, c), biased, F16, k)
        assert_near(run(134, _11=mask, _12=512), np.maximum(biased, 0), F16, k)  # RELU_AUX_BIAS
        bits = np.unpackbits(to_host(mask, np.zeros((n, 64), np.uint8)), axis=1, bitorder="little")[:, :m].T
        assert (bits == (run(4) >= 0)).all()
        assert_near(run(136, _11=mask, _12=512), np.where(bits, sums, 0), F16, k)  # DRELU
        slope = (gelu(biased + 1e-4) - gelu(biased - 1e-4)) / 2e-4
        assert_near(run(192, _11=aux, _12=m), sums * slope, F16, k, 5e-3)        # DGELU
        refused = descriptor(68, F32, _3=T, _7=256)                              # BGRADA
        assert matmul(handle, refused, list(zip(where, layouts))) == 15
    """)


def test_rows_scales_and_the_largest_value():
    _run("""
        rng = np.random.default_rng(4)
        m, n, k = 48, 32, 64
        a, b = (some(rng, shape, E4M3) for shape in ((k, m), (k, n)))
        scale_a, scale_b, scale_d = (np.array([each], np.float32) for each in (0.5, 3, 0.25))
        largest = to_device(np.array([1e9], np.float32))
        out = np.zeros((m, n), np.uint8, order="F")
        d, c = to_device(out), to_device(np.zeros((m, n), np.uint16))
        sides = {f"_{key}": to_device(value) for key, value in ((17, scale_a), (18, scale_b), (20, scale_d))}
        product = descriptor(68, F32, _3=T, _21=largest, **sides)
        matrices = [(to_device(a), layout(E4M3, k, m, k)), (to_device(b), layout(E4M3, k, n, k)),
                    (c, layout(BF16, m, n, m)), (d, layout(E4M3, m, n, m))]
        check(matmul(handle, product, matrices))
        wanted = 1.5 * exact(a, E4M3).T @ exact(b, E4M3)
        np.testing.assert_allclose(to_host(largest, scale_a), abs(wanted).max(), rtol=2e-4)
        assert_near(to_host(d, out), wanted / 4, E4M3, k)
        # Rows that are contiguous, a scale for each row and column.
        rows, columns = (rng.random(each).astype(np.float32) + 0.5 for each in (m, n))
        product = descriptor(68, F32, _3=T, _17=to_device(rows), _18=to_device(columns), _31=3, _32=3)
        out = np.zeros((m, n), np.uint16)
        d = to_device(out)
        result = layout(BF16, m, n, n, _1=1)
        check(matmul(handle, product, [*matrices[:2], (d, result), (d, result)]))
        assert_near(to_host(d, out), wanted / 1.5 * rows[:, None] * columns, BF16, k)
    """)


def test_handles_and_what_is_refused():
    _run("""
        number = ctypes.c_int()
        check(blas.cublasGetVersion_v2(handle, ctypes.byref(number)))
        assert number.value // 10000 == 13
        lt.cublasLtGetVersion.restype = ctypes.c_size_t
        assert lt.cublasLtGetVersion() == number.value
        blas.cublasGetStatusName.restype = ctypes.c_char_p
        assert blas.cublasGetStatusName(15) == b"CUBLAS_STATUS_NOT_SUPPORTED"
        assert blas.cublasSsyrk_v2(handle) == 15
        assert lt.cublasLtMatrixTransform(handle) == 15
        assert blas.cublasSetStream_v2(p(12345), None) == 1
        assert blas.cublasSetStream_v2(handle, p(12345)) == 1
        stream, found = ctypes.c_void_p(), ctypes.c_void_p()
        check(runtime.cudaStreamCreate(ctypes.byref(stream)))
        check(blas.cublasSetStream_v2(handle, stream))
        check(blas.cublasGetStream_v2(handle, ctypes.byref(found)))
        assert found.value == stream.value
        check(blas.cublasSetMathMode(handle, 3))
        gemm_ex(handle, (16, 16, 16), (T, N), tolerance=2e-3)
        assert names() == {"gpusim_gemm_tf32_64x32"}
        one = scalar(1, F32)
        place = p(to_device(np.zeros(64, np.float32)))
        x = pointer_of(one)
        call = lambda lda: blas.cublasSgemm_v2(handle, N, N, 8, 8, 8, x, place, lda, place, 8, x, place, 8)
        assert call(7) == 7
        mixed = place, F16, 8, place, F32, 8, x, place, F32, 8
        assert blas.cublasGemmEx(handle, N, N, 8, 8, 8, x, *mixed, 68, -1) == 15
        check(blas.cublasDestroy_v2(handle))
        assert call(8) == 1
    """)


def test_macros_stand_in_the_source_where_no_shell_reads_them(monkeypatch):
    """nvcc 13.0 lost quotes and commas of arguments."""
    given = []
    monkeypatch.setattr(kernels, "compile_cuda", lambda *what, **more: given.append((what, more)) or b"cubin")
    monkeypatch.setattr(kernels, "put_file", lambda path, content: None)
    text = kernels.text_of("pack.cu", {"SUMS": '"+f"(d[0]), "+f"(d[1])'})
    assert kernels._cubin("pack.cu", text, "sm_90") == b"cubin"
    ((text, _), more), *others = given
    assert text.startswith('#define SUMS "+f"(d[0]), "+f"(d[1])\n#line 1\n// Copies')
    assert "options" not in more and not others
