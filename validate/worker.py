"""The part of a recording that holds the GPU: `python -m validate.worker TASK OUT REPEATS SECONDS POINT...`

Launches the recorded cubins through CuPy. Task 'counters' runs under ncu, which measures each launch: for
every repeat, every point once, with fresh inputs. Task 'times' measures with events. What was launched goes
to the file OUT as JSON, in launch order, so that it can be joined with ncu's table.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import cupy as cp  # type: ignore[import-not-found,import-untyped,unused-ignore]
import numpy as np

from gpusim.launch import Launch
from gpusim.launch.cuda import array_of
from programs import images, reduction
from validate import abi, tensor_map
from validate.points import ProgramPoint, describe, error_of

FLUSH_ITEMS = 1 << 27
"""Floats read to empty the caches: 512 MiB, ten times the L2."""
_USUAL_SHARED_BYTES = 48 << 10
"""Dynamic shared memory that a block may have without being asked for."""


class DeviceKernel:
    """A cubin's kernel on the GPU, with device arrays for one launch. Arrays of `large` bytes or more have no contents
    that matter, and are not copied."""

    def __init__(self, cubin: images.LoadableKernel, launch: Launch, large: float = math.inf) -> None:
        self.cubin, self.large = cubin, large
        self.function = _load(self.cubin).get_function(self.cubin.symbol)
        self.launch = launch
        if launch.shared_bytes > _USUAL_SHARED_BYTES:
            self.function.max_dynamic_shared_size_bytes = launch.shared_bytes
        self.values = [array_of(value) for value in launch.args]
        self.arrays = [
            cp.ndarray(value.shape, dtype=value.dtype) if isinstance(value, np.ndarray) else None
            for value in self.values
        ]
        addresses = [None if array is None else array.data.ptr for array in self.arrays]
        self.words = tuple(abi.flatten(launch.args, addresses, cubin.abi, tensor_map.encode))
        abi.check(self.words, self.cubin.parameters)

    def reset(self) -> None:
        """Put the inputs, and the poison of the outputs, back in place."""
        for array, value in zip(self.arrays, self.values, strict=True):
            if array is not None and array.nbytes < self.large:
                array.set(np.ascontiguousarray(value))

    def run(self) -> None:
        """Launch once, without waiting."""
        self.function(self.launch.grid, self.launch.block, self.words, shared_mem=self.launch.shared_bytes)

    def outputs(self, indices: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        """Copies of the output arrays."""
        return tuple(cp.asnumpy(self.arrays[index]) for index in indices)


@cache
def _load(cubin: images.LoadableKernel) -> Any:
    # Kept until the process ends, since CuPy opens the file when it pleases.
    path = Path(_folder().name, f"{cubin.sha256}.cubin")
    path.write_bytes(cubin.code)
    return cp.RawModule(path=str(path))


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


def check(point: ProgramPoint, kernel: DeviceKernel) -> dict[str, Any]:
    """Compare what a launch left in the outputs with the NumPy reference."""
    variant = point.program
    expected = variant.reference(kernel.launch)
    actual = kernel.outputs(variant.outputs)
    mismatch = variant.mismatch(expected, actual)
    exact = all(np.array_equal(want, got) for want, got in zip(expected, actual, strict=True))
    return {"ok": mismatch is None, "exact": exact, "mismatch": mismatch, **error_of(expected, actual)}


def counters(points: list[ProgramPoint], repeats: int, deadline: float) -> list[dict[str, Any]]:
    """Launch for ncu. Nothing but the points' kernels may run on the GPU here."""
    done: list[dict[str, Any]] = []
    for repeat in range(repeats):
        for point in points:
            if time.monotonic() > deadline:
                return done
            kernel = DeviceKernel(images.cubin_of(point.variant), point.make())
            kernel.reset()
            kernel.run()
            cp.cuda.runtime.deviceSynchronize()
            entry: dict[str, Any] = {"point": str(point), "seed": point.seed, "repeat": repeat}
            if repeat == 0:
                entry["check"] = check(point, kernel)
            done.append(entry)
            # ncu saves and restores all allocated memory for every pass.
            del kernel
            cp.get_default_memory_pool().free_all_blocks()
    return done


