"""The driver's state: the simulated device, contexts, memory by kind, and the objects behind handles.

One `Driver` serves a process. Handles are numbers that only the driver can interpret, as on hardware; each belongs to
a context and dies with it. Work of streams goes into those of the device (`queues`). Where there is no clock, it is
done when the call returns that asks for it, unless it is behind a function of the host.

More than 500 lines: handles, memory, work and the processes that share them refer to each other, and a call may need
any of them.
"""

from __future__ import annotations

import copy
import itertools
import math
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim.config import GPUConfig, load_config
from gpusim.driver import attributes as A
from gpusim.driver import objects
from gpusim.driver.caller import caller, put_pointer, text
from gpusim.driver.codes import DriverError, ResultCode, fail_if, known, say
from gpusim.driver.images import read_image, read_others
from gpusim.driver.objects import Buffer, CallingThread, Context, DriverGpu, FatBinary, LoadedKernel, LoadedModule
from gpusim.driver.outputs.log import LaunchLog
from gpusim.driver.outputs.outputs import Telling
from gpusim.driver.work import streams as S
from gpusim.driver.work.launches import CopyCall
from gpusim.driver.work.processes import SharedTime
from gpusim.driver.work.streams import Capture, DriverEvent, DriverStream, Executable, Graph, StreamWork, new_handle
from gpusim.errors import NodeError, OutOfDeviceMemory, SimulationError
from gpusim.host.options import LaunchOptions
from gpusim.launch.memory import EVERYBODY, HOST_MEMORY
from gpusim.launch.module import LinkedModule
from gpusim.node import load_node, node_with

if TYPE_CHECKING:
    from gpusim.device import Device
    from gpusim.driver.work.queues import WorkQueues

RELEASE_THRESHOLD = 4  # CUmemPool_attribute
_ENDS_SECONDS = 5.0

_STATIC_RUNTIME = (
    "a CUDA runtime of the vendor's, such as the static one that nvcc links by default, works with the vendor's driver "
    "alone: link the program with nvcc --cudart shared"
)


