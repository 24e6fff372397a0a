"""Graphs made by hand, and what all graphs have in common. Codes and results are those that an H200 gives."""

from __future__ import annotations

import ctypes
import struct
import sys
from ctypes import c_int, c_size_t, c_uint32, c_uint64, c_void_p

import pytest

from tests.gpusim.driver_calls import PTX, Calls

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")
KERNEL, COPY, FILL, HOST, CHILD, EMPTY, WAIT, RECORD = range(8)


@pytest.fixture(scope="module")
def calls():
    return Calls()


class Graph:
    """A graph and its nodes by name."""

    def __init__(self, calls, handle=None, api="cu"):
        self.calls, self.api = calls, api
        self.handle = handle or calls.handle(f"{api}GraphCreate", 0)

    def add(self, kind, *parameters, after=()):
        suffix = "_v2" if self.api == "cu" and kind == "Kernel" else ""
        name = f"{self.api}GraphAdd{kind}Node{suffix}"
        before = (c_uint64 * max(len(after), 1))(*after)
        return self.calls.handle(name, self.handle, before, len(after), *parameters)

    def launched(self, flags=0):
        return self.calls.handle("cuGraphInstantiateWithFlags", self.handle, flags)

    def types(self):
        room = c_size_t()
        self.calls.do("cuGraphGetNodes", self.handle, None, room)
        nodes = (c_uint64 * room.value)()
        self.calls.do("cuGraphGetNodes", self.handle, nodes, room)
        return [kind(self.calls, node) for node in nodes]


def kind(calls, node):
    found = c_int()
    calls.do("cuGraphNodeGetType", node, found)
    return found.value


def kernel(calls, name, *values, grid=(1, 1, 1), block=(1, 1, 1), function=None):
    """CUDA_KERNEL_NODE_PARAMS."""
    pointers = calls.address(calls.parameters(*values))
    handle = function or calls.kernel(name)
    return struct.pack("<Q7I4xQQQQ", handle, *grid, *block, 0, pointers, 0, 0, 0)


def fill(address, value, width, height=1, pitch=0, size=4):
    """CUDA_MEMSET_NODE_PARAMS."""
    return struct.pack("<QQIIQQ", address, pitch, value, size, width, height)


def copy_to_host(address, host, nbytes):
    """CUDA_MEMCPY3D from the device to the host."""
    source = (0, 0, 0, 0, 2, 0, address, 0, 0, 0, 0)
    target = (0, 0, 0, 0, 1, host, 0, 0, 0, 0, 0)
    return struct.pack("<25Q", *source, *target, nbytes, 1, 1)


@pytest.fixture
def chain(calls):
    """A kernel, a fill, a copy and a function of the host, one behind the other, and what they work on."""
    made = Graph(calls)
    made.memory, made.host, made.seen = calls.memory(), (c_uint32 * 4)(), []
    made.function = ctypes.CFUNCTYPE(None, c_void_p)(made.seen.append)
    calls.address(made.function)
    made.call = ctypes.cast(made.function, c_void_p).value
    made.put = made.add("Kernel", kernel(calls, "put", c_uint64(made.memory), c_uint32(7)))
    made.fill = made.add("Memset", fill(made.memory + 4, 5, 3), calls.context, after=[made.put])
    made.copied = copy_to_host(made.memory, calls.address(made.host), 16)
    made.copy = made.add("Memcpy", made.copied, calls.context, after=[made.fill])
    made.note = made.add("Host", struct.pack("<QQ", made.call, 3), after=[made.copy, made.put])
    return made


def launch(calls, executable):
    calls.do("cuGraphLaunch", executable, 0)
    calls.do("cuStreamSynchronize", 0)


def test_nodes_are_done_in_the_order_of_their_edges(calls, chain):
    """Made in the other order than they depend on each other."""
    late = chain.add("Kernel", kernel(calls, "put", c_uint64(chain.memory), c_uint32(9)))
    last = chain.add("Empty")
    chain.calls.do("cuGraphAddDependencies_v2", chain.handle, c_uint64(late), c_uint64(chain.put), None, 1)
    chain.calls.do("cuGraphAddDependencies_v2", chain.handle, c_uint64(chain.note), c_uint64(last), None, 1)
    launch(calls, chain.launched())
    assert list(chain.host) == [7, 5, 5, 5] and chain.seen == [3]


