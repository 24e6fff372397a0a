"""Convolutions of cuDNN's backend interface as a C program asks for them, through ctypes, compared with NumPy's.

Imported by programs that `driver_program.run` starts, where the simulated driver is installed.
"""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np

from tests.gpusim.blas_program import BF16, F16, F32, F64, assert_near, encoded, exact, p, to_device, to_host

dnn = ctypes.CDLL("libcudnn.so.9")
for _name in ("cudnnGetErrorString", "cudnnGetVersion"):
    getattr(dnn, _name).restype = ctypes.c_char_p if "String" in _name else ctypes.c_size_t
DATA_TYPE = {F32: 0, F64: 1, F16: 2, BF16: 9}
POINTWISE, CONVOLUTION, HEURISTICS, ENGINE, CONFIG, PLAN, FORWARD, FILTER, DATA = 0, 1, 4, 2, 3, 5, 10, 11, 12
OF_POINTWISE, GRAPH, PACK, TENSOR = 13, 15, 16, 17
NUMBERS = {
    1: "i4",
    3: "i8",
    4: "f4",
    6: "u8",
    7: "i4",
    8: "i4",
    14: "i4",
    15: "u8",
    0: "u8",
    2: "?",
}  # by attribute type
ROLES = {FORWARD: (700, 704, 703, 705, 702), DATA: (706, 710, 709, 711, 708), FILTER: (712, 716, 715, 717, 714)}
NOT_SUPPORTED, BAD_PARAM, NOT_FINALIZED = 3000, 2000, 2004


class Status(Exception):
    pass


def check(status: int) -> None:
    if status:
        raise Status(status)


def put(descriptor: int, name: int, kind: int, values: Any) -> None:
    array = np.atleast_1d(np.asarray(values, NUMBERS[kind]))
    check(dnn.cudnnBackendSetAttribute(p(descriptor), name, kind, ctypes.c_int64(array.size), p(array.ctypes.data)))


def made(kind: int, *attributes: tuple[int, int, Any], final: bool = True) -> int:
    """A descriptor. attributes: number, type, values."""
    handle = ctypes.c_void_p()
    check(dnn.cudnnBackendCreateDescriptor(kind, ctypes.byref(handle)))
    for each in attributes:
        put(handle.value or 0, *each)
    if final:
        check(dnn.cudnnBackendFinalize(handle))
    return handle.value or 0


def get(descriptor: int, name: int, kind: int, values: np.ndarray) -> int:
    """Elements that there are; as many as there is room for are written to values."""
    count = ctypes.c_int64()
    place = p(values.ctypes.data) if values.size else None
    room = ctypes.c_int64(values.size)
    check(dnn.cudnnBackendGetAttribute(p(descriptor), name, kind, room, ctypes.byref(count), place))
    return count.value


def tensor(uid: int, kind: int, sizes: tuple[int, ...], last: bool, virtual: bool = False) -> int:
    """last: channels are contiguous."""
    steps = np.empty(sizes, "u1").strides
    if last:
        moved = np.moveaxis(np.empty((sizes[0], *sizes[2:], sizes[1]), "u1"), -1, 1)
        steps = moved.strides
    of_type = (901, 1, DATA_TYPE[kind]), (902, 3, sizes), (903, 3, steps), (906, 3, uid), (900, 3, 16)
    return made(TENSOR, *of_type, (908, 2, False), (907, 2, virtual))


def new_handle() -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    check(dnn.cudnnCreate(ctypes.byref(handle)))
    return handle


def configs_of(handle: ctypes.c_void_p, operations: list[int]) -> list[int]:
    """Engine configurations that the heuristics offer for a graph."""
    graph = made(GRAPH, (801, 15, operations), (800, 0, handle.value))
    heuristics = made(HEURISTICS, (201, 15, graph), (200, 8, 0))
    count = get(heuristics, 202, 15, np.empty(0, "u8"))
    configs = np.array([made(CONFIG, final=False) for _ in range(count)], "u8")
    assert get(heuristics, 202, 15, configs) == count
    return [int(each) for each in configs]


def engine_of(config: int) -> tuple[int, list[int]]:
    """Number and numerical notes of a configuration's engine."""
    engine, number, notes = made(ENGINE, final=False), np.zeros(1, "i8"), np.zeros(10, "i4")
    assert get(config, 300, 15, np.array([engine], "u8")) == 1
    assert get(engine, 1301, 3, number) == 1
    return int(number[0]), notes[: get(engine, 1303, 11, notes)].tolist()


def execute(handle: ctypes.c_void_p, config: int, places: dict[int, int]) -> None:
    plan, needed = made(PLAN, (401, 15, config)), np.zeros(1, "i8")
    assert get(plan, 402, 3, needed) == 1
    workspace = to_device(np.zeros(int(needed[0]), "u1"))
    pack = made(PACK, (1001, 6, list(places.values())), (1000, 3, list(places)), (1003, 6, workspace))
    check(dnn.cudnnBackendExecute(handle, p(plan), p(pack)))


