"""What the driver answers where that is the interface's matter alone: as an H200's does (data/h200_api.json.gz).

Recorded by calls of the real libraries with every number of every attribute and limit; values are what was written,
'error N' or N a code. What is different here and why stands with each test.
"""

from __future__ import annotations

import ctypes
import gzip
import json
import mmap
import re
import struct
import sys
from ctypes import c_char, c_int, c_size_t, c_uint64
from functools import partial
from pathlib import Path

import pytest

from gpusim.driver.registry import ENTRY_POINTS
from tests.gpusim.driver_calls import PTX, PTX_90, Calls

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")
RECORDED = json.loads(gzip.decompress((Path(__file__).parent / "data" / "h200_api.json.gz").read_bytes()))
VALUES = {
    "zeros": b"",
    "ones": struct.pack("<I", 1),
    "two": struct.pack("<I", 2),
    "cluster 2": struct.pack("<3I", 2, 1, 1),
    "cluster 16": struct.pack("<3I", 16, 1, 1),
    "cluster 3": struct.pack("<3I", 3, 1, 1),
    "minus 5": struct.pack("<i", -5),
    "high": struct.pack("<I", 1000),
}
MARK = 0xAB


@pytest.fixture(scope="module")
def calls():
    return Calls("h200")


def marked(nbytes=64):
    return (c_char * nbytes)(*[bytes((MARK,))] * nbytes)


def written(place):
    return place.raw.rstrip(bytes((MARK,))).hex()


def or_error(code, value):
    return f"error {code}" if code else value


# The board and its memory as configured; what this device cannot do: share memory and events with other processes and
# with other hardware (103, 110, 114, 116 to 119, 124, 125, 128), compress (107), what arrays can (112, 121), wait for
# words of memory (122, 123), and pools of host memory (142, 145).
OTHER_DEVICE = {34, 36, 37, 102, 103, 107, 110, 112, 114, *range(116, 120), *range(121, 126), 128, 139, 140, 142, 145}


@pytest.mark.parametrize("number", RECORDED["device_attributes"])
def test_device_attributes(calls, number):
    place = c_int(-77)
    code = calls("cuDeviceGetAttribute", place, int(number), 0)
    same = or_error(code, place.value) == RECORDED["device_attributes"][number]
    assert same != (int(number) in OTHER_DEVICE)


def test_attributes_of_streams(calls):
    stream, asked = calls.handle("cuStreamCreate", 1), {}
    for key in RECORDED["stream_attributes"]:
        how, number, *name = key.split(" ", 2)
        if how == "copy":
            continue
        code = 0
        if how == "set":
            code = calls("cuStreamSetAttribute", stream, int(number), VALUES[name[0]].ljust(64, b"\0"))
        place = marked()
        code = code or calls("cuStreamGetAttribute", stream, int(number), place)
        asked[key] = or_error(code, written(place))
    assert {key: asked[key] for key in asked} == {key: RECORDED["stream_attributes"][key] for key in asked}
    assert len(asked) > 80


def test_attributes_of_launches(calls):
    kernel, memory = calls.kernel("put"), calls.memory()
    values = calls.parameters(c_uint64(memory), c_uint64(1))
    asked = {}
    for key in RECORDED["launch_attributes"]:
        number, name = key.split(" ", 1)
        attribute = struct.pack("<i4x64s", int(number), VALUES[name])
        config = struct.pack("<7I4xQQI", 16, 1, 1, 32, 1, 1, 0, 0, calls.address(attribute), 1)
        asked[key] = calls("cuLaunchKernelEx", config, kernel, values, None)
    assert asked == RECORDED["launch_attributes"]


@pytest.mark.parametrize(
    ("recorded", "name"), [("plain", "put"), ("shared", "kept"), ("bounded", "bounded"), ("clustered", "clustered")]
)
def test_attributes_of_kernels(calls, recorded, name):
    """But for number 5, the architecture that the text was written for, which its machine code does not tell."""
    kernel = calls.kernel(name, PTX_90) if name == "clustered" else calls.kernel(name)
    facts = RECORDED["function_attributes"][recorded]
    for number, expected in facts["get"].items():
        place = c_int()
        code = calls("cuFuncGetAttribute", place, int(number), kernel)
        if number != "5":
            assert or_error(code, place.value) == expected, number
    for number, codes in facts["set"].items():
        assert {value: calls("cuFuncSetAttribute", kernel, int(number), int(value)) for value in codes} == codes, number


