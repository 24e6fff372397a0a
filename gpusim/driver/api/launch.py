"""Driver API: launches. What a kernel did wrong stays with its context, as on hardware, so that the calls after it
return the error."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from gpusim import errors
from gpusim.driver.api.kernel import CARVEOUT, MAX_DYNAMIC_SHARED, active_clusters, check_cluster
from gpusim.driver.caller import caller, get_pointer, get_pointers, read
from gpusim.driver.codes import DriverError, ResultCode, fail_if, known
from gpusim.driver.objects import STACK_LIMIT, LoadedKernel
from gpusim.driver.registry import entries, entry
from gpusim.driver.state import Driver
from gpusim.driver.work import launch_attributes as A
from gpusim.driver.work.launches import LaunchCall
from gpusim.driver.work.streams import DISABLE_TIMING, KERNEL, DriverStream, StreamWork
from gpusim.launch import Dim3, Launch
from gpusim.launch.occupancy import check_dimensions
from isa import Program
from isa.demangle import short_name
from isa.errors import SimulationError

if TYPE_CHECKING:
    from gpusim.driver.work.queues import WorkQueues

_END, _BUFFER_POINTER, _BUFFER_SIZE = 0, 1, 2  # CU_LAUNCH_PARAM_*
_WITHOUT_OPT_IN_BYTES = 49152


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig, and the runtime's, whose 64 bits of shared memory stand where the driver's has 32 and a gap."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),
        ("stream", ctypes.c_uint64),
        ("attributes", ctypes.c_uint64),
        ("attribute_count", ctypes.c_uint32),
    )


def read_config(address: int) -> tuple[LaunchConfig, dict[int, bytes]]:
    """A configuration and its attributes by number. Raises INVALID_VALUE for one that launches do not have."""
    given = LaunchConfig.from_buffer_copy(read(address, ctypes.sizeof(LaunchConfig)))
    found = {}
    rows = read(given.attributes, A.ATTRIBUTE_BYTES * given.attribute_count) if given.attribute_count else b""
    for number, value in struct.iter_unpack(f"<i4x{A.VALUE_BYTES}s", rows):
        if number:
            found[number] = A.checked(number, value, A.LAUNCH)
    return given, found


@dataclass(frozen=True, eq=False)
class KernelLaunch(StreamWork):
    """A launch of a kernel. values: its parameter area; attributes: by number."""

    driver: Driver
    kernel: LoadedKernel
    described: Launch
    values: bytes
    attributes: Mapping[int, bytes] = field(default_factory=dict)
    kind = KERNEL

    @property
    def cooperative(self) -> bool:
        return any(self.attributes.get(A.COOPERATIVE, b""))

    @property
    def cluster(self) -> Dim3 | None:
        """Blocks per cluster as the launch has them, None if it does not say."""
        return A.cluster_of(self.attributes)

    def put(self, stream: DriverStream, queues: WorkQueues) -> None:
        context = self.driver.context()
        try:
            queues.launch(stream, self._asked(stream), lambda error: setattr(context, "failed", _failure(error)))
        except errors.LaunchError as error:  # the GPU does not take it
            code = _refusal(self.described, self.cooperative, self.cluster is not None)
            raise DriverError(code, str(error)) from None
        except SimulationError as error:  # the simulator cannot run it
            what = f"kernel {short_name(self.kernel.name)!r}: {error}"
            raise DriverError(ResultCode.NOT_SUPPORTED, what) from None
        for handle in A.events_of(self.attributes):
            queues.record(stream, known(context.events.get(handle)))

    def _asked(self, stream: DriverStream) -> LaunchCall:
        """The launch, of which observers know."""
        driver, kernel, described = self.driver, self.kernel, self.described
        program = kernel.linked()
        cluster = check_cluster(driver, kernel, self.cluster, described.grid)
        if cluster is not None:
            program = program.but(cluster=cluster)
        how = stream.shown_handle, self.cooperative, kernel.module, A.window_of(self.attributes)
        call = LaunchCall(driver.log.number + 1, kernel.name, program, described, self.values, *how)
        (call.carveout,) = struct.unpack("<i", self.attributes[A.CARVEOUT])
        call.stack_bytes = driver.context().limits.get(STACK_LIMIT, call.stack_bytes)
        call.nvtx_range, call.correlation, call.gpu = stream.nvtx_range, stream.correlation, stream.gpu.number
        call.programmatic = any(self.attributes.get(A.PROGRAMMATIC, b""))
        for each in driver.observers:
            each.asked(call)
        return call


def launch(attributes: dict[int, bytes], driver: Driver, kernel: LoadedKernel, *described: Any) -> None:
    """Put a launch into a stream. described: the grid's and the block's x, y and z, bytes of shared memory, stream, and
    parameters as C passes them."""
    shared_bytes, stream, *parameters = described[6:]
    what = described[:3], described[3:6], shared_bytes, *parameters
    driver.enqueue(stream, describe(driver, kernel, *what, attributes=A.of_stream(stream.attributes) | attributes))


entries(
    ("cuLaunchKernel", "K uuu uuu u S p p", partial(launch, {})),
    ("cuLaunchCooperativeKernel", "K uuu uuu u S p", partial(launch, A.COOPERATIVELY)),
)


@entry("cuLaunchKernelEx", "p K p p")
def launch_ex(driver: Driver, config: int, kernel: LoadedKernel, parameters: int, extra: int) -> None:
    given, attributes = read_config(config)
    for handle in A.events_of(attributes):
        fail_if(not driver.event_of(handle).flags & DISABLE_TIMING, ResultCode.NOT_SUPPORTED)
    what = tuple(given.grid), tuple(given.block), given.shared_bytes, parameters, extra
    stream = driver.stream_of(given.stream)
    work = describe(driver, kernel, *what, attributes=A.of_stream(stream.attributes) | attributes)
    check_cluster(driver, kernel, work.cluster, work.described.grid)
    preferred = A.cluster_of(attributes, A.PREFERRED_CLUSTER)  # as good as the others, which are enough
    fail_if(preferred and not work.cluster, ResultCode.INVALID_CLUSTER_SIZE)
    driver.enqueue(stream, work)


def describe(
    driver: Driver,
    kernel: LoadedKernel,
    grid: Sequence[int],
    block: Sequence[int],
    shared_bytes: int,
    parameters: int = 0,
    extra: int = 0,
    *,
    values: bytes | None = None,
    attributes: Mapping[int, bytes] | None = None,
) -> KernelLaunch:
    """A launch. parameters, extra: as C passes them, an array of pointers to the values or a list that names one
    buffer; values: the parameter area in their place. Raises INVALID_VALUE for what no launch can have."""
    program = kernel.program
    allowed = kernel.attributes.get(MAX_DYNAMIC_SHARED, _WITHOUT_OPT_IN_BYTES - program.static_shared_bytes)
    fail_if(shared_bytes > allowed, ResultCode.INVALID_VALUE)
    try:
        check_dimensions(driver.config, grid, block, kernel.name)
    except errors.LaunchError as error:
        raise DriverError(ResultCode.INVALID_VALUE, str(error)) from None
    described = Launch(program, tuple(grid), tuple(block), (), shared_bytes)
    fail_if(described.threads_per_block > driver.config.sm.max_threads_per_block, ResultCode.INVALID_VALUE)
    area = _parameter_bytes(program, parameters, extra) if values is None else values
    own = {A.CARVEOUT: struct.pack("<i", kernel.attributes.get(CARVEOUT, -1))}
    return KernelLaunch(driver, kernel, described, area, {**own, **(attributes or {})})


@entry("cuOccupancyMaxActiveClusters", "*i K p")
def max_active_clusters(driver: Driver, kernel: LoadedKernel, config: int) -> int:
    """Clusters of a launch that run at once, 0 for a launch without."""
    given, attributes = read_config(config)
    cluster = check_cluster(driver, kernel, A.cluster_of(attributes), given.grid) or kernel.program.cluster
    if cluster is None:
        return 0
    return active_clusters(driver, kernel, cluster, math.prod(given.block), given.shared_bytes)


def _parameter_bytes(program: Program, parameters: int, extra: int) -> bytes:
    """The parameter area of constant bank 0."""
    if parameters:
        area = bytearray(max((each.offset + each.size for each in program.parameters), default=0))
        where = get_pointers(parameters, len(program.parameters))
        values = caller().read([(where[each.index], each.size) for each in program.parameters])
        for each, value in zip(program.parameters, values, strict=True):
            area[each.offset : each.offset + each.size] = value
        return bytes(area)
    found = {}
    while extra and (key := get_pointer(extra)) != _END:
        found[key] = get_pointer(extra + 8)
        extra += 16
    if _BUFFER_POINTER in found and _BUFFER_SIZE in found:
        return read(found[_BUFFER_POINTER], get_pointer(found[_BUFFER_SIZE]))
    fail_if(program.parameters, ResultCode.INVALID_VALUE)
    return b""


def _refusal(launch: Launch, cooperative: bool, clusters: bool) -> ResultCode:
    """The code for a launch that the GPU does not take. More threads than the kernel was compiled for are a wrong
    value, as numba-cuda's tests of launch bounds expect of hardware."""
    if launch.threads_per_block > (launch.kernel.max_threads or launch.threads_per_block):
        return ResultCode.INVALID_VALUE
    if clusters:
        return ResultCode.INVALID_CLUSTER_SIZE
    return ResultCode.COOPERATIVE_LAUNCH_TOO_LARGE if cooperative else ResultCode.LAUNCH_OUT_OF_RESOURCES


def _failure(error: Exception) -> ResultCode:
    """The code that later calls return after a kernel failed."""
    if isinstance(error, errors.MemoryAccessError):
        return ResultCode.MISALIGNED_ADDRESS if error.problem == "misaligned" else ResultCode.ILLEGAL_ADDRESS
    if isinstance(error, (errors.CyclesExceeded, errors.DeadlockError)):
        return ResultCode.LAUNCH_TIMEOUT
    if isinstance(error, errors.IllegalInstruction):
        return ResultCode.ILLEGAL_INSTRUCTION
    return ResultCode.ASSERT if isinstance(error, errors.AssertionFailed) else ResultCode.LAUNCH_FAILED
