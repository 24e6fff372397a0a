"""Saved launches, run again: the same cycles and counters on the same machine, the same values on others."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import zipfile

import numpy as np
import pytest

from gpusim.cli import main
from gpusim.config import load_config
from gpusim.driver.outputs.outputs import Telling
from gpusim.driver.outputs.replay import Replay
from gpusim.driver.outputs.saved import SavedLaunches
from gpusim.driver.work.launches import Observer
from gpusim.errors import SavedLaunchesError
from tests.gpusim.driver_program import run
from tests.gpusim.test_script import gpusim

pytest.importorskip("cuda.bindings")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")

START = """
import ctypes, hashlib, json
from cuda.bindings import driver as cu
from gpusim.driver.outputs.outputs import Telling
from isa import compile_cuda
from tests.gpusim.test_replay import Counters, SOURCE

telling = Telling(save="saved.launches")
driver = gpusim.driver.numba_cuda.install("tiny", threads=1, telling=telling)
driver.observers.append(counters := Counters())

def ok(answer):
    assert int(answer[0]) == 0, answer
    return answer[1] if len(answer) == 2 else answer[1:]

ok(cu.cuInit(0))
ok(cu.cuCtxCreate(None, 0, 0))

def load(image):
    global module
    module = ok(cu.cuModuleLoadData(image))

def launch(name, *arguments, threads=128, stream=0):
    kernel = ok(cu.cuModuleGetFunction(module, name.encode()))
    as_words = (each if isinstance(each, bytes) else int(each).to_bytes(8, "little") for each in arguments)
    values = [np.frombuffer(each, np.uint8) for each in as_words]
    pointers = np.array([each.ctypes.data for each in values], np.uint64)
    grid = 1 if threads == 32 else 32
    return int(cu.cuLaunchKernel(kernel, grid, 1, 1, threads, 1, 1, 0, stream, pointers.ctypes.data, 0)[0])

def put(address, array):
    ok(cu.cuMemcpyHtoD(address, array.ctypes.data, array.nbytes))

def two(pointer):
    return np.array([int(pointer), 4000], np.uint64).tobytes()

def floats(pointer):
    return np.frombuffer((ctypes.c_float * 4000).from_address(int(pointer)), np.float32)
