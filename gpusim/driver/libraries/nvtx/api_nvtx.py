"""NVTX: ranges and marks of the program, of which observers are told, and which launches have with them.

The headers of NVTX 3 load the library that `NVTX_INJECTION64_PATH` names and call `InitializeInjectionNvtx2` with a
function that gives tables of places for functions (nvtxDetail/nvtxTypes.h). Functions that get no address there, such
as those that name threads, do nothing. Programs that link `libnvToolsExt.so.1` find the same functions by their names.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

from gpusim.driver.caller import caller, get_pointer, get_pointers, get_uint, put_pointer, read, text
from gpusim.driver.objects import NamedRange
from gpusim.driver.registry import entries, entry
from gpusim.driver.state import Driver
from gpusim.driver.work.streams import new_handle

_MODULES = {
    1: "MarkEx MarkA MarkW RangeStartEx RangeStartA RangeStartW RangeEnd RangePushEx RangePushA RangePushW RangePop",
    5: "DomainMarkEx DomainRangeStartEx DomainRangeEnd DomainRangePushEx DomainRangePop - - - - DomainRegisterStringA "
    "DomainRegisterStringW DomainCreateA DomainCreateW",
}
"""Functions by NvtxCallbackModule, in the order of NvtxCallbackIdCore and NvtxCallbackIdCore2, from 1."""
_ATTRIBUTES = struct.Struct("<32xi4xQ")  # of nvtxEventAttributes_t, messageType and message
_WIDE, _REGISTERED = 2, 3  # nvtxMessageType_t


@entry("InitializeInjectionNvtx2", "=p", anytime=True)
def initialize(driver: Driver, export_table: int) -> int:
    """Put our functions into the tables of a copy of NVTX: each library of a program may have its own."""
    table = caller().function(export_table, "i")(1)  # NVTX_ETID_CALLBACKS
    get_module, room = caller().function(get_pointer(table + 8), "ipp"), caller().keep(b"NVTX's table and its size")
    read(room, 1)  # what is kept lies there before another thread of the program writes to it
    for module, names in _MODULES.items():
        if not get_module(module, room, room + 8):
            return 0
        places = get_pointers(get_pointer(room), get_uint(room + 8))
        for place, name in zip(places[1:], names.split(), strict=False):  # an older NVTX has fewer
            if name != "-" and place:
                put_pointer(place, driver.address_of(f"nvtx{name}") or 0)
    return 1


def _wide_text(address: int) -> str:
    """The string of 32-bit characters at an address, read in pieces that lie in one page."""
    found: list[int] = []
    while 0 not in found:
        at = address + 4 * len(found)
        nbytes = 64 - at % 64
        found += struct.unpack(f"<{nbytes // 4}I", read(at, nbytes))
    return "".join(map(chr, found[: found.index(0)]))


def _message(driver: Driver, attributes: int) -> str:
    kind, message = _ATTRIBUTES.unpack(read(attributes, _ATTRIBUTES.size))
    if not message or kind == _REGISTERED:
        return str(driver.kept.get(message, ""))
    return _wide_text(message) if kind == _WIDE else text(message)


def _handle_of(driver: Driver, name: str) -> int:
    driver.kept[handle := new_handle()] = name
    return handle


def _named(driver: Driver, domain: int, name: str, handle: int = 0) -> NamedRange:
    within = driver.kept.get(domain, "")
    return NamedRange(f"{within}: {name}" if within else name, within, driver.thread, driver.host_cycles, handle)


def _push(driver: Driver, domain: int, name: str) -> int:
    """Returns how many ranges of the thread and the domain are around this one."""
    driver.thread.ranges.append(_named(driver, domain, name))
    return len(driver.thread.pushed(driver.kept.get(domain, ""))) - 1


def _pop(driver: Driver, domain: int) -> int:
    """Returns how many ranges were around the one that ends, a negative number if there is none."""
    mine = driver.thread.pushed(driver.kept.get(domain, ""))
    if mine:
        driver.tell_range(mine[-1])
    return len(mine) - 1


def _start(driver: Driver, domain: int, name: str) -> int:
    begun = _named(driver, domain, name, new_handle())
    driver.kept[begun.handle] = begun
    driver.thread.ranges.append(begun)
    return begun.handle


def _end(driver: Driver, handle: int) -> None:
    if handle in driver.kept:
        driver.tell_range(driver.kept.pop(handle))


def _declare(name: str, begin: Callable[[Driver, int, str], int | None]) -> None:
    """Declare the variants of a function that takes a text."""
    entries(
        (f"nvtx{name}A", "=T", lambda driver, message: begin(driver, 0, message)),
        (f"nvtx{name}W", "=p", lambda driver, message: begin(driver, 0, _wide_text(message))),
        (f"nvtx{name}Ex", "=p", lambda driver, given: begin(driver, 0, _message(driver, given))),
        (f"nvtxDomain{name}Ex", "=pp", lambda driver, domain, given: begin(driver, domain, _message(driver, given))),
        anytime=True,
    )


_declare("Mark", lambda driver, domain, name: driver.tell_range(replace(_named(driver, domain, name), began_ns=0)))
_declare("RangePush", _push)
_declare("RangeStart", _start)
entries(
    ("nvtxRangePop", "=", lambda driver: _pop(driver, 0)),
    ("nvtxDomainRangePop", "=p", _pop),
    ("nvtxRangeEnd", "=q", _end),
    ("nvtxDomainRangeEnd", "=(p)q", _end),
    ("nvtxDomainCreateA", "=T", _handle_of),
    ("nvtxDomainCreateW", "=p", lambda driver, name: _handle_of(driver, _wide_text(name))),
    ("nvtxDomainRegisterStringA", "=(p)T", _handle_of),
    ("nvtxDomainRegisterStringW", "=(p)p", lambda driver, message: _handle_of(driver, _wide_text(message))),
    anytime=True,
)