CHANGES = (
    *("KernelNodeSetParams_v2", "ExecKernelNodeSetParams_v2", "KernelNodeSetAttribute", "NodeSetEnabled"),
    *("DestroyNode", "ExecUpdate_v2", "ExecNodeSetParams", "EventRecordNodeSetEvent", "RemoveDependencies_v2"),
)


def test_graphs_do_not_change(calls, capsys):
    for name in CHANGES:
        assert calls(f"cuGraph{name}") == 801, name
    (said,) = capsys.readouterr().err.splitlines()  # once
    assert said.startswith("gpusim: cuGraphKernelNodeSetParams_v2 is not supported: graphs do not change")
    assert calls("cuGraphConditionalHandleCreate") == 801
    assert "graphs with conditions are not simulated" in capsys.readouterr().err
    assert calls("cuGraphKernelNodeGetParams_v2") == 801


def test_edges(calls, chain):
    first = (c_uint64 * 5)()
    room = c_size_t(2)
    calls.do("cuGraphGetNodes", chain.handle, first, room)
    assert room.value == 2 and list(first)[:2] == [chain.put, chain.fill]

    def edge(name, a, b, data=None):
        return calls(f"cuGraph{name}Dependencies_v2", chain.handle, c_uint64(a), c_uint64(b), data, 1)

    assert edge("Add", chain.put, chain.fill) == 1 and edge("Add", chain.put, chain.put) == 1
    assert edge("Add", Graph(calls).add("Empty"), chain.put) == 1
    assert edge("Add", chain.put, chain.add("Empty"), bytes((1, 0, 1, *(0,) * 5))) == 801  # kernels may overlap
    assert edge("Add", chain.note, chain.put) == 0  # a circle is found when the graph is to be launched
    assert calls("cuGraphInstantiateWithFlags", c_uint64(), chain.handle, 0) == 1
    assert calls("cuGraphInstantiateWithParams", c_uint64(), chain.handle, bytes(32)) == 1


def test_what_no_node_is(calls, chain):
    def code(kind, *parameters, after=()):
        suffix = "_v2" if kind == "Kernel" else ""
        before = (c_uint64 * 2)(*after)
        return calls(f"cuGraphAdd{kind}Node{suffix}", c_uint64(), chain.handle, before, len(after), *parameters)

    put = calls.kernel("put")
    values = c_uint64(chain.memory), c_uint32(7)
    assert code("Kernel", kernel(calls, "put", *values, grid=(0, 1, 1))) == 1
    assert code("Kernel", kernel(calls, "put", *values, block=(2000, 1, 1))) == 1
    assert code("Kernel", struct.pack("<Q7I4x4Q", put, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0)) == 1
    assert code("Kernel", struct.pack("<Q7I4x4Q", 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0)) == 400
    for wrong in ({"size": 3}, {"size": 8}, {"width": 0}, {"height": 0}, {"pitch": 2, "height": 2}, {"address": 0}):
        assert code("Memset", fill(**{"address": chain.memory, "value": 5, "width": 4} | wrong), 0) == 1
    assert code("Memset", fill(calls.address(chain.host), 5, 4), 0) == 1
    assert code("Memcpy", copy_to_host(0, calls.address(chain.host), 16), 0) == 1
    assert code("Memcpy", copy_to_host(chain.memory, calls.address(chain.host), 0), 0) == 1
    assert code("Host", bytes(16)) == 1
    assert code("Empty", after=[chain.put, chain.put]) == 1
    assert code("Empty", after=[Graph(calls).add("Empty"), chain.put]) == 1


def test_graphs_inside_graphs(calls, chain):
    outer = Graph(calls)
    child = outer.add("ChildGraph", chain.handle)
    inner = Graph(calls, calls_value(calls, "cuGraphChildGraphNodeGetGraph", child))
    assert inner.handle != chain.handle and inner.types() == [KERNEL, FILL, COPY, HOST]
    assert calls("cuGraphDestroy", inner.handle) == 1
    assert calls("cuGraphInstantiateWithFlags", c_uint64(), inner.handle, 0) == 801
    executable = outer.launched()
    launch(calls, executable)
    assert list(chain.host) == [7, 5, 5, 5]
    calls.do("cuGraphDestroy", outer.handle)
    assert calls("cuGraphGetNodes", inner.handle, None, c_size_t()) == 1
    launch(calls, executable)


def calls_value(calls, name, *arguments):
    """What the last place gets."""
    place = c_uint64()
    calls.do(name, *arguments, place)
    return place.value