"""
SOURCE = """
__constant__ float factor[4];
__device__ int counter;
__device__ float table[64] = {1, 2, 3};
struct Two { float *x; long n; };
extern "C" __global__ void scale(Two two) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < two.n) two.x[i] = two.x[i] * factor[i & 3] + table[i & 63];
  if (threadIdx.x == 0) atomicAdd(&counter, 1);
}
extern "C" __global__ void take(int **kept) {
  kept[threadIdx.x] = (int *)malloc(64);
  *kept[threadIdx.x] = counter;
}
extern "C" __global__ void give(int **kept, int *out) {
  out[threadIdx.x] = *kept[threadIdx.x];
  free(kept[threadIdx.x]);
}
extern "C" __global__ void add(float *x, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 4000) y[i] += x[i];
}
"""
PROGRAM = """
load(compile_cuda(SOURCE, driver.config.gpu.arch, path="prog.cu"))
x, managed = ok(cu.cuMemAlloc(16000)), ok(cu.cuMemAllocManaged(16000, 1))
kept, out, spare = ok(cu.cuMemAlloc(256)), ok(cu.cuMemAlloc(128)), ok(cu.cuMemAlloc(1 << 20))
factor, _ = ok(cu.cuModuleGetGlobal(module, b"factor"))
put(x, np.arange(4000, dtype=np.float32))
put(factor, np.array([1, 2, 3, 4], np.float32))
add = ok(cu.cuModuleGetFunction(module, b"add"))
ok(cu.cuFuncSetAttribute(add, cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 100))
assert launch("scale", two(x)) == 0
floats(managed)[:] = 5                                       # which the driver does not see
put(factor, np.full(4, 7, np.float32))
assert launch("scale", two(managed)) == 0
ok(cu.cuMemsetD32(x, 0x3F800000, 2000))
ok(cu.cuMemsetD8(spare, 0, 1 << 20))                         # leaves nothing else in L2
assert launch("add", x, managed, stream=int(ok(cu.cuStreamCreate(0)))) == 0
assert launch("add", x, managed, threads=2048) == 1          # refused
assert launch("take", kept, threads=32) == 0
ok(cu.cuMemFree(x))
x = ok(cu.cuMemAlloc(32000))
assert launch("give", kept, out, threads=32) == 0
assert launch("scale", two(x)) == 0
found = np.zeros(32, np.int32)
ok(cu.cuMemcpyDtoH(found.ctypes.data, out, 128))
assert (found == 64).all()                                   # blocks of two launches
"""
FINISH = """
what = {"launches": counters.seen, "log": driver.log.to_dict(), "managed": int(managed), "x": int(x)}
json.dump(what | {"sum": float(floats(managed).sum())}, open("told.json", "w"))
"""


class Counters(Observer):
    """Everything that launches count, as a digest, and their cycles."""

    def __init__(self):
        self.seen = []

    def launched(self, call, result, cycle):
        record = result.record
        arrays = record.counters, record.sm_active_cycles, record.sm_warp_cycles, record.sm_issued, record.sm_blocks
        digest = hashlib.sha256(b"".join(a.tobytes() for a in (*arrays, record.memory, record.slices, record.channels)))
        self.seen.append([call.number, call.name, record.cycles, digest.hexdigest(), cycle, result.occupancy.l1_bytes])


def program(folder, code, status=0):
    done = run(f"import os; os.chdir({str(folder)!r})\n" + START + code, status=status)
    return done, folder / "saved.launches"


def replay(path, telling=None, overrides=(), gpu=None, **how):
    """A replay that has run, and what its launches counted."""
    with SavedLaunches(path) as saved:
        config = load_config(gpu or saved.config(), list(overrides))
        with Replay(saved, config, telling or Telling(), threads=1, **how) as again:
            again.observers.append(counters := Counters())
            again.run()
            return again, counters.seen


@pytest.fixture(scope="module")
def saved(tmp_path_factory, toolchain):
    folder = tmp_path_factory.mktemp("saved")
    done, path = program(folder, PROGRAM + FINISH)
    assert "6 launches in " in done.stderr
    return path, json.loads((folder / "told.json").read_text())


def test_the_same_machine_counts_the_same_launch_by_launch(saved):
    path, told = saved
    again, seen = replay(path)
    assert seen == told["launches"] and len(seen) == 6
    assert seen[2][-1] < seen[0][-1], "as the program prefers it"
    mine, theirs = again.log.to_dict(), told["log"]
    assert mine["launches"] == theirs["launches"] and mine["total"] == theirs["total"]
    assert [each["calls"] for each in mine["launches"]] == [3, 1, 1, 1]


def test_a_launch_alone_finds_memory_as_it_was(saved):
    """The third adds to what the second left; launches before it are not run."""
    path, told = saved
    again, seen = replay(path, Telling(first=3, last=3))
    assert [each[:2] for each in seen] == [[3, "add"]]
    (group,) = again.log.to_dict()["launches"]
    assert (group["first"], group["last"], group["calls"]) == (3, 3, 1)
    values = again.memory.array(told["managed"], np.float32, (4000,))
    assert values.sum() == told["sum"]


def test_another_machine_computes_the_same_and_takes_its_time(saved):
    path, told = saved
    _, seen = replay(path, overrides=["sm.count=1"])
    assert [each[:2] for each in seen] == [each[:2] for each in told["launches"]]
    assert seen[0][2] > told["launches"][0][2]
    for options in ({"mode": "functional"}, {"gpu": "h200"}):
        again, _ = replay(path, **options)
        assert again.memory.array(told["managed"], np.float32, (4000,)).sum() == told["sum"]
        assert again.log.calls == 6


def test_the_command_tells_what_the_script_tells(saved, tmp_path, capsys):
    path, told = saved
    pages, trace = tmp_path / "pages", tmp_path / "all.perfetto-trace"
    options = "--report", str(pages), "--trace", str(trace), "--check", "racecheck"
    assert main(["replay", str(path), "--threads", "1", "--json", *options]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["launches"] == told["log"]["launches"]
    assert "6 launches and 6 copies and fills" in captured.err
    assert "Launch 3: add" in (pages / "launch-3.html").read_text()


def test_an_architecture_without_code_is_refused(saved, capsys):
    path, _ = saved
    assert main(["replay", str(path), "--gpu", "a100"]) == 2
    message = capsys.readouterr().err
    assert "launch 1, scale: machine code for sm_90 does not run on a GPU of sm_80" in message
    assert "came without PTX of scale: run the program itself on this GPU (--gpu)" in message
    assert "code=compute_" in message


PTX = b"""
.version 8.0
.target sm_80
.address_size 64
.const .align 4 .f32 factor = 0f40000000;
.global .align 4 .u32 counter;
.visible .entry scale(.param .u64 x) {
  .reg .u64 %rd<4>; .reg .u32 %r<2>; .reg .f32 %f<4>;
  ld.param.u64 %rd1, [x];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd1, %rd1, %rd2;
  ld.global.f32 %f1, [%rd1];
  ld.const.f32 %f2, [factor];
  mul.f32 %f1, %f1, %f2;
  st.global.f32 [%rd1], %f1;
  red.global.add.u32 [counter], 1;
  ret;
}
"""


def test_ptx_is_compiled_for_other_architectures(tmp_path, toolchain):
    code = """
        from tests.gpusim.test_replay import PTX
        load(PTX + bytes(1))
        managed = x = ok(cu.cuMemAllocManaged(16000, 1))
        floats(managed)[:] = 1
        factor, _ = ok(cu.cuModuleGetGlobal(module, b"factor"))
        assert launch("scale", managed, threads=32) == 0
        put(factor, np.array([8], np.float32))
        assert launch("scale", managed, threads=32) == 0
    """
    _, path = program(tmp_path, re.sub("^ {8}", "", code, flags=re.MULTILINE) + FINISH)
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["sum"] == 32 * 16 + 4000 - 32
    for gpu in ("a100", "b200", "t4"):  # T4's is an earlier architecture than the PTX names
        again, seen = replay(path, gpu=gpu)
        assert len(seen) == 2
        assert again.memory.array(told["managed"], np.float32, (4000,)).sum() == told["sum"]


TWO = """
__device__ int counter;
#if __CUDA_ARCH__ >= 900
__device__ float more[32] = {3, 4};
#endif
extern "C" __global__ void scale(float *x) {
#if __CUDA_ARCH__ >= 900
  x[threadIdx.x] += more[threadIdx.x & 1];
#else
  x[threadIdx.x] += 3.5f;
#endif
#if defined(ALONE) && __CUDA_ARCH__ < 900
  what_only_later_ones_have();
#endif
  atomicAdd(&counter, 1);
}
"""
"""A kernel that is another one on each architecture, and with `ALONE` has no form for an earlier one."""


PLACED = """
from tests.gpusim.test_replay import TWO

