"""Driver API: modules and libraries (the same thing here), their kernels and variables."""

from __future__ import annotations

import ctypes
from pathlib import Path

from gpusim.driver.codes import Code, DriverError
from gpusim.driver.images import read_image
from gpusim.driver.modules import Kernel, Module
from gpusim.driver.registry import function, get_text, put_int, put_pointer, put_size
from gpusim.driver.state import Driver
from gpusim.errors import SymbolError

_names: dict[str, ctypes.Array] = {}


def kernel_of(driver: Driver, handle: int) -> Kernel:
    """The kernel of a handle. Raises INVALID_HANDLE."""
    kernel = driver.context().kernels.get(handle)
    if kernel is None:
        raise DriverError(Code.INVALID_HANDLE)
    return kernel


def _module_of(driver: Driver, handle: int) -> Module:
    module = driver.context().modules.get(handle)
    if module is None:
        raise DriverError(Code.INVALID_HANDLE)
    return module


def _load(driver: Driver, handle: int, image: int) -> None:
    put_pointer(handle, Module.load(driver, read_image(image, driver.config)).handle)


def _load_file(driver: Driver, handle: int, path: int) -> None:
    try:
        content = Path(get_text(path)).read_bytes()
    except OSError:
        raise DriverError(Code.FILE_NOT_FOUND) from None
    image = ctypes.create_string_buffer(content)
    _load(driver, handle, ctypes.addressof(image))


@function("cuModuleLoadData", "pp")
def module_load_data(driver: Driver, handle: int, image: int) -> None:
    _load(driver, handle, image)


@function("cuModuleLoadDataEx", "ppupp")
def module_load_data_ex(
    driver: Driver, handle: int, image: int, count: int, options: int, values: int
) -> None:
    _load(driver, handle, image)


@function("cuModuleLoadFatBinary", "pp")
def module_load_fat_binary(driver: Driver, handle: int, image: int) -> None:
    _load(driver, handle, image)


@function("cuModuleLoad", "pp")
def module_load(driver: Driver, handle: int, path: int) -> None:
    _load_file(driver, handle, path)


@function("cuModuleUnload", "p")
def module_unload(driver: Driver, handle: int) -> None:
    _module_of(driver, handle).unload(driver)


@function("cuModuleGetLoadingMode", "p", anytime=True)
def loading_mode(driver: Driver, mode: int) -> None:
    put_int(mode, 2)  # lazy


@function("cuModuleGetFunction", "ppp")
def module_get_function(driver: Driver, handle: int, module: int, name: int) -> None:
    put_pointer(handle, _module_of(driver, module).kernel(driver, get_text(name)).handle)


@function("cuModuleGetGlobal_v2", "pppp")
def module_get_global(driver: Driver, address: int, nbytes: int, module: int, name: int) -> None:
    try:
        symbol = _module_of(driver, module).linked.symbol(get_text(name))
    except SymbolError:
        raise DriverError(Code.NOT_FOUND) from None
    put_pointer(address, symbol.address)
    put_size(nbytes, symbol.nbytes)


@function("cuModuleGetFunctionCount", "pp")
def module_function_count(driver: Driver, count: int, module: int) -> None:
    put_int(count, len(_module_of(driver, module).linked.kernels))


@function("cuModuleEnumerateFunctions", "pup")
def module_enumerate(driver: Driver, handles: int, room: int, module: int) -> None:
    loaded = _module_of(driver, module)
    for k, name in enumerate(loaded.linked.kernels[:room]):
        put_pointer(handles + 8 * k, loaded.kernel(driver, name).handle)


@function("cuLibraryLoadData", "ppppuppu")
def library_load_data(
    driver: Driver, handle: int, image: int, _o: int, _v: int, _n: int, _lo: int, _lv: int, _ln: int
) -> None:
    _load(driver, handle, image)


@function("cuLibraryLoadFromFile", "ppppuppu")
def library_load_file(
    driver: Driver, handle: int, path: int, _o: int, _v: int, _n: int, _lo: int, _lv: int, _ln: int
) -> None:
    _load_file(driver, handle, path)


