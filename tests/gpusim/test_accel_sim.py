"""Kernel traces for Accel-Sim, read back by a reader of their own and compared with what the simulator records."""

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import gpusim
from gpusim.cli import main
from gpusim.engine.sm.space import LOCAL_WINDOW, SHARED_WINDOW
from gpusim.errors import MemoryAccessError, ModeError, TraceError
from gpusim.launch import Launch
from gpusim.tracing import accel_launch
from gpusim.tracing.accel_lines import binary_version, lines_of
from gpusim.tracing.accel_sim import AccelSimTraces
from gpusim.tracing.recording import SPACES
from isa.instruction import parse_instruction
from programs import registry
from tests import forks
from tests.gpusim import bundled
from tests.gpusim.accel_sim_reader import read_kernel, read_list
from tests.gpusim.kernels import Kernels

ROOT = Path(__file__).resolve().parents[2]
GENERIC = ("LD", "ST", "ATOM", "RED")


def written(folder, launch, gpu="h200", **options):
    """The trace of a launch, and what the run returned."""
    traces = AccelSimTraces(folder, **options)
    result = bundled.simulate(launch, gpu, mode="functional", accel_sim=traces)
    entries = read_list(folder)
    file = read_kernel(folder / entries[-1])
    assert traces.instructions == sum(map(len, file.warps.values()))
    assert traces.nbytes == (folder / entries[-1]).stat().st_size
    return file, result, entries


KERNELS = Kernels()


def lines(file):
    return [line for warp in file.warps.values() for line in warp]


def lanes(mask):
    return [lane for lane in range(32) if mask >> lane & 1]


