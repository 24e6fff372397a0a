"""CUPTI's activity interface: records that a program's own profiler reads in its buffers, laid out as documented."""

from __future__ import annotations

import ctypes
import json
import struct
import sys
from collections import Counter

import pytest

from gpusim import load_config
from tests.gpusim.driver_calls import Calls
from tests.gpusim.driver_program import run
from tests.gpusim.test_nvtx import NVTX
from tests.gpusim.test_script import ADD, gpusim

pytest.importorskip("cuda.bindings")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")

PROGRAM = (
    ADD
    + NVTX
    + '''
import json, threading, time
from cuda.bindings import driver as cu

cupti = CDLL("libcupti.so.13")
LETTERS = dict(B=c_uint8, H=c_uint16, I=c_uint32, Q=c_uint64, i=c_int32, q=c_int64, S=c_char_p, P=c_void_p)


def structure(letters, names):
    """Fields as cupti_activity.h of CUDA 13.0 has them, a letter each, laid out as C does; '_' for those not read."""
    named = [f"skipped{k}" if name == "_" else name for k, name in enumerate(names.split())]
    kinds = [LETTERS[letter] for letter in letters.replace(" ", "")]
    return type("Record", (Structure,), {"_fields_": list(zip(named, kinds, strict=True))})


KERNEL = structure(
    "IBBHII QQQ III iii iii iiII IqSP QQ BBBB I QII P II III I QII B",
    "kind _ _ registers _ _ start end _ device context stream gx gy gz bx by bz static dynamic local _ correlation "
    "number name _ _ _ launch_type _ _ _ _ _ _ _ _ _ channel_type cx cy cz _ _ _ _ _",
)
CALL = structure("IIQQIIII", "kind number start end process thread correlation code")
RECORDS = {
    1: structure(
        "IBBBB QQQ IIII I P QII I B Q",
        "kind way source target _ bytes start end device context stream correlation _ _ _ _ _ channel_type _ count",
    ),
    2: structure(
        "IIQQQ IIII HH P QII I B",
        "kind value bytes start end device context stream correlation _ memory _ _ _ _ channel_type _",
    ),
    4: CALL, 5: CALL, 10: KERNEL,
    12: structure("IIQII III I SS", "kind flags time id of process thread _ _ name domain"),
    39: structure("IIQII", "kind of number correlation _"),
}
assert [sizeof(RECORDS[kind]) for kind in (1, 2, 4, 10, 12, 39)] == [96, 88, 40, 216, 56, 24]
sessions, room = [], {}


def do(name, *arguments):
    code = getattr(cupti, "cupti" + name)(*arguments)
    assert code == 0, (name, code)


@CFUNCTYPE(None, POINTER(c_void_p), POINTER(c_size_t), POINTER(c_size_t))
def requested(buffer, size, most):
    made = create_string_buffer(4096)
    room[addressof(made)] = made
    buffer[0], size[0], most[0] = addressof(made), 4096, 5


@CFUNCTYPE(None, c_void_p, c_uint, c_void_p, c_size_t, c_size_t)
def completed(context, stream, buffer, size, valid):
    assert not context and not stream and size == 4096
    found, record = [], c_void_p()
    while not (code := cupti.cuptiActivityGetNextRecord(c_void_p(buffer), c_size_t(valid), byref(record))):
        form = RECORDS[c_uint.from_address(record.value).value].from_address(record.value)
        found.append({name: getattr(form, name) for name, _ in form._fields_ if "skipped" not in name})
    assert code == 12 and len(found) <= 5, (code, found)         # CUPTI_ERROR_MAX_LIMIT_REACHED
    for each in found:
        each |= {name: value.decode() for name, value in each.items() if isinstance(value, bytes)}
        if each["kind"] in (4, 5):
            name = c_char_p()
            do("GetCallbackName", 1 if each["kind"] == 4 else 2, each["number"], byref(name))
            each["name"] = name.value.decode()
    sessions[-1] += found
    del room[buffer]


def listen(*kinds):
    sessions.append([])
    for kind in kinds:
        do("ActivityEnable", kind)


def stop(*kinds):
    do("ActivityFlushAll", 1)
    for kind in kinds:
        do("ActivityDisable", kind)
    assert not room, "every buffer has come back"


@cuda.jit
def spin(a, count):
    for _ in range(count):
        a[cuda.grid(1)] += 1


ALL = 1, 2, 4, 10, 12, 17, 39
x, pinned = cuda.to_device(np.zeros(64, np.float32)), cuda.pinned_array(64, np.float32)
streams = [cuda.stream(), cuda.stream()]
s = streams[0]
add[1, 32, s](x, 0.0), spin[1, 32, s](x, 0), s.synchronize()     # both are compiled
assert cupti.cuptiActivityFlushAll(0) == 7                        # nobody takes buffers
do("ActivityRegisterCallbacks", requested, completed)
assert cupti.cuptiActivityEnable(30) == 21 and cupti.cuptiEnableDomain(1, None, 1) == 27
began, text_of = c_uint64(), c_char_p()
do("GetTimestamp", byref(began))
do("GetResultString", 21, byref(text_of))
assert text_of.value == b"CUPTI_ERROR_INVALID_KIND" and abs(began.value - time.time_ns()) < 10e9

listen(*ALL)
do("ActivityEnableDriverApi", 304, 0)                             # cuCtxGetCurrent
numbers = [c_uint() for _ in streams]
for stream, number in zip(streams, numbers):
    do("GetStreamIdEx", None, c_void_p(int(stream.handle)), 0, byref(number))
    spin[1, 64, stream](x, 400)
do("ActivityPushExternalCorrelationId", 3, c_uint64(1 << 40))
nvtx(1, 9, text("step"))                                          # RangePushA
add[2, 16, s](x, 1.0)
time.sleep(0.01)
nvtx(1, 11), nvtx(1, 2, text("here"))                             # RangePop, MarkA
popped = c_uint64()
do("ActivityPopExternalCorrelationId", 3, byref(popped))
assert popped.value == 1 << 40 and cupti.cuptiActivityPopExternalCorrelationId(3, None) == 18
cu.cuMemsetD32Async(x.gpu_data.device_ctypes_pointer.value, 7, 64, s.handle)
x.copy_to_host(pinned, stream=s)
assert cu.cuStreamSynchronize(12345)[0] != 0
s.synchronize(), streams[1].synchronize()
stop(*ALL)
add[1, 16, s](x, 1.0), s.synchronize()                            # nobody listens

clock = CFUNCTYPE(c_uint64)(lambda: 3 * time.monotonic_ns())
do("ActivityRegisterTimestampCallback", clock)
add[4, 8, s](x, 1.0)
before = clock()
listen(10)
time.sleep(0.6)                                                   # it is simulated while the program calls nothing
s.synchronize()
after = clock()
stop(10)
do("ActivityFlushAll", 0)

cu.cuStreamBeginCapture(s.handle, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
add[1, 8, s](x, 1.0)
executable = cu.cuGraphInstantiate(cu.cuStreamEndCapture(s.handle)[1], 0)[1]
listen(4, 10)
for _ in range(2):
    assert cu.cuGraphLaunch(executable, s.handle)[0] == 0
s.synchronize()
stop(4, 10)
assert len(sessions) == 3
json.dump({"sessions": sessions, "streams": [each.value for each in numbers], "clock": [before, after],
           "ident": [os.getpid(), threading.get_ident() & 0xFFFFFFFF], "began": began.value}, open("records.json", "w"))
'''
)


