"""`gpusim.Device`: a simulated GPU that keeps device memory and L2 over several launches.

The names are those of Numba and CuPy users: `to_device`, `device_array`, streams, events. Without a stream a call waits
for all streams, and returns when it is done; in a stream it returns at once, and runs beside what other streams do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.config import GPUConfig, load_config
from gpusim.engine.memory.system import PeerRow, host_row
from gpusim.engine.streams import KernelWork, StreamQueue
from gpusim.errors import ArgumentError, NodeError
from gpusim.host import options as host_options
from gpusim.host.launch_run import LaunchRun, Listener
from gpusim.host.options import CHECKS, DEFAULT_MAX_CYCLES, LaunchOptions, Progress, checks_of, host_threads
from gpusim.host.session import GpuSession
from gpusim.host.syscalls import SystemCalls
from gpusim.launch import Launch
from gpusim.launch.arguments import BoundArguments, place_arguments, program_of
from gpusim.launch.device_array import DeviceArray
from gpusim.launch.launch import AccessWindow
from gpusim.launch.memory import BASE, HOST_MEMORY, DeviceMemory, GpuMemory
from gpusim.node import Node, load_node
from gpusim.node.graphs import DeviceGraph
from gpusim.node.managed import ManagedArray, ManagedSet, Place
from gpusim.node.peer import rows_from
from gpusim.node.streams import Event, PinnedArray, Stream, StreamedArray, StreamSet
from gpusim.node.timeline import StreamTimeline
from gpusim.tracing.accel_sim import AccelSimTraces
from gpusim.tracing.recording import TraceOptions
from isa import Program


@dataclass
class _Group:
    """The GPUs of a node that are simulated together. gpus: their number so far; managed: their managed memory."""

    node: Node
    gpus: int = 0
    managed: list[ManagedSet] = field(default_factory=list)

    def next_name(self) -> str:
        """The name of the next GPU in the node, such as 'gpu0'."""
        if self.gpus == len(self.node.gpus):
            raise NodeError(f"{self.node.name} has no more than {self.gpus} GPUs")
        self.gpus += 1
        return self.node.gpus[self.gpus - 1]

    def peers(self, name: str, memory: DeviceMemory, config: GPUConfig) -> list[PeerRow]:
        """Return the arrays that lie on other GPUs than this one, and page-locked memory of the host's."""
        far = range(self.gpus) if memory.reached is None else memory.reached
        names, whole, bus = self.node.gpus, memory.by_gpu(), self.node.config.managed
        held = [(names[k], start, nbytes) for k, start, nbytes in whole if k in far and names[k] != name]
        hosts = [host_row(config, bus.bus_latency_us, bus.bus_gb_s, *each) for k, *each in whole if k == HOST_MEMORY]
        return rows_from(self.node, name, held, config) + hosts