# Launches from the device (4) end elsewhere.
OTHER_LIMIT = {"set 4 1048576"}


def test_limits_and_flags(calls):
    asked = {}
    for key in RECORDED["limits"]:
        place = c_size_t()
        what, *numbers = key.split()
        if what == "get":
            asked[key] = or_error(calls("cuCtxGetLimit", place, int(numbers[0])), place.value)
        elif what == "set":
            code = calls("cuCtxSetLimit", int(numbers[0]), int(numbers[1]))
            calls("cuCtxGetLimit", place, int(numbers[0]))
            asked[key] = [code, place.value]
        elif what == "stream":
            got, made = c_int(), calls.handle("cuStreamCreateWithPriority", 1, int(numbers[-1]))
            calls.do("cuStreamGetPriority", made, got)
            asked[key] = [0, got.value]
        else:
            asked[key] = {flags: calls("cuEventCreate", c_uint64(), int(flags)) for flags in RECORDED["limits"][key]}
    assert {key for key in asked if asked[key] != RECORDED["limits"][key]} == OTHER_LIMIT


# Tokens for other drivers (5); numbers of allocations (7, 20); what other processes and hardware may do (10, 15, 21);
# pages, which are no larger than what was asked for (18).
OTHER_POINTER = {"5", "7", "10", "15", "18", "20", "21"}


PERMITTED = (
    "cudaGetDeviceCount cudaGetDeviceProperties_v2 cudaRuntimeGetVersion cudaDriverGetVersion cudaEventQuery "
    "cudaEventSynchronize cudaGetLastError cudaPeekAtLastError cuDriverGetVersion cuGetErrorName cuStreamQuery "
    "cuEventQuery cuInit"
)
REFUSED = (
    "cudaMalloc cudaFree cudaMallocHost cudaMallocAsync cudaGetDevice cudaSetDevice cudaDeviceGetAttribute "
    "cudaDeviceSynchronize cudaStreamSynchronize cudaStreamQuery cudaStreamCreate cudaStreamWaitEvent cudaEventCreate "
    "cudaEventRecord cudaMemcpy cudaMemcpyAsync cudaMemset cudaMemsetAsync cudaLaunchKernel cudaLaunchHostFunc "
    "cudaGraphLaunch cudaMemGetInfo cudaPointerGetAttributes cudaDeviceGetLimit cudaFuncGetAttributes cudaHostAlloc "
    "cuCtxGetCurrent cuCtxSynchronize cuMemAlloc_v2 cuDeviceGet"
)


@pytest.mark.parametrize("mode", ["functional", "detailed"])
@pytest.mark.parametrize("by", ["cuLaunchHostFunc", "cuStreamAddCallback"])
def test_a_function_that_a_stream_calls_may_ask_little(mode, by):
    """As on an H100 (driver 580, CUDA 13.0): 800 is not permitted."""
    calls, found = Calls(mode=mode), {}
    event, stream, other = calls.handle("cuEventCreate", 0), *(calls.handle("cuStreamCreate", 1) for _ in range(2))
    first = {"cudaEventQuery": event, "cudaEventSynchronize": event, "cuEventQuery": event, "cuStreamQuery": other}

    def function(*_):
        for name in (*PERMITTED.split(), *REFUSED.split()):
            point = ENTRY_POINTS[name]
            words = [calls.address((c_char * 4096)()) for _ in point.letters]
            if name == "cuInit":
                words = [0]
            elif name == "cuGetErrorName":
                words[0] = 1
            elif name == "cudaGetDeviceProperties_v2":
                words[1] = 0
            elif name in first:
                words[0] = first[name]
            found[name] = calls(name, *words)

    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    if by == "cuStreamAddCallback":
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    kept = kind(function)
    words = (0, 0) if by == "cuStreamAddCallback" else (0,)
    calls.do(by, stream, ctypes.cast(kept, ctypes.c_void_p).value, *words)
    calls.do("cuStreamSynchronize", stream)
    assert {name for name, code in found.items() if code == 800} == set(REFUSED.split())
    assert {found[name] for name in PERMITTED.split() if "LastError" not in name} == {0}