def test_the_runtime_makes_the_same_graphs(calls):
    memory, host = calls.memory(), (c_uint32 * 4)()
    made = Graph(calls, api="cuda")
    put = kernel(calls, "put", c_uint64(memory), c_uint32(7))[:56]
    first = made.add("Kernel", put)
    second = made.add("Memset", fill(memory + 4, 5, 3), after=[first])
    # cudaMemcpy3DParms: two rows of eight bytes
    sides = (0, 0, 0, 0, memory, 8, 8, 2), (0, 0, 0, 0, calls.address(host), 8, 8, 2)
    parameters = struct.pack("<8Q8Q3QQ", *sides[0], *sides[1], 8, 2, 1, 2)
    made.add("Memcpy", parameters, after=[second])
    executable = calls.handle("cudaGraphInstantiate", made.handle, 0)
    launch(calls, executable)
    assert list(host) == [7, 5, 5, 5]


def register_counter(calls):
    """The variable `counter`, as a program's start makes it known: by the address of the host's."""
    wrapper = struct.pack("<IIQQ", 0x466243B1, 1, calls.address(PTX), 0)
    handle = calls("__cudaRegisterFatBinary", wrapper)
    variable = c_uint32()
    calls("__cudaRegisterVar", handle, variable, 0, "counter", 0, 8, 0, 0)
    return variable


def test_variables_in_graphs(calls):
    counter, host = register_counter(calls), (c_uint32 * 2)(41, 0)
    made = Graph(calls, api="cuda")
    before = c_uint64()
    calls.do("cudaGraphAddMemcpyNodeToSymbol", before, made.handle, None, 0, counter, host, 4, 0, 1)
    node = calls.handle(
        "cudaGraphAddMemcpyNodeFromSymbol", made.handle, before, 1, calls.address(host) + 4, counter, 4, 0, 2
    )
    launch(calls, calls.handle("cudaGraphInstantiate", made.handle, 0))
    assert host[1] == 41 and kind(calls, node) == COPY
    code = calls("cudaGraphAddMemcpyNodeToSymbol", c_uint64(), made.handle, None, 0, counter, host, 4, 5, 1)
    assert code == 1


def test_events_outside_a_graph(calls):
    event, made = calls.handle("cuEventCreate", 0), Graph(calls)
    record = made.add("EventRecord", event)
    made.add("EventWait", event, after=[record])
    assert made.types() == [RECORD, WAIT]
    launch(calls, made.launched())
    time_ms = ctypes.c_float()
    assert calls("cuEventElapsedTime", time_ms, event, event) == 0


def test_graphs_allocate_no_memory(calls, capsys):
    stream, address, memory = calls.handle("cuStreamCreate", 1), c_uint64(), calls.memory()
    calls.do("cuStreamBeginCapture_v2", stream, 0)
    assert calls("cuMemAllocAsync", address, 256, stream) == 801
    assert "allocate it before the capture" in capsys.readouterr().err
    assert calls("cuMemFreeAsync", memory, stream) == 801
    assert calls("cuGraphAddMemAllocNode", c_uint64(), Graph(calls).handle, None, 0, bytes(120)) == 801
    calls("cuStreamEndCapture", stream, c_uint64())


def test_a_capture_goes_on_in_a_graph_made_by_hand(calls, chain):
    stream = calls.handle("cuStreamCreate", 1)
    put = calls.kernel("put")
    values = calls.parameters(c_uint64(chain.memory), c_uint32(21))

    def put_in_stream():
        return calls("cuLaunchKernel", put, 1, 1, 1, 1, 1, 1, 0, stream, values, None)

    calls.do("cuStreamBeginCaptureToGraph", stream, chain.handle, c_uint64(chain.copy), None, 1, 0)
    assert put_in_stream() == 0
    status, number, graph, nodes, edges, count = (c_int(), c_uint64(), c_uint64(), c_uint64(), c_uint64(), c_size_t())
    info = status, number, graph, nodes, edges, count
    calls.do("cuStreamGetCaptureInfo_v3", stream, *info)
    assert (status.value, graph.value, count.value) == (1, chain.handle, 1)
    captured = c_uint64.from_address(nodes.value).value
    empty = chain.add("Empty", after=[captured])
    for flags, expected in ((0, 2), (1, 1)):
        calls.do("cuStreamUpdateCaptureDependencies_v2", stream, c_uint64(empty), None, 1, flags)
        calls.do("cuStreamGetCaptureInfo_v3", stream, *info)
        assert count.value == expected
    assert calls("cuStreamUpdateCaptureDependencies_v2", stream, c_uint64(empty), None, 1, 2) == 1
    ended = c_uint64()
    calls.do("cuStreamEndCapture", stream, ended)
    assert ended.value == chain.handle and chain.types() == [KERNEL, FILL, COPY, HOST, KERNEL, EMPTY]
    assert calls("cuStreamUpdateCaptureDependencies_v2", stream, c_uint64(empty), None, 1, 0) == 401
    launch(calls, chain.launched())
    assert calls.words(chain.memory) == [21] and list(chain.host) == [7, 5, 5, 5]


