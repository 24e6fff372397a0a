"""`gpusim.Device`: a simulated GPU that keeps device memory and L2 over several launches.

The names are those of Numba and CuPy users: `to_device`, `device_array`, streams, events. Launches run in the
order they are made, one after the other, whatever their stream: one of the orders the hardware may choose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.config import GPUConfig, load_config
from gpusim.engine.device import Device as Engine
from gpusim.errors import SimulationError
from gpusim.host.runner import run_launch
from gpusim.host.syscalls import Host
from gpusim.launch import Launch
from gpusim.launch.arguments import bind
from gpusim.launch.device_array import DeviceArray
from gpusim.launch.memory import DeviceMemory
from gpusim.launch.module import Modules
from gpusim.results.result import Result
from gpusim.simulation import CHECKS, DEFAULT_MAX_CYCLES, checks_of, host_threads, parameter_names, program_of
from gpusim.tracing.trace import TraceOptions
from isa import Program


class Device:
    """A simulated GPU.

    gpu, overrides, threads: as for `gpusim.simulate`. memory_bytes: device memory that can be allocated at once,
    None for all that the GPU has.
    unified: host and device use the same addresses, see `DeviceMemory`.
    check: what else to look for in every launch, as for `gpusim.simulate`; what a kernel reads from a `device_array`
    that nothing has written is found here alone, since arrays of NumPy have contents.
    """

    def __init__(
        self,
        gpu: str | Path | GPUConfig = "h200",
        *,
        overrides: Mapping[str, Any] | Sequence[str] | None = None,
        threads: int | None = None,
        memory_bytes: int | None = None,
        unified: bool = False,
        check: str | Iterable[str] = (),
    ):
        self._checks = checks_of(check)
        self.config = load_config(gpu, overrides)
        follow = bool(self._checks & CHECKS["initcheck"])
        room = memory_bytes or self.config.dram.capacity_bytes
        self.memory = DeviceMemory(room, follow_contents=follow, unified=unified)
        self.modules = Modules(self.memory)
        self.host = Host(self.memory)
        self._engine = Engine(self.config, host_threads(threads))

    def to_device(self, array: np.ndarray, label: str | None = None) -> DeviceArray:
        """Copy an array to device memory, in C order."""
        host = np.ascontiguousarray(array)
        address = self.memory.upload(host, label)
        return DeviceArray(self.memory, address, array.shape, host.dtype)

    def device_array(self, shape: int | tuple[int, ...], dtype: Any = np.float64) -> DeviceArray:
        """A new array in device memory with undefined contents."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        kind = np.dtype(dtype)
        nbytes = int(np.prod(shape, dtype=object)) * kind.itemsize
        address = self.memory.alloc(nbytes)
        self.memory.forget(address, nbytes)
        return DeviceArray(self.memory, address, shape, kind)

    def free(self, array: DeviceArray) -> None:
        """Give an array's memory back; using it afterwards is an error."""
        self.memory.free(array.address)

    def launch(
        self,
        kernel: Any,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[Any] = (),
        shared_bytes: int = 0,
        *,
        stream: Stream | None = None,
        signature: Any = None,
        max_cycles: int | None = DEFAULT_MAX_CYCLES,
        strict_barriers: bool = True,
        progress: Callable[[int, int, int], None] | None = None,
        trace: bool | TraceOptions | None = None,
    ) -> Result:
        """Run a kernel to its end. Device arrays stay on the device; NumPy arrays are copied there and back.

        `trace` as for `gpusim.simulate`.

        Raises what `gpusim.simulate` raises; device memory is then as it was before the launch.
        """
        if stream is not None and stream.device is not self:
            raise ValueError("the stream belongs to another device")
        launch = Launch(kernel, grid, block, tuple(args), shared_bytes, signature)
        program = program_of(kernel, launch.args, self.config, signature)
        typed = signature if program is not kernel else None
        linked = self.modules.link(program)
        bound = bind(program, launch.args, self.memory, typed, parameter_names(kernel))
        before = self.memory.snapshot()
        try:
            result = run_launch(
                self.config,
                linked,
                launch,
                self.memory,
                bound.parameter_bytes,
                self._engine.threads,
                max_cycles,
                strict_barriers,
                progress,
                self._engine,
                self.host,
                checks=self._checks,
                trace=trace,
            )
            self.modules.check_exception(program)
            bound.copy_back()
        except SimulationError:
            self.memory.restore(before)
            raise
        finally:
            bound.release()
        return result

    def run(
        self,
        program: Program,
        launch: Launch,
        parameter_bytes: bytes,
        *,
        max_cycles: int | None = None,
        strict_barriers: bool = True,
        cooperative: bool = False,
    ) -> Result:
        """Run a kernel whose parameters are laid out already, as a driver does: without a copy of device memory to
        return to, so after an error memory holds what the kernel has written until then."""
        return run_launch(
            self.config,
            program,
            launch,
            self.memory,
            parameter_bytes,
            self._engine.threads,
            max_cycles or DEFAULT_MAX_CYCLES,
            strict_barriers,
            None,
            self._engine,
            self.host,
            cooperative,
        )

    def stream(self) -> Stream:
        """A new stream."""
        return Stream(self)

    def event(self) -> Event:
        """A new event, not yet recorded."""
        return Event(self)

    def synchronize(self) -> None:
        """Wait for all launches: they have ended already when `launch` returns."""

    def flush_l2(self) -> int:
        """Empty the L2 cache, as Nsight Compute does before a launch. Returns the bytes that were written back."""
        return self._engine.memory_system.flush()

    @property
    def now_cycles(self) -> int:
        """Simulated time since the device was made, in SM clock cycles."""
        return int(self._engine.env.now)

    def close(self) -> None:
        """End the device's host threads."""
        self._engine.close()

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Stream:
    """An order of launches on one device."""

    def __init__(self, device: Device):
        self.device = device

    def synchronize(self) -> None:
        """Wait for the stream's launches: they have ended already."""


class Event:
    """A point in simulated time."""

    def __init__(self, device: Device):
        self.device = device
        self.cycle: int | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Note the present simulated time."""
        self.cycle = self.device.now_cycles

    def synchronize(self) -> None:
        """Wait for the event: it has happened already."""

    def elapsed_ms(self, later: Event) -> float:
        """Simulated milliseconds from this event to a later one. Raises ValueError if one is not recorded."""
        if self.cycle is None or later.cycle is None:
            raise ValueError("both events must be recorded first")
        return self.device.config.time_us(later.cycle - self.cycle) / 1000