def test_what_is_known_of_pointers(calls):
    kept = ctypes.c_char.from_buffer(mmap.mmap(-1, 8192))  # not of the heap, where the device may not reach
    page = ctypes.addressof(kept)
    calls.do("cuMemHostRegister_v2", page, 8192, 0)
    device = calls.handle("cuMemAlloc_v2", 1000)
    module = calls.handle("cuModuleLoadData", PTX)
    kinds = {
        "device": device,
        "managed": calls.handle("cuMemAllocManaged", 1000, 1),
        "pinned": calls.handle("cuMemAllocHost_v2", 1000),
        "host alloc 7": calls.handle("cuMemHostAlloc", 1000, 7),
        "registered": page,
        "unregistered": ctypes.addressof(ctypes.create_string_buffer(64)),
        "async": calls.handle("cuMemAllocAsync", 1000, 0),
        "device middle": device + 100,
        "device past": device + 1000,
        "global": calls.handle("cuModuleGetGlobal_v2", c_size_t(), module, "counter"),
        "null": 0,
    }
    assert set(kinds) <= set(RECORDED["pointers"])
    for name, address in kinds.items():
        for key, expected in RECORDED["pointers"][name].items():
            if key in OTHER_POINTER or (name == "async" and key == "17"):
                continue
            place = marked(32)
            if key.lstrip("-").isdigit():
                code = calls("cuPointerGetAttribute", place, int(key), address)
                got = f"error {code}" if code else as_recorded(calls, int(key), place.raw, address)
            elif key == "range":
                base, size = c_uint64(), c_size_t()
                code = calls("cuMemGetAddressRange_v2", base, size, address)
                got = [code, base.value - address if base.value else None, size.value]
            elif key == "host flags":
                flags = c_int()
                got = [calls("cuMemHostGetFlags", flags, address), flags.value]
            elif key == "device pointer":
                got = calls("cuMemHostGetDevicePointer_v2", place, address, 0)
            elif key == "set sync memops":
                got = calls("cuPointerSetAttribute", c_int(1), 6, address)
            elif expected is None:
                continue
            else:
                got = calls({"free host": "cuMemFreeHost", "unregister": "cuMemHostUnregister"}[key], address)
            assert got == expected, (name, key)


def as_recorded(calls, number, raw, address):
    nbytes = len(raw.rstrip(bytes((MARK,))))
    value = int.from_bytes(raw[:nbytes], "little")
    if number == 1 and value == calls.context:
        return ["current context", nbytes]
    if number in (3, 4, 11, 19) and value:
        return [f"address{value - address:+d}", nbytes]
    return [value, nbytes]


def test_advice_about_managed_memory(calls):
    nbytes = 1 << 22
    managed, plain = calls.handle("cuMemAllocManaged", nbytes, 1), calls.memory()
    advise, prefetch = partial(calls, "cuMemAdvise_v2"), partial(calls, "cuMemPrefetchAsync_v2")
    device = 1  # CUmemLocation (1, 0)
    asked = {
        "advise device memory": advise(plain, 16, 3, device),
        "prefetch device memory": prefetch(plain, 16, device, 0, 0),
        "prefetch nothing": prefetch(managed, 0, device, 0, 0),
    }
    for key in RECORDED["managed"].keys() - asked:
        if found := re.fullmatch(r"(advise|prefetch) ?(\d*) \((\d), (\d)\)", key):
            what, advice, kind, number = found.groups()
            location = int(kind) | int(number) << 32
            if what == "advise":
                asked[key] = advise(managed, nbytes, int(advice), location)
            else:
                asked[key] = [prefetch(managed, nbytes, location, 0, 0), 0]
    assert asked == {key: RECORDED["managed"][key] for key in asked} and len(asked) == 14
    assert calls("cuMemAdvise", managed, nbytes, 3, -1) == 0 == calls("cuMemPrefetchAsync", managed, nbytes, 0, 0)


