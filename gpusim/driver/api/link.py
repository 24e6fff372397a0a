"""Driver API: linking at run time, by the tool chain's nvlink."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from gpusim.driver.caller import caller, put_pointer, read
from gpusim.driver.codes import DriverError, ResultCode, fail_if, known
from gpusim.driver.registry import entry
from gpusim.driver.state import Driver
from gpusim.driver.work.streams import new_handle
from isa import assemble
from isa.assemble import link_objects
from isa.errors import IsaError

_SUFFIXES = (".cubin", ".ptx", ".fatbin", ".o", ".a")
"""By CUjitInputType."""


@dataclass
class Linking:
    """What is to be linked, as (name, content)."""

    objects: list[tuple[str, bytes]] = field(default_factory=list)


@entry("cuLinkCreate_v2", "(u p p) *p")
def create(driver: Driver) -> int:
    handle = new_handle()
    driver.linkings[handle] = Linking()
    return handle


def _linking(driver: Driver, handle: int) -> Linking:
    return known(driver.linkings.get(handle))


@entry("cuLinkAddData_v2", "p i p q p (u p p)")
def add_data(driver: Driver, handle: int, kind: int, data: int, nbytes: int, name: int) -> None:
    fail_if(not 0 <= kind < len(_SUFFIXES) or not data, ResultCode.INVALID_VALUE)
    _linking(driver, handle).objects.append((f"input{_SUFFIXES[kind]}", read(data, nbytes)))


@entry("cuLinkAddFile_v2", "p i T (u p p)")
def add_file(driver: Driver, handle: int, kind: int, path: str) -> None:
    fail_if(not 0 <= kind < len(_SUFFIXES), ResultCode.INVALID_VALUE)
    try:
        content = Path(path).read_bytes()
    except OSError:
        raise DriverError(ResultCode.FILE_NOT_FOUND) from None
    _linking(driver, handle).objects.append((f"input{_SUFFIXES[kind]}", content))


@entry("cuLinkComplete", "p p p")
def complete(driver: Driver, handle: int, place: int, size: int) -> None:
    """One text that is whole in itself needs no linker."""
    objects, arch = _linking(driver, handle).objects, driver.config.gpu.arch
    fail_if(not objects, ResultCode.INVALID_VALUE)
    (name, content), *others = objects
    try:
        alone = not others and name.endswith(".ptx")
        linked = assemble(content.rstrip(b"\0").decode(), arch) if alone else link_objects(objects, arch)
    except IsaError as error:
        raise DriverError(ResultCode.INVALID_PTX, f"the program's objects cannot be linked: {error}") from None
    put_pointer(place, caller().keep(linked))
    put_pointer(size, len(linked))


@entry("cuLinkDestroy", "p")
def destroy(driver: Driver, handle: int) -> None:
    _linking(driver, handle)
    del driver.linkings[handle]
