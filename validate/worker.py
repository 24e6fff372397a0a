"""The part of a recording that holds the GPU: `python -m validate.worker TASK OUT REPEATS SECONDS POINT...`

Launches the recorded cubins. Task 'counters' runs under ncu, which measures each launch: for every repeat, every point
once, with fresh inputs. Task 'times' measures with events. What was launched goes to the file OUT as JSON, in launch
order, so that it can be joined with ncu's table.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.launch import Launch, TensorMap
from gpusim.launch.cuda import array_of
from programs import images, reduction
from validate.gpu import RealGpu
from validate.points import ProgramPoint, describe, error_of

FLUSH_ITEMS = 1 << 27
"""Floats read to empty the caches: 512 MiB, ten times the L2."""
_TYPES = ("uint8", "uint16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64", "bfloat16",
          "float32_ftz", "tfloat32", "tfloat32_ftz")  # fmt: skip
_SWIZZLES = ("none", "32B", "64B", "128B")
"""Names of CUtensorMapDataType and CUtensorMapSwizzle in the order of cuda.h."""
Word = np.generic | np.ndarray


# Written apart from `gpusim.launch.arguments`, which does the same, because a recording machine has none of the
# simulator's dependencies; a test holds the two to the same bytes.
def flatten(
    args: Sequence[Any],
    addresses: Sequence[int | None],
    convention: str = "numba",
    encode: Callable[[TensorMap, int], bytes] | None = None,
) -> list[Word]:
    """Parameters that `args` become, in order: an array becomes two zero pointers (meminfo, parent), item
    count, item size, data pointer, extents and strides, all 64-bit, and in C the data pointer; a tensor map, in C
    alone, an array of one item of 128 bytes, passed by value; a scalar stays as it is.

    addresses: device address of each array argument and array of a tensor map, None for scalars. encode: makes a
        tensor map of an array at an address.
    Raises TypeError for an argument of another kind.
    """
    words: list[Word] = []
    for value, address in zip(args, addresses, strict=True):
        if isinstance(value, TensorMap) and address is not None and encode is not None and convention == "c":
            words.append(np.frombuffer(encode(value, address), "V128").copy())
        elif isinstance(value, np.ndarray):
            if address is None or not value.flags.c_contiguous:
                raise TypeError("an array argument must be dense in C order and have a device address")
            if convention == "c":
                words.append(np.uint64(address))
                continue
            header = (0, 0, value.size, value.itemsize, address)
            words += [np.uint64(word) for word in header]
            words += [np.int64(word) for word in (*value.shape, *value.strides)]
        elif isinstance(value, np.generic) and value.dtype.kind in "biuf":
            words.append(value)
        elif isinstance(value, (bool, int, float)):
            words.append({bool: np.bool_, int: np.int64, float: np.float64}[type(value)](value))
        else:
            raise TypeError(f"cannot pass {type(value).__name__} to a kernel from here")
    return words


def check_sizes(words: Sequence[Word], parameters: Sequence[tuple[int, int, int]]) -> None:
    """Raise ValueError unless the words fit a kernel's parameters, (position, offset, size) each."""
    sizes = [size for _, _, size in sorted(parameters)]
    found = [word.nbytes for word in words]
    if sizes != found:
        raise ValueError(f"the arguments flatten to sizes {found}, the kernel takes {sizes}")


