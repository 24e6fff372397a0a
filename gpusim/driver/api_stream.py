"""Driver API: streams and events. Work is done when it is asked for; only the host's functions are waited for."""

from __future__ import annotations

from gpusim.driver.caller import caller
from gpusim.driver.codes import DriverError, ResultCode, fail_if, known
from gpusim.driver.objects import HOST_CALL, DriverEvent, DriverStream
from gpusim.driver.registry import entries, entry, nothing
from gpusim.driver.state import Driver

_DISABLE_TIMING = 2

entries(
    ("cuStreamDestroy_v2", "p", lambda driver, handle: known(driver.context().streams.pop(handle, None))),
    ("cuEventDestroy_v2", "p", lambda driver, handle: known(driver.context().events.pop(handle, None))),
    ("cuStreamSynchronize", "S", lambda driver, stream: driver.wait_for_host_calls([stream.not_capturing()])),
    ("cuStreamGetFlags", "S *i", lambda driver, stream: stream.flags),
    ("cuStreamGetPriority", "S *i", lambda driver, stream: stream.priority),
    ("cuStreamGetId", "S *p", lambda driver, stream: stream.handle),
    ("cuStreamGetCtx 9020", "S *p", lambda driver, stream: driver.context().handle),
    ("cuStreamGetCtx_v2 12050", "S *p *p", lambda driver, stream: (driver.context().handle, 0)),
    ("cuStreamGetDevice", "S *i", lambda driver, stream: 0),
    ("cuStreamAttachMemAsync", "(ppqu)", nothing),  # managed memory is visible to host and device at any time
)


@entry("cuStreamCreate", "*p u")
@entry("cuStreamCreateWithPriority", "*p u i")
def create(driver: Driver, flags: int, priority: int = 0) -> int:
    fail_if(flags & ~1, ResultCode.INVALID_VALUE)
    stream = DriverStream(flags, priority)
    driver.context().streams[stream.handle] = stream
    return stream.handle


@entry("cuStreamQuery", "S")
def query(driver: Driver, stream: DriverStream) -> None:
    fail_if(any(not call.done() for call in stream.not_capturing().host_calls), ResultCode.NOT_READY)


@entry("cuStreamWaitEvent", "S E (u)")
def wait_event(driver: Driver, stream: DriverStream, event: DriverEvent) -> None:
    captured = event.captured
    if captured is not None and captured[0].open:
        captured[0].join(stream, captured[1])
    elif stream.capture is not None:
        raise DriverError(ResultCode.STREAM_CAPTURE_ISOLATION)


@entry("cuStreamAddCallback", "S p p (u)")
def add_callback(driver: Driver, stream: DriverStream, callback: int, data: int) -> None:
    call = caller().function(callback, "pip")
    driver.call_later(stream.not_capturing(), call, stream.handle, int(ResultCode.SUCCESS), data)


@entry("cuLaunchHostFunc", "S p p")
def launch_host_function(driver: Driver, stream: DriverStream, callback: int, data: int) -> None:
    call = caller().function(callback, "p")
    driver.enqueue(stream, HOST_CALL, lambda stream: driver.call_later(stream, call, data))


@entry("cuEventCreate", "*p u")
def event_create(driver: Driver, flags: int) -> int:
    event = DriverEvent(flags)
    driver.context().events[event.handle] = event
    return event.handle


@entry("cuEventRecord", "E S")
@entry("cuEventRecordWithFlags", "E S (u)")
def event_record(driver: Driver, event: DriverEvent, stream: DriverStream) -> None:
    capture = stream.capture
    event.cycle = driver.now_cycles if capture is None else None
    event.captured = None if capture is None else (capture, capture.ends[stream.handle])


@entry("cuEventQuery", "E")
@entry("cuEventSynchronize", "E")
def event_query(driver: Driver, event: DriverEvent) -> None:
    fail_if(event.captured is not None, ResultCode.CAPTURED_EVENT)


@entry("cuEventElapsedTime", "*f E E", since=2000)
@entry("cuEventElapsedTime_v2", "*f E E", since=12080)
def elapsed(driver: Driver, first: DriverEvent, last: DriverEvent) -> float:
    """Milliseconds."""
    if first.cycle is None or last.cycle is None or (first.flags | last.flags) & _DISABLE_TIMING:
        raise DriverError(ResultCode.INVALID_HANDLE)
    return driver.config.time_us(last.cycle - first.cycle) / 1000
