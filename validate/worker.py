"""The part of a recording that holds the GPU: `python -m validate.worker TASK OUT REPEATS SECONDS POINT...`

Launches the recorded cubins. Task 'counters' runs under ncu, which measures each launch: for every repeat, every point
once, with fresh inputs. Task 'warm' is the same, but the launch is made again at once, on what it left behind. Task
'times' measures with events. What was launched goes to the file OUT as JSON, in launch
order, so that it can be joined with ncu's table.
"""

from __future__ import annotations

import json
import math
import sys
import time
from contextlib import AbstractContextManager
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.launch import Launch
from gpusim.launch.arguments import bind
from gpusim.launch.memory import DeviceMemory
from isa import Program
from programs import images, reduction
from validate.gpu import RealGpu
from validate.points import ProgramPoint, describe, error_of

FLUSH_ITEMS = 1 << 27
"""Floats read to empty the caches: 512 MiB, ten times the L2."""


class RealMemory(DeviceMemory):
    """Memory of a real GPU, as `bind` places arguments in it. Arrays of `large` bytes or more have no contents that
    matter, and are not copied."""

    def __init__(self, gpu: RealGpu, large: float) -> None:
        self.gpu, self.large = gpu, large

    def alloc(self, nbytes: int, label: str | None = None, *, at: int | None = None, owner: int | None = None) -> int:
        return self.gpu.alloc(nbytes)

    def free(self, address: int) -> None:
        self.gpu.free(address)

    def holds_array(self, address: int, itemsize: int, shape: tuple[int, ...]) -> None:
        """What an allocation is for does not matter here."""

    def write(self, address: int, dtype: Any, shape: Any, strides: Any, values: Any) -> None:
        if values.nbytes < self.large:
            self.gpu.put(address, values)


class DeviceKernel(AbstractContextManager["DeviceKernel"]):
    """A program on the GPU, with device arrays for one launch, which are freed at the end of a `with`; `large` as
    `RealMemory` has it."""

    def __init__(self, gpu: RealGpu, program: Program, launch: Launch, large: float = math.inf) -> None:
        self.gpu, self.program, self.launch = gpu, program, launch
        self.bound = bind(program, launch.args, RealMemory(gpu, large))
        area, places = self.bound.parameter_bytes, sorted(program.parameters, key=attrgetter("index"))
        words = [area[each.offset : each.offset + each.size] for each in places]
        function = gpu.function(program.cubin, program.symbol)
        self.run = gpu.prepared(function, launch.grid, launch.block, words, launch.shared_bytes)
        """Launches once, without waiting."""

    def __exit__(self, *error: object) -> None:
        self.gpu.synchronize()
        self.bound.release()

    def reset(self) -> None:
        """Put the inputs, and the poison of the outputs, back in place."""
        for host, array in self.bound.write_back:
            array.memory.write(array.address, array.dtype, array.shape, array.strides, host)

    def output(self, index: int) -> np.ndarray:
        """An argument's array as it is now."""
        array = self.bound.arrays[index]
        return self.gpu.get(array.address, array.shape, array.dtype)


def check(point: ProgramPoint, kernel: DeviceKernel) -> dict[str, Any]:
    """Compare what a launch left in the outputs with the NumPy reference."""
    variant = point.program
    expected, actual = variant.reference(kernel.launch), tuple(map(kernel.output, variant.outputs))
    mismatch = variant.mismatch(expected, actual)
    exact = all(np.array_equal(want, got) for want, got in zip(expected, actual, strict=True))
    return {"ok": mismatch is None, "exact": exact, "mismatch": mismatch, **error_of(expected, actual)}


def counters(
    gpu: RealGpu, points: list[ProgramPoint], repeats: int, deadline: float, again: bool
) -> list[dict[str, Any]]:
    """Launch for ncu, a second time if `again`. Nothing but the points' kernels may run on the GPU here."""
    done: list[dict[str, Any]] = []
    for repeat in range(repeats):
        for point in points:
            if time.monotonic() > deadline:
                return done
            # ncu saves and restores all allocated memory for every pass, so none is kept.
            with DeviceKernel(gpu, images.image(point.variant), point.make()) as kernel:
                kernel.reset()
                kernel.run()
                gpu.synchronize()
                entry: dict[str, Any] = {"point": str(point), "seed": point.seed, "repeat": repeat}
                done.append(entry | ({"check": check(point, kernel)} if repeat == 0 else {}))
                if again:
                    kernel.run()
                    done.append(entry)
    return done


def times(gpu: RealGpu, points: list[ProgramPoint], repeats: int, deadline: float) -> list[dict[str, Any]]:
    """Times by events, in microseconds, with emptied caches.

    The GPU is kept busy while the host enqueues, so that launch overheads of the host are not in the times.
    """
    flush, done = flush_kernel(gpu), []
    for point in points:
        if time.monotonic() > deadline:
            break
        with DeviceKernel(gpu, images.image(point.variant), point.make()) as kernel:
            kernel.reset()
            kernel.run()
            gpu.synchronize()
            done.append({
                "point": str(point), "seed": point.seed, "check": check(point, kernel),
                "launch": describe(kernel.launch),
                "image": {"cubin_sha256": kernel.program.sha256},
                "cold_us": [gpu.timed_us(kernel.run, flush.run) for _ in range(repeats)],
            })  # fmt: skip
    return done


def flush_kernel(gpu: RealGpu) -> DeviceKernel:
    """A kernel that reads `FLUSH_ITEMS` floats, so that nothing else is left in the caches."""
    blocks = FLUSH_ITEMS // (reduction.ITEMS * reduction.BLOCK)
    data, partial = np.empty(FLUSH_ITEMS, np.float32), np.empty(blocks, np.float32)
    launch = Launch(reduction.multiple, blocks, reduction.BLOCK, (data, partial))
    return DeviceKernel(gpu, images.image("reduction/multiple"), launch)


def main(arguments: list[str]) -> int:
    """Run one task; wrong outputs are reported in OUT, not by the exit status."""
    task, out, repeats, seconds = arguments[0], Path(arguments[1]), int(arguments[2]), float(arguments[3])
    points = [ProgramPoint.parse(text) for text in arguments[4:]]
    gpu, deadline = RealGpu(), time.monotonic() + seconds
    if task == "times":
        rows = times(gpu, points, repeats, deadline)
        overhead = float(np.median([gpu.timed_us(lambda: None) for _ in range(repeats)]))
        document = {"device": gpu.about(), "event_overhead_us": round(overhead, 3), "rows": rows}
    else:
        document = {"rows": counters(gpu, points, repeats, deadline, task == "warm")}
    out.write_text(json.dumps(document))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
