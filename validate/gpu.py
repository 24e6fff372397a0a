"""The one GPU side of every recording: CUDA's driver, `nvidia-smi`, and Nsight Compute's command line.

The driver is bound by cuda.bindings, which numba-cuda brings along.
A machine that records needs NumPy, numba-cuda and, for counters, `ncu`.
"""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import gzip
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

USUAL_SHARED_BYTES = 48 << 10
"""Dynamic shared memory that a kernel may have without being asked about it."""
SMI_FIELDS = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,temperature.gpu"


class GpuError(RuntimeError):
    """A call of the driver that failed."""


class RealGpu:
    """A GPU with its primary context current. Addresses are integers."""

    def __init__(self, number: int = 0) -> None:
        self.driver = import_module("cuda.bindings.driver")
        self.call("cuInit", 0)
        self.device = self.call("cuDeviceGet", number)
        self.call("cuCtxSetCurrent", self.call("cuDevicePrimaryCtxRetain", self.device))
        self._functions: dict[tuple[str, str], Any] = {}
        self.default = self.driver.CUstream(0)

    def call(self, name: str, *arguments: Any) -> Any:
        """Return what a function of the driver returns behind its status. Raises GpuError."""
        status, *found = getattr(self.driver, name)(*arguments)
        if int(status):
            raise GpuError(f"{name}: {getattr(status, 'name', status)}")
        return found[0] if len(found) == 1 else tuple(found)

    def attribute(self, name: str) -> int:
        """A device attribute, by the end of its name in cuda.h: 'MULTIPROCESSOR_COUNT'."""
        kind = getattr(self.driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self.call("cuDeviceGetAttribute", kind, self.device))

    def about(self) -> dict[str, Any]:
        """The GPU and the software that a recording is made with."""
        name: bytes = self.call("cuDeviceGetName", 100, self.device)
        major, minor = (self.attribute(f"COMPUTE_CAPABILITY_{each}") for each in ("MAJOR", "MINOR"))
        return {
            "gpu": name.split(b"\0")[0].decode(),
            "compute_capability": f"{major}.{minor}",
            "sm_count": self.attribute("MULTIPROCESSOR_COUNT"),
            "l2_bytes": self.attribute("L2_CACHE_SIZE"),
            "memory_bytes": int(self.call("cuDeviceTotalMem", self.device)),
            "memory_bus_bits": self.attribute("GLOBAL_MEMORY_BUS_WIDTH"),
            "memory_mhz": self.attribute("MEMORY_CLOCK_RATE") // 1000,
            "cuda_driver": int(self.call("cuDriverGetVersion")),
            "numpy": np.__version__,
            "python": sys.version.split()[0],
        }

    def alloc(self, nbytes: int) -> int:
        """Address of new device memory."""
        return int(self.call("cuMemAlloc", max(nbytes, 256)))

    def free(self, address: int) -> None:
        """Free device memory."""
        self.call("cuMemFree", address)

    def put(self, address: int, data: np.ndarray) -> None:
        """Copy an array to the GPU."""
        data = np.ascontiguousarray(data)
        if data.nbytes:
            self.call("cuMemcpyHtoD", address, data.ctypes.data, data.nbytes)

    def get(self, address: int, shape: int | tuple[int, ...], dtype: Any) -> np.ndarray:
        """An array copied from the GPU."""
        data = np.empty(shape, dtype)
        if data.nbytes:
            self.call("cuMemcpyDtoH", data.ctypes.data, address, data.nbytes)
        return data

    def function(self, cubin: bytes, symbol: str) -> Any:
        """A kernel of a cubin; each cubin is loaded once."""
        digest = hashlib.sha256(cubin).hexdigest()
        if (digest, "") not in self._functions:
            self._functions[digest, ""] = self.call("cuModuleLoadData", cubin)
        if (digest, symbol) not in self._functions:
            found = self.call("cuModuleGetFunction", self._functions[digest, ""], symbol.encode())
            self._functions[digest, symbol] = found
        return self._functions[digest, symbol]

    def prepared(
        self, function: Any, grid: Sequence[int], block: Sequence[int], words: Sequence[Any], shared_bytes: int = 0
    ) -> Callable[[], None]:
        """A function that launches a kernel without waiting, and takes the host no longer than it must. words: its
        parameters, NumPy scalars or bytes."""
        if shared_bytes > USUAL_SHARED_BYTES:
            kind = self.driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self.call("cuFuncSetAttribute", function, kind, shared_bytes)
        values = [word if isinstance(word, bytes) else word.tobytes() for word in words]
        pieces = [ctypes.create_string_buffer(value, len(value)) for value in values]
        pointers = (ctypes.c_void_p * max(len(pieces), 1))(*(ctypes.addressof(each) for each in pieces))
        config = self.driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = (*grid, 1, 1)[:3]
        config.blockDimX, config.blockDimY, config.blockDimZ = (*block, 1, 1)[:3]
        config.sharedMemBytes, config.hStream = shared_bytes, self.default
        place = ctypes.addressof(pointers)

        def start(_held: Any = (pieces, pointers)) -> None:
            self.call("cuLaunchKernelEx", config, function, place, 0)

        return start

    def timed_us(self, launch: Callable[[], object], before: Callable[[], object] | None = None) -> float:
        """Microseconds from event to event around what `launch` puts into the default stream; `before` puts something
        in front, so that the GPU is busy while the host enqueues."""
        if before is not None:
            before()
        first, last = (self.call("cuEventCreate", 0) for _ in range(2))
        self.call("cuEventRecord", first, self.default)
        launch()
        self.call("cuEventRecord", last, self.default)
        self.call("cuEventSynchronize", last)
        return round(1e3 * float(self.call("cuEventElapsedTime", first, last)), 3)

    def synchronize(self) -> None:
        """Wait for everything."""
        self.call("cuCtxSynchronize")


