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

from gpusim.launch.arguments import bind
from gpusim.launch.memory import DeviceMemory
from gpusim.launch.tensor_map import encode_tiled
from programs import images, registry
from validate import worker
from validate.points import ProgramPoint, describe, select

ROOT = Path(__file__).parents[2]


def encode(tensor_map, address):
    """What the driver would make of a tensor map (tests/gpusim/test_tensor_copy.py holds it to a recording)."""
    kind, shape, strides, box, swizzle = tensor_map.fields
    return encode_tiled(kind, address, shape, strides, box, swizzle=swizzle).tobytes()


@pytest.mark.parametrize("name", [name for name in registry.names() if registry.get(name).image])
def test_arguments_pack_as_the_simulator_binds_them(name):
    variant = registry.get(name)
    launch = variant.make(variant.test_size, 3)
    program = images.image(name)
    bound = bind(program, launch.args, DeviceMemory())
    addresses = [bound.arrays[i].address if i in bound.arrays else None for i in range(len(launch.args))]
    cubin = images.cubin_of(name)
    words = worker.flatten(launch.args, addresses, cubin.abi, encode)
    worker.check_sizes(words, cubin.parameters)
    places = [(offset, offset + size) for _, offset, size in sorted(cubin.parameters)]
    assert [word.tobytes() for word in words] == [bound.parameter_bytes[slice(*place)] for place in places]
    assert (cubin.code, cubin.symbol, cubin.sha256) == (program.cubin, program.symbol, program.sha256)


def test_arguments_that_do_not_fit_are_refused():
    words = worker.flatten((np.float32(2), np.zeros(3)), (None, 4096))
    with pytest.raises(ValueError, match="flatten to sizes"):
        worker.check_sizes(words, [(0, 0, 4)])
    with pytest.raises(TypeError, match="dense"):
        worker.flatten((np.zeros((4, 4))[:, ::2],), (4096,))
    with pytest.raises(TypeError, match="cannot pass str"):
        worker.flatten(("text",), (None,))


def test_scalars_keep_the_size_that_numba_gives_them():
    words = worker.flatten((True, 1, 1.0, np.float32(1), np.int16(1)), [None] * 5)
    assert [word.nbytes for word in words] == [1, 8, 8, 4, 2]


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
            at = [i for i, word in enumerate(words) if i % 7 == 4]
            a, b, out = (np.ctypeslib.as_array((ctypes.c_float * int(words[i - 2])).from_address(int(words[i])))
                         for i in at)
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
    assert f"vector_add@{size}" in done.stdout and "exact" in done.stdout
    with gzip.open(tmp_path / "out" / "recording.json.gz", "rt") as file:
        document = json.load(file)
    (row,) = document["points"].values()
    assert row["check"] == {**{"ok": True, "exact": True, "mismatch": None, "max_abs_error": 0.0, "max_rel_error": 0.0}}
    assert len(row["profiles"]) == 2 and len(row["warm_us"]) >= 21 and row["cold_us"][0] == 2.0
    assert row["profiles"][0]["grid"] == list(ProgramPoint("vector_add", size).make().grid)
    assert document["provenance"]["gpu"] == "a GPU" and document["failures"] == {}


def test_a_wrong_result_fails_the_recording(tmp_path):
    from validate import record

    document = {
        "points": {"x@1": {"check": {"ok": False, "exact": False}, "cold_us": [1.0], "warm_us": [1.0]}},
        "failures": {"y": "reason\nmore"},
    }
    text = record.table(document)
    assert "WRONG" in text and "FAILED y: reason" in text and "more" not in text
