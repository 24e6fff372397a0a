"""The stand-in for cuDNN, called through ctypes as C programs call it, against NumPy."""

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
from tests.gpusim.dnn_program import *
handle = new_handle()
ONES = [(each, 3, (1, 1)) for each in (102, 103, 104, 105)]
def moving(mode=1):
    return made(CONVOLUTION, (100, 1, 0), (101, 7, mode), (106, 3, 2), *ONES)
"""


_run = partial(run, head=HEAD)


def test_every_role_layout_and_movement_of_the_filter():
    _run("""
        for role, last in itertools.product((FORWARD, DATA, FILTER), (False, True)):
            convolve(handle, role, last=last)
            convolve(handle, role, (2, 8, 11, 9), (20, 8, 3, 2), last=last, stride=2, padding=2)
            convolve(handle, role, (1, 3, 14, 13), (9, 3, 2, 3), last=last, stride=3, dilation=2)  # nine phases
            convolve(handle, role, (2, 8, 6, 7), (16, 8, 1, 1), last=last, padding=0)
            convolve(handle, role, (2, 8, 6, 7), (16, 8, 1, 1), last=last, padding=0, stride=2)
            convolve(handle, role, (2, 5, 31), (12, 5, 4), last=last, stride=2)
            convolve(handle, role, (1, 6, 5, 4, 6), (8, 6, 3, 3, 3), last=last, stride=2, alpha=1.5, beta=0.5)
        roles = {name.split("_")[2] for name in names() if name.startswith("gpusim_conv_")}
        assert roles == {"forward", "data", "filter"}, roles
    """)


def test_groups_and_depthwise():
    _run("""
        for role, last in itertools.product((FORWARD, DATA, FILTER), (False, True)):
            convolve(handle, role, (2, 16, 7, 8), (32, 8, 3, 3), last=last)
            convolve(handle, role, (2, 12, 7, 8), (12, 1, 3, 3), last=last, stride=2)
            convolve(handle, role, (2, 6, 30, 9), (12, 1, 3, 3), last=last, padding=2, dilation=2)
            convolve(handle, role, (2, 40, 17, 28), (40, 4, 5, 5), F16, last=last, padding=2, stride=2)
            convolve(handle, role, (2, 40, 9, 8), (24, 20, 3, 3), F16, last=last, engine=0, alpha=2, beta=0.5)
        for way in ("few", "grouped"):
            found = {name for name in names() if name.endswith(f"f32_{way}")}
            assert found == {f"gpusim_conv_{role}_f32_{way}" for role in ("forward", "data", "filter")}, names()
    """)


def test_filters_of_one_tap_are_products():
    _run("""
        for role, last in itertools.product((FORWARD, DATA, FILTER), (False, True)):
            for kind, engine, near in ((F32, 1, None), (F32, 0, 4e-3), (F16, 0, None)):
                for image, filters in (((1, 32, 6, 8), (40, 32, 1, 1)), ((2, 24, 8, 5), (16, 24, 1, 1))):
                    convolve(handle, role, image, filters, kind, last, 0, engine=engine, tolerance=near)
        found = {name for name in names() if "gemm" in name}
        kinds = {"f32" if name.startswith("gpusim_sgemm_") else name.split("_")[2] for name in found}
        assert kinds == {"f32", "tf32", "f16"}, names()
    """)


def test_filters_that_are_made_or_read_in_another_way():
    _run("""
        for padding, image in ((1, (2, 128, 5, 7)), (0, (1, 128, 6, 4)), (2, (1, 128, 3, 3))):
            convolve(handle, FILTER, image, (132, 128, 3, 3), padding=padding)
        assert "gpusim_conv_winograd_4" in names(), names()
        convolve(handle, DATA, (1, 128, 16, 16), (128, 128, 3, 3), tolerance=4e-6)  # its channels together
        assert "gpusim_conv_pack_f32" in names(), names()
        for role, kind in itertools.product((FORWARD, DATA, FILTER), (F32, F16)):  # taps apart, as channels
            convolve(handle, role, (2, 3, 12, 16), (24, 3, 4, 4), kind, last=True, padding=0, stride=4)
            convolve(handle, role, (1, 10, 8, 14), (9, 10, 2, 2), kind, last=True, padding=0, stride=2)
    """)


def test_few_channels_in_runs_and_small_groups_with_every_step():
    _run("""
        for kind, last in itertools.product((F32, BF16), (False, True)):
            convolve(handle, DATA, (2, 3, 31, 18), (32, 3, 5, 4), kind, last=last, padding=2, stride=2)
            convolve(handle, DATA, (1, 2, 90, 70), (96, 2, 3, 3), kind, last=last)
            convolve(handle, FORWARD, (1, 70, 20, 11), (4, 70, 3, 3), kind, last=last, engine=0)
        for role, stride, dilation in itertools.product((FORWARD, DATA, FILTER), (1, 2, 3), (1, 2)):
            how = dict(padding=3, stride=stride, dilation=dilation, last=True)
            convolve(handle, role, (2, 40, 14, 21), (40, 1, 3, 5), F16, **how)
            convolve(handle, role, (1, 8, 9, 13), (8, 4, 4, 3), F32, **how)
        assert "gpusim_conv_filter_f16_grouped" in names(), names()
    """)


def test_types_on_tensor_cores():
    _run("""
        for kind, role, last in itertools.product((F16, BF16, F32), (FORWARD, DATA, FILTER), (False, True)):
            near = 4e-3 if kind == F32 else None                 # tf32
            convolve(handle, role, (2, 32, 9, 8), (70, 32, 3, 3), kind, last, engine=0, tolerance=near)
            convolve(handle, role, (1, 5, 9, 11), (7, 5, 3, 3), kind, last, engine=0, stride=2, tolerance=near)
        convolve(handle, FORWARD, kind=F64)
        kinds = {name.split("_")[3] for name in names()}
        assert {"f16", "bf16", "tf32", "f64"} <= kinds, names()
    """)


def test_sums_that_blocks_share():
    _run("""
        for kind, role in itertools.product((F32, F16), (FORWARD, FILTER)):
            convolve(handle, role, (1, 300, 4, 4), (8, 300, 3, 3), kind, alpha=2, beta=-0.5)
            convolve(handle, role, (4, 8, 30, 31), (8, 8, 3, 3), kind)
        assert "gpusim_conv_sum_f32" in names(), names()
    """)


def test_bias_sum_and_activation_in_one_graph():
    _run("""
        rng, moves = np.random.default_rng(2), moving()
        for kind, channels, last in ((F32, 12, False), (F16, 12, False), (F16, 16, True)):
            of_all = (2, 8, 6, 7), (channels, 8, 3, 3), (2, channels, 6, 7), (1, channels, 1, 1)
            x, w, z, b = (encoded(rng.standard_normal(shape), kind) for shape in of_all)
            shapes = {1: x.shape, 2: w.shape, 3: z.shape, 4: z.shape, 5: b.shape, 6: z.shape, 7: z.shape, 8: z.shape}
            of = {uid: tensor(uid, kind, shape, last, virtual=uid in (4, 6, 7)) for uid, shape in shapes.items()}
            def after(mode, x, y, *more):
                how = made(POINTWISE, (0, 14, mode), (1, 1, 0))
                return made(OF_POINTWISE, (750, 15, how), (751, 15, of[x]), (753, 15, of[y]), *more)
            conv = made(FORWARD, (704, 15, of[1]), (703, 15, of[2]), (705, 15, of[4]), (702, 15, moves))
            added = after(0, 4, 6, (752, 15, of[3]), (755, 4, 0.5))
            biased = after(0, 6, 7, (752, 15, of[5]))
            graph = [conv, added, biased, after(100, 7, 8)]
            config = configs_of(handle, graph)[-1]
            laid = {1: x, 2: w, 3: z, 5: b, 8: np.zeros_like(z)}
            laid = {uid: np.ascontiguousarray(np.moveaxis(each, 1, -1) if last else each) for uid, each in laid.items()}
            places = {uid: to_device(each) for uid, each in laid.items()}
            execute(handle, config, places)
            x, w, z, b = (exact(each, kind) for each in (x, w, z, b))
            sums = reference(FORWARD, x, w, z, (1, 1), (1, 1), (1, 1), 1)
            found = to_host(places[8], laid[8])
            assert_near(np.moveaxis(found, -1, 1) if last else found, np.maximum(sums + z / 2 + b, 0), kind, 72)
        try:
            configs_of(handle, [conv, after(10, 4, 8)])          # an operation that it does not have
            raise AssertionError("it has")
        except Status as error:
            assert error.args == (NOT_SUPPORTED,), error
    """)


def test_engines_versions_and_wrong_calls():
    _run("""
        assert dnn.cudnnGetVersion() == 92400
        assert dnn.cudnnGetErrorString(NOT_SUPPORTED) == b"CUDNN_STATUS_NOT_SUPPORTED"
        stream, found = ctypes.c_void_p(), ctypes.c_void_p()
        runtime = ctypes.CDLL("libcudart.so.13")
        check(runtime.cudaStreamCreate(ctypes.byref(stream)))
        check(dnn.cudnnSetStream(handle, stream))
        check(dnn.cudnnGetStream(handle, ctypes.byref(found)))
        assert found.value == stream.value
        moves = moving()
        def operation(kind, image=(2, 8, 6, 7), how=moves):
            shapes = (1, image), (2, (12, 8, 3, 3)), (3, (2, 12, 6, 7))
            of = [tensor(uid, kind, shape, False) for uid, shape in shapes]
            return made(FORWARD, *zip((704, 703, 705), (15,) * 3, of), (702, 15, how))
        assert [engine_of(each) for each in configs_of(handle, [operation(F32)])] == [(0, [0]), (1, [])]
        assert [engine_of(each) for each in configs_of(handle, [operation(F16)])] == [(0, [0])]
        assert [engine_of(each) for each in configs_of(handle, [operation(F64)])] == [(1, [])]
        flipped = moving(mode=0)
        for given, wanted in (
            (lambda: configs_of(handle, [operation(F32, (2, 8, 7, 7))]), BAD_PARAM),    # y has another shape
            (lambda: configs_of(handle, [operation(F32, how=flipped)]), NOT_SUPPORTED),
            (lambda: configs_of(handle, []), BAD_PARAM),
            (lambda: get(made(TENSOR, final=False), 901, 1, np.zeros(1, "i4")), NOT_FINALIZED),
            (lambda: check(dnn.cudnnBackendFinalize(p(12345))), BAD_PARAM),
            (lambda: execute(handle, configs_of(handle, [operation(F32)])[0], {1: 256, 2: 256}), BAD_PARAM),
            (lambda: check(dnn.cudnnRNNForward(handle)), NOT_SUPPORTED),
        ):
            try:
                given()
            except Status as error:
                assert error.args == (wanted,), (error, wanted)
            else:
                raise AssertionError(wanted)
        check(dnn.cudnnDestroy(handle))
        assert dnn.cudnnDestroy(handle) == BAD_PARAM
    """)