def times(points: list[ProgramPoint], repeats: int, deadline: float) -> list[dict[str, Any]]:
    """Times by events, in microseconds: `cold_us` with emptied caches, `warm_us` just after the same launch.

    The GPU is kept busy while the host enqueues, so that launch overheads of the host are not in the times.
    """
    flush = flush_kernel()
    done: list[dict[str, Any]] = []
    for point in points:
        if time.monotonic() > deadline:
            return done
        launch = point.make()
        kernel = DeviceKernel(images.cubin_of(point.variant), launch)
        kernel.reset()
        flush.run()
        kernel.run()
        cp.cuda.runtime.deviceSynchronize()
        entry: dict[str, Any] = {"point": str(point), "seed": point.seed, "check": check(point, kernel)}
        entry["launch"] = describe(launch)
        entry["image"] = {
            "file": kernel.cubin.file,
            "symbol": kernel.cubin.symbol,
            "cubin_sha256": kernel.cubin.sha256,
        }
        entry["cold_us"] = [_timed(flush, kernel, warm=False) for _ in range(repeats)]
        entry["warm_us"] = [_timed(flush, kernel, warm=True) for _ in range(repeats)]
        done.append(entry)
    return done


def flush_kernel() -> DeviceKernel:
    """A kernel that reads `FLUSH_ITEMS` floats, so that nothing else is left in the caches."""
    blocks = FLUSH_ITEMS // (reduction.ITEMS * reduction.BLOCK)
    data, partial = np.empty(FLUSH_ITEMS, np.float32), np.empty(blocks, np.float32)
    launch = Launch(reduction.multiple, blocks, reduction.BLOCK, (data, partial))
    return DeviceKernel(images.cubin_of("reduction/multiple"), launch)


def _timed(flush: DeviceKernel, kernel: DeviceKernel, warm: bool) -> float:
    start, end = cp.cuda.Event(), cp.cuda.Event()
    flush.run()
    if warm:
        kernel.run()
    start.record()
    kernel.run()
    end.record()
    end.synchronize()
    return round(1000 * cp.cuda.get_elapsed_time(start, end), 3)


def event_overhead_us(repeats: int) -> float:
    """Median time between two events with nothing between them, in microseconds."""
    found = []
    for _ in range(repeats):
        start, end = cp.cuda.Event(), cp.cuda.Event()
        start.record()
        end.record()
        end.synchronize()
        found.append(1000 * cp.cuda.get_elapsed_time(start, end))
    return round(float(np.median(found)), 3)


def device() -> dict[str, Any]:
    """What the recording ran on."""
    properties = cp.cuda.runtime.getDeviceProperties(0)
    return {
        "gpu": properties["name"].decode(),
        "compute_capability": f"{properties['major']}.{properties['minor']}",
        "sm_count": properties["multiProcessorCount"],
        "cuda_driver": cp.cuda.runtime.driverGetVersion(),
        "cupy": cp.__version__,
        "numpy": np.__version__,
        "python": sys.version.split()[0],
    }


def main(arguments: list[str]) -> int:
    """Run one task; wrong outputs are reported in OUT, not by the exit status."""
    task, out, repeats, seconds = arguments[0], Path(arguments[1]), int(arguments[2]), float(arguments[3])
    points = [ProgramPoint.parse(text) for text in arguments[4:]]
    deadline = time.monotonic() + seconds
    if task == "times":
        rows = times(points, repeats, deadline)
        document = {"device": device(), "event_overhead_us": event_overhead_us(repeats), "rows": rows}
    else:
        document = {"rows": counters(points, repeats, deadline)}
    out.write_text(json.dumps(document))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