# --- what a recording is made with ------------------------------------------------------------------------------------


def provenance(fields: str = SMI_FIELDS) -> dict[str, Any]:
    """Date, version of ncu, and what nvidia-smi says in these fields."""
    version = said(["ncu", "--version"]).rpartition("Version")[2].split()
    smi = said(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]).strip().splitlines()
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "ncu": version[0] if version else "",
        "smi": dict(zip(fields.split(","), smi[0].split(", "), strict=False)) if smi else {},
    }


def said(line: Sequence[str]) -> str:
    """Output of a command, or why there is none."""
    try:
        return run(line, 60.0)[1]
    except OSError as error:
        return f"failed: {error}"


def read_json(path: Path) -> Any:
    """The content of a JSON file, which may be compressed."""
    content = path.read_bytes()
    return json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)


def compact_text(document: Any, sort_keys: bool = False) -> str:
    """JSON with a number or counter in a line, and innermost lists (dimensions, launches of a counter) on one line."""
    text = json.dumps(document, indent=1, sort_keys=sort_keys)
    return re.sub(r"\[\s+([^][{}]*?)\s+\]", lambda m: f"[{' '.join(m[1].split())}]", text) + "\n"


# --- Nsight Compute ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CountedRun:
    """A program that ran under ncu. status: its own, None if it took too long. csv: ncu's raw table and messages.
    printed: what program and ncu wrote elsewhere. seconds: wall time."""

    status: int | None
    csv: str
    printed: str
    seconds: float

    @property
    def lines(self) -> int:
        """Launches in the table."""
        return sum(each.startswith('"') and each[1:2].isdigit() for each in self.csv.splitlines())


def count(
    program: Sequence[str], metrics: Sequence[str], *, timeout_s: float, options: Sequence[str] = (),
    folder: Path | None = None, environment: Mapping[str, str] | None = None, ncu: str = "ncu",
) -> CountedRun:  # fmt: skip
    """Run a program under ncu in base units, with clocks as they are. ncu empties the caches before every pass unless
    the options say otherwise. Raises OSError where there is no ncu."""
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch, "ncu.csv")
        line = [ncu, "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base", *options]
        line += ["--metrics", ",".join(metrics), "--log-file", str(log), *program]
        began = time.monotonic()
        status, printed = run(line, timeout_s, folder, environment)
        csv = log.read_text(errors="replace") if log.exists() else ""
        return CountedRun(status, csv, printed, time.monotonic() - began)


def run(
    line: Sequence[str], timeout_s: float, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> tuple[int | None, str]:
    """(Status, all output) of a command; (None, output) after the time limit, when nothing that it started is left.
    Raises OSError if it cannot be started."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            list(line), cwd=folder, env=os.environ | dict(environment or {}), stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            status: int | None = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        return status, output.read().decode(errors="replace")