PLAIN = {"type": 6, "rank": 2, "offset": 0, "interleave": 0, "swizzle": 0, "l2": 0, "fill": 0}
PLAIN |= {"dims": (256, 64, 8, 4, 2), "box": (64, 16, 2, 1, 1), "steps": (1,) * 5}
PLAIN |= {"strides": (512, 512 * 64, 512 * 64 * 8, 512 * 64 * 32)}
ROWS = (1 << 15, 1 << 18, 1 << 20)
DIFFERENT = {
    "address 8": {"offset": 8}, "address 16": {"offset": 16}, "address null": {"offset": None},
    "address 32 interleave 32": {"offset": 16, "interleave": 2, "rank": 3},
    "stride 8": {"strides": (520, *ROWS)}, "stride small": {"strides": (256, *ROWS)},
    "stride 0": {"strides": (0, *ROWS)}, "stride big": {"strides": (1 << 40, *ROWS)},
    "stride bigish": {"strides": ((1 << 40) - 16, *ROWS)},
    "dim 0": {"dims": (0, 64, 8, 4, 2)}, "dim big": {"dims": (256, 1 << 32, 8, 4, 2)},
    "dim bigger": {"dims": (256, (1 << 32) + 1, 8, 4, 2)},
    "box 0": {"box": (0, 1, 1, 1, 1)}, "box 257": {"box": (64, 257, 1, 1, 1)}, "box 256": {"box": (64, 256, 1, 1, 1)},
    "box odd": {"box": (12, 16, 1, 1, 1)}, "box beyond": {"dims": (8, 64, 8, 4, 2), "box": (64, 16, 1, 1, 1)},
    "step 0": {"steps": (1, 0, 1, 1, 1)}, "step 8": {"steps": (1, 8, 1, 1, 1)}, "step 9": {"steps": (1, 9, 1, 1, 1)},
    "step 2 first": {"steps": (2, 1, 1, 1, 1)}, "big box": {"box": (256, 256, 1, 1, 1)},
    "bigger box": {"rank": 3, "box": (256, 256, 2, 1, 1)},
}  # fmt: skip
"""What differs from the plain map, by the name of a recorded one; of others the name says it."""
STRIDES = {"dims": (2048, 64, 8, 4, 2), "box": (128, 16, 1, 1, 1), "strides": (2048, 2048 * 64, 1 << 20, 1 << 21)}
BESIDE = {"box 128": {"box": (128, 16, 2, 1, 1)}, "64-element strides": STRIDES, "int": {"type": 3}}
BESIDE |= {"rank 2": {"rank": 2}}
BESIDE |= {"rank 4 swizzle 1": {"rank": 4, "swizzle": 1}, "wide": {"box": (64, 16, 2, 1, 1)}, "f32": {"type": 7}}


def tiled(name):
    """Arguments of a recorded map, by its name."""
    if name in DIFFERENT:
        return PLAIN | DIFFERENT[name]
    key, number, *rest = name.split()
    usual = {"swizzle": {"box": (16, 16, 2, 1, 1)}, "interleave": {} if rest else {"rank": 3}}
    return PLAIN | {key: int(number)} | usual.get(key, {}) | BESIDE.get(" ".join(rest), {})


TILED = [name for name in RECORDED["tensor_maps"] if not name.startswith(("im2col", "null", "replace"))]
BASE = 0x7F0012345000


def map_of(calls, name, *arguments):
    place = (c_char * 128)()
    code = calls(name, place, *arguments)
    if code:
        return f"error {code}"
    (address,) = struct.unpack_from("<Q", place.raw)
    return (struct.pack("<Q", address - BASE if address else 0) + place.raw[8:]).hex().rstrip("0")


