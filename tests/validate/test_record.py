"""Recording without a GPU: argument packing against the simulator's, and a whole run on stand-ins."""

from __future__ import annotations

import gzip
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gpusim.launch.cuda import array_of
from programs import images, registry
from validate import worker
from validate.metrics import WARM
from validate.points import ProgramPoint, describe, select

ROOT = Path(__file__).parents[2]


class Held:
    """Stands for a GPU: arrays by address, and what a launch was given."""

    def __init__(self):
        self.arrays, self.launch = {}, ()

    def alloc(self, nbytes):
        address = 4096 * (1 + len(self.arrays))
        self.arrays[address] = None
        return address

    def put(self, address, data):
        self.arrays[address] = data.copy()

    def get(self, address, shape, dtype):
        return self.arrays[address].view(dtype).reshape(shape)

    def free(self, address):
        del self.arrays[address]

    def function(self, cubin, symbol):
        return cubin, symbol

    def prepared(self, *launch):
        self.launch = launch

    def synchronize(self): ...


@pytest.mark.parametrize("name", ["matmul_tensor/asynchronous", "saxpy", "matmul_hopper/cluster"])
def test_a_kernel_gets_each_parameter_and_its_arrays_memory_of_their_own(name):
    launch = ProgramPoint(name, registry.get(name).test_size).make()
    gpu, program = Held(), images.image(name)
    with worker.DeviceKernel(gpu, program, launch) as kernel:
        function, grid, block, words, shared_bytes = gpu.launch
        assert function == (program.cubin, program.symbol)
        assert (grid, block, shared_bytes) == (launch.grid, launch.block, launch.shared_bytes)
        assert [len(word) for word in words] == [each.size for each in program.parameters]
        for index, value in enumerate(map(array_of, launch.args)):
            if isinstance(value, np.ndarray):
                address = kernel.bound.arrays[index].address
                assert any(np.uint64(address).tobytes() in word for word in words)
                gpu.arrays[address][...] = 0
                kernel.reset()
                assert np.array_equal(kernel.output(index), value, equal_nan=value.dtype.kind == "f")
            else:
                assert any(word == np.asarray(value).tobytes() for word in words)
    assert not gpu.arrays


def test_large_arrays_are_not_copied():
    gpu, launch = Held(), ProgramPoint("saxpy", 600).make()
    kernel = worker.DeviceKernel(gpu, images.image("saxpy"), launch, large=2400)
    kernel.reset()
    assert list(gpu.arrays.values()) == [None, None]


def test_points_are_selected_by_family_variant_and_size():
    assert [str(point) for point in select(["saxpy"])] == [f"saxpy@{size}" for size in registry.get("saxpy").sizes]
    small = select(["transpose", "reduction/sequential"], "small")
    assert [point.variant for point in small] == [
        *("reduction/sequential", "transpose/naive", "transpose/tiled", "transpose/padded")
    ]
    assert len(select()) == 2 * len(registry.recorded())
    assert ProgramPoint.parse("transpose/naive@256") == ProgramPoint("transpose/naive", 256)
    with pytest.raises(registry.UnknownProgram):
        select(["nonsense"])


def test_a_description_tells_inputs_apart():
    first, again = (ProgramPoint("saxpy", 100, seed).make() for seed in (1, 1))
    assert describe(first) == describe(again)
    assert describe(first) != describe(ProgramPoint("saxpy", 100, 2).make())
    assert json.loads(json.dumps(describe(first)))["args"][0]["dtype"] == "float32"