@pytest.mark.parametrize("inside", (False, True), ids=("script", "inside"))
def test_a_program_s_profiler_reads_times_as_in_the_table(tmp_path, inside):
    if inside:
        end = '\njson.dump(driver.log.to_dict(), open("log.json", "w"))'
        run(f"import os\nos.chdir({str(tmp_path)!r})\n{PROGRAM}{end}")
        table = json.loads((tmp_path / "log.json").read_text())["launches"]
    else:
        (tmp_path / "run.py").write_text(PROGRAM)
        done = gpusim("script", "--gpu", "tiny", "--threads", "1", "--json", "run.py", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "cupti" not in done.stderr
        table = json.loads(done.stdout)["launches"]
    found = json.loads((tmp_path / "records.json").read_text())
    records, later, of_graph = found["sessions"]
    calls = {each["correlation"]: each for each in records if each["kind"] == 4}
    kernels = [each for each in records if each["kind"] == 10]

    def taken(kernels, scale=1):
        """Nanoseconds by symbol, grid and block, from the end of the launch before, and of the same in the table."""
        tiny = load_config("tiny")
        mine, lead = Counter(), 1e3 * tiny.time_us(round(0.78 * tiny.launch.overhead_cycles))
        for each in kernels:
            mine[each["name"], each["gx"], each["bx"]] += (each["end"] - each["start"]) / scale + lead
        theirs = {(each["symbol"], each["grid"][0], each["block"][0]): 1000 * each["time_us"] for each in table}
        return mine, {what: theirs[what] for what in mine}

    mine, theirs = taken(kernels)
    assert [what[1:] for what in mine] == [(1, 64), (2, 16)] and mine == pytest.approx(theirs, abs=2)
    for each in kernels:
        assert calls[each["correlation"]]["name"] == "cuLaunchKernelEx"
        assert found["began"] < calls[each["correlation"]]["start"] <= each["start"]
    first, second = (each for each in kernels if each["bx"] == 64)
    assert [first["stream"], second["stream"]] == found["streams"]
    assert first["start"] < second["start"] < first["end"] < second["end"], "streams are beside each other"
    (fill,), (copy,) = ([each for each in records if each["kind"] == kind] for kind in (2, 1))
    assert (fill["value"], fill["bytes"], fill["memory"]) == (7, 256, 3)
    assert (copy["way"], copy["source"], copy["target"], copy["bytes"]) == (2, 3, 2, 256)  # device to pinned host
    names = [calls[each["correlation"]]["name"] for each in (fill, copy)]
    assert names == ["cuMemsetD32Async", "cuMemcpyDtoHAsync_v2"] and fill["end"] <= copy["start"] < copy["end"]
    assert all([each["process"], each["thread"]] == found["ident"] for each in calls.values())
    assert "cuCtxGetCurrent" not in {each["name"] for each in calls.values()}
    assert [each["name"] for each in calls.values() if each["code"]] == ["cuStreamSynchronize"]
    around = {each["correlation"]: (each["of"], each["number"]) for each in records if each["kind"] == 39}
    assert {each["correlation"] for each in kernels} & {*around} == {kernels[1]["correlation"]}
    assert {*around.values()} == {(3, 1 << 40)}
    marks = [each for each in records if each["kind"] == 12]
    assert [(each["flags"], each["name"], each["of"]) for each in marks] == [
        (2, "step", 2),
        (4, None, 2),
        (1, "here", 2),
    ]
    assert marks[0]["id"] == marks[1]["id"] and marks[1]["time"] - marks[0]["time"] > 10e6

    mine, theirs = taken(later, 3)  # by the program's own clock
    assert [what[1:] for what in mine] == [(4, 8)] and mine == pytest.approx(theirs, rel=1e-2)
    before, after = found["clock"]
    assert before < later[0]["start"] < later[0]["end"] < after

    calls = {each["correlation"]: each["name"] for each in of_graph if each["kind"] == 4}
    asked = [each["correlation"] for each in of_graph if each["kind"] == 10]
    assert len({*asked}) == 2 and [calls[each] for each in asked] == ["cuGraphLaunch"] * 2


def test_what_cublas_launches_is_known_as_a_launch_of_the_runtime():
    calls, room, valid = Calls(library="libcupti.so.13"), ctypes.create_string_buffer(4096), []

    @ctypes.CFUNCTYPE(None, *[ctypes.POINTER(ctypes.c_size_t)] * 3)
    def requested(buffer, size, most):
        buffer[0], size[0] = ctypes.addressof(room), 4096

    completed = ctypes.CFUNCTYPE(None, *[ctypes.c_size_t] * 5)(lambda *given: valid.append(given[-1]))
    functions = (ctypes.cast(each, ctypes.c_void_p).value for each in (requested, completed))
    calls.do("cuptiActivityRegisterCallbacks", *functions)
    for kind in (5, 10):  # the runtime's calls, kernels
        calls.do("cuptiActivityEnable", kind)
    handle, alpha = calls.handle("cublasCreate_v2"), ctypes.c_float(2)
    calls.do("cublasSscal_v2", handle, 64, alpha, calls.memory(), 1)
    calls.do("cuptiActivityFlushAll", 0)
    assert valid == [216 + 40]
    kernel, call = room.raw[:216], struct.unpack("<IIQQ4I", room.raw[216:256])
    assert (kernel[0], *call[:2]) == (10, 5, 211)  # CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000
    assert struct.unpack("<I", kernel[92:96])[0] == call[6] > 0 and call[7] == 0


def test_records_for_which_the_program_has_no_buffer_are_counted():
    calls = Calls(library="libcupti.so.13")
    requested = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(lambda buffer, size, most: None)
    functions = [ctypes.cast(requested, ctypes.c_void_p).value] * 2
    assert calls("cuptiActivityRegisterCallbacks", functions[0], 0) == 1
    calls.do("cuptiActivityRegisterCallbacks", *functions)
    calls.do("cuptiActivityEnable", 4)
    calls.memory()  # two calls of the driver
    calls.do("cuptiActivityFlushAll", 0)
    for count in (2, 0):
        dropped = ctypes.c_uint64(9)
        calls.do("cuptiActivityGetNumDroppedRecords", 0, 0, dropped)
        assert dropped.value == count
    assert calls("cuptiProfilerInitialize") == 27