# --- against the simulator's own record -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "divergence/8",
        "histogram/shared_atomics",
        "spill/local_array",
        "matmul_tensor/asynchronous",
    ],
)
def test_every_line_is_what_a_run_in_time_records(name, tmp_path):
    """In time, blocks and warps take turns otherwise; what each does is the same."""
    variant = registry.get(name)
    file, result, entries = written(tmp_path / "traces", variant.make(variant.test_size, 0))
    launch = variant.make(variant.test_size, 0)
    every = gpusim.TraceOptions(sms=(), blocks=range(launch.blocks), limit=10**7)
    trace = bundled.simulate(launch, "h200", trace=every).trace
    threads = sum(len(lanes(line.mask)) for line in lines(file))
    assert threads >= result.record.counters[:, 2].sum()  # without the second predicates of branches
    issues = trace.issues[np.lexsort((trace.issues["cycle"], trace.issues["warp"]))]
    warps = -(-launch.threads_per_block // 32)
    across, down, _ = launch.grid
    compared = 0
    assert len(issues) == len(lines(file))
    before = 0
    for ((x, y, z), index), mine in file.warps.items():
        number = (x + across * (y + down * z)) * warps + index
        assert number == before
        before += 1
        rows = issues[issues["warp"] == number]
        assert [line.pc for line in mine] == (16 * rows["pc"]).tolist()
        for line, row in zip(mine, rows, strict=True):
            executed, instruction = int(row["executed"]), trace.program.instructions[row["pc"]]
            # A branch's own predicate does not count for a tracer.
            assert executed & ~line.mask == line.mask & ~int(row["active"]) == 0
            assert line.mask == executed or instruction.opcode in ("BRA", "BREAK", "BSYNC", "EXIT", "RET", "WARPSYNC")
            if row["access"] < 0 or instruction.opcode == "LDC":
                assert line.addresses is None or not line.mask
                continue
            for lane in lanes(executed):
                known = int(trace.addresses[row["access"], lane])
                if instruction.opcode in GENERIC and known < SHARED_WINDOW:
                    known += LOCAL_WINDOW if SPACES[row["space"]] == "local" else SHARED_WINDOW
                assert known in (line.addresses[lane], -1)  # -1: a row of LDSM that is not there, zeros of LDGSTS
                compared += 1
    assert compared > launch.threads_per_block
    assert len(entries) == 1 + len([each for each in launch.args if isinstance(each, np.ndarray)])


def test_the_head_says_what_was_launched(tmp_path):
    variant = registry.get("transpose/tiled")
    launch = variant.make(64, 0)
    file, result, entries = written(tmp_path / "traces", launch)
    head, program_ = file.head, result.record.program
    assert head["kernel name"] == program_.symbol
    assert head["grid dim"] == "({},{},{})".format(*launch.grid)
    assert head["block dim"] == "({},{},{})".format(*launch.block)
    assert (head["kernel id"], head["binary version"], head["cuda stream id"]) == ("1", "90", "0")
    assert int(head["shmem"]) == program_.static_shared_bytes > 0
    assert int(head["nregs"]) == program_.registers
    assert (head["accelsim tracer version"], head["enable lineinfo"]) == ("5", "0")
    assert int(head["shmem base_addr"], 16) < int(head["local mem base_addr"], 16)
    assert [nbytes for _, nbytes in entries[:-1]] == [each.nbytes for each in launch.args]
    loads = [line for line in lines(file) if line.opcode.startswith("LDG")]
    assert min(line.addresses[0] for line in loads) == entries[0][0]


KERNELS.add(r"""
extern "C" __global__ void windows(int *out, int which) {
  __shared__ int shared[64];
  int local[64];
  for (int i = 0; i < 64; ++i) local[i] = i * which;
  shared[threadIdx.x] = threadIdx.x;
  int *at = which == 0 ? out : which == 1 ? shared : local;
  asm volatile("" : "+l"(at));
  at[threadIdx.x] += 3;
  __syncthreads();
  out[64 + threadIdx.x] = at[63 - threadIdx.x] + local[threadIdx.x];
}
""")


@pytest.mark.parametrize("which", [0, 1, 2])
def test_generic_addresses_lie_in_the_windows_of_the_head(which, tmp_path):
    launch = Launch(KERNELS["windows"], 1, 64, (np.zeros(128, np.int32), np.int32(which)))
    file, _, entries = written(tmp_path / "traces", launch)
    shared, local = (int(file.head[f"{name} base_addr"], 16) for name in ("shmem", "local mem"))
    low = (entries[0][0], shared, local)[which]
    generic = [line for line in lines(file) if line.opcode.split(".")[0] in ("LD", "ST")]
    assert generic
    for line in generic:
        assert all(low <= address < low + (1 << 14) for address in line.addresses.values())
    spills = [line for line in lines(file) if line.opcode.split(".")[0] in ("LDL", "STL")]
    assert spills
    assert all(0 <= address < 1 << 14 for line in spills for address in line.addresses.values())


KERNELS.add("""
extern "C" __global__ void beyond(int *out) { out[threadIdx.x + 100000 * blockIdx.x] = 1; }
""")


# --- the file as a whole ----------------------------------------------------------------------------------------------


def test_what_does_not_fit_into_buffers_comes_out_the_same(tmp_path, monkeypatch):
    variant = registry.get("reduction/sequential")
    written(tmp_path / "whole", variant.make(4096, 0))
    for name, value in (("_BUFFER_BYTES", 1 << 14), ("_ROWS", 512)):
        monkeypatch.setattr(accel_launch, name, value)
    written(tmp_path / "small", variant.make(4096, 0))
    assert len({(tmp_path / name / "kernel-1.traceg").read_bytes() for name in ("whole", "small")}) == 1


# --- lines ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "version", "registers", "memory"),
    [
        # These six as a public trace of a tracer on a GPU has them.
        ("SHF.L.U32 R0, R0, 0xa, RZ", 75, "1 R0 SHF.L.U32 2 R0 R255 | 10 ", False),
        ("ISETP.GE.U32.AND P0, PT, R2, 0x400, PT", 75, "0 ISETP.GE.U32.AND 1 R2 | 1024 ", False),
        ("@P0 BRA 0x210", 75, "0 BRA 0 | 528 ", False),
        ("LDG.E.128.SYS R12, [R2]", 75, "1 R12 LDG.E.128.SYS 1 R2 | 0 ", True),
        ("STG.E.128.SYS [R8], R12", 75, "0 STG.E.128.SYS 2 R8 R12 | 0 ", True),
        ("IMAD.WIDE.U32 R2, R11, R2, c[0x0][0x160]", 75, "1 R2 IMAD.WIDE.U32 2 R11 R2 | 0 ", False),
        ("SHFL.IDX PT, R5, R4, RZ, 0x1f", 90, "0 SHFL.IDX 3 R5 R4 R255 | 31 ", False),
        ("ATOMG.E.CAS PT, R5, desc[UR4][R2.64], R6, R7", 90, "0 ATOMG.E.CAS 4 R5 R2 R6 R7 | 0 ", True),
        ("LDGSTS.E.BYPASS.128 [R5+0x10], desc[UR4][R2.64]", 90, "0 LDGSTS.E.BYPASS.128 2 R5 R2 | 0 ", True),
        ("LDS.U16 R3, [UR4+0x8]", 90, "1 R3 LDS.U16 0 | 0 ", True),
        ("FADD R1, -R2, 1.5", 90, "1 R1 FADD 1 R2 | 0 ", False),
        ("IADD3 R1, P0, R2, -0x5, RZ", 90, "1 R1 IADD3 2 R2 R255 | -5 ", False),
        ("HGMMA.64x8x16.F32 R24, gdesc[UR4], R24, gsb0", 90, "1 R24 HGMMA.64x8x16.F32 1 R24 1 | 0 ", False),
        ("HGMMA.64x8x16.F32 R24, gdesc[UR4], R24", 90, "1 R24 HGMMA.64x8x16.F32 1 R24 0 | 0 ", False),
        ("REDG.E.ADD.STRONG.GPU desc[UR4][R2.64], R5", 90, "0 REDG.E.ADD.STRONG.GPU 2 R2 R5 | 0 ", True),
        ("REDG.E.ADD.STRONG.GPU desc[UR4][R2.64], R5", 80, "0 RED.E.ADD.STRONG.GPU 2 R2 R5 | 0 ", True),
        ("VIADD R0, R4, 0x1", 80, "1 R0 IADD3 1 R4 | 1 ", False),
        ("VIMNMX.U32 R0, R4, R5, PT", 86, "1 R0 IMNMX.U32 2 R4 R5 | 0 ", False),
        ("LDCU.64 UR4, c[0x0][0x208]", 90, "0 ULDC.64 0 | 0 ", False),
    ],
)
def test_a_line_is_what_a_tracer_writes(text, version, registers, memory):
    instruction = parse_instruction(0, text, 0, {})
    told = lines_of(SimpleNamespace(instructions=(instruction,)), version)
    head, body, tail, end = told.at[0]
    found = bytes(told.text).decode()
    assert f"{found[body:tail]}| {found[tail:end]}" == registers
    assert found[head:body] == "0000 "
    assert (told.width[0] > 0) == memory


