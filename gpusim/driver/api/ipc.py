"""Driver API: device memory and events that the processes of a program share.

Memory lies at the same address in all of them, so what a process gets for a handle is leave to use it: its kernels
reach the GPU that it lies on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from gpusim.driver.caller import caller
from gpusim.driver.codes import DriverError, ResultCode, fail_if, known
from gpusim.driver.exports import refusal
from gpusim.driver.objects import DEVICE, Buffer
from gpusim.driver.registry import entry
from gpusim.driver.state import Driver
from gpusim.driver.work.streams import INTERPROCESS, DriverEvent, new_handle

_LAZY_PEER_ACCESS = 1  # CUipcMem_flags
_HANDLE_BYTES = 64
_Shared = TypeVar("_Shared", Buffer, DriverEvent)


def _between(symbol: str, signature: str, run: Callable[..., Any]) -> None:
    """Declare a function that is refused where each process has a GPU of its own."""

    def checked(driver: Driver, *arguments: Any) -> Any:
        return run(driver, *arguments) if driver.is_shared else refusal(symbol).run(driver)

    entry(symbol, signature)(checked)


def _give(driver: Driver, place: int, number: int, what: Buffer | DriverEvent) -> None:
    """Write a handle, which is the same every time."""
    driver.joint[__name__, number] = driver, what
    caller().write(place, number.to_bytes(_HANDLE_BYTES, "little"))


def _find(driver: Driver, words: tuple[int, ...], kind: type[_Shared]) -> _Shared:
    """What a handle stands for. Raises INVALID_CONTEXT for one of this process, INVALID_HANDLE for one of none."""
    maker, what = driver.joint.get((__name__, words[0]), (None, None))
    fail_if(maker is driver, ResultCode.INVALID_CONTEXT)
    if maker not in driver.drivers or not isinstance(what, kind):
        raise DriverError(ResultCode.INVALID_HANDLE)
    driver.simulated(driver.gpu)  # from now on the process sees device memory, and knows what streams have to do
    return what


# --- memory -----------------------------------------------------------------------------------------------------------


def _memory_handle(driver: Driver, place: int, address: int) -> None:
    """Of what was allocated, but not from a pool."""
    buffer = known(driver.buffer_at(address), ResultCode.INVALID_VALUE)
    other = buffer.kind != DEVICE or buffer.pool is not None or buffer.opened
    fail_if(other, ResultCode.INVALID_VALUE)
    _give(driver, place, buffer.number, buffer)


def _open_memory(driver: Driver, words: tuple[int, ...], flags: int) -> int:
    """Address of the allocation, which can be opened several times."""
    fail_if(flags != _LAZY_PEER_ACCESS, ResultCode.INVALID_VALUE)
    theirs, context = _find(driver, words, Buffer), driver.context()
    fail_if(theirs.context.buffers.get(theirs.address) is not theirs, ResultCode.INVALID_HANDLE)
    owner = driver.gpus[theirs.context.gpu.number]
    apart = owner is not context.gpu and not driver.reaches(context.gpu, owner)
    fail_if(apart, ResultCode.PEER_ACCESS_UNSUPPORTED)
    opened = context.buffers.setdefault(theirs.address, replace(theirs, context=context))
    opened.opened += 1
    driver.renew_reach(context.gpu)
    return opened.address


def _close_memory(driver: Driver, address: int) -> None:
    """Behind the last time it is closed, memory cannot be reached by this handle, and stays what it is to others."""
    buffer = known(driver.buffer_at(address), ResultCode.INVALID_VALUE)
    fail_if(buffer.address != address or not buffer.opened, ResultCode.INVALID_VALUE)
    buffer.opened -= 1
    if not buffer.opened:
        del buffer.context.buffers[address]
        driver.renew_reach(buffer.context.gpu)


_between("cuIpcGetMemHandle", "p p", _memory_handle)
_between("cuIpcOpenMemHandle_v2", "*p H u", _open_memory)
_between("cuIpcCloseMemHandle", "p", _close_memory)


# --- events -----------------------------------------------------------------------------------------------------------


def _event_handle(driver: Driver, place: int, event: DriverEvent) -> None:
    fail_if(not event.flags & INTERPROCESS, ResultCode.INVALID_HANDLE)
    _give(driver, place, event.handle, event)


def _open_event(driver: Driver, words: tuple[int, ...]) -> int:
    """Another handle of the event: for what either process records both can wait."""
    handle = new_handle()
    driver.context().events[handle] = _find(driver, words, DriverEvent)
    return handle


_between("cuIpcGetEventHandle", "p E", _event_handle)
_between("cuIpcOpenEventHandle", "*p H", _open_event)
