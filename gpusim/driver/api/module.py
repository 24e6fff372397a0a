"""Driver API: modules and libraries (the same thing here), their kernels and variables, and linking at run time, by the
tool chain's nvlink."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from gpusim.driver.caller import caller, constant_text, put_pointer, read
from gpusim.driver.codes import DriverError, ResultCode, fail_if, known
from gpusim.driver.objects import LoadedKernel, LoadedModule
from gpusim.driver.registry import entries, entry, nothing
from gpusim.driver.state import Driver
from gpusim.driver.work.streams import new_handle
from gpusim.errors import SimulationError, SymbolError
from isa import assemble
from isa.assemble import link_objects

_SUFFIXES = (".cubin", ".ptx", ".fatbin", ".o", ".a")
"""By CUjitInputType."""

_LOADS = "cuModuleLoadData cuModuleLoadDataEx cuModuleLoadFatBinary cuLibraryLoadData"
_LOAD_FILES = "cuModuleLoad cuLibraryLoadFromFile"
entries(("cuModuleGetLoadingMode", "*i", lambda driver: 2), anytime=True)  # lazy
entries(
    (_LOADS, "*p p", lambda driver, image: driver.load(image).handle),
    (_LOAD_FILES, "*p T", lambda driver, path: driver.load(caller().keep(_content(path))).handle),
    ("cuModuleUnload", "M", lambda driver, module: module.unload()),
    ("cuModuleGetFunction cuLibraryGetKernel", "*p M T", lambda driver, module, name: module.kernel(name).handle),
    ("cuLibraryGetModule", "*p M", lambda driver, module: module.handle),
    ("cuModuleGetFunctionCount cuLibraryGetKernelCount", "*i M", lambda driver, module: len(module.linked.kernels)),
    ("cuKernelGetFunction", "*p K", lambda driver, kernel: kernel.handle),
    ("cuKernelGetLibrary cuFuncGetModule", "*p K", lambda driver, kernel: kernel.module.handle),
    ("cuKernelGetName cuFuncGetName", "*p K", lambda driver, kernel: constant_text(kernel.name)),
    ("cuFuncIsLoaded", "*i K", lambda driver, kernel: 1),
    ("cuFuncLoad", "K", nothing),
    ("cuLinkAddFile_v2", "p i T", lambda driver, handle, kind, path: _add_input(driver, handle, kind, _content(path))),
    ("cuLinkDestroy", "p", lambda driver, handle: known(driver.linkings.pop(handle, None))),
    ("cuKernelGetParamCount cuFuncGetParamCount", "K *p", lambda driver, kernel: len(kernel.program.parameters)),
)


def _content(path: str) -> bytes:
    """Raises FILE_NOT_FOUND."""
    try:
        return Path(path).read_bytes()
    except OSError:
        raise DriverError(ResultCode.FILE_NOT_FOUND) from None


@entry("cuLibraryUnload", "p", anytime=True)
def library_unload(driver: Driver, handle: int) -> None:
    """Libraries belong to no context: they can be unloaded whichever is current."""
    holders = (context.modules for context in driver.contexts() if handle in context.modules)
    known(next(holders, {}).get(handle)).unload()


@entry("cuModuleGetGlobal_v2 cuLibraryGetGlobal cuLibraryGetManaged", "*p *p M T")
def get_global(driver: Driver, module: LoadedModule, name: str) -> tuple[int, int]:
    """Address and bytes of a variable."""
    try:
        symbol = module.linked.symbol(name)
    except SymbolError:
        raise DriverError(ResultCode.NOT_FOUND) from None
    return symbol.address, symbol.nbytes


@entry("cuModuleEnumerateFunctions cuLibraryEnumerateKernels", "p u M")
def enumerate_kernels(driver: Driver, handles: int, room: int, module: LoadedModule) -> None:
    for k, name in enumerate(islice(module.linked.kernels, room)):
        put_pointer(handles + 8 * k, module.kernel(name).handle)


@entry("cuKernelGetParamInfo cuFuncGetParamInfo", "K q *p *p")
def parameter_info(driver: Driver, kernel: LoadedKernel, index: int) -> tuple[int, int]:
    """Offset and bytes of a parameter."""
    parameters = {each.index: each for each in kernel.program.parameters}
    fail_if(index not in parameters, ResultCode.INVALID_VALUE)
    return parameters[index].offset, parameters[index].size


# --- linking ----------------------------------------------------------------------------------------------------------


@entry("cuLinkCreate_v2", "(u p p) *p")
def begin_link(driver: Driver) -> int:
    handle = new_handle()
    driver.linkings[handle] = []
    return handle


def _add_input(driver: Driver, handle: int, kind: int, content: bytes) -> None:
    fail_if(not 0 <= kind < len(_SUFFIXES), ResultCode.INVALID_VALUE)
    known(driver.linkings.get(handle)).append((f"input{_SUFFIXES[kind]}", content))


@entry("cuLinkAddData_v2", "p i p q (p u p p)")
def add_data(driver: Driver, handle: int, kind: int, data: int, nbytes: int) -> None:
    fail_if(not data, ResultCode.INVALID_VALUE)
    _add_input(driver, handle, kind, read(data, nbytes))


@entry("cuLinkComplete", "p p p")
def complete(driver: Driver, handle: int, place: int, size: int) -> None:
    """One text that is whole in itself needs no linker."""
    objects, arch = known(driver.linkings.get(handle)), driver.config.gpu.arch
    fail_if(not objects, ResultCode.INVALID_VALUE)
    (name, content), *others = objects
    try:
        alone = not others and name.endswith(".ptx")
        linked = assemble(content.rstrip(b"\0").decode(), arch) if alone else link_objects(objects, arch)
    except SimulationError as error:
        raise DriverError(ResultCode.INVALID_PTX, f"the program's objects cannot be linked: {error}") from None
    put_pointer(place, caller().keep(linked))
    put_pointer(size, len(linked))
