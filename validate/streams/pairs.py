"""Real kernels side by side: what each loses to the other, and small grids that fill what a large one leaves."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_int, c_int64, c_uint64, c_void_p
from typing import Any

from validate.streams.lab import FULL, Lab

COPY_BYTES = 128 << 20
TILE = 16 << 10


class Kernels:
    """The kernels with their sizes, which take some 50 to 200 us each."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.memory = [lab.driver.device_memory(COPY_BYTES) for _ in range(4)]

    def fma_chain(self, label: str, stream: c_void_p, grid: int, threads: int) -> None:
        """Bound by arithmetic."""
        self.lab.launch(label, stream, "fma_chain", grid, threads, 0, c_uint64(self.lab.scratch), c_int(8000))

    def stream_copy(self, label: str, stream: c_void_p, grid: int, threads: int) -> None:
        """Bound by memory; two of them have each their own arrays."""
        at = 2 * (label == "B")
        self.lab.launch(label, stream, "stream_copy", grid, threads, 0, c_uint64(self.memory[at]),
                        c_uint64(self.memory[at + 1]), c_int64(COPY_BYTES // 16))  # fmt: skip

    def shared_work(self, label: str, stream: c_void_p, grid: int, threads: int) -> None:
        """Bound by shared memory."""
        self.lab.launch(label, stream, "shared_work", grid, threads, TILE, c_uint64(self.lab.scratch), c_int(2000),
                        c_int(TILE // 4))  # fmt: skip


def pairs(lab: Lab) -> dict[str, Any]:
    """Each kernel alone, twice in one stream, and with another in a second stream."""
    kernels = Kernels(lab)
    found = {}
    sizes = [(66, 66), (132, 132), (264, 264), (132, 264), (1056, 1056), (66, 1056), (2112, 132)]
    names = [("fma_chain", "stream_copy"), ("fma_chain", "shared_work"), ("stream_copy", "stream_copy"),
             ("fma_chain", "fma_chain"), ("shared_work", "shared_work"), ("shared_work", "stream_copy")]  # fmt: skip
    for threads in (256, 1024):
        for a, b in sizes:
            for name in ("fma_chain", "stream_copy", "shared_work"):
                for grid in {a, b}:
                    key = f"{name} alone, {grid}x{threads}"
                    if key not in found:

                        def alone(name: str = name, grid: int = grid, t: int = threads) -> None:
                            _one(kernels, "A", name, 0, grid, t)

                        found[key] = lab.repeat(alone, full=0)
            for first, second in names:

                def plan(
                    first: str = first, second: str = second, a: int = a, b: int = b, t: int = threads
                ) -> None:
                    _one(kernels, "A", first, 0, a, t)
                    _one(kernels, "B", second, 1, b, t)

                found[f"{first} {a} + {second} {b}, x{threads}"] = lab.repeat(plan, full=0)
    return found


def _one(kernels: Kernels, label: str, name: str, stream: int, grid: int, threads: int) -> None:
    launch: Callable[..., None] = getattr(kernels, name)
    launch(label, kernels.lab.stream(stream), grid, threads)


def fillers(lab: Lab) -> dict[str, Any]:
    """A long kernel of 100 blocks that each take an SM, and twelve small ones in four streams."""
    found = {}
    kernels = Kernels(lab)
    for shared in (0, FULL):

        def plan(shared: int = shared) -> None:
            lab.spin("long", lab.stream(9), 100, 1000, shared=FULL)
            for k in range(12):
                lab.spin(f"{k}", lab.stream(k % 4), 8 * (1 + k % 4), 40 + 10 * (k % 3), shared=shared)

        found[f"spins, small ones of {shared >> 10}KB"] = lab.repeat(plan, full=2)

    def real() -> None:
        kernels.fma_chain("long", lab.stream(9), 1056, 256)
        for k in range(12):
            name = ("fma_chain", "shared_work", "stream_copy")[k % 3]
            _one(kernels, f"{k}", name, k % 4, 8 * (1 + k % 4), 256)

    found["real kernels"] = lab.repeat(real, full=1)
    return found