@function("cuLibraryUnload", "p", anytime=True)
def library_unload(driver: Driver, handle: int) -> None:
    """Libraries belong to no context: they can be unloaded whichever is current."""
    context = driver.context_with_module(handle)
    context.modules[handle].unload(driver)


@function("cuLibraryGetModule", "pp")
def library_get_module(driver: Driver, module: int, handle: int) -> None:
    put_pointer(module, _module_of(driver, handle).handle)


@function("cuLibraryGetKernel", "ppp")
def library_get_kernel(driver: Driver, kernel: int, handle: int, name: int) -> None:
    module_get_function(driver, kernel, handle, name)


@function("cuLibraryGetKernelCount", "pp")
def library_kernel_count(driver: Driver, count: int, handle: int) -> None:
    module_function_count(driver, count, handle)


@function("cuLibraryEnumerateKernels", "pup")
def library_enumerate(driver: Driver, kernels: int, room: int, handle: int) -> None:
    module_enumerate(driver, kernels, room, handle)


@function("cuLibraryGetGlobal", "pppp")
def library_get_global(driver: Driver, address: int, nbytes: int, handle: int, name: int) -> None:
    module_get_global(driver, address, nbytes, handle, name)


@function("cuLibraryGetManaged", "pppp")
def library_get_managed(driver: Driver, address: int, nbytes: int, handle: int, name: int) -> None:
    module_get_global(driver, address, nbytes, handle, name)


@function("cuKernelGetFunction", "pp")
def kernel_get_function(driver: Driver, handle: int, kernel: int) -> None:
    put_pointer(handle, kernel_of(driver, kernel).handle)


@function("cuKernelGetLibrary", "pp")
def kernel_get_library(driver: Driver, handle: int, kernel: int) -> None:
    put_pointer(handle, kernel_of(driver, kernel).module.handle)


@function("cuFuncGetModule", "pp")
def function_get_module(driver: Driver, handle: int, kernel: int) -> None:
    kernel_get_library(driver, handle, kernel)


@function("cuKernelGetName", "pp")
def kernel_get_name(driver: Driver, text: int, kernel: int) -> None:
    name = kernel_of(driver, kernel).name
    kept = _names.setdefault(name, ctypes.create_string_buffer(name.encode()))
    put_pointer(text, ctypes.addressof(kept))


@function("cuFuncGetName", "pp")
def function_get_name(driver: Driver, text: int, kernel: int) -> None:
    kernel_get_name(driver, text, kernel)


@function("cuFuncIsLoaded", "pp")
def function_is_loaded(driver: Driver, state: int, kernel: int) -> None:
    kernel_of(driver, kernel)
    put_int(state, 1)


@function("cuFuncLoad", "p")
def function_load(driver: Driver, kernel: int) -> None:
    kernel_of(driver, kernel)


@function("cuKernelGetParamCount", "pp")
def kernel_parameter_count(driver: Driver, kernel: int, count: int) -> None:
    put_size(count, len(kernel_of(driver, kernel).program.parameters))


@function("cuFuncGetParamCount", "pp")
def function_parameter_count(driver: Driver, kernel: int, count: int) -> None:
    kernel_parameter_count(driver, kernel, count)


@function("cuKernelGetParamInfo", "pqpp")
def kernel_parameter_info(driver: Driver, kernel: int, index: int, offset: int, nbytes: int) -> None:
    parameters = {each.index: each for each in kernel_of(driver, kernel).program.parameters}
    if index not in parameters:
        raise DriverError(Code.INVALID_VALUE)
    put_size(offset, parameters[index].offset)
    put_size(nbytes, parameters[index].size)


@function("cuFuncGetParamInfo", "pqpp")
def function_parameter_info(driver: Driver, kernel: int, index: int, offset: int, nbytes: int) -> None:
    kernel_parameter_info(driver, kernel, index, offset, nbytes)