def place(source, others):
    global module
    module = driver.place(compile_cuda(source, driver.config.gpu.arch), others).handle
    assert launch("scale", managed, threads=32) == 0

managed = x = ok(cu.cuMemAllocManaged(16000, 1))
floats(managed)[:] = 1
"""


def placed(folder, gpu, code):
    """What a program told that places modules on a GPU, and its saved launches."""
    start = START.replace('install("tiny"', f'install("{gpu}"')
    assert start.count(gpu) == 1
    run(f"import os; os.chdir({str(folder)!r})\n" + start + PLACED + code + FINISH)
    return json.loads((folder / "told.json").read_text()), folder / "saved.launches"


def test_other_code_of_an_image_runs_on_the_gpus_that_it_is_for(tmp_path, toolchain):
    """Machine code for the other GPU, and the source that a library keeps."""
    code = """
place(TWO, [compile_cuda(TWO, arch) for arch in ("sm_80", "sm_90", "sm_100")])
place(TWO, [TWO.encode()])
"""
    told, path = placed(tmp_path, "a100", code)
    assert told["sum"] == 4000 + 32 * 7
    for gpu, last in (("a100", 3.5), ("h200", 3), ("b200", 3)):
        again, seen = replay(path, gpu=gpu)
        assert len(seen) == 2
        assert again.memory.array(told["managed"], np.float32, (4000,))[0] == 4.5 + last
        first, _ = replay(path, Telling(first=1, last=1), gpu=gpu)
        assert first.memory.array(told["managed"], np.float32, (4000,))[0] == 1 + last


def test_a_kernel_that_a_library_has_chosen_for_its_gpu_is_refused_elsewhere(tmp_path, toolchain):
    code = 'source = "#define ALONE\\n" + TWO\nplace(source, [source.encode()])\n'
    _, path = placed(tmp_path, "h200", code)
    with pytest.raises(SavedLaunchesError, match="a library chose this kernel for it; run the program itself"):
        replay(path, gpu="a100")


def test_memory_of_the_host_comes_back_where_it_was(tmp_path, toolchain):
    code = """
load(compile_cuda(SOURCE, driver.config.gpu.arch))
big = np.zeros(10_000_000, np.float32)[:100000]  # from 32 MB on the C library maps it where the device reaches it
ok(cu.cuMemHostRegister(big.ctypes.data, big.nbytes, 2))
managed = x = ok(cu.cuMemAllocManaged(16000, 1))
big[:] = 3
assert launch("add", big.ctypes.data, managed) == 0
"""
    program(tmp_path, code + FINISH)
    done = gpusim("replay", "saved.launches", "--json", folder=tmp_path)  # its addresses are free in a new process
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["sum"] == 12000
    assert json.loads(done.stdout)["launches"] == told["log"]["launches"]


def test_a_kernel_that_fails_fails_again_and_the_rest_runs(tmp_path, toolchain, capsys):
    code = """