class DeviceKernel(AbstractContextManager["DeviceKernel"]):
    """A cubin's kernel on the GPU, with device arrays for one launch, which are freed at the end of a `with`. Arrays of
    `large` bytes or more have no contents that matter, and are not copied."""

    def __init__(self, gpu: RealGpu, cubin: images.LoadableKernel, launch: Launch, large: float = math.inf) -> None:
        self.gpu, self.cubin, self.launch, self.large = gpu, cubin, launch, large
        self.function = gpu.function(cubin.code, cubin.symbol)
        self.values = [array_of(value) for value in launch.args]
        self.addresses = [gpu.alloc(each.nbytes) if isinstance(each, np.ndarray) else None for each in self.values]
        self.words = flatten(launch.args, self.addresses, cubin.abi, self._encode)
        check_sizes(self.words, cubin.parameters)
        self.run = gpu.prepared(self.function, launch.grid, launch.block, self.words, launch.shared_bytes)
        """Launches once, without waiting."""

    def __exit__(self, *error: object) -> None:
        self.gpu.synchronize()
        for address in self.addresses:
            if address is not None:
                self.gpu.free(address)

    def _encode(self, tensor_map: TensorMap, address: int) -> bytes:
        kind, shape, strides, box, swizzle = tensor_map.fields
        steps, pattern = [1] * len(shape), _SWIZZLES.index(swizzle)
        return self.gpu.encode(_TYPES.index(kind), address, shape, strides, box, steps, pattern)

    def reset(self) -> None:
        """Put the inputs, and the poison of the outputs, back in place."""
        for address, value in zip(self.addresses, self.values, strict=True):
            if address is not None and value.nbytes < self.large:
                self.gpu.put(address, value)

    def output(self, index: int) -> np.ndarray:
        """An argument's array as it is now."""
        value = self.values[index]
        return self.gpu.get(self.addresses[index] or 0, value.shape, value.dtype)


def check(point: ProgramPoint, kernel: DeviceKernel) -> dict[str, Any]:
    """Compare what a launch left in the outputs with the NumPy reference."""
    variant = point.program
    expected = variant.reference(kernel.launch)
    actual = tuple(map(kernel.output, variant.outputs))
    mismatch = variant.mismatch(expected, actual)
    exact = all(np.array_equal(want, got) for want, got in zip(expected, actual, strict=True))
    return {"ok": mismatch is None, "exact": exact, "mismatch": mismatch, **error_of(expected, actual)}


def counters(gpu: RealGpu, points: list[ProgramPoint], repeats: int, deadline: float) -> list[dict[str, Any]]:
    """Launch for ncu. Nothing but the points' kernels may run on the GPU here."""
    done: list[dict[str, Any]] = []
    for repeat in range(repeats):
        for point in points:
            if time.monotonic() > deadline:
                return done
            # ncu saves and restores all allocated memory for every pass, so none is kept.
            with DeviceKernel(gpu, images.cubin_of(point.variant), point.make()) as kernel:
                kernel.reset()
                kernel.run()
                gpu.synchronize()
                entry: dict[str, Any] = {"point": str(point), "seed": point.seed, "repeat": repeat}
                done.append(entry | ({"check": check(point, kernel)} if repeat == 0 else {}))
    return done


def times(gpu: RealGpu, points: list[ProgramPoint], repeats: int, deadline: float) -> list[dict[str, Any]]:
    """Times by events, in microseconds: `cold_us` with emptied caches, `warm_us` just after the same launch.

    The GPU is kept busy while the host enqueues, so that launch overheads of the host are not in the times.
    """
    flush, done = flush_kernel(gpu), []
    for point in points:
        if time.monotonic() > deadline:
            break
        with DeviceKernel(gpu, images.cubin_of(point.variant), point.make()) as kernel:

            def warm(run: Any = kernel.run) -> None:
                flush.run()
                run()

            kernel.reset()
            warm()
            gpu.synchronize()
            it = kernel.cubin
            done.append({
                "point": str(point), "seed": point.seed, "check": check(point, kernel),
                "launch": describe(kernel.launch),
                "image": {"file": it.file, "symbol": it.symbol, "cubin_sha256": it.sha256},
                "cold_us": [gpu.timed_us(kernel.run, flush.run) for _ in range(repeats)],
                "warm_us": [gpu.timed_us(kernel.run, warm) for _ in range(repeats)],
            })  # fmt: skip
    return done


def flush_kernel(gpu: RealGpu) -> DeviceKernel:
    """A kernel that reads `FLUSH_ITEMS` floats, so that nothing else is left in the caches."""
    blocks = FLUSH_ITEMS // (reduction.ITEMS * reduction.BLOCK)
    data, partial = np.empty(FLUSH_ITEMS, np.float32), np.empty(blocks, np.float32)
    launch = Launch(reduction.multiple, blocks, reduction.BLOCK, (data, partial))
    return DeviceKernel(gpu, images.cubin_of("reduction/multiple"), launch)


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
        document = {"rows": counters(gpu, points, repeats, deadline)}
    out.write_text(json.dumps(document))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