class Device(AbstractContextManager["Device"]):
    """A simulated GPU.

    gpu, overrides, threads: as for `gpusim.simulate`. memory_bytes: device memory that can be allocated at once,
    None for all that the GPU has. unified, base: as of `DeviceMemory`.
    check: tools that watch every launch, as for `gpusim.simulate`. A read of a `device_array` that nothing has written
    is found here alone, since arrays of NumPy have contents. mode: of every launch, as for `gpusim.simulate`; sampled
    ones compute all outputs.
    accel_sim: as for `gpusim.simulate`, of all launches and copies to the device.
    node: the machine that the GPU is in, through which it reaches its host. gpus: how many of them can be full at once.
    beside: a device of the same node, with whose configuration the next GPU is made: both share one clock, their
        addresses and the node's links, so that kernels read, write and add to each other's arrays, and streams wait for
        each other's events. `gpu`, `overrides`, `memory_bytes`, `node` are the first one's then.
    """

    # many parameters: what a user may say of a GPU, each under its own name.
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
        accel_sim: AccelSimTraces | None = None,
        node: str | Path | Node = "hgx_h200",
        gpus: int = 1,
        beside: Device | None = None,
    ):
        self._checks, self._mode = checks_of(check), LaunchOptions(mode=mode, accel_sim=accel_sim).mode
        if mode == "once" and gpus > 1:  # launches of several GPUs wait for each other
            self._mode = "detailed"
        self._first: Device | None = None
        self.window: AccessWindow | None = None
        self.set_aside_bytes: int | None = None
        self._stream_set: StreamSet | None = None
        self._managed: ManagedSet | None = None
        self.accel_sim = accel_sim
        if beside is not None:
            self._join(beside, threads)
            return
        self.config = load_config(gpu, overrides)
        self.memory = DeviceMemory(
            memory_bytes or self.config.dram.capacity_bytes,
            follow_contents=bool(self._checks & CHECKS["initcheck"]),
            unified=unified,
            undoable=True,
            base=base,
            gpus=gpus,
        )
        self._group = _Group(load_node(node))
        self._open(host_threads(threads), None)

    def _join(self, beside: Device, threads: int | None) -> None:
        """Become the next GPU of another one's node."""
        first = self._first = beside._first or beside
        self.config, self._group = first.config, first._group
        self.memory = GpuMemory(first.memory, self._group.gpus)
        self._checks, self._mode, self.accel_sim = first._checks, first._mode, None
        self._open(host_threads(threads), first._session)

    def _open(self, threads: int, beside: GpuSession | None) -> None:
        self._node, self.name = self._group.node, self._group.next_name()
        # Nothing of it refers to the device, whose memory is given back as soon as nobody has it any more.
        peers = partial(self._group.peers, self.name, self.memory, self.config)
        self._session = GpuSession(self.config, self.memory, threads, beside, peers)
        self.modules, self.calls = self._session.modules, self._session.calls

    def to_device(self, array: np.ndarray, label: str | None = None, stream: Stream | None = None) -> StreamedArray:
        """Copy an array to device memory, in C order."""
        host = np.ascontiguousarray(array)
        address = self.memory.upload(host, label)
        if self.accel_sim is not None:
            self.accel_sim.memcpy_htod(address, host.nbytes)
        made = self._array(address, array.shape, host.dtype)
        if self._timed:  # the bytes are there
            made.copy_to_device(array, stream)
        return made

    def device_array(self, shape: int | tuple[int, ...], dtype: Any = np.float64) -> StreamedArray:
        """A new array in device memory with undefined contents."""
        shape, kind = (shape,) if isinstance(shape, int) else tuple(shape), np.dtype(dtype)
        nbytes = int(np.prod(shape, dtype=object)) * kind.itemsize
        address = self.memory.alloc(nbytes)
        self.memory.forget(address, nbytes)
        return self._array(address, shape, kind)

    def pinned_array(self, shape: int | tuple[int, ...], dtype: Any = np.float64) -> PinnedArray:
        """A new array in page-locked host memory: copies of it in streams need nothing of the host."""
        return np.zeros(shape, dtype).view(PinnedArray)

    def managed_array(self, shape: int | tuple[int, ...], dtype: Any = np.float64) -> ManagedArray:
        """A new array of zeros in managed memory, which moves to whoever touches it (`docs/streams.md`); it takes room
        on the GPU only while it is there. Raises ArgumentError for objects, and for more than the table holds."""
        return self.managed.array((shape,) if isinstance(shape, int) else tuple(shape), np.dtype(dtype))

    @property
    def managed(self) -> ManagedSet:
        """The managed arrays, and the faults so far."""
        if self._managed is None:
            known = self._node.config.managed if self._timed else None
            self._managed = ManagedSet(self.memory, self.streams, known)
            self._group.managed.append(self._managed)
        return self._managed

    def prefetch(self, array: ManagedArray, to: Place = "device", stream: Stream | None = None) -> None:
        """Move a managed array before it is asked for; in a stream when its turn has come. Raises ArgumentError for
        another array or place."""
        self.managed.prefetch(array, to, stream)

    def advise(self, array: ManagedArray, *, read_mostly: bool | None = None, preferred: str | None = None) -> None:
        """Say how a managed array is used, as of the next launch.

        read_mostly: reads make copies, until a store makes those of others worthless. preferred: "host", kernels reach
        it there over the bus (as CUDA has it with accessed-by); "device", what happens without advice, since a host
        that cannot map the GPU's memory moves it all the same; "none". Raises ArgumentError.
        """
        self.managed.advise(array, read_mostly, preferred)

    def graph(self) -> DeviceGraph:
        """A new graph of work, which one call of the host starts."""
        return DeviceGraph(self.streams)

    def _array(self, address: int, shape: tuple[int, ...], dtype: Any) -> StreamedArray:
        made = StreamedArray(self.memory, address, shape, dtype)
        made.streams = self.streams
        return made

    @property
    def streams(self) -> StreamSet:
        if self._stream_set is None:
            beside = self._first.streams if self._first is not None else None
            self._stream_set = StreamSet(self._session.engine, self._node, self.name, beside, self._timed)
        return self._stream_set

    @property
    def _timed(self) -> bool:
        """False on a functional or a sampled device, where work of streams takes no time."""
        return self._mode in host_options.EACH_IN_TIME

    def copy(self, target: StreamedArray, source: StreamedArray, stream: Stream | None = None) -> None:
        """Copy an array of this GPU to another one, of this GPU or of one beside it, with the same shape and dtype; in
        a stream of this GPU when its turn has come."""
        if (target.shape, target.dtype) != (source.shape, source.dtype):
            raise ArgumentError(f"{target} does not match {source}")
        if stream is None:
            self.streams.drain()
        queue = stream.queue if stream is not None else self._session.engine.main
        ends = source.streams.gpu, target.streams.gpu
        work = self.streams.copy_between(
            queue, *ends, source.nbytes, True, lambda: np.copyto(target.host_view, source.host_view)
        )
        if stream is None:
            self.streams.wait(work.done)

    def free(self, array: DeviceArray) -> None:
        """Give an array's memory back; using it afterwards is an error."""
        self.memory.free(array.address)
        if isinstance(array, ManagedArray):
            self.managed.freed(array)

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
        programmatic: bool = False,
        signature: Any = None,
        max_cycles: int | None = DEFAULT_MAX_CYCLES,
        strict_barriers: bool = True,
        progress: Progress | None = None,
        trace: bool | TraceOptions | None = None,
    ) -> Any:
        """Run a kernel to its end. Device arrays stay on the device; NumPy arrays are copied there and back.

        `trace` as for `gpusim.simulate`. Returns a `Result`; in a stream, where the kernel is run when its turn has
        come, its `LaunchRun`, whose `result` waits. programmatic: the kernel may begin when all blocks of the one right
        before it in the stream have executed `griddepcontrol.launch_dependents` or ended, and has
        `griddepcontrol.wait` to wait for its end (CUDA's programmatic stream serialization).

        Raises what `gpusim.simulate` raises; device memory is then as it was before the launch, as it is after an
        interrupt and after an exception of `progress`.
        """
        if stream is not None and stream.of is not self.streams:
            raise ValueError("the stream belongs to another device")
        launch = Launch(kernel, grid, block, args, shared_bytes, signature)
        program = program_of(launch, self.config.gpu.arch)
        linked = self.modules.link(program)
        options = LaunchOptions(
            max_cycles=max_cycles,
            strict_barriers=strict_barriers,
            checks=self._checks,
            progress=progress,
            trace=TraceOptions.of(trace),
            window=self.window,
            programmatic=programmatic,
        )
        if stream is None:
            self.synchronize()
        placed = place_arguments(program, launch, self.memory)
        if self.accel_sim is not None:
            self.accel_sim.arguments(placed)
        if stream is not None:
            run = self.submit(linked, launch, placed.parameter_bytes, options, stream, placed)
            run.on_end.append(lambda _: placed.release())
            return run
        try:
            with self.memory.all_or_nothing():
                return self.submit(linked, launch, placed.parameter_bytes, options, None, placed).result
        finally:
            placed.release()

    # many parameters: what a driver knows of a launch.
    def submit(
        self,
        program: Program,
        launch: Launch,
        parameter_bytes: bytes,
        options: LaunchOptions | None = None,
        stream: Stream | StreamQueue | None = None,
        placed: BoundArguments | None = None,
        listeners: tuple[Listener, ...] = (),
    ) -> LaunchRun:
        """Put a linked kernel whose parameters are laid out into a stream; without one, behind the work of all streams.

        options: how it is run, in the device's mode. placed: as for `LaunchRun`. listeners: to its start, to its end.
        Whoever waits for any stream gets the errors of launches in a `Stream`; of one in a `StreamQueue` the caller
        looks at `error`. Raises LaunchError, and SimulationError if it cannot run.
        """
        options = replace(options or LaunchOptions(), mode=self._mode, outputs=True, accel_sim=self.accel_sim)
        if stream is None:
            self.synchronize()
        if self._managed is not None:
            self._managed.begin()
        submitted = int(self.streams.call(self._node.config.host.launch_call_us)) if stream is not None else 0
        run = LaunchRun(self._session, program, launch, parameter_bytes, options, placed)
        run.on_start, run.on_end = [*listeners[:1]], [*listeners[1:]]
        queue = stream.queue if isinstance(stream, Stream) else stream
        run.submit(queue, submitted, self.streams.wait if stream is not None else None)
        if isinstance(stream, Stream):
            self.streams.launched(run)
        return run

    def room_for(self, launch: Launch, queue: StreamQueue) -> KernelWork:
        """A kernel that only takes room from others, see `Engine.room_for`."""
        run = LaunchRun(self._session, launch.kernel, launch, b"", LaunchOptions(max_cycles=None))
        return self._session.engine.room_for(run, queue)

    def check(self, program: Program, launch: Launch, parameter_bytes: bytes, options: LaunchOptions) -> None:
        """Run the same without time and with the options' checks, and undo it: memory, caches and time are as before,
        and nothing is printed. Raises what the kernel's errors and the checks raise."""
        calls, self._session.calls = self._session.calls, SystemCalls(self.memory, write=lambda text: None)
        try:
            with self.memory.undone():
                how = replace(options, mode="functional")
                LaunchRun(self._session, program, launch, parameter_bytes, how).run_now()
        finally:
            self._session.calls = calls

    def stream(self, priority: int = 0) -> Stream:
        """A new stream. priority: as CUDA counts, 0 is the lowest and -5 the highest."""
        return Stream(self.streams, self._session.engine.stream(priority))

    def event(self) -> Event:
        """A new event, not yet recorded."""
        return Event(self.streams)

    def synchronize(self) -> None:
        """Wait for the work of all streams. Raises what a launch has ended with."""
        self.streams.drain()

    def timeline(self) -> StreamTimeline:
        """Return what streams, copy engines, page faults and links have done so far, of all GPUs beside this one."""
        return StreamTimeline.of(self.streams, self._group.managed)

    def flush_l2(self, filled: bool = False) -> int:
        """Empty L2 as Nsight Compute does before a launch, or as a fill of its size does; return bytes written back."""
        return self._session.engine.memory_system.flush(filled)

    def set_aside_l2(self, nbytes: int) -> int:
        """Set aside so many bytes of L2 for lines that persist, as `cudaLimitPersistingL2CacheSize` does.

        Returns the bytes that are set aside: whole ways of its sets. Raises LaunchError for more than
        `config.l2.persisting_max_bytes`.
        """
        self.set_aside_bytes = self._session.engine.memory_system.set_aside(nbytes)
        return self.set_aside_bytes

    def access_policy(
        self, array: DeviceArray | None, hit_ratio: float = 1.0, hit: str = "persisting", miss: str = "streaming"
    ) -> None:
        """Say what L2 is to do with the lines of an array in the launches that follow; None: nothing in particular.

        hit_ratio: share of its lines, 0 to 1, that are `hit`; the others are `miss`. Which ones is a hash of their
        addresses. hit, miss: "persisting" (kept in what is set aside; `hit` only), "normal" or "streaming" (given up
        first). Raises LaunchError for other values, and for more bytes than `config.l2.window_max_bytes`.
        """
        window = None
        if array is not None:
            window = AccessWindow(array.address, array.nbytes, hit_ratio, hit, miss)
            window.check(self.config)
        self.window = window

    def reset_persisting(self) -> None:
        """Make all lines of L2 that persist normal ones, as `cudaCtxResetPersistingL2Cache` does."""
        self._session.engine.memory_system.reset_persisting()

    @property
    def now_cycles(self) -> int:
        """Simulated time since the device was made, in SM clock cycles."""
        return int(self._session.engine.env.now)

    def pass_time(self, cycle: int) -> None:
        """Let time pass until a cycle, if it is still to come."""
        if self._timed and cycle > self.now_cycles:
            self.streams.wait(self._session.engine.env.timeout(cycle - self.now_cycles))

    def close(self) -> None:
        """End the device's host threads."""
        self._session.close()

    def __exit__(self, *_: object) -> None:
        self.close()