load(compile_cuda(SOURCE, driver.config.gpu.arch, path="prog.cu"))
assert launch("add", 8, 8) == 0
ok(cu.cuDevicePrimaryCtxReset(0))
ok(cu.cuCtxCreate(None, 0, 0))
load(compile_cuda(SOURCE, driver.config.gpu.arch))
managed = x = ok(cu.cuMemAllocManaged(16000, 1))
assert launch("add", x, managed) == 0
"""
    done, path = program(tmp_path, code + FINISH)
    assert "launch 1, add: out of bounds" in done.stderr
    assert main(["replay", str(path), "--threads", "1", "--json"]) == 2
    captured = capsys.readouterr()
    assert next(line for line in done.stderr.splitlines() if line.startswith("gpusim: launch 1")) in captured.err
    told = json.loads((tmp_path / "told.json").read_text())
    assert json.loads(captured.out)["launches"] == told["log"]["launches"]


def test_what_has_not_changed_is_not_stored_again(saved):
    path, _ = saved
    with zipfile.ZipFile(path) as file:
        names = file.namelist()
        count = sum(name.startswith("steps/") for name in names)
        steps = [json.loads(file.read(f"steps/{k}.json")) for k in range(1, 1 + count)]
        assert len(set(names)) == len(names)
        assert sum(name.startswith("cubins/") for name in names) == 1
        assert sum(name.startswith("programs/") for name in names) == 4
    assert [step["launch"] and step["launch"]["number"] for step in steps] == [1, 2, 3, 4, 5, 6, None]
    # The fourth begins with what the third has written, the fifth with the heap, which was not there before.
    assert [len(step["pages"]) for step in steps[3:5]] == [1, 1 + 32]


def test_a_full_disk_leaves_no_file_and_the_program_goes_on(tmp_path):
    code = """
import zipfile
write = zipfile.ZipFile.writestr
def full(self, name, *rest):
    if name.startswith("steps/2"):
        raise OSError(28, "No space left on device")
    write(self, name, *rest)
zipfile.ZipFile.writestr = full
"""
    done, path = program(tmp_path, code + PROGRAM)
    said = [line for line in done.stderr.splitlines() if "--save" in line]
    assert said == ["gpusim: --save saved.launches: No space left on device; nothing is saved"]
    assert not path.exists() and "Traceback" not in done.stderr


def changed(path, target, edit):
    """A copy of a file with another content: edit(name, data) is the new data, None leaves it out."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            data = edit(name, old.read(name))
            if data is not None:
                new.writestr(name, data)
    return target


def of_step(key, value):
    def edit(name, data):
        if name != "steps/1.json":
            return data
        step = json.loads(data)
        step[key] = value(step[key]) if callable(value) else value
        return json.dumps(step)

    return edit


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (lambda name, data: None if name == "head.json" else data, "no item named 'head.json'"),
        (lambda name, data: data.replace(b'"format":1', b'"format":9'), "has format 9, this version reads 1"),
        (lambda name, data: data[:-1] + b"x" if name.startswith("pages/") else data, "has another content"),
        (lambda name, data: None if name.startswith("cubins/") else data, "no item named 'cubins/"),
        (of_step("surprise", 1), "Extra inputs are not permitted"),
        (of_step("allocated", lambda rows: [[each[0] + (1 << 50), *each[1:]] for each in rows]), "damaged"),
        (of_step("allocated", lambda rows: [[rows[0][0] + 64, 1 << 20, "all"], *rows]), "cannot be allocated"),
        (of_step("pages", lambda rows: [[1 << 44, *each[1:]] for each in rows]), "host access"),
        (of_step("modules", []), "damaged: launch 1, scale"),
        (of_step("launch", lambda each: each | {"grid": [0, 1, 1]}), "must be positive"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_one_clear_error(saved, tmp_path, edit, text):
    with pytest.raises(SavedLaunchesError, match=text):
        replay(changed(saved[0], tmp_path / "bad", edit))


def test_what_is_no_such_file_is_said(saved, tmp_path, capsys):
    cut = tmp_path / "cut"
    cut.write_bytes(saved[0].read_bytes()[:-100])
    none = tmp_path / "none"
    for name, text in ((cut, "did not come to its end"), (none, "No such file"), (tmp_path, "Is a directory")):
        assert main(["replay", str(name)]) == 2
        assert text in capsys.readouterr().err