def visible(gpus: Sequence[DriverGpu], named: str | None) -> list[DriverGpu]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves, in its order: numbers, or how a UUID begins, up to the first that is
    neither. None if one is named twice."""
    found = list(gpus)
    if named is not None:
        found = []
        for word in map(str.strip, named.split(",")):
            fits = [each for each in gpus if word.startswith("GPU-") and A.uuid_text(each.number).startswith(word)]
            if word.isdigit() and int(word) < len(gpus):
                fits = [gpus[int(word)]]
            if len(fits) != 1:
                break
            found += fits
        found = found if len({*map(id, found)}) == len(found) else []
    for ordinal, each in enumerate(found):
        each.ordinal = ordinal
    return found


class Driver:
    """The driver's state for a process. Callers hold `lock`. gpu, overrides, threads: as for `gpusim.simulate`.
    telling: what is to be told of launches; `observers`, to which others may be added before the program starts, hear
    of all that it does. gpus: how many of a node's GPUs there are; where there are several, the program's processes
    share them, and `beside` makes what serves another. node: `node_with` the GPU by default. address_of: finds the
    functions of the library that this driver stands behind. time, joint: shared with the others: how time passes, and
    objects of libraries, by what keeps them.
    """

    def __init__(
        self,
        gpu: str | Path | GPUConfig = "h200",
        overrides: Mapping[str, Any] | Sequence[str] | None = None,
        threads: int | None = None,
        memory_bytes: int | None = None,
        max_cycles: int | None = None,
        mode: str = "detailed",
        telling: Telling | None = None,
        gpus: int = 1,
        node: str | Path | None = None,
    ):
        self.config = load_config(gpu, overrides)
        self.telling = telling or Telling()
        self.memory_bytes = memory_bytes or self.config.dram.capacity_bytes
        self.max_cycles = max_cycles
        self.lock = threading.RLock()
        self.log = LaunchLog(self.config, timed=mode != "functional")
        self.address_of: Callable[[str], int | None] = lambda symbol: None
        self.node = load_node(node) if node is not None else node_with(gpu)
        if not 0 < gpus <= len(self.node.gpus):
            raise NodeError(f"{self.node.name} has {len(self.node.gpus)} GPUs, not {gpus}")
        self.is_shared = gpus > 1
        self.devices: list[Device] = []  # that simulate the first GPUs of the node
        if self.is_shared:
            from gpusim.driver.outputs.gpus import GpuLog

            self.log.gpus = GpuLog(self.config, self.devices)
        self.observers = self.telling.observers(self.config, mode, self.log.gpus)
        self.time, self.joint = SharedTime(self.lock), dict[Any, Any]()
        self._buffer_numbers = itertools.count(1)
        self._threads, self._mode = threads, LaunchOptions(mode=mode).mode
        self.told: set[str] = set()
        self.drivers: list[Driver] = []
        self._begin(gpus)

    def beside(self) -> Driver:
        """A driver for another process of the program."""
        made = copy.copy(self)
        made.observers = list(self.observers)
        made._begin(len(self.gpus))
        return made

    def _begin(self, gpus: int) -> None:
        """Make what is the process's own."""
        self.drivers.append(self)
        self.at_end: list[Callable[[], object]] = []
        self.gpus = [DriverGpu(number, number) for number in range(gpus)]
        self.visible = self.gpus
        self.initialized = self.left_to_parent = False
        self.around_call: Callable[[Any], AbstractContextManager[None]] = lambda point: nullcontext()
        self.others: dict[int, Context] = {}
        self.pools = {gpu.default_pool.handle: gpu.default_pool for gpu in self.gpus}
        self.graphs: dict[int, Graph] = {}
        self.captures: list[Capture] = []
        self.executables: dict[int, Executable] = {}
        self.linkings: dict[int, list[tuple[str, bytes]]] = {}  # (name, content) of what is to be linked
        self.interrupted = False
        self.runtime_refused = False
        self.managed = 0
        self._threads_seen: defaultdict[int, CallingThread] = defaultdict(CallingThread)
        self.registered = objects.Registrations()
        self.kept: dict[Any, Any] = {}  # by what keeps it: objects of libraries above the driver
        self.queues: WorkQueues | None = None
        self.calls, self.callers = 0, list[None]()  # how often somebody has called or returned, and who has not
        self.serving = dict[int, bool]()  # by thread for a served process: whether that does not know its call's end
        self._host_thread: ThreadPoolExecutor | None = None

    @property
    def gpu(self) -> DriverGpu:
        """The GPU of the current context; without one, the first."""
        return self.stack[-1].gpu if self.stack else (self.visible or self.gpus)[0]

    @property
    def device(self) -> Device:
        """What simulates the current GPU."""
        return self.simulated(self.gpu)

    def simulated(self, gpu: DriverGpu) -> Device:
        """What simulates a GPU, made when first used: programs that only ask for its properties need no engine."""
        while len(self.devices) <= gpu.number:  # as a node's GPUs come one after the other
            self.devices.append(self._next_device())
        if self.queues is None:
            from gpusim.driver.work.queues import WorkQueues

            if not caller().map(*self.devices[0].memory.shared_range):
                raise DriverError(ResultCode.OUT_OF_MEMORY, "the program's address space has no room for device memory")
            self.queues = WorkQueues(self)
        return self.devices[gpu.number]

    def _next_device(self) -> Device:
        from gpusim.device import Device

        if self.devices:
            made = Device(beside=self.devices[0], threads=self._threads)
        else:
            made = Device(
                self.config, threads=self._threads, memory_bytes=self.memory_bytes, unified=True, mode=self._mode,
                check=self.telling.check, node=self.node, gpus=len(self.gpus),
            )  # fmt: skip
            made.streams.host = self.time.host
            if self.is_shared:
                step = math.lcm(self.config.dram.refresh_interval_cycles, self.config.sm.sub_partitions)
                self.time.host.env, self.time.host.step = made.streams.env, step
            for each in self.observers:
                each.began(made)
        made.streams.waits = self.time.wait
        made.memory.reach(frozenset())
        return made

    @property
    def now_cycles(self) -> int:
        """Simulated time, in SM clock cycles."""
        return self.devices[0].now_cycles if self.devices else 0

    @property
    def host_cycles(self) -> int:
        """The host thread's time, which is ahead of the simulation where streams have work left, in SM clock cycles."""
        return max(self.now_cycles, round(self.time.host.time))

    def reaches(self, gpu: DriverGpu, peer: DriverGpu) -> bool:
        """Return whether kernels of a GPU could access the memory of another."""
        return peer.number in self.node.peers_of(gpu.number)

    def reach(self, peer: DriverGpu, yes: bool = True) -> None:
        """Let kernels of the current GPU access the memory of another, or no longer."""
        (self.gpu.reached.add if yes else self.gpu.reached.discard)(peer)
        self.renew_reach(self.gpu)

    def renew_reach(self, gpu: DriverGpu) -> None:
        """Let kernels of a GPU access what any process lets them: memory of enabled peers, and what was opened."""
        memory = self.simulated(gpu).memory
        gpus = {each.number for driver in self.drivers for each in driver.gpus[gpu.number].reached}
        for context in (each for driver in self.drivers for each in driver.contexts() if each.gpu.number == gpu.number):
            gpus |= {memory.owner(each.address) for each in context.buffers.values() if each.opened}
        memory.reach(frozenset(gpus))

    # --- what handles stand for ---------------------------------------------------------------------------------------

    @property
    def thread(self) -> CallingThread:
        """The calling thread's own. By the system's number: a thread that C made is a new one to Python in each call,
        and `threading.local` forgets it in between."""
        return self._threads_seen[threading.get_native_id()]

    @property
    def stack(self) -> list[Context]:
        """The calling thread's contexts, the current one last."""
        return self.thread.contexts

    def context(self) -> Context:
        """The current context. Raises INVALID_CONTEXT."""
        fail_if(not self.stack, ResultCode.INVALID_CONTEXT)
        return self.stack[-1]

    def contexts(self) -> tuple[Context, ...]:
        """All contexts."""
        return *(each.primary for each in self.gpus), *self.others.values()

    def context_of(self, handle: int) -> Context:
        """The context of a handle. Raises INVALID_CONTEXT."""
        found = (each for each in self.contexts() if each.handle == handle)
        return known(next(found, None), ResultCode.INVALID_CONTEXT)

    def gpu_of(self, ordinal: int) -> DriverGpu:
        """The GPU of a number. Raises NO_DEVICE, NOT_INITIALIZED, INVALID_DEVICE."""
        fail_if(not self.initialized, ResultCode.NOT_INITIALIZED)
        fail_if(not self.visible, ResultCode.NO_DEVICE)
        fail_if(not 0 <= ordinal < len(self.visible), ResultCode.INVALID_DEVICE)
        return self.visible[ordinal]

    def stream_of(self, handle: int, context: Context | None = None) -> DriverStream:
        """The stream of a handle: a default one of a context (None: the current one), or any context's. Raises
        INVALID_HANDLE."""
        context = context or self.context()
        streams, gpu, own = context.streams, context.gpu, handle == 0 and self.thread.has_own_default
        if own or handle == S.OF_EACH_THREAD:
            key = S.OF_EACH_THREAD, threading.get_native_id()
            return streams.setdefault(key, DriverStream(gpu, handle=S.OF_EACH_THREAD, shown_handle=new_handle()))
        if handle in S.NO_ORIGIN:
            return streams.setdefault(handle, DriverStream(gpu, handle=handle))
        return known(self.owned("streams", handle))

    def event_of(self, handle: int) -> DriverEvent:
        """The event of a handle, of any context. Raises INVALID_HANDLE."""
        return known(self.owned("events", handle))

    def owned(self, kind: str, handle: int) -> Any:
        """What any context has by a handle, None if there is none: "streams", "events" or "modules"."""
        return next((found for each in self.contexts() if (found := getattr(each, kind).get(handle)) is not None), None)

    def kernel_of(self, handle: int) -> LoadedKernel:
        """The kernel of a handle, or of the host's function that stands for it. Raises INVALID_HANDLE."""
        kernel = self.context().kernels.get(handle)
        if kernel is None:
            binary, name = known(self.registered.functions.get(handle))
            kernel = self.module_of(binary).kernel(text(name))
        return kernel

    def variable_of(self, address: int) -> tuple[int, int]:
        """Address and bytes of the device's variable that one of the host's stands for. Raises INVALID_SYMBOL."""
        binary, name = known(self.registered.variables.get(address), ResultCode.INVALID_SYMBOL)
        symbol = self.module_of(binary).linked.symbol(text(name))
        return symbol.address, symbol.nbytes

    def module_of(self, binary: FatBinary) -> LoadedModule:
        """A registered fat binary's module in the current context, loaded when first asked for."""
        context = self.context()
        module = binary.modules.get(context.handle)
        if module is None or module.handle not in context.modules:
            module = binary.modules[context.handle] = self.load(binary.handle)
            for place, name in binary.managed:
                put_pointer(place, module.linked.symbol(text(name)).address)
        return module

    def load(self, image: int) -> LoadedModule:
        """Place the cubin of an image (`images`) in device memory."""
        return self.place(read_image(image, self.config), read_others(image) if self.telling.save else ())

    def place(self, cubin: bytes, others: Sequence[bytes] = ()) -> LoadedModule:
        """Place a cubin in device memory. others: what it is for other GPUs: PTX, CUDA C++, cubins. Raises
        INVALID_IMAGE."""
        try:
            linked = LinkedModule(cubin, self.device.memory)
        except SimulationError as error:
            raise DriverError(ResultCode.INVALID_IMAGE, f"the module cannot be loaded: {error}") from None
        return LoadedModule(self.context(), linked, [each for each in others if each != cubin])

    def begin_runtime_call(self, anytime: bool) -> None:
        """Do what the runtime does before a call: the device's primary context is current if none was made so. Raises
        NOT_INITIALIZED in a process whose parent had begun, NO_DEVICE if there is none for it."""
        fail_if(self.left_to_parent, ResultCode.NOT_INITIALIZED)
        if not self.initialized:
            self.initialized, self.visible = True, visible(self.gpus, caller().environment("CUDA_VISIBLE_DEVICES"))
        if not anytime and not self.stack:
            self.use(self.gpu_of(0))

    def use(self, gpu: DriverGpu) -> None:
        """Let a GPU's primary context be the calling thread's current one."""
        gpu.references = max(gpu.references, 1)
        self.stack[-1:] = [gpu.primary]

    def clear(self, context: Context) -> None:
        """Give back everything that a context owns, and its error."""
        self.wait_for_all(context.gpu)
        for buffer in list(context.buffers.values()):
            self.free(buffer)
        for module in list(context.modules.values()):
            module.unload()
        for owned in (context.kernels, context.streams, context.events, context.limits):
            owned.clear()
        context.failed = None

    def not_in_captures(self, relaxed: bool = False) -> None:
        """A call that might wait for captured work ends captures that watch for it. relaxed: it ends those that watch
        for nothing as well. Raises STREAM_CAPTURE_UNSUPPORTED."""
        watching = [
            each
            for each in self.captures
            if relaxed or each.mode == S.GLOBAL or (each.mode == S.OF_THREAD and each.thread == threading.get_ident())
        ]
        if relaxed or self.thread.capture_mode != S.RELAXED:
            self._end_captures(watching, ResultCode.STREAM_CAPTURE_UNSUPPORTED)

    def not_in_implicit(self, stream: DriverStream) -> None:
        """A call on the legacy stream ends captures of streams that wait for that. Raises STREAM_CAPTURE_IMPLICIT."""
        self._end_captures(self.captures_waiting_for(stream), ResultCode.STREAM_CAPTURE_IMPLICIT)

    def captures_waiting_for(self, stream: DriverStream) -> list[Capture]:
        """Captures with a stream that waits for this one, if it is the legacy stream."""
        if stream.handle not in S.NO_ORIGIN:
            return []
        blocking = [each for each in self.captures if any(not one.flags & S.NON_BLOCKING for one in each.streams)]
        return [each for each in blocking if any(one.gpu is stream.gpu for one in each.streams)]

    @staticmethod
    def _end_captures(captures: Sequence[Capture], code: ResultCode) -> None:
        for each in captures:
            each.valid = False
        fail_if(captures, code)

    # --- memory -------------------------------------------------------------------------------------------------------

    def allocate(self, nbytes: int, kind: str, flags: int = 0, pool: objects.MemoryPool | None = None) -> int:
        """Address of new memory. Raises INVALID_VALUE for no bytes, OUT_OF_MEMORY."""
        fail_if(nbytes == 0, ResultCode.INVALID_VALUE)
        number, context = next(self._buffer_numbers), self.context()
        memory = self.device.memory if pool is None else self.simulated(self.gpus[pool.gpu]).memory
        if pool is not None:
            pool.take(nbytes)
        try:
            owner = {objects.HOST: HOST_MEMORY, objects.MANAGED: EVERYBODY}.get(kind)
            address = memory.alloc(nbytes, f"{kind} allocation {number}", owner=owner)
        except (OutOfDeviceMemory, MemoryError, OverflowError):
            if pool is not None:
                pool.give_back(nbytes)
            raise DriverError(ResultCode.OUT_OF_MEMORY) from None
        memory.host_writes |= kind != objects.DEVICE
        if kind == objects.DEVICE:  # what the host reaches directly may have contents that nobody sees coming
            memory.forget(address, nbytes)
        context.buffers[address] = Buffer(context, address, nbytes, kind, flags, number, pool=pool)
        return address

    def register(self, address: int, nbytes: int, flags: int) -> None:
        """Make memory of the host known. Raises HOST_MEMORY_ALREADY_REGISTERED, INVALID_VALUE."""
        self.not_in_captures()
        fail_if(nbytes == 0 or address == 0, ResultCode.INVALID_VALUE)
        number, context = next(self._buffer_numbers), self.context()
        memory = self.device.memory
        visible = address > memory.base and caller().share(address, nbytes)
        for known_one in self._buffers():
            if known_one.address < address + nbytes and address < known_one.address + known_one.nbytes:
                again = known_one.kind == objects.REGISTERED
                raise DriverError(ResultCode.HOST_MEMORY_ALREADY_REGISTERED if again else ResultCode.INVALID_VALUE)
        if visible:
            memory.adopt(address, nbytes, f"registered memory {number}")
        context.buffers[address] = Buffer(context, address, nbytes, objects.REGISTERED, flags, number, visible)

    def free(self, buffer: Buffer) -> None:
        """Forget a buffer."""
        del buffer.context.buffers[buffer.address]
        if buffer.pool is not None:
            buffer.pool.give_back(buffer.nbytes)
        if buffer.visible and not buffer.opened:
            self.device.memory.free(buffer.address)

    def copied(self, copy: CopyCall, began: int) -> None:
        """Tell of a copy or a fill, see `Observer.copied`."""
        for each in self.observers:
            each.copied(copy, self.now_cycles, began)

    def buffer_at(self, address: int) -> Buffer | None:
        """The buffer that an address lies in."""
        for context in self.contexts():
            if address in context.buffers:
                return context.buffers[address]
        return next((b for b in self._buffers() if b.address <= address < b.address + b.nbytes), None)

    def gpu_at(self, address: int) -> DriverGpu:
        """The GPU whose memory an address lies in; the first, if it is the host's."""
        memory = self.device.memory
        held = memory.holding(address)
        return self.gpus[max(memory.owner(held.address), 0) if held is not None else 0]

    def is_device_memory(self, address: int) -> bool:
        """Return whether the device's own memory lies at an address, managed memory included."""
        buffer = self.buffer_at(address)
        if buffer is None:  # perhaps a module's variable
            return self.device.memory.holding(address) is not None
        return buffer.kind in (objects.DEVICE, objects.MANAGED)

    def trim_pools(self) -> None:
        """Let pools, when the host has waited for work, give back what is free beyond their threshold."""
        for pool in self.pools.values():
            pool.trim(pool.attributes.get(RELEASE_THRESHOLD, 0))

    def _buffers(self) -> Iterable[Buffer]:
        return (buffer for context in self.contexts() for buffer in context.buffers.values())

    def tell_range(self, ended: objects.NamedRange) -> None:
        """A range of the program ends now; or a mark was set, which was never open."""
        if ended in ended.thread.ranges:
            ended.thread.ranges.remove(ended)
        for each in self.observers:
            each.ranged(ended, self.host_cycles)

    # --- work of streams, and the host's functions among it -----------------------------------------------------------

    def enqueue(self, stream: DriverStream, work: StreamWork) -> None:
        """Do work of a stream; or note it, if the stream is being captured."""
        if stream.capture is not None:
            stream.capture.add(stream, work)
        else:
            self.do(stream, work)

    def do(self, stream: DriverStream, work: StreamWork | Executable) -> None:
        """Put work, or all that is in a graph, into a stream of the device."""
        assert self.simulated(stream.gpu) and self.queues is not None  # that is made with the first
        self.thread.works = True
        stream.nvtx_range = self.thread.ranges[-1].name if self.thread.ranges else ""
        stream.correlation = self.thread.correlation
        self.queues.add(stream, work)

    def do_now(self, work: StreamWork) -> None:
        """Do work in the default stream, and wait for it. Raises STREAM_CAPTURE_UNSUPPORTED."""
        stream = self.stream_of(0).not_capturing()
        self.not_in_implicit(stream)
        self.do(stream, work)
        self.wait_for(stream)

    def wait_for(self, stream: DriverStream) -> None:
        """Wait for the work of a stream. Raises what a kernel has left."""
        if self.queues is not None:
            self.queues.wait(stream)
        self.fail_if_failed()

    def wait_for_all(self, gpu: DriverGpu | None = None) -> None:
        """Wait for the work of all streams, or of a GPU's, if that is not done already."""
        if self.queues is not None:
            self.queues.drain(gpu)

    def fail_if_failed(self) -> None:
        """Raise what a kernel has left in the current context."""
        if (failed := self.context().failed) is not None:
            raise DriverError(failed)

    def end(self) -> None:
        """The process has ended, and what it had is given back. Others of the program go on, unless a kernel runs that
        does not end soon: nobody would learn what it does."""
        alone = len(self.drivers) == 1
        if not alone:
            if self.lock.acquire(timeout=_ENDS_SECONDS):
                self.lock.release()
            else:
                for driver in self.drivers:
                    driver.interrupt()
        with nullcontext() if alone else self.lock:
            self.drivers.remove(self)
            for ended in [each for thread in self._threads_seen.values() for each in reversed(thread.ranges)]:
                self.tell_range(ended)
            if self._host_thread is not None:
                self._host_thread.shutdown(wait=False)
                self._host_thread = None
            for each in self.at_end:
                each()
            if self.queues is not None and self.drivers:
                if not self.queues.busy:
                    for context in self.contexts():
                        self.clear(context)
                self.time.leave(self.queues)

    def finish(self) -> None:
        """Do what streams have left, for which the program has not waited."""
        with self.lock, suppress(DriverError, SimulationError):
            self.wait_for_all()

    def interrupt(self) -> None:
        """End a call that waits for work, if there is one, as soon as that can stop."""
        self.interrupted = bool(self.callers)

    def stop_if_interrupted(self) -> None:
        """Raise the KeyboardInterrupt that is due; called between two events, and while a launch has no clock."""
        if self.interrupted:
            self.interrupted = False
            raise KeyboardInterrupt

    @contextmanager
    def unlocked(self) -> Iterator[None]:
        """Let others in while the host does something."""
        self.lock.release()
        try:
            yield
        finally:
            self.lock.acquire()

    def call_on_host_thread(self, call: Callable[..., object], *arguments: int) -> Future[object]:
        """Call a function of the host on the driver's thread."""
        if self._host_thread is None:
            self._host_thread = ThreadPoolExecutor(1, S.HOST_THREAD)
        try:
            return self._host_thread.submit(call, *arguments)
        except RuntimeError:  # the interpreter is about to end, and begins no threads
            done: Future[object] = Future()
            done.set_result(call(*arguments))
            return done

    def leave_to_parent(self) -> None:
        """In a process that fork made: what its parent had initialized cannot be used there, as on hardware."""
        self.lock = threading.RLock()
        self.left_to_parent = self.initialized
        self.initialized = False
        self.observers = []  # their files are the parent's
        self.queues = None
        self.callers.clear()

    def close(self) -> None:
        """End the threads, if they are this process's, and tell what is still to be told."""
        if self.left_to_parent:
            return
        if self in self.drivers:
            self.end()
        observers, self.observers = self.observers, []
        for each in observers:
            each.close()
        for device in self.devices:
            device.close()
        # Nothing else has used a device: cuda.bindings, for one, only looks.
        if not self.devices and self.runtime_refused:
            say(_STATIC_RUNTIME)
