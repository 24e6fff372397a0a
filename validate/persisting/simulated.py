"""The simulated GPU in the place of a real one: the methods of `gpu.RealGpu`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

import gpusim
from gpusim.launch.access_window import PROPERTIES, AccessWindow
from isa import Program, load
from validate.persisting.gpu import PERSISTING, STREAMING

_TYPES: dict[Any, Any] = {ctypes.c_uint: np.uint32, ctypes.c_uint64: np.uint64, ctypes.c_float: np.float32}
_HITS, _MISSES = (f"lts__t_sectors_srcunit_tex_lookup_{name}.sum" for name in ("hit", "miss"))


class SimulatedGpu:
    """A device of `gpusim`; `counted` has of every launch its label, hits and misses of L2, and bytes from memory."""

    def __init__(self, cubin: str, gpu: str = "h200", settings: Sequence[str] = ()) -> None:
        self.cubin, self.device = cubin, gpusim.Device(gpu, overrides=settings)
        self.functions: dict[str, Program] = {}
        self.counted: list[tuple[str, float, float, float]] = []

    def properties(self) -> dict[str, Any]:
        """As far as the experiments want to know them."""
        l2 = self.device.config.l2
        return {"l2_bytes": l2.bytes, "persisting_max_bytes": l2.persisting_max_bytes}

    def memory(self, nbytes: int) -> int:
        """Address of new memory."""
        return self.device.memory.alloc(nbytes)

    def put(self, address: int, data: np.ndarray) -> None:
        """Copy to the device."""
        self.device.memory.view(address, data.nbytes)[...] = np.frombuffer(data.tobytes(), np.uint8)

    def get(self, address: int, count: int, dtype: Any) -> np.ndarray:
        """Copy `count` items from the device."""
        return self.device.memory.view(address, count * np.dtype(dtype).itemsize).view(dtype).copy()

    def launch(self, name: str, grid: int, block: int, *arguments: Any, label: str = "") -> float:
        """Run a kernel; returns its time, us."""
        if name not in self.functions:
            self.functions[name] = load(self.cubin, entry=name, abi="c")
        values = tuple(_TYPES[type(each)](each.value) for each in arguments)
        result = self.device.launch(self.functions[name], grid, block, values)
        hits, misses, memory = (float(result.metrics[each]) for each in (_HITS, _MISSES, "dram__bytes_read.sum"))
        self.counted.append((f"{name} {label}".strip(), hits, misses, memory))
        return result.time_us

    def set_aside(self, nbytes: int) -> int:
        """Set how much of L2 is for persisting accesses."""
        return self.device.set_aside_l2(nbytes)

    def window(self, base: int, nbytes: int, ratio: float = 1.0, hit: int = PERSISTING, miss: int = STREAMING) -> None:
        """Give the launches that follow a window; none if `nbytes` is 0."""
        window = AccessWindow(base, nbytes, ratio, PROPERTIES[hit], PROPERTIES[miss])
        self.device.window = window if nbytes else None

    def reset(self) -> None:
        """Make all persisting lines normal."""
        self.device.reset_persisting()

    def close(self) -> None:
        """End the device."""
        self.device.close()

    def flush(self) -> None:
        """Empty L2."""
        self.device.flush_l2()
