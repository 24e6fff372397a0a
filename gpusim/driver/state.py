"""What the driver knows: the simulated device, contexts, streams, events, modules, and memory by its kind.

One `Driver` serves the process. Handles are numbers that only the driver can interpret, as on hardware; each belongs to
a context and dies with it. Everything that a call asks for is finished when the call returns, in the order of the
calls: the one exception are functions of the host that a stream calls, which run on a thread of their own.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim.config import GPUConfig, load_config
from gpusim.driver.codes import Code, DriverError
from gpusim.driver.log import LaunchLog

if TYPE_CHECKING:
    from gpusim.device import Device
    from gpusim.driver.graphs import Capture, Graph, Node, UserObject
    from gpusim.driver.modules import Kernel, Module

DEVICE_COUNT = 1
DEFAULT_POOL = 0x5EED_0000_0008
"""Handle of the device's memory pool."""
DEVICE, HOST, MANAGED, REGISTERED = "device", "host", "managed", "registered"
"""Kinds of memory: cuMemAlloc, pinned host memory, managed memory, and registered memory of the host's own."""


@dataclass
class Buffer:
    """Memory that a call handed out. flags: as the caller gave them; number: the order of allocation."""

    address: int
    nbytes: int
    kind: str
    flags: int
    number: int
    visible: bool = True


@dataclass
class Context:
    """A context and what it owns. `failed` is the error of a kernel after which nothing works in it any more."""

    handle: int
    primary: bool
    flags: int = 0
    failed: Code | None = None
    modules: dict[int, Module] = field(default_factory=dict)
    kernels: dict[int, Kernel] = field(default_factory=dict)
    streams: dict[int, Stream] = field(default_factory=dict)
    events: dict[int, Event] = field(default_factory=dict)
    buffers: dict[int, Buffer] = field(default_factory=dict)
    limits: dict[int, int] = field(default_factory=dict)


@dataclass
class Stream:
    """An order of work; `host_calls` are functions of the host that it has still to call. capture: what its work goes
    into instead of being done."""

    handle: int
    flags: int
    priority: int
    host_calls: list[Future[None]] = field(default_factory=list)
    capture: Capture | None = None


@dataclass
class Event:
    """A point in simulated time, None before it is recorded; or, recorded in a capture, what comes before it there."""

    handle: int
    flags: int
    cycle: int | None = None
    captured: tuple[Capture, frozenset[Node]] | None = None