def test_versions_of_machine_code():
    names = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120")
    assert [binary_version(name) for name in names] == [70, 75, 80, 86, 86, 90, 90, 90, 90]


@pytest.mark.parametrize(
    ("text", "version", "message"),
    [
        ("LDGSTS.E.BYPASS.128 [R5+0x10], desc[UR4][R2.64]", 75, "LDGSTS from binary version 80 on, not in 75"),
        ("UBLKCP.S.G [UR4], [UR6], UR8", 90, "has no mbarriers, bulk copies or clusters"),
        ("BAR.SYNC R5, 0x40", 90, "has no barriers of some of a block's threads"),
    ],
)
def test_what_a_trace_cannot_say_is_refused(text, version, message):
    with pytest.raises(TraceError, match=message):
        lines_of(SimpleNamespace(instructions=(parse_instruction(0, text, 0, {}),)), version)


@pytest.mark.parametrize(
    ("mask", "addresses", "words"),
    [
        (0xFFFFFFFF, [4 * k for k in range(32)], "1 0x0 4 "),
        (0xFFFFFFFF, [64] * 32, "1 0x40 0 "),
        (0x0000FF00, [1000 - 8 * k for k in range(32)], "1 0x3a8 -8 "),
        (0x00000101, [4 * k for k in range(32)], "2 0x0 32 "),
        (0x00000100, [4 * k for k in range(32)], "2 0x20 "),
        (0x80000000, [4 * k for k in range(32)], "2 0x7c "),
        (0x00000007, [0x7F0000000000, 0x7F0000000004, 0x7F0000000000, *[0] * 29], "2 0x7f0000000000 4 -4 "),
        (0x00000003, [0, 1 << 31, *[0] * 30], "2 0x0 2147483648 "),
        (0, [7] * 32, "1 0x0 0 "),
    ],
)
def test_addresses_are_packed_as_a_tracer_packs_them(mask, addresses, words):
    from gpusim.tracing.accel_launch import put_lanes

    out = np.zeros(1000, np.uint8)
    end = put_lanes(out, 0, np.array(addresses, np.int64), np.int64(mask))
    assert bytes(out[:end]).decode() == words


# --- what can go wrong ------------------------------------------------------------------------------------------------


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "mine").touch()
    with pytest.raises(TraceError, match="is not empty; traces go to a folder of their own"):
        AccelSimTraces(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(TraceError, match="file: File exists"):
        AccelSimTraces(tmp_path / "file")
    with pytest.raises(TraceError, match="no opcodes of binary version 35; there are 70, 75, 80, 86, 90"):
        AccelSimTraces(tmp_path / "new", binary=35)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "mine"]


def test_a_run_in_time_writes_nothing(tmp_path):
    with pytest.raises(ModeError, match="in functional runs alone"):
        gpusim.simulate(lambda: None, 1, 1, accel_sim=AccelSimTraces(tmp_path / "traces"))


def test_a_launch_that_fails_leaves_no_file(tmp_path):
    with pytest.raises(MemoryAccessError):
        written(tmp_path / "traces", Launch(KERNELS["beyond"], 2, 32, (np.zeros(32, np.int32),)))
    assert [each.name for each in (tmp_path / "traces").iterdir()] == ["kernelslist.g"]
    assert len(read_list(tmp_path / "traces")) == 1  # the argument's copy