# Answers of an H100 (driver 580, CUDA 13.0) while a stream was captured: three codes for a stream that the legacy one
# waits for and three for another, in the modes global, of the thread, and relaxed. A capture does not survive an error.
ON_LEGACY, ASKED, LEGACY_ASKED = (906,) * 3 + (0,) * 3, (900, 900, 0) * 2, (906,) * 3 + (900, 900, 0)
DURING_CAPTURES = {
    ON_LEGACY: "launch copy-to-host copy-to-device copy fill fill-async record wait host-function callback prefetch "
    "graph upload priority",
    ASKED: "event-query event-synchronize query-other synchronize-other allocate free allocate-host allocate-managed "
    "register instantiate set-limit",
    LEGACY_ASKED: "query synchronize allocate-async",
    (900,) * 6: "query-captured synchronize-captured context callback-captured attach prefetch-captured graph-captured",
    (907,) * 6: "captured-event-query captured-event-synchronize",
    (905,) * 6: "wait-captured",
    (1,) * 6: "launch-nothing",
    (0,) * 6: "elapsed create-event create-stream get-limit free-bytes launch-other graph-other",
}


@pytest.mark.parametrize(
    ("name", "codes"), [(name, codes) for codes, names in DURING_CAPTURES.items() for name in names.split()]
)
def test_calls_during_captures(calls, chain, name, codes):
    values, host = calls.parameters(c_uint64(chain.memory), c_uint32(21)), (c_uint32 * 4096)()
    put, executable, at = calls.kernel("put"), chain.launched(), chain.memory
    other, event = calls.handle("cuStreamCreate", 1), calls.handle("cuEventCreate", 0)
    own, place = c_uint64(), c_uint64()
    note = ctypes.cast(calls_nothing, c_void_p).value
    calls.do("cuEventRecord", event, other)
    calls.do("cuEventCreate", own, 0)

    def launch(stream, blocks=1):
        return calls("cuLaunchKernel", put, blocks, 1, 1, 1, 1, 1, 0, stream, values, None)

    def recorded(stream):
        calls.do("cuEventRecord", own.value, stream)
        return own.value

    managed = calls.handle("cuMemAllocManaged", 64, 1)
    tried = {
        "launch": lambda s: launch(0),
        "copy-to-host": lambda s: calls("cuMemcpyDtoH_v2", host, at, 16),
        "copy-to-device": lambda s: calls("cuMemcpyHtoD_v2", at, host, 16),
        "copy": lambda s: calls("cuMemcpyDtoDAsync_v2", at, at + 32, 16, 0),
        "fill": lambda s: calls("cuMemsetD32_v2", at, 0, 4),
        "fill-async": lambda s: calls("cuMemsetD32Async", at, 0, 4, 0),
        "record": lambda s: calls("cuEventRecord", event, 0),
        "wait": lambda s: calls("cuStreamWaitEvent", 0, event, 0),
        "host-function": lambda s: calls("cuLaunchHostFunc", 0, note, 0),
        "callback": lambda s: calls("cuStreamAddCallback", 0, note, 0, 0),
        "prefetch": lambda s: calls("cuMemPrefetchAsync", managed, 64, 0, 0),
        "graph": lambda s: calls("cuGraphLaunch", executable, 0),
        "upload": lambda s: calls("cuGraphUpload", executable, 0),
        "priority": lambda s: calls("cuStreamGetPriority", 0, c_int()),
        "event-query": lambda s: calls("cuEventQuery", event),
        "event-synchronize": lambda s: calls("cuEventSynchronize", event),
        "query-other": lambda s: calls("cuStreamQuery", other),
        "synchronize-other": lambda s: calls("cuStreamSynchronize", other),
        "allocate": lambda s: calls("cuMemAlloc_v2", place, 16),
        "free": lambda s: calls("cuMemFree_v2", 0),
        "allocate-host": lambda s: calls("cuMemAllocHost_v2", place, 16),
        "allocate-managed": lambda s: calls("cuMemAllocManaged", place, 16, 1),
        "register": lambda s: calls("cuMemHostRegister_v2", host, 4096, 0) or calls("cuMemHostUnregister", host),
        "instantiate": lambda s: calls("cuGraphInstantiateWithFlags", place, chain.handle, 0),
        "set-limit": lambda s: calls("cuCtxSetLimit", 0, 2048),
        "query": lambda s: calls("cuStreamQuery", 0),
        "synchronize": lambda s: calls("cuStreamSynchronize", 0),
        "allocate-async": lambda s: calls("cuMemAllocAsync", place, 64, 0),
        "query-captured": lambda s: calls("cuStreamQuery", s),
        "synchronize-captured": lambda s: calls("cuStreamSynchronize", s),
        "context": lambda s: calls("cuCtxSynchronize"),
        "callback-captured": lambda s: calls("cuStreamAddCallback", s, note, 0, 0),
        "attach": lambda s: calls("cuStreamAttachMemAsync", s, managed, 0, 4),
        "prefetch-captured": lambda s: calls("cuMemPrefetchAsync", managed, 64, 0, s),
        "graph-captured": lambda s: calls("cuGraphLaunch", executable, s),
        "captured-event-query": lambda s: calls("cuEventQuery", recorded(s)),
        "captured-event-synchronize": lambda s: calls("cuEventSynchronize", recorded(s)),
        "wait-captured": lambda s: calls("cuStreamWaitEvent", s, event, 0),
        "launch-nothing": lambda s: launch(s, 0),
        "elapsed": lambda s: calls("cuEventElapsedTime", c_uint32(), event, event),
        "create-event": lambda s: calls("cuEventCreate", place, 0),
        "create-stream": lambda s: calls("cuStreamCreate", place, 0),
        "get-limit": lambda s: calls("cuCtxGetLimit", place, 0),
        "free-bytes": lambda s: calls("cuMemGetInfo_v2", place, c_uint64()),
        "launch-other": lambda s: launch(other),
        "graph-other": lambda s: calls("cuGraphLaunch", executable, other),
    }
    for (flags, mode), code in zip(((flags, mode) for flags in (0, 1) for mode in (0, 1, 2)), codes, strict=True):
        stream, graph, status = calls.handle("cuStreamCreate", flags), c_uint64(5), c_int()
        calls.do("cuStreamBeginCapture_v2", stream, mode)
        assert launch(stream) == 0
        assert tried[name](stream) == code, (flags, mode)
        calls.do("cuStreamIsCapturing", stream, status)
        assert status.value == (2 if code else 1) and launch(stream) == (901 if code else 0)
        assert calls("cuStreamEndCapture", stream, graph) == (901 if code else 0) and bool(graph.value) != bool(code)
        calls.do("cuStreamIsCapturing", stream, status)
        assert status.value == 0
        calls.do("cuStreamDestroy_v2", stream)