@pytest.mark.parametrize("name", TILED)
def test_tensor_maps(calls, name):
    """Bit for bit, and refused where the driver does."""
    given = tiled(name)
    address = 0 if given["offset"] is None else BASE + given["offset"]
    numbers = [given[key] & 0xFFFFFFFF for key in ("interleave", "swizzle", "l2", "fill")]
    dims, strides = struct.pack("<5Q", *given["dims"]), struct.pack("<4Q", *given["strides"])
    box, steps = struct.pack("<5I", *given["box"]), struct.pack("<5I", *given["steps"])
    tensor = given["type"] & 0xFFFFFFFF, given["rank"], address, dims, strides
    assert map_of(calls, "cuTensorMapEncodeTiled", *tensor, box, steps, *numbers) == RECORDED["tensor_maps"][name]


COLUMNS = {
    "plain": {},
    **{f"rank {n}": {"rank": n} for n in (2, 3, 5, 6)},
    "swizzle 2": {"swizzle": 2},
    "swizzle 3 wide": {"swizzle": 3, "channels": 64},
    "channels 257": {"channels": 257},
    "channels 256": {"channels": 256},
    "pixels 0": {"pixels": 0},
    "pixels 1024": {"pixels": 1024},
    "pixels 1025": {"pixels": 1025},
    "corner far": {"lower": (-129, 0, 0)},
    "corner 127": {"lower": (-128, 127, 0)},
    "corner 128": {"lower": (0, 128, 0)},
    "rank 5 corner": {"rank": 5, "lower": (-16, 15, 0)},
    "rank 5 corner far": {"rank": 5, "lower": (-17, 15, 0)},
    "rank 3 corner": {"rank": 3, "lower": (-32768, 0, 0)},
    "steps": {"steps": (1, 2, 3, 1, 1)},
    "fill": {"fill": 1},
    "l2": {"l2": 3},
    "interleave": {"interleave": 1, "rank": 5},
    "odd channels": {"channels": 12},
}


@pytest.mark.parametrize("name", COLUMNS)
def test_tensor_maps_for_columns(calls, name):
    given = {"rank": 4, "lower": (-1, -2, -1), "upper": (-3, -4, -1), "channels": 32, "pixels": 64, "steps": (1,) * 5}
    given |= {"interleave": 0, "swizzle": 0, "l2": 0, "fill": 0} | COLUMNS[name]
    dims, strides = (struct.pack("<5Q", 64, 32, 16, 8, 4), struct.pack("<4Q", 128, 128 * 32, 128 * 512, 128 * 4096))
    corners = [struct.pack("<3i", *given[key]) for key in ("lower", "upper")]
    numbers = [given[key] for key in ("interleave", "swizzle", "l2", "fill")]
    what = 6, given["rank"], BASE, dims, strides, *corners, given["channels"], given["pixels"]
    steps = struct.pack("<5I", *given["steps"])
    assert map_of(calls, "cuTensorMapEncodeIm2col", *what, steps, *numbers) == RECORDED["tensor_maps"][f"im2col {name}"]


def test_a_tensor_map_gets_another_address(calls):
    place = (c_char * 128)(*[b"\1"] * 128)
    calls.do("cuTensorMapReplaceAddress", place, 0x1234560)
    assert struct.unpack_from("<Q", place.raw) == (0x1234560,) and place.raw[8:] == b"\1" * 120
    assert [calls("cuTensorMapReplaceAddress", place, address) for address in (8, 0)] == [1, 1]


@pytest.mark.parametrize("gpu", ["h200", "b200"])
@pytest.mark.parametrize(("what", "shape"), [({"type": 13}, 64), ({"type": 15}, 128), ({"swizzle": 4}, 16)])
def test_what_tensor_maps_have_from_compute_capability_10_on(gpu, what, shape):
    """Elements of 4 and 6 bits, and swizzles by pieces of 32 bytes (the driver's documents; an H200's refuses them)."""
    given = {"type": 0, "swizzle": 0} | what
    dims, box = struct.pack("<2Q", 512, 64), struct.pack("<2I", shape, 8)
    steps, numbers = struct.pack("<2I", 1, 1), (0, given["swizzle"], 0, 0)
    place, tensor = (c_char * 128)(), (given["type"], 2, BASE, dims, struct.pack("<Q", 512))
    code = Calls(gpu)("cuTensorMapEncodeTiled", place, *tensor, box, steps, *numbers)
    assert code == (1 if gpu == "h200" else 0)