def test_a_disk_that_is_full_is_one_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["export", "accel-sim", "vector_add", "small", "--size", "1000"]) == 0  # all code is compiled
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        assert main(["export", "accel-sim", "vector_add", "traces"]) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert capsys.readouterr().err.splitlines()[-1] == "gpusim: error: traces: File too large"
    assert [each.name for each in (tmp_path / "traces").iterdir()] == ["kernelslist.g"]


def command(*arguments, folder):
    words = "-m", "gpusim.cli", "export", "accel-sim", *arguments
    return forks.run(*words, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)})


SCRIPT = """
import sys
import numpy as np
from numba import cuda

@cuda.jit
def add(a, b):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += b

a = cuda.to_device(np.zeros(500))
for k in range(int(sys.argv[1])):
    add[4, 128](a, 1.0)
cuda.to_device(np.ones(7))
add[4, 128, cuda.stream()](a, 2.0)
print("sum", a.copy_to_host().sum())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")
def test_a_script_with_all_its_launches_and_copies(tmp_path):
    pytest.importorskip("cuda.bindings")
    (tmp_path / "run.py").write_text(SCRIPT)
    done = command("--json", "run.py", "traces", "--", "2", folder=tmp_path)
    first, _, told = done.stdout.partition("\n")
    assert first == "sum 2000.0"
    entries = read_list(tmp_path / "traces")
    assert [each if isinstance(each, str) else each[1] for each in entries] == [
        4000, "kernel-1.traceg", "kernel-2.traceg", 56, "kernel-3.traceg"
    ]  # fmt: skip
    files = [read_kernel(tmp_path / "traces" / each) for each in entries if isinstance(each, str)]
    told = json.loads(told)
    assert (told["kernels"], told["copies"]) == (3, 2)
    assert told["instructions"] == sum(len(lines(file)) for file in files)
    assert len({file.head["cuda stream id"] for file in files}) == 2
    stores = [line for line in lines(files[0]) if line.opcode.startswith("STG")]
    assert {address for line in stores for address in line.addresses.values()} == {
        entries[0][0] + 8 * k for k in range(500)
    }


SAXPY = """
#include <cstdio>
#include <vector>
#include <unistd.h>
__global__ void add(int *x) { x[threadIdx.x] += 1; }
int main(int count, char **words) {
  if (count > 2) fork();
  std::vector<int> host(64, 6);
  int *x;
  cudaMalloc(&x, 256);
  cudaMemcpy(x, host.data(), 256, cudaMemcpyHostToDevice);
  for (int k = 0; k < 2; ++k) add<<<1, 64>>>(x);
  cudaMemcpy(host.data(), x, 256, cudaMemcpyDeviceToHost);
  return host[63] == 8 ? 5 : 1;
}
"""


@pytest.mark.skipif(not shutil.which("nvcc") or sys.platform != "linux", reason="needs nvcc and Linux")
def test_an_executable_with_all_its_launches_and_copies(tmp_path):
    (tmp_path / "add.cu").write_text(SAXPY)
    nvcc = ["nvcc", "--cudart", "shared", "-arch", "sm_90", "-o", "add", "add.cu"]
    subprocess.run(nvcc, cwd=tmp_path, check=True, timeout=300)
    done = command("--json", "./add", "both", "--", "two", "words", folder=tmp_path)  # a process that forks
    folders = [tmp_path / each["folder"] for each in json.loads(done.stdout)]
    assert done.returncode == 5 and [each.name for each in folders] == ["both", "both-2"]
    for each in folders:
        (_, nbytes), *kernels = read_list(each)
        assert (nbytes, kernels) == (256, ["kernel-1.traceg", "kernel-2.traceg"])
        assert read_kernel(each / kernels[1]).head["kernel name"] == "_Z3addPi"


def test_the_command_line(tmp_path, capsys):
    folder = tmp_path / "traces"
    options = ["--size", "32", "--gpu", "a100"]
    assert main(["export", "accel-sim", "matmul/tiled", str(folder), *options]) == 0
    told = capsys.readouterr().out
    assert "1 launch, 3 copies to the device, " in told
    assert told.endswith("million instructions/s\n")
    file = read_kernel(folder / "kernel-1.traceg")
    assert (file.head["binary version"], file.head["grid dim"]) == ("80", "(2,2,1)")
    wrong = {
        ("vector_add", "--", "word"): "word: only a script or an executable has arguments of its own",
        ("vector_add", "--binary-version", "35"): "invalid choice: 35",
        ("no_such_program",): "no program named 'no_such_program'",
    }
    for number, ((name, *rest), message) in enumerate(wrong.items()):
        assert main(["export", "accel-sim", name, str(tmp_path / str(number)), *rest]) == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / str(number)).exists()
