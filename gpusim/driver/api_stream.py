"""Driver API: streams and events. Work is done when it is asked for; only the host's functions are waited for."""

from __future__ import annotations

import ctypes

from gpusim.driver.codes import Code, DriverError
from gpusim.driver.graphs import HOST_CALL, enqueue
from gpusim.driver.registry import function, put_float, put_int, put_pointer, put_size
from gpusim.driver.state import Driver, Event, Stream

_DEFAULT_STREAMS = (0, 1, 2)  # null, legacy, per thread
_DISABLE_TIMING = 2
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
_HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def stream_of(driver: Driver, handle: int) -> Stream:
    """The stream of a handle in the current context. Raises INVALID_HANDLE."""
    streams = driver.context().streams
    if handle in _DEFAULT_STREAMS and handle not in streams:
        streams[handle] = Stream(handle, 0, 0)
    if handle not in streams:
        raise DriverError(Code.INVALID_HANDLE)
    return streams[handle]


def _event_of(driver: Driver, handle: int) -> Event:
    events = driver.context().events
    if handle not in events:
        raise DriverError(Code.INVALID_HANDLE)
    return events[handle]


@function("cuStreamCreate", "pu")
def create(driver: Driver, handle: int, flags: int) -> None:
    create_with_priority(driver, handle, flags, 0)


@function("cuStreamCreateWithPriority", "pui")
def create_with_priority(driver: Driver, handle: int, flags: int, priority: int) -> None:
    if flags & ~1:
        raise DriverError(Code.INVALID_VALUE)
    stream = Stream(driver.new_handle(), flags, priority)
    driver.context().streams[stream.handle] = stream
    put_pointer(handle, stream.handle)


@function("cuStreamDestroy_v2", "p")
def destroy(driver: Driver, handle: int) -> None:
    if driver.context().streams.pop(handle, None) is None:
        raise DriverError(Code.INVALID_HANDLE)


@function("cuStreamSynchronize", "p")
def synchronize(driver: Driver, handle: int) -> None:
    stream = stream_of(driver, handle)
    if stream.capture is not None:
        raise DriverError(Code.STREAM_CAPTURE_UNSUPPORTED)
    driver.wait_for_host_calls([stream])


@function("cuStreamQuery", "p")
def query(driver: Driver, handle: int) -> None:
    stream = stream_of(driver, handle)
    if stream.capture is not None:
        raise DriverError(Code.STREAM_CAPTURE_UNSUPPORTED)
    if any(not call.done() for call in stream.host_calls):
        raise DriverError(Code.NOT_READY)


@function("cuStreamGetFlags", "pp")
def get_flags(driver: Driver, handle: int, flags: int) -> None:
    put_int(flags, stream_of(driver, handle).flags)


@function("cuStreamGetPriority", "pp")
def get_priority(driver: Driver, handle: int, priority: int) -> None:
    put_int(priority, stream_of(driver, handle).priority)


@function("cuStreamGetId", "pp")
def get_id(driver: Driver, handle: int, number: int) -> None:
    put_size(number, stream_of(driver, handle).handle)


@function("cuStreamGetCtx", "pp", since=9020)
def get_context(driver: Driver, handle: int, context: int) -> None:
    stream_of(driver, handle)
    put_pointer(context, driver.context().handle)


@function("cuStreamGetCtx_v2", "ppp", since=12050)
def get_context_or_green(driver: Driver, handle: int, context: int, green: int) -> None:
    get_context(driver, handle, context)
    put_pointer(green, 0)


@function("cuStreamGetDevice", "pp")
def get_device(driver: Driver, handle: int, device: int) -> None:
    stream_of(driver, handle)
    put_int(device, 0)


@function("cuStreamWaitEvent", "ppu")
def wait_event(driver: Driver, handle: int, event: int, flags: int) -> None:
    stream, captured = stream_of(driver, handle), _event_of(driver, event).captured
    if captured is not None and captured[0].open:
        captured[0].join(stream, captured[1])
    elif stream.capture is not None:
        raise DriverError(Code.STREAM_CAPTURE_ISOLATION)


@function("cuStreamAddCallback", "pppu")
def add_callback(driver: Driver, handle: int, callback: int, data: int, flags: int) -> None:
    stream = stream_of(driver, handle)
    if stream.capture is not None:
        raise DriverError(Code.STREAM_CAPTURE_UNSUPPORTED)
    driver.call_later(stream, _CALLBACK(callback), handle, int(Code.SUCCESS), data)


@function("cuLaunchHostFunc", "ppp")
def launch_host_function(driver: Driver, handle: int, callback: int, data: int) -> None:
    call = _HOST_FUNCTION(callback)
    enqueue(driver, stream_of(driver, handle), HOST_CALL, lambda stream: driver.call_later(stream, call, data))


@function("cuStreamAttachMemAsync", "ppqu")
def attach_memory(driver: Driver, stream: int, address: int, nbytes: int, flags: int) -> None:
    """Managed memory is visible to host and device at any time."""


@function("cuEventCreate", "pu")
def event_create(driver: Driver, handle: int, flags: int) -> None:
    event = Event(driver.new_handle(), flags)
    driver.context().events[event.handle] = event
    put_pointer(handle, event.handle)


@function("cuEventDestroy_v2", "p")
def event_destroy(driver: Driver, handle: int) -> None:
    if driver.context().events.pop(handle, None) is None:
        raise DriverError(Code.INVALID_HANDLE)


@function("cuEventRecord", "pp")
def event_record(driver: Driver, handle: int, stream_handle: int) -> None:
    stream, event = stream_of(driver, stream_handle), _event_of(driver, handle)
    capture = stream.capture
    event.cycle = driver.now_cycles if capture is None else None
    event.captured = None if capture is None else (capture, capture.ends[stream.handle])


@function("cuEventRecordWithFlags", "ppu")
def event_record_with_flags(driver: Driver, handle: int, stream: int, flags: int) -> None:
    event_record(driver, handle, stream)


@function("cuEventQuery", "p")
def event_query(driver: Driver, handle: int) -> None:
    if _event_of(driver, handle).captured is not None:
        raise DriverError(Code.CAPTURED_EVENT)


@function("cuEventSynchronize", "p")
def event_synchronize(driver: Driver, handle: int) -> None:
    event_query(driver, handle)


@function("cuEventElapsedTime", "ppp", since=2000)
def elapsed(driver: Driver, milliseconds: int, start: int, end: int) -> None:
    first, last = _event_of(driver, start), _event_of(driver, end)
    if first.cycle is None or last.cycle is None or (first.flags | last.flags) & _DISABLE_TIMING:
        raise DriverError(Code.INVALID_HANDLE)
    put_float(milliseconds, driver.config.time_us(last.cycle - first.cycle) / 1000)


@function("cuEventElapsedTime_v2", "ppp", since=12080)
def elapsed_newer(driver: Driver, milliseconds: int, start: int, end: int) -> None:
    elapsed(driver, milliseconds, start, end)
