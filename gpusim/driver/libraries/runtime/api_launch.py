"""Runtime API: what a program registers at its start, launches, attributes of kernels."""

from __future__ import annotations

import struct
from functools import partial
from typing import Any

from gpusim.driver.api import kernel as api_kernel
from gpusim.driver.api import launch as api_launch
from gpusim.driver.api.node import NODES, declare, not_empty
from gpusim.driver.caller import caller, put_pointer
from gpusim.driver.codes import DriverError, ResultCode, fail_if
from gpusim.driver.libraries.runtime.api_memory import Make, copy_1d, copy_3d, copy_from_symbol, copy_to_symbol
from gpusim.driver.objects import FatBinary, LoadedKernel
from gpusim.driver.registry import entries, entry, nothing
from gpusim.driver.state import Driver
from gpusim.driver.work import launch_attributes as A
from gpusim.driver.work.streams import COPY, Graph, StreamWork

Dim3 = tuple[int, int, int]

entries(
    ("cudaGetFuncBySymbol", "*p K", lambda driver, kernel: kernel.handle),
    ("cudaFuncSetSharedMemConfig", "K (i)", nothing),
    ("cudaKernelSetAttributeForDevice", "K i i (i)", api_kernel.set_attribute),
)


@entry("__cudaRegisterFatBinary", "=p", anytime=True)
def register_fat_binary(driver: Driver, wrapper: int) -> int:
    """The handle is the wrapper's address: a program tells what it registers before it has asked for anything."""
    driver.registered.binaries[wrapper] = FatBinary(wrapper)
    return wrapper


def _register(kind: str, driver: Driver, handle: int, symbol: int, name: int) -> None:
    """symbol: address of the host's function or variable. That of a managed one is the host's pointer to it."""
    registered = driver.registered
    table = registered.functions if kind == "Function" else registered.variables
    table[symbol] = registered.binaries[handle], name
    if kind == "ManagedVar":
        registered.binaries[handle].managed.append((symbol, name))


def _init_module(driver: Driver, handle: int) -> int:
    """Give the managed variables of a fat binary their place, before the host looks there."""
    driver.begin_runtime_call(anytime=False)
    driver.module_of(driver.registered.binaries[handle])
    return 1


def _checked(driver: Driver, function: int) -> int:
    """Return the host's function, which stands for a kernel in any context."""
    fail_if(function not in driver.registered.functions, ResultCode.INVALID_DEVICE_FUNCTION)
    return function


entries(
    ("__cudaRegisterFatBinaryEnd", "=(p)", nothing),
    ("__cudaUnregisterFatBinary", "=p", lambda driver, handle: driver.registered.forget(handle)),
    *((f"__cudaRegister{kind}", "=p p (p) p", partial(_register, kind)) for kind in ("Function", "Var", "ManagedVar")),
    ("__cudaPushCallConfiguration", "=X X q p", lambda driver, *given: driver.thread.configured.append(given)),
    ("__cudaInitModule", "=p", lambda driver, handle: _init_module(driver, handle)),
    ("__cudaGetKernel cudaGetKernel", "*p p", lambda driver, function: _checked(driver, function)),
    anytime=True,
)


# --- launches ---------------------------------------------------------------------------------------------------------


@entry("__cudaPopCallConfiguration", "p p p p", anytime=True)
def pop_configuration(driver: Driver, grid: int, block: int, shared_bytes: int, stream: int) -> None:
    fail_if(not driver.thread.configured, ResultCode.INVALID_CONFIGURATION)
    its_grid, its_block, its_shared, its_stream = driver.thread.configured.pop()
    caller().write(grid, struct.pack("<3I", *its_grid))
    caller().write(block, struct.pack("<3I", *its_block))
    put_pointer(shared_bytes, its_shared)
    put_pointer(stream, its_stream)


def _launch(attributes: dict[int, bytes], driver: Driver, function: int, grid: Dim3, block: Dim3, *rest: Any) -> None:
    """rest: parameters as C passes them, bytes of shared memory, stream."""
    parameters, shared_bytes, stream = rest
    kernel = _kernel(driver, function)
    _check_configuration(driver, grid, block)
    api_launch.launch(attributes, driver, kernel, *grid, *block, shared_bytes, stream, parameters)


entries(
    ("cudaLaunchKernel __cudaLaunchKernel", "p X X p q S", partial(_launch, {})),
    ("cudaLaunchCooperativeKernel", "p X X p q S", partial(_launch, A.COOPERATIVELY)),
)


@entry("cudaLaunchKernelExC", "p p p")
def launch_ex(driver: Driver, config: int, function: int, parameters: int) -> None:
    """config: cudaLaunchConfig_t."""
    given, _ = api_launch.read_config(config)
    _check_configuration(driver, tuple(given.grid), tuple(given.block))
    api_launch.launch_ex(driver, config, _kernel(driver, function), parameters, 0)


def _kernel(driver: Driver, function: int) -> LoadedKernel:
    """Raises INVALID_DEVICE_FUNCTION for none, and for one that is not in the program's fat binary."""
    fail_if(not function, ResultCode.INVALID_DEVICE_FUNCTION)
    try:
        return driver.kernel_of(function)
    except DriverError as error:
        if error.code == ResultCode.NOT_FOUND:
            raise DriverError(ResultCode.INVALID_DEVICE_FUNCTION, error.message) from None
        raise


def _check_configuration(driver: Driver, grid: Dim3, block: Dim3) -> None:
    """Raises INVALID_CONFIGURATION for extents that no kernel can have."""
    limits = driver.config.launch
    most = (*limits.max_grid, *limits.max_block)
    outside = any(not 0 < extent <= limit for extent, limit in zip((*grid, *block), most, strict=True))
    threads = block[0] * block[1] * block[2]
    fail_if(outside or threads > driver.config.sm.max_threads_per_block, ResultCode.INVALID_CONFIGURATION)


# --- kernels ----------------------------------------------------------------------------------------------------------

_SIZES, _NUMBERS = (1, 2, 3), (0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 14)
"""`CUfunction_attribute` in the order of `cudaFuncAttributes`: sizes of 64 bits, then ints."""


@entry("cudaFuncGetAttributes", "p p")
def function_attributes(driver: Driver, place: int, function: int) -> None:
    kernel = _kernel(driver, function)
    sizes = (api_kernel.get_attribute(driver, number, kernel) for number in _SIZES)
    numbers = (api_kernel.get_attribute(driver, number, kernel) for number in _NUMBERS)
    caller().write(place, struct.pack(f"<{len(_SIZES)}Q{len(_NUMBERS)}i", *sizes, *numbers))


def _copy(make: Make, driver: Driver, graph: Graph, *what: Any) -> StreamWork:
    return not_empty(make(driver, *what).checked())


for _number, (_name, _arguments, _make) in NODES.items():
    declare(f"cudaGraphAdd{_name}Node", _arguments, partial(_copy, copy_3d) if _number == COPY else _make)
declare("cudaGraphAddMemcpyNode1D", "p p q i", partial(_copy, copy_1d))
declare("cudaGraphAddMemcpyNodeToSymbol", "p p q q i", partial(_copy, copy_to_symbol))
declare("cudaGraphAddMemcpyNodeFromSymbol", "p p q q i", partial(_copy, copy_from_symbol))