# --- the reference ----------------------------------------------------------------------------------------------------


def taps(x: np.ndarray, w: np.ndarray, out: tuple[int, ...], strides: Any, dilations: Any) -> Any:
    """For each tap of the filter its place, and the part of the padded image that it meets."""
    for tap in itertools.product(*map(range, w.shape[2:])):
        zipped = zip(tap, dilations, strides, out, strict=True)
        yield tap, (slice(None), slice(None), *(slice(t * d, t * d + s * (o - 1) + 1, s) for t, d, s, o in zipped))


def reference(role: int, x: Any, w: Any, y: Any, padding: Any, strides: Any, dilations: Any, groups: int) -> Any:
    """What comes of two of image, filter and result, in double precision."""
    room = [(0, 0), (0, 0), *((each, each) for each in padding)]
    padded, found = np.pad(x * (role != DATA), room), np.zeros_like({FORWARD: y, DATA: x, FILTER: w}[role])
    of_y, of_x = w.shape[0] // groups, w.shape[1]
    for group in range(groups):
        ys, xs = slice(group * of_y, (group + 1) * of_y), slice(group * of_x, (group + 1) * of_x)
        for tap, part in taps(padded, w, y.shape[2:], strides, dilations):
            image, filtered = padded[:, xs][part], w[(ys, slice(None), *tap)]
            if role == FORWARD:
                found[:, ys] += np.einsum("nc...,kc->nk...", image, filtered)
            elif role == DATA:
                image += np.einsum("nk...,kc->nc...", y[:, ys], filtered)
            else:
                flat = (each.reshape(*each.shape[:2], -1) for each in (image, y[:, ys]))
                found[(ys, slice(None), *tap)] = np.einsum("nci,nki->kc", *flat)
    if role != DATA:
        return found
    inner = (slice(a, a + n) for a, n in zip(padding, x.shape[2:], strict=True))
    return padded[(slice(None), slice(None), *inner)]


def convolve(
    handle: ctypes.c_void_p,
    role: int,
    image: tuple[int, ...] = (2, 16, 9, 10),
    filters: tuple[int, ...] = (24, 16, 3, 3),
    kind: int = F32,
    last: bool = False,
    padding: int = 1,
    stride: int = 1,
    dilation: int = 1,
    alpha: float = 1,
    beta: float = 0,
    engine: int | None = None,
    tolerance: float | None = None,
    checked: bool = True,
) -> None:
    """Run a convolution with random tensors by an engine, by default that of the highest number, and compare."""
    space, groups = len(image) - 2, image[1] // filters[1]
    how = (padding,) * space, (stride,) * space, (dilation,) * space
    extents = zip(image[2:], filters[2:], strict=True)
    out = tuple((n + 2 * padding - dilation * (f - 1) - 1) // stride + 1 for n, f in extents)
    shapes = {ord("x"): image, ord("w"): filters, ord("y"): (image[0], filters[0], *out)}
    rng, result = np.random.default_rng(1), {FORWARD: ord("y"), DATA: ord("x"), FILTER: ord("w")}[role]
    values = {uid: encoded(rng.standard_normal(shape), kind) for uid, shape in shapes.items()}
    laid = {uid: np.ascontiguousarray(np.moveaxis(each, 1, -1) if last else each) for uid, each in values.items()}
    places = {uid: to_device(each) for uid, each in laid.items()}
    of_alpha, *parts, of_how = ROLES[role]
    moves = made(CONVOLUTION, (100, 1, 0), (101, 7, 1), (106, 3, space), (105, 3, how[0]), (104, 3, how[0]),
                 (103, 3, how[1]), (102, 3, how[2]))  # fmt: skip
    tensors = [(name, 15, tensor(uid, kind, shapes[uid], last)) for name, uid in zip(parts, shapes, strict=True)]
    scalars = (of_alpha, 4, alpha), (of_alpha + 1, 4, beta)
    operation = made(role, *tensors, (of_how, 15, moves), *scalars)
    offered = {engine_of(each)[0]: each for each in configs_of(handle, [operation])}
    execute(handle, offered[max(offered) if engine is None else engine], places)
    if not checked:
        return
    found = to_host(places[result], laid[result])
    x, w, y = (exact(each, kind) for each in values.values())
    wanted = alpha * reference(role, x, w, y, *how, groups) + beta * exact(values[result], kind)
    terms = {FORWARD: w[0].size, DATA: w[:, 0].size // groups, FILTER: y[:, 0].size}[role]
    assert_near(np.moveaxis(found, -1, 1) if last else found, wanted, kind, terms, tolerance)