class Driver:
    """The driver's state. Callers hold `lock`. gpu, overrides, threads: as for `gpusim.simulate`."""

    def __init__(
        self,
        gpu: str | Path | GPUConfig = "h200",
        overrides: Mapping[str, Any] | Sequence[str] | None = None,
        threads: int | None = None,
        memory_bytes: int | None = None,
        max_cycles: int | None = None,
    ):
        self.config = load_config(gpu, overrides)
        self.memory_bytes = memory_bytes or self.config.dram.capacity_bytes
        self.max_cycles = max_cycles
        self.lock = threading.RLock()
        self.log = LaunchLog(self.config)
        self.initialized = self.left_to_parent = False
        self.primary = Context(self.new_handle(), primary=True)
        self.primary_references = 0
        self.others: dict[int, Context] = {}
        self.pools: dict[int, dict[int, int]] = {DEFAULT_POOL: {}}
        self.graphs: dict[int, Graph] = {}
        self.user_objects: dict[int, UserObject] = {}
        self._threads = threads
        self._device: Device | None = None
        self._stacks = threading.local()
        self._buffer_numbers = itertools.count(1)
        self._host_thread: ThreadPoolExecutor | None = None

    _handles = itertools.count(0x5EED_0000_0010, 0x10)

    def new_handle(self) -> int:
        """A new handle, unique in the process, so that a stale one is never taken for another."""
        return next(self._handles)

    @property
    def device(self) -> Device:
        """The simulated device, made when first used: programs that only ask for its properties need no engine."""
        if self._device is None:
            from gpusim.device import Device

            self._device = Device(
                self.config, threads=self._threads, memory_bytes=self.memory_bytes, unified=True
            )
        return self._device

    @property
    def now_cycles(self) -> int:
        """Simulated time, in SM clock cycles."""
        return self._device.now_cycles if self._device is not None else 0

    # --- contexts -----------------------------------------------------------------------------------------------------

    @property
    def stack(self) -> list[Context]:
        """The calling thread's contexts, the current one last."""
        if not hasattr(self._stacks, "contexts"):
            self._stacks.contexts = []
        return self._stacks.contexts

    def context(self) -> Context:
        """The current context. Raises INVALID_CONTEXT."""
        if not self.stack:
            raise DriverError(Code.INVALID_CONTEXT)
        return self.stack[-1]

    def context_of(self, handle: int) -> Context:
        """The context of a handle. Raises INVALID_CONTEXT."""
        if handle == self.primary.handle:
            return self.primary
        if handle not in self.others:
            raise DriverError(Code.INVALID_CONTEXT)
        return self.others[handle]

    def create_context(self, flags: int) -> Context:
        """A new context, which becomes current."""
        context = Context(self.new_handle(), primary=False, flags=flags)
        self.others[context.handle] = context
        self.stack.append(context)
        return context

    def clear(self, context: Context) -> None:
        """Give back everything that a context owns, and its error."""
        for address in list(context.buffers):
            self.free(context, address)
        for module in list(context.modules.values()):
            module.unload(self)
        for owned in (context.modules, context.kernels, context.streams, context.events, context.limits):
            owned.clear()
        context.failed = None

    def reset(self) -> None:
        """Destroy all contexts. Streams, modules and memory of theirs are gone; the log stays."""
        with self.lock:
            for context in (self.primary, *self.others.values()):
                self.clear(context)
            self.others.clear()
            self.graphs.clear()
            self.primary_references = 0
            self._stacks = threading.local()

    def context_with_module(self, handle: int) -> Context:
        """The context that a module was loaded in. Raises INVALID_HANDLE."""
        for context in (self.primary, *self.others.values()):
            if handle in context.modules:
                return context
        raise DriverError(Code.INVALID_HANDLE)

    def say(self, message: str) -> None:
        """Tell the user what a code alone does not say."""
        print(f"gpusim: {message}", file=sys.stderr, flush=True)

    def exchange_capture_mode(self, mode: int) -> int:
        """Set the calling thread's CUstreamCaptureMode; the one that it had."""
        before = getattr(self._stacks, "capture_mode", 0)
        self._stacks.capture_mode = mode
        return before

    # --- memory -------------------------------------------------------------------------------------------------------

    def allocate(self, nbytes: int, kind: str, flags: int = 0) -> int:
        """Address of new memory. Raises INVALID_VALUE for no bytes, OUT_OF_MEMORY."""
        from gpusim.errors import OutOfDeviceMemory

        if nbytes == 0:
            raise DriverError(Code.INVALID_VALUE)
        number = next(self._buffer_numbers)
        try:
            address = self.device.memory.alloc(nbytes, f"{kind} allocation {number}")
        except (OutOfDeviceMemory, MemoryError, OverflowError):
            raise DriverError(Code.OUT_OF_MEMORY) from None
        self.context().buffers[address] = Buffer(address, nbytes, kind, flags, number)
        return address

    def register(self, address: int, nbytes: int, flags: int) -> None:
        """Make memory of the host known. Raises HOST_MEMORY_ALREADY_REGISTERED, INVALID_VALUE."""
        if nbytes == 0 or address == 0:
            raise DriverError(Code.INVALID_VALUE)
        number = next(self._buffer_numbers)
        memory = self.device.memory
        visible = address > memory.base
        if any(b.address < address + nbytes and address < b.address + b.nbytes for b in self.buffers()):
            raise DriverError(Code.HOST_MEMORY_ALREADY_REGISTERED)
        if visible:
            memory.adopt(address, nbytes, f"registered memory {number}")
        self.context().buffers[address] = Buffer(address, nbytes, REGISTERED, flags, number, visible)

    def free(self, context: Context, address: int) -> None:
        """Forget a buffer of a context. Raises INVALID_VALUE if there is none."""
        buffer = context.buffers.pop(address, None)
        if buffer is None:
            raise DriverError(Code.INVALID_VALUE)
        if buffer.visible:
            self.device.memory.free(address)

    def buffers(self) -> list[Buffer]:
        """All buffers of all contexts."""
        return [b for context in (self.primary, *self.others.values()) for b in context.buffers.values()]

    def buffer_at(self, address: int) -> Buffer | None:
        """The buffer that an address lies in."""
        return next((b for b in self.buffers() if b.address <= address < b.address + b.nbytes), None)

    def owner(self, address: int) -> Context:
        """The context that allocated an address. Raises INVALID_VALUE."""
        for context in (self.primary, *self.others.values()):
            if address in context.buffers:
                return context
        raise DriverError(Code.INVALID_VALUE)

    # --- the host's functions in streams ------------------------------------------------------------------------------

    def call_later(self, stream: Stream, call: Any, *arguments: Any) -> None:
        """Call a function of the host for a stream, on the driver's thread, in order."""
        stream.host_calls = [each for each in stream.host_calls if not each.done()]
        stream.host_calls.append(self.call_on_host_thread(call, *arguments))

    def call_on_host_thread(self, call: Any, *arguments: Any) -> Future[None]:
        """Call a function of the host on the driver's thread."""
        if self._host_thread is None:
            self._host_thread = ThreadPoolExecutor(1, "gpusim host calls")
        return self._host_thread.submit(call, *arguments)

    def wait_for_host_calls(self, streams: Sequence[Stream]) -> None:
        """Wait until the functions that streams have to call have returned. The lock is free meanwhile."""
        waiting = [call for stream in streams for call in stream.host_calls]
        if waiting:
            self.lock.release()
            try:
                for call in waiting:
                    call.result()
            finally:
                self.lock.acquire()

    def leave_to_parent(self) -> None:
        """In a process that fork made: what its parent had initialized cannot be used there, as on hardware."""
        self.lock = threading.RLock()
        self.left_to_parent = self.initialized
        self.initialized = False

    def close(self) -> None:
        """End the threads, if they are this process's."""
        if self.left_to_parent:
            return
        if self._host_thread is not None:
            self._host_thread.shutdown(wait=False)
            self._host_thread = None
        if self._device is not None:
            self._device.close()