# A GPU that can add vectors: arrays lie in host memory, and the kernel reads Numba's flattened parameters.
GPU = """
import ctypes, os
import numpy as np
from validate import gpu
class HostGpu(gpu.RealGpu):
    default = None
    def __init__(self, number=0): self.held = {}
    def about(self): return {"gpu": "a GPU", "compute_capability": "9.0", "sm_count": 1, "cuda_driver": 13000}
    def alloc(self, nbytes):
        made = np.zeros(max(nbytes, 1), np.uint8)
        self.held[made.ctypes.data] = made
        return made.ctypes.data
    def free(self, address): del self.held[address]
    def put(self, address, data): ctypes.memmove(address, np.ascontiguousarray(data).ctypes.data, data.nbytes)
    def get(self, address, shape, dtype): return self.held[address].view(dtype).reshape(shape).copy()
    def function(self, cubin, symbol):
        assert cubin[:4] == b"\\x7fELF"
        return symbol
    def prepared(self, *launch): return lambda: self.made(*launch[:5])
    def made(self, name, grid, block, words, shared_bytes=0):
        with open(os.environ["LAUNCHES"], "a") as file:
            print(name, *grid, *block, file=file)
        if "vector_add" in name:
            numbers = np.frombuffer(b"".join(words), np.uint64).reshape(3, 7).tolist()
            a, b, out = (np.ctypeslib.as_array((ctypes.c_float * each[2]).from_address(each[4])) for each in numbers)
            out[...] = a + b
    def timed_us(self, launch, before=None):
        launch()
        return 2.0
    def synchronize(self): pass
gpu.RealGpu = HostGpu
"""

NCU = """#!{python}
import os, subprocess, sys
arguments = sys.argv[1:]
if arguments == ["--version"]:
    print("Version 1.2.3")
    sys.exit()
log = arguments[arguments.index("--log-file") + 1]
names = arguments[arguments.index("--metrics") + 1].split(",")
program = arguments[arguments.index(sys.executable):]
os.environ["LAUNCHES"] = log + ".launches"
subprocess.run(program, check=True)
with open(log, "w") as file:
    columns = ["ID", "Kernel Name", "Block Size", "Grid Size", *names]
    print(",".join(f'"{{c}}"' for c in columns), file=file)
    for i, line in enumerate(open(log + ".launches")):
        name, x, y, z, *block = line.split()
        sizes = [f"({{', '.join(block)}})", f"({{x}}, {{y}}, {{z}})"]
        cells = [i, "vector_add", *sizes, *range(100, 100 + len(names))]
        print(",".join(f'"{{c}}"' for c in cells), file=file)
"""


def test_a_whole_recording_on_stand_ins(tmp_path):
    """Runs as on a machine that has a GPU but none of the simulator's dependencies."""
    (tmp_path / "sitecustomize.py").write_text(GPU)
    for name in ("simpy", "pydantic", "elftools", "rich"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not on this machine')\n")
    tool = tmp_path / "ncu"
    tool.write_text(NCU.format(python=sys.executable))
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": f"{tmp_path}:{ROOT}",
        "LAUNCHES": str(tmp_path / "launches"),
    }
    line = [sys.executable, "-m", "validate", "record", "--out", str(tmp_path / "out")]
    line += ["--only", "vector_add", "--size", "small", "--repeats", "2"]
    done = subprocess.run(line, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    size = registry.get("vector_add").sizes[0]
    assert "wrong outputs: none" in done.stdout and "vector_add: 2 launches" in done.stdout
    with gzip.open(tmp_path / "out" / "recording.json.gz", "rt") as file:
        document = json.load(file)
    (row,) = document["points"].values()
    assert row["check"] == {**{"ok": True, "exact": True, "mismatch": None, "max_abs_error": 0.0, "max_rel_error": 0.0}}
    assert len(row["profiles"]) == 2 and len(row["cold_us"]) >= 21 and row["cold_us"][0] == 2.0
    # Of two launches in a row the second one is kept, and only what one pass counts.
    assert "warm: 2 launches" in done.stdout
    assert [each["metrics"].keys() for each in row["warm"]] == [{*WARM}] * 2
    assert row["profiles"][0]["grid"] == list(ProgramPoint("vector_add", size).make().grid)
    assert document["provenance"]["gpu"] == "a GPU" and document["failures"] == {}
