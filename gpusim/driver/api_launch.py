"""Driver API: launches. A kernel has run when the call returns; what it did wrong stays with its context, as on
hardware, so that the calls after it return the error."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

from gpusim import errors
from gpusim.driver.api_kernel import MAX_DYNAMIC_SHARED
from gpusim.driver.caller import caller, get_pointer, get_pointers, get_uint, read
from gpusim.driver.codes import DriverError, ResultCode, fail_if
from gpusim.driver.launches import LaunchCall, perform
from gpusim.driver.objects import KERNEL, DriverStream, LoadedKernel
from gpusim.driver.registry import entry
from gpusim.driver.state import Driver
from gpusim.launch import Dim3, Launch
from isa import Program
from isa.demangle import short_name
from isa.errors import IsaError

_COOPERATIVE, _CLUSTER = 2, 4  # CUlaunchAttributeID
_ATTRIBUTE_BYTES = 72
_END, _BUFFER_POINTER, _BUFFER_SIZE = 0, 1, 2  # CU_LAUNCH_PARAM_*
_WITHOUT_OPT_IN_BYTES = 49152


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),
        ("stream", ctypes.c_uint64),
        ("attributes", ctypes.c_uint64),
        ("attribute_count", ctypes.c_uint32),
    )


def read_config(address: int) -> LaunchConfig:
    return LaunchConfig.from_buffer_copy(read(address, ctypes.sizeof(LaunchConfig)))


@entry("cuLaunchKernel", "K uuu uuu u S p p")
def launch(driver: Driver, kernel: LoadedKernel, *described: Any) -> None:
    """described: the grid's and the block's x, y and z, then what `run` takes from shared_bytes on."""
    run(driver, kernel, described[:3], described[3:6], *described[6:])


@entry("cuLaunchCooperativeKernel", "K uuu uuu u S p")
def launch_cooperative(driver: Driver, kernel: LoadedKernel, *described: Any) -> None:
    """described: as for `launch`, without `extra`."""
    run(driver, kernel, described[:3], described[3:6], *described[6:], cooperative=True)


@entry("cuLaunchKernelEx", "p K p p")
def launch_ex(driver: Driver, config: int, kernel: LoadedKernel, parameters: int, extra: int) -> None:
    given = read_config(config)
    cooperative = False
    cluster: Dim3 | None = None
    for k in range(given.attribute_count):
        attribute = given.attributes + _ATTRIBUTE_BYTES * k
        number = get_uint(attribute)
        if number == _COOPERATIVE:
            cooperative = bool(get_uint(attribute + 8))
        elif number == _CLUSTER:
            cluster = get_uint(attribute + 8), get_uint(attribute + 12), get_uint(attribute + 16)
    if cluster is not None and (0 in cluster or kernel.program.cluster not in (None, cluster)):
        raise DriverError(ResultCode.INVALID_CLUSTER_SIZE)
    how = given.shared_bytes, driver.stream_of(given.stream), parameters, extra
    run(driver, kernel, tuple(given.grid), tuple(given.block), *how, cooperative=cooperative, cluster=cluster)


def run(
    driver: Driver,
    kernel: LoadedKernel,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    shared_bytes: int,
    stream: DriverStream,
    parameters: int,
    extra: int = 0,
    *,
    cooperative: bool = False,
    cluster: Dim3 | None = None,
) -> None:
    """As `run_with`, with parameters and extra as C passes them: an array of pointers to the values or a list that
    names one buffer."""
    values = partial(_parameter_bytes, kernel.program, parameters, extra)
    run_with(driver, kernel, grid, block, shared_bytes, stream, values, cooperative=cooperative, cluster=cluster)


def run_with(
    driver: Driver,
    kernel: LoadedKernel,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    shared_bytes: int,
    stream: DriverStream,
    values: Callable[[], bytes],
    *,
    cooperative: bool = False,
    cluster: Dim3 | None = None,
) -> None:
    """Simulate a launch, in its stream, and note it. values: gives the parameter area of constant bank 0, for a launch
    that can be. cluster: blocks per cluster, where the kernel does not say. Raises INVALID_VALUE, INVALID_CLUSTER_SIZE,
    LAUNCH_OUT_OF_RESOURCES, COOPERATIVE_LAUNCH_TOO_LARGE."""
    driver.log.attempts += 1
    fail_if(0 in grid or 0 in block, ResultCode.INVALID_VALUE)
    program = kernel.program
    allowed = kernel.attributes.get(MAX_DYNAMIC_SHARED, _WITHOUT_OPT_IN_BYTES - program.static_shared_bytes)
    fail_if(shared_bytes > allowed, ResultCode.INVALID_VALUE)
    described = Launch(program, grid, block, (), shared_bytes)
    work = partial(_simulate, driver, kernel, described, values(), cooperative, cluster)
    driver.enqueue(stream, KERNEL, lambda _: work())


def _simulate(
    driver: Driver, kernel: LoadedKernel, described: Launch, values: bytes, cooperative: bool, cluster: Dim3 | None
) -> None:
    try:
        program = kernel.linked()
        if cluster is not None:
            program = program.but(cluster=cluster)
        number = driver.log.number + 1
        what = number, kernel.name, program, described, values, driver.stream_at_work, cooperative, kernel.module
        perform(driver.device, LaunchCall(*what), driver.log, driver.observers, driver.max_cycles)
    except errors.LaunchError as error:
        raise DriverError(_refusal(driver, described, cooperative, cluster is not None), str(error)) from None
    except errors.KernelError as error:
        driver.context().failed = _failure(error)
    except IsaError as error:
        raise DriverError(ResultCode.NOT_SUPPORTED, f"kernel {short_name(kernel.name)!r}: {error}") from None


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


def _refusal(driver: Driver, launch: Launch, cooperative: bool, clusters: bool) -> ResultCode:
    """The code for a launch that the GPU does not take. More threads than the kernel was compiled for are a wrong
    value, as numba-cuda's tests of launch bounds expect of hardware."""
    limits = driver.config.launch
    extents, most = (*launch.grid, *launch.block), (*limits.max_grid, *limits.max_block)
    within = all(x <= limit for x, limit in zip(extents, most, strict=True))
    threads = min(driver.config.sm.max_threads_per_block, launch.kernel.max_threads or launch.threads_per_block)
    if not within or launch.threads_per_block > threads:
        return ResultCode.INVALID_VALUE
    if clusters:
        return ResultCode.INVALID_CLUSTER_SIZE
    return ResultCode.COOPERATIVE_LAUNCH_TOO_LARGE if cooperative else ResultCode.LAUNCH_OUT_OF_RESOURCES


def _failure(error: errors.KernelError) -> ResultCode:
    """The code that later calls return after a kernel failed."""
    if isinstance(error, errors.MemoryAccessError):
        return ResultCode.MISALIGNED_ADDRESS if error.problem == "misaligned" else ResultCode.ILLEGAL_ADDRESS
    if isinstance(error, (errors.CyclesExceeded, errors.DeadlockError)):
        return ResultCode.LAUNCH_TIMEOUT
    return ResultCode.ASSERT if isinstance(error, errors.AssertionFailed) else ResultCode.LAUNCH_FAILED
