"""`gpusim.Device`: a simulated GPU that keeps device memory and L2 over several launches.

The names are those of Numba and CuPy users: `to_device`, `device_array`, streams, events. Launches run in the
order they are made, one after the other, whatever their stream: one of the orders the hardware may choose.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.config import GPUConfig, load_config
from gpusim.host.options import CHECKS, DEFAULT_MAX_CYCLES, LaunchOptions, Progress, checks_of, host_threads
from gpusim.host.runner import Machine, run_launch
from gpusim.host.syscalls import SystemCalls
from gpusim.launch import Launch
from gpusim.launch.device_array import DeviceArray
from gpusim.launch.memory import BASE, DeviceMemory
from gpusim.launch.program import place_arguments, program_of
from gpusim.result import Result
from gpusim.tracing.accel_sim import AccelSimTraces
from gpusim.tracing.options import TraceOptions
from isa import Program


class Device:
    """A simulated GPU.

    gpu, overrides, threads: as for `gpusim.simulate`. memory_bytes: device memory that can be allocated at once,
    None for all that the GPU has.
    unified, base: see `DeviceMemory`.
    check: what else to look for in every launch, as for `gpusim.simulate`; what a kernel reads from a `device_array`
    that nothing has written is found here alone, since arrays of NumPy have contents.
    mode: of every launch, as for `gpusim.simulate`; sampled ones compute all outputs.
    traces: as for `gpusim.simulate`, of all launches and copies to the device.
    """

    def __init__(
        self,
        gpu: str | Path | GPUConfig = "h200",
        *,
        overrides: Mapping[str, Any] | Sequence[str] | None = None,
        threads: int | None = None,
        memory_bytes: int | None = None,
        unified: bool = False,
        base: int = BASE,
        check: str | Iterable[str] = (),
        mode: str = "detailed",
        traces: AccelSimTraces | None = None,
    ):
        self._checks, self._mode = checks_of(check), LaunchOptions(mode=mode, traces=traces).mode
        self.traces = traces
        self.config = load_config(gpu, overrides)
        self.memory = DeviceMemory(
            memory_bytes or self.config.dram.capacity_bytes,
            follow_contents=bool(self._checks & CHECKS["initcheck"]),
            unified=unified,
            undoable=True,
            base=base,
        )
        self._machine = Machine(self.config, self.memory, host_threads(threads))
        self.modules, self.calls = self._machine.modules, self._machine.calls

    def to_device(self, array: np.ndarray, label: str | None = None) -> DeviceArray:
        """Copy an array to device memory, in C order."""
        host = np.ascontiguousarray(array)
        address = self.memory.upload(host, label)
        if self.traces is not None:
            self.traces.memcpy_htod(address, host.nbytes)
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

    # many parameters: as `gpusim.simulate`, each under its own name.
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
        progress: Progress | None = None,
        trace: bool | TraceOptions | None = None,
    ) -> Result:
        """Run a kernel to its end. Device arrays stay on the device; NumPy arrays are copied there and back.

        `trace` as for `gpusim.simulate`.

        Raises what `gpusim.simulate` raises; device memory is then as it was before the launch, as it is after an
        interrupt and after an exception of `progress`.
        """
        if stream is not None and stream.device is not self:
            raise ValueError("the stream belongs to another device")
        launch = Launch(kernel, grid, block, tuple(args), shared_bytes, signature)
        program = program_of(launch, self.config.gpu.arch)
        linked = self.modules.link(program)
        traced = TraceOptions.of(trace)
        limits = max_cycles, strict_barriers, False, self._checks, progress, traced
        options = LaunchOptions(*limits, mode=self._mode, outputs=True, traces=self.traces)
        placed = place_arguments(program, launch, self.memory)
        if self.traces is not None:
            self.traces.arguments(placed)
        try:
            with self.memory.all_or_nothing():
                record = run_launch(self._machine, linked, launch, placed.parameter_bytes, options)
                self.modules.check_exception(program)
            placed.copy_back()
        finally:
            placed.release()
        return Result(record)

    def run(
        self,
        program: Program,
        launch: Launch,
        parameter_bytes: bytes,
        *,
        max_cycles: int | None = None,
        strict_barriers: bool = True,
        cooperative: bool = False,
        trace: TraceOptions | None = None,
    ) -> Result:
        """Run a linked kernel whose parameters are laid out already, as a driver does: without checks, and without a
        way back, so after an error memory holds what the kernel has written until then."""
        limit = max_cycles or DEFAULT_MAX_CYCLES
        how: dict[str, Any] = {"mode": self._mode, "outputs": True, "traces": self.traces}
        options = LaunchOptions(limit, strict_barriers, cooperative, trace=trace, **how)
        return Result(run_launch(self._machine, program, launch, parameter_bytes, options))

    def check(
        self,
        program: Program,
        launch: Launch,
        parameter_bytes: bytes,
        checks: int,
        max_cycles: int | None = None,
        cooperative: bool = False,
    ) -> None:
        """Run the same without time and with checks (flags of `checks_of`), and undo it: memory, caches and time are as
        before, and nothing is printed. Raises what the kernel's errors and the checks raise."""
        limit = max_cycles or DEFAULT_MAX_CYCLES
        options = LaunchOptions(limit, False, cooperative, checks, mode="functional")
        calls, self._machine.calls = self._machine.calls, SystemCalls(self.memory, write=lambda text: None)
        try:
            with self.memory.undone():
                run_launch(self._machine, program, launch, parameter_bytes, options)
        finally:
            self._machine.calls = calls

    @property
    def conditions(self) -> dict[int, int]:
        """Values of graphs' conditions, as kernels set them, by handle."""
        return self._machine.calls.conditions

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
        return self._machine.engine.memory_system.flush()

    @property
    def now_cycles(self) -> int:
        """Simulated time since the device was made, in SM clock cycles."""
        return int(self._machine.engine.env.now)

    def close(self) -> None:
        """End the device's host threads."""
        self._machine.close()

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