calls_nothing = ctypes.CFUNCTYPE(None, c_void_p)(lambda data: None)


def test_the_time_of_a_captured_event_does_not_end_its_capture(calls):
    """As on an H100."""
    stream, event = calls.handle("cuStreamCreate", 1), calls.handle("cuEventCreate", 0)
    calls.do("cuStreamBeginCapture_v2", stream, 0)
    calls.do("cuEventRecord", event, stream)
    assert calls("cuEventElapsedTime", c_uint32(), event, event) == 907
    calls.do("cuStreamEndCapture", stream, c_uint64())


class TwoStreams:
    """Two streams, two events, and what captures of them are asked for."""

    def __init__(self, calls):
        self.calls, self.memory, self.put = calls, calls.memory(), calls.kernel("put")
        self.one, self.two = (calls.handle("cuStreamCreate", 1) for _ in range(2))
        self.fork, self.join = (calls.handle("cuEventCreate", 2) for _ in range(2))

    def begin(self, stream):
        return self.calls("cuStreamBeginCapture_v2", stream, 0)

    def end(self, stream, graph=None):
        return self.calls("cuStreamEndCapture", stream, c_uint64() if graph is None else graph)

    def follow(self, stream, event, after):
        """Let a stream wait for what another one has done."""
        self.calls.do("cuEventRecord", event, after)
        return self.calls("cuStreamWaitEvent", stream, event, 0)

    def launch(self, stream, word, value):
        values = self.calls.parameters(c_uint64(self.memory + 4 * word), c_uint32(value))
        return self.calls("cuLaunchKernel", self.put, 1, 1, 1, 1, 1, 1, 0, stream, values, None)

    def status(self, stream):
        found = c_int()
        return self.calls("cuStreamIsCapturing", stream, found) or found.value


