"""NVTX: ranges of a program in the table of launches and on the timeline, by the tables that its headers document."""

from __future__ import annotations

import json
import sys
import textwrap

import pytest

from tests.gpusim.driver_program import run
from tests.gpusim.test_script import gpusim, write
from tests.gpusim.test_trace_export import Read

pytest.importorskip("cuda.bindings")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")

NVTX = """
import os, struct
from ctypes import *

class Nvtx:
    '''What NVTX's headers put into a program (nvtxDetail/nvtxInit.h, nvtxTypes.h): functions are called by number.'''

    def __init__(self):
        self.modules = {1: ([c_void_p() for _ in range(16)]), 5: [c_void_p() for _ in range(16)]}
        self.tables = {k: (c_void_p * 16)(*map(addressof, each)) for k, each in self.modules.items()}

        def get_table(module, table, size):
            if module in self.tables:
                table[0], size[0] = addressof(self.tables[module]), 15
            return module in self.tables

        self.get_table = CFUNCTYPE(c_int, c_int, POINTER(c_void_p), POINTER(c_uint))(get_table)
        self.callbacks = (c_void_p * 2)(16, cast(self.get_table, c_void_p))
        self.export = CFUNCTYPE(c_void_p, c_uint)(lambda number: addressof(self.callbacks) if number == 1 else None)
        library = CDLL(os.environ["NVTX_INJECTION64_PATH"])
        assert library.InitializeInjectionNvtx2(self.export) == 1
        assert not self.modules[1][12], "what names categories has no function"

    def __call__(self, module, number, *arguments, gives=c_int):
        words = [c_void_p(each) if isinstance(each, int) else each for each in arguments]
        return CFUNCTYPE(gives, *map(type, words))(self.modules[module][number].value)(*words)

    def attributes(self, kind, message):
        self.kept = create_string_buffer(struct.pack("<HHIiIiiQi4xQ", 3, 48, 0, 0, 0, 0, 0, 0, kind, message))
        return addressof(self.kept)

nvtx = Nvtx()
text = lambda each: c_char_p(each.encode())
"""
PROGRAM = (
    NVTX
    + """
import threading
x, stream = cuda.to_device(np.zeros(64, np.float32)), cuda.stream()

assert nvtx(1, 9, text("step")) == 0                              # RangePushA
add[1, 64, stream](x, 1.0)
domain = nvtx(5, 12, text("mine"), gives=c_size_t)                # DomainCreateA
name = nvtx(5, 10, c_void_p(domain), text("known"), gives=c_size_t)
assert nvtx(5, 4, domain, nvtx.attributes(3, name)) == 0          # DomainRangePushEx, a registered name
add[1, 64, stream](x, 1.0)
assert nvtx(1, 10, c_wchar_p("w\\u00efde and longer than one piece of it")) == 1      # RangePushW
add[1, 64, stream](x, 1.0)
nvtx(1, 2, text("here"))                                          # MarkA
other = threading.Thread(target=lambda: add[1, 64, stream](x, 1.0))   # a thread has ranges of its own
other.start(), other.join()
assert nvtx(5, 5, domain) == 0 and nvtx(5, 5, domain) < 0         # DomainRangePop ends the domain's
long = nvtx(1, 4, nvtx.attributes(1, cast(kept := text("long"), c_void_p).value), gives=c_size_t)   # RangeStartEx
assert nvtx(1, 11) == 1 and nvtx(1, 11) == 0
add[1, 64, stream](x, 1.0)
other = threading.Thread(target=nvtx, args=(1, 7, long))          # RangeEnd, in another thread
other.start(), other.join()
add[1, 64, stream](x, 1.0)
nvtx(1, 9, text("never popped"))
assert (x.copy_to_host() == 6).all()
"""
)
WIDE = "w\u00efde and longer than one piece of it"
RANGES = ["step", "mine: known", WIDE, "", "long", ""]


def test_launches_belong_to_the_innermost_range_of_their_thread(tmp_path):
    write(tmp_path, "run.py", PROGRAM)
    told = "--json", "--trace", "all.perfetto-trace", "--save", "all.launches"
    done = gpusim("script", "--gpu", "tiny", "--threads", "1", *told, "run.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    groups = json.loads(done.stdout)["launches"]
    assert [(each["nvtx_range"], each["calls"], each["first"]) for each in groups] == [
        (name, 2 if name == "" else 1, number) for number, name in enumerate(dict.fromkeys(RANGES), 1)
    ]
    found = Read(tmp_path / "all.perfetto-trace")
    launches = sorted((start, found.facts[path, start, name]) for path, start, _, name in found.slices if name == "add")
    assert [facts.get("NVTX range", "") for _, facts in launches] == RANGES
    spans = {name: (path[-1], start, end) for path, start, end, name in found.slices}
    assert spans["step"][0] == spans[WIDE][0] == "ranges of thread 1"
    assert spans["mine: known"][0] == "ranges of thread 1, mine"
    assert spans["long"][0] == "started ranges"
    begins = [spans[name][1] for name in ("step", "mine: known", WIDE)]
    assert begins == sorted(begins) and spans[WIDE][2] == spans["step"][2] >= spans["mine: known"][2]
    assert spans["long"][1] >= spans["mine: known"][2] and "never popped" in spans
    assert [(path[-1], name) for path, _, name, _ in found.instants if name == "here"] == [
        ("ranges of thread 1", "here")
    ]

    again = gpusim("replay", "--json", "all.launches", folder=tmp_path)
    assert [each["nvtx_range"] for each in json.loads(again.stdout)["launches"]] == list(dict.fromkeys(RANGES))
    table = gpusim("replay", "all.launches", folder=tmp_path).stdout
    assert "NVTX range" in table and "mine: known" in table


def test_a_graph_s_launches_belong_to_the_range_that_launches_it_in_the_process_itself():
    run(
        NVTX
        + textwrap.dedent("""
        from cuda.bindings import driver as cu
        from numba import cuda

        @cuda.jit
        def add(a, b):
            a[cuda.grid(1)] += b

        x, stream = cuda.to_device(np.zeros(64, np.float32)), cuda.stream()
        add[1, 64, stream](x, 1.0)
        s = stream.handle
        nvtx(1, 9, text("captured"))
        cu.cuStreamBeginCapture(s, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
        add[1, 64, stream](x, 1.0)
        error, graph = cu.cuStreamEndCapture(s)
        error, executable = cu.cuGraphInstantiate(graph, 0)
        nvtx(1, 11)
        for name in ("first", "second"):
            nvtx(1, 9, text(name))
            assert cu.cuGraphLaunch(executable, s)[0] == 0
            stream.synchronize()
            nvtx(1, 11)
        assert [each.nvtx_range for each in driver.log.groups.values()] == ["", "first", "second"]
        """)
    )
