"""Driver API: modules and libraries (the same thing here), their kernels and variables."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from gpusim.driver.caller import caller, constant_text, put_pointer
from gpusim.driver.codes import DriverError, ResultCode, fail_if, known
from gpusim.driver.objects import LoadedKernel, LoadedModule
from gpusim.driver.registry import entries, entry, nothing
from gpusim.driver.state import Driver
from gpusim.errors import SymbolError

entries(
    ("cuModuleGetLoadingMode", "*i", lambda driver: 2),  # lazy
    anytime=True,
)
entries(
    ("cuModuleUnload", "M", lambda driver, module: module.unload()),
    ("cuModuleGetFunction", "*p M T", lambda driver, module, name: module.kernel(name).handle),
    ("cuLibraryGetKernel", "*p M T", lambda driver, module, name: module.kernel(name).handle),
    ("cuLibraryGetModule", "*p M", lambda driver, module: module.handle),
    ("cuModuleGetFunctionCount", "*i M", lambda driver, module: len(module.linked.kernels)),
    ("cuLibraryGetKernelCount", "*i M", lambda driver, module: len(module.linked.kernels)),
    ("cuKernelGetFunction", "*p K", lambda driver, kernel: kernel.handle),
    ("cuKernelGetLibrary", "*p K", lambda driver, kernel: kernel.module.handle),
    ("cuFuncGetModule", "*p K", lambda driver, kernel: kernel.module.handle),
    ("cuKernelGetName", "*p K", lambda driver, kernel: constant_text(kernel.name)),
    ("cuFuncGetName", "*p K", lambda driver, kernel: constant_text(kernel.name)),
    ("cuFuncIsLoaded", "*i K", lambda driver, kernel: 1),
    ("cuFuncLoad", "K", nothing),
    ("cuKernelGetParamCount", "K *p", lambda driver, kernel: len(kernel.program.parameters)),
    ("cuFuncGetParamCount", "K *p", lambda driver, kernel: len(kernel.program.parameters)),
)


@entry("cuModuleLoadData", "*p p")
@entry("cuModuleLoadDataEx", "*p p (upp)")
@entry("cuModuleLoadFatBinary", "*p p")
@entry("cuLibraryLoadData", "*p p (ppuppu)")
def load(driver: Driver, image: int) -> int:
    return driver.load(image).handle


@entry("cuModuleLoad", "*p T")
@entry("cuLibraryLoadFromFile", "*p T (ppuppu)")
def load_file(driver: Driver, path: str) -> int:
    try:
        content = Path(path).read_bytes()
    except OSError:
        raise DriverError(ResultCode.FILE_NOT_FOUND) from None
    return load(driver, caller().keep(content))


@entry("cuLibraryUnload", "p", anytime=True)
def library_unload(driver: Driver, handle: int) -> None:
    """Libraries belong to no context: they can be unloaded whichever is current."""
    modules = (context.modules.get(handle) for context in driver.contexts())
    known(next((module for module in modules if module is not None), None)).unload()


@entry("cuModuleGetGlobal_v2", "*p *p M T")
@entry("cuLibraryGetGlobal", "*p *p M T")
@entry("cuLibraryGetManaged", "*p *p M T")
def get_global(driver: Driver, module: LoadedModule, name: str) -> tuple[int, int]:
    """Address and bytes of a variable."""
    try:
        symbol = module.linked.symbol(name)
    except SymbolError:
        raise DriverError(ResultCode.NOT_FOUND) from None
    return symbol.address, symbol.nbytes


@entry("cuModuleEnumerateFunctions", "p u M")
@entry("cuLibraryEnumerateKernels", "p u M")
def enumerate_kernels(driver: Driver, handles: int, room: int, module: LoadedModule) -> None:
    for k, name in enumerate(islice(module.linked.kernels, room)):
        put_pointer(handles + 8 * k, module.kernel(name).handle)


@entry("cuKernelGetParamInfo", "K q *p *p")
@entry("cuFuncGetParamInfo", "K q *p *p")
def parameter_info(driver: Driver, kernel: LoadedKernel, index: int) -> tuple[int, int]:
    """Offset and bytes of a parameter."""
    parameters = {each.index: each for each in kernel.program.parameters}
    fail_if(index not in parameters, ResultCode.INVALID_VALUE)
    return parameters[index].offset, parameters[index].size
