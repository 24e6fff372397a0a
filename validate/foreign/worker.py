"""Run built launches on this machine's GPU: outputs against NumPy, and counters under Nsight Compute.

    python -m validate.foreign.worker JOB RECORDED        # everything; needs NumPy and ncu, and libcuda.so.1

JOB is a folder as `validate.foreign.recording` writes it. RECORDED is written: JSON, compressed.
"""

from __future__ import annotations

import ctypes
import datetime
import gzip
import importlib
import json
import math
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from validate.foreign.launch import BuiltLaunch, MapHole, Work
from validate.metrics import PIPES, RECORDED

REPEATS = 3
LAUNCHES = "launches.pickle"
_CLUSTER, _SHARED, _NON_PORTABLE = 4, 8, 14
_SHARED_UNASKED = 48 << 10
"""Dynamic shared memory that a kernel may have without being asked about it."""


class CudaError(RuntimeError):
    """A call of the driver that failed."""


class _Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint * 16)]


class _Config(ctypes.Structure):
    _fields_ = [
        ("sizes", ctypes.c_uint * 7),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    ]


class LaunchingDriver:
    """The driver, as far as a launch needs it."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *args: Any) -> None:
        """Raises CudaError."""
        code = getattr(self.cuda, name)(*args)
        if code:
            raise CudaError(f"{name} failed with {code}")

    def run(self, cubin: bytes, launch: BuiltLaunch, work: Work) -> dict[str, np.ndarray]:
        """Launch once with fresh arrays, and give back what they hold then."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), cubin)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, launch.symbol.encode())
        if launch.shared_bytes > _SHARED_UNASKED:
            self.call("cuFuncSetAttribute", function, _SHARED, launch.shared_bytes)
        if math.prod(launch.cluster) > 8:
            self.call("cuFuncSetAttribute", function, _NON_PORTABLE, 1)
        places = []
        arrays = launch.arrays(work)
        for host in arrays.values():
            place = ctypes.c_uint64()
            self.call("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(max(host.nbytes, 256)))
            self.call(
                "cuMemcpyHtoD_v2", place, host.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(host.nbytes)
            )
            places.append(place)
        area = launch.fill([each.value for each in places], self.encode)
        pieces = [ctypes.create_string_buffer(area[at : at + size], size) for at, size in launch.parameters]
        pointers = (ctypes.c_void_p * len(pieces))(*(ctypes.addressof(each) for each in pieces))
        attribute = _Attribute(_CLUSTER, 0, (ctypes.c_uint * 16)(*launch.cluster))
        sizes = (ctypes.c_uint * 7)(*launch.grid, *launch.block, launch.shared_bytes)
        config = _Config(sizes, None, ctypes.pointer(attribute), int(math.prod(launch.cluster) > 1))
        self.call("cuLaunchKernelEx", ctypes.byref(config), function, pointers, None)
        self.call("cuCtxSynchronize")
        outputs = {}
        for place, (name, array) in zip(places, arrays.items(), strict=True):
            outputs[name] = np.empty_like(array)
            target = outputs[name].ctypes.data_as(ctypes.c_void_p)
            self.call("cuMemcpyDtoH_v2", target, place, ctypes.c_size_t(array.nbytes))
            self.call("cuMemFree_v2", place)
        self.call("cuModuleUnload", module)
        return outputs

    def encode(self, hole: MapHole, address: int) -> bytes:
        """A tensor map as the driver makes it."""
        found = (ctypes.c_uint8 * 192)()
        start = -ctypes.addressof(found) % 64
        numbers = [(ctypes.c_uint64 * 5)(*hole.shape), (ctypes.c_uint64 * 5)(*hole.strides),
                   (ctypes.c_uint32 * 5)(*hole.box), (ctypes.c_uint32 * 5)(*hole.steps)]  # fmt: skip
        self.call(
            *("cuTensorMapEncodeTiled", ctypes.byref(found, start), hole.kind, len(hole.shape)),
            *(ctypes.c_uint64(address), *numbers, hole.interleave, hole.swizzle, hole.promotion, hole.fill),
        )
        return bytes(found)[start : start + 128]


def launch_all(job: Path, out: Path, repeats: int, names: list[str]) -> None:
    """Launch points so many times each, and write what came of it; after an error of the driver no more are launched,
    since its context is spoilt."""
    module, points = pickle.loads((job / LAUNCHES).read_bytes())
    cases, gpu = importlib.import_module(module), LaunchingDriver()
    rows: list[dict[str, Any]] = []
    for name in names:
        launch, work = points[name], cases.work_of(name)
        cubin = (job / f"{launch.code_sha256}.cubin").read_bytes()
        for _ in range(repeats):
            try:
                mismatch, error = work.mismatch(gpu.run(cubin, launch, work))
            except CudaError as failed:
                mismatch, error = str(failed), math.nan
            rows.append({"point": name, "inputs_sha256": work.digest(), "mismatch": mismatch, "error": error})
            if repeats == 1:
                print(f"{name:40s} {mismatch or 'ok'} {error:.2g}", flush=True)
        if math.isnan(error):
            break
    out.write_text(json.dumps(rows))


def record(job: Path, out: Path) -> int:
    """Check outputs, then count those points that run."""
    waiting = list(pickle.loads((job / LAUNCHES).read_bytes())[1])
    plain: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        rows, counted, log = (Path(folder, name) for name in ("plain.json", "counted.json", "ncu.csv"))
        command = [sys.executable, "-m", "validate.foreign.worker", str(job)]
        while waiting:
            subprocess.run([*command, str(rows), "1", *waiting], check=True)
            plain += json.loads(rows.read_text())
            waiting = waiting[waiting.index(plain[-1]["point"]) + 1 :]
        good = [row["point"] for row in plain if not math.isnan(row["error"])]
        names = [*RECORDED, *(f"sm__inst_executed_pipe_{pipe}.sum" for pipe in PIPES)]
        options = ["--clock-control", "none", "--cache-control", "all", "--csv", "--page", "raw"]
        ncu = ["ncu", *options, "--print-units", "base", "--log-file", str(log), "--metrics", ",".join(names)]
        done = subprocess.run(
            [*ncu, *command, str(counted), str(REPEATS), *good], capture_output=True, text=True
        )
        smi = ["nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm", "--format=csv,noheader"]
        said = [
            subprocess.run(line, capture_output=True, text=True).stdout
            for line in (smi, ["ncu", "--version"])
        ]
        found = {
            "plain": plain,
            "counted": json.loads(counted.read_text()) if counted.exists() else [],
            "csv": log.read_text(errors="replace") if log.exists() else "",
            "printed": (done.stdout + done.stderr)[-4000:],
            "metrics": names,
            "provenance": {
                "date": datetime.date.today().isoformat(),
                "gpu": said[0].strip(),
                "ncu": said[1].rpartition("Version")[2].strip(),
                "numpy": np.__version__,
            },
        }
    with gzip.open(out, "wt") as stream:
        json.dump(found, stream)
    wrong = [row["point"] for row in plain if row["mismatch"]]
    launched = sum(each.startswith('"') for each in found["csv"].splitlines())
    if done.returncode:
        print(found["printed"])
    print(f"wrong: {', '.join(wrong) or 'none'}; {launched} lines of ncu; status {done.returncode}")
    return done.returncode


if __name__ == "__main__":
    if len(sys.argv) > 3:
        launch_all(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
    else:
        sys.exit(record(Path(sys.argv[1]), Path(sys.argv[2])))