def test_captured_work_of_two_streams_is_done_at_each_launch(calls):
    given, seen, graph = TwoStreams(calls), [], c_uint64()
    note = ctypes.CFUNCTYPE(None, c_void_p)(seen.append)
    calls.address(note)
    assert (
        given.begin(given.one) == given.launch(given.one, 0, 7) == given.follow(given.two, given.fork, given.one) == 0
    )
    assert given.status(given.two) == 1
    calls.do("cuMemcpyDtoDAsync_v2", given.memory + 4, given.memory, 4, given.two)
    calls.do("cuMemsetD32Async", given.memory, 5, 1, given.one)
    calls.do("cuLaunchHostFunc", given.two, ctypes.cast(note, c_void_p).value, 7)
    assert (
        given.follow(given.one, given.join, given.two)
        == given.launch(given.one, 2, 9)
        == given.end(given.one, graph)
        == 0
    )
    assert given.status(given.one) == given.status(given.two) == 0
    assert Graph(calls, graph.value).types() == [KERNEL, COPY, FILL, HOST, KERNEL]
    assert calls.words(given.memory, 3) == [0] * 3 and not seen
    executable = calls.handle("cuGraphInstantiateWithFlags", graph.value, 0)
    calls.do("cuGraphDestroy", graph.value)
    for launches in (1, 2):
        calls.do("cuMemsetD32_v2", given.memory, 0, 4)
        calls.do("cuGraphLaunch", executable, given.two)
        calls.do("cuStreamSynchronize", given.two)
        assert calls.words(given.memory, 3) == [5, 7, 9] and seen == [7] * launches
    calls.do("cuGraphExecDestroy", executable)
    assert calls("cuGraphLaunch", executable, given.one) == 1


def test_captures_that_cannot_be(calls):
    given = TwoStreams(calls)
    one, two, fork = given.one, given.two, given.fork
    assert given.end(one) == 401 and given.begin(0) == 900
    for stream, status in ((calls.handle("cuStreamCreate", 0), 906), (one, 0)):
        assert given.begin(stream) == 0 and given.status(0) == status and given.end(stream) == 0
    calls.do("cuEventRecord", given.join, two)
    assert given.begin(one) == 0 and given.begin(one) == 401
    assert calls("cuStreamWaitEvent", one, given.join, 0) == 905 and given.end(one) == 901
    assert given.begin(one) == 0 and given.follow(0, fork, one) == 906
    assert given.begin(two) == 0 and given.follow(two, fork, one) == 902 and given.end(two) == 901
    assert given.follow(two, fork, one) == given.launch(two, 0, 3) == 0
    assert given.end(one) == 904 and given.status(two) == 0
    assert calls("cuStreamWaitEvent", two, fork, 0) == given.status(two) == given.launch(two, 0, 4) == 0
    calls.do("cuStreamSynchronize", two)
    assert calls.words(given.memory) == [4]


def test_a_capture_that_is_ended_elsewhere_and_one_whose_stream_ends(calls):
    """As an H100 with driver 580 answers."""
    given = TwoStreams(calls)
    one, two, fork = given.one, given.two, given.fork
    assert given.begin(one) == given.follow(two, fork, one) == 0 and given.end(two) == 903
    assert given.launch(two, 0, 3) == 901 and given.end(one) == 901 and given.launch(two, 0, 3) == 0
    assert given.begin(one) == given.follow(two, fork, one) == 0 and calls("cuCtxSynchronize") == 900
    assert given.end(one) == 901
    assert given.begin(one) == given.follow(two, fork, one) == 0
    calls.do("cuStreamDestroy_v2", one)
    assert given.end(two) == 401 and given.launch(two, 0, 4) == calls("cuCtxSynchronize") == 0
    assert calls.words(given.memory) == [4]
