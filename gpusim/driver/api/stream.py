"""Driver API: streams and events."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gpusim.driver.caller import caller, read
from gpusim.driver.codes import DriverError, ResultCode, fail_if, known
from gpusim.driver.registry import entries, entry, nothing
from gpusim.driver.state import Driver
from gpusim.driver.work import launch_attributes as A
from gpusim.driver.work import streams
from gpusim.driver.work.streams import DISABLE_TIMING, HOST_CALL, WAIT_EVENT, DriverEvent, DriverStream, SimpleWork

if TYPE_CHECKING:
    from gpusim.driver.work.queues import WorkQueues

_EVENT_FLAGS = 7
_EXTERNAL = 1  # CUevent_record_flags, CUevent_wait_flags

entries(
    ("cuStreamDestroy_v2", "p", lambda driver, handle: destroy(driver, handle)),
    ("cuEventDestroy_v2", "p", lambda driver, handle: known(driver.context().events.pop(handle, None))),
    ("cuStreamGetFlags", "S *i", lambda driver, stream: stream.flags),
    ("cuStreamGetId", "S *p", lambda driver, stream: stream.handle),
    ("cuStreamGetCtx 9020", "S *p", lambda driver, stream: driver.context().handle),
    ("cuStreamGetCtx_v2 12050", "S *p *p", lambda driver, stream: (driver.context().handle, 0)),
    ("cuStreamGetDevice", "S *i", lambda driver, stream: stream.gpu.ordinal),
    ("cuStreamGetPriority", "S *i", lambda driver, stream: A.priority_of(stream.attributes)),
    ("cuStreamGetAttribute", "S i p", lambda _, of, number, at: caller().write(at, A.current(of.attributes, number))),
    ("cuStreamSetAttribute", "S i p", lambda _, of, number, at: set_attribute(of, number, read(at, A.VALUE_BYTES))),
    ("cuStreamCopyAttributes", "S S", lambda driver, target, source: target.attributes.update(source.attributes)),
    # Managed memory is visible to host and device at any time.
    ("cuStreamAttachMemAsync", "S (pqu)", lambda driver, stream: nothing(driver, stream.not_capturing())),
    ("cuCtxWaitEvent", "C E", nothing),  # what was recorded has happened
    ("cuLaunchHostFunc cuLaunchHostFunc_v2 13020", "S p p", lambda driver, of, *w: driver.enqueue(of, host_call(*w))),
)


@entry("cuStreamCreate", "*p u")
@entry("cuStreamCreateWithPriority", "*p u i")
def create(driver: Driver, flags: int, priority: int = 0) -> int:
    fail_if(flags & ~1, ResultCode.INVALID_VALUE)
    stream = DriverStream(driver.gpu, flags)
    set_attribute(stream, A.PRIORITY, priority.to_bytes(A.VALUE_BYTES, "little", signed=True))
    driver.context().streams[stream.handle] = stream
    return stream.handle


def destroy(driver: Driver, handle: int) -> None:
    """A stream's capture ends with the stream that it began in."""
    stream = known(driver.context().streams.get(handle))
    del driver.context().streams[handle]
    if (capture := stream.capture) is not None and capture.origin is stream:
        capture.close()
        driver.captures.remove(capture)
    if driver.queues is not None:
        driver.queues.forget(stream)


def set_attribute(stream: DriverStream, number: int, value: bytes) -> None:
    stream.attributes[number] = A.checked(number, value, A.STREAM)


@entry("cuStreamSynchronize", "S")
def synchronize(driver: Driver, stream: DriverStream) -> None:
    stream.not_capturing()
    driver.not_in_captures()
    driver.wait_for(stream)
    driver.trim_pools()


def _ask(driver: Driver, pending: Callable[[WorkQueues], bool]) -> None:
    """Raise NOT_READY while something is pending. Time passes by it, so that whoever asks again and again is told at
    last."""
    queues = driver.queues
    busy = queues is not None and queues.passes(lambda: pending(queues))
    driver.fail_if_failed()
    fail_if(busy, ResultCode.NOT_READY)


@entry("cuStreamQuery", "S")
def query(driver: Driver, stream: DriverStream) -> None:
    stream.not_capturing()
    driver.not_in_captures()
    _ask(driver, lambda queues: queues.is_busy(stream))


# --- functions of the host --------------------------------------------------------------------------------------------


def host_call(function: int, data: int) -> SimpleWork:
    """A call of a function of the host, at an address, with a pointer. Raises INVALID_VALUE for none."""
    fail_if(not function, ResultCode.INVALID_VALUE)
    return SimpleWork(
        lambda stream, queues: queues.call(stream, partial(caller().function(function, "p"), data)), HOST_CALL
    )


@entry("cuStreamAddCallback", "S p p (u)")
def add_callback(driver: Driver, stream: DriverStream, callback: int, data: int) -> None:
    call = partial(caller().function(callback, "pip"), stream.handle, int(ResultCode.SUCCESS))
    work = SimpleWork(lambda stream, queues: queues.call(stream, partial(call, data)), HOST_CALL)
    driver.enqueue(stream.not_capturing(), work)


# --- events -----------------------------------------------------------------------------------------------------------


def recorded(event: DriverEvent) -> SimpleWork:
    """A point at which an event is recorded."""
    return SimpleWork(lambda stream, queues: queues.record(stream, event), streams.RECORD_EVENT)


def waited_for(event: DriverEvent) -> SimpleWork:
    """A wait for what came before an event."""
    return SimpleWork(lambda stream, queues: queues.wait_event(stream, event), WAIT_EVENT)


@entry("cuEventCreate", "*p u")
def event_create(driver: Driver, flags: int) -> int:
    between_processes = flags & streams.INTERPROCESS
    fail_if(flags & ~_EVENT_FLAGS or (between_processes and not flags & DISABLE_TIMING), ResultCode.INVALID_VALUE)
    event = DriverEvent(flags)
    driver.context().events[event.handle] = event
    return event.handle


@entry("cuEventRecord", "E S")
@entry("cuEventRecordWithFlags", "E S u")
def record(driver: Driver, event: DriverEvent, stream: DriverStream, flags: int = 0) -> None:
    """A captured stream notes what comes before the event, unless the event is one that others wait for outside."""
    capture = stream.capture
    if capture is not None and not flags & _EXTERNAL:
        event.work, event.captured = None, (capture, tuple(capture.ends[stream.handle]))
    else:
        driver.enqueue(stream, recorded(event))


entries(("cuCtxRecordEvent", "(p) E", lambda driver, event: record(driver, event, driver.stream_of(0))))


@entry("cuStreamWaitEvent", "S E u")
def wait_event(driver: Driver, stream: DriverStream, event: DriverEvent, flags: int) -> None:
    captured = event.captured
    if flags & _EXTERNAL:
        driver.enqueue(stream, waited_for(event))
    elif captured is not None and captured[0].open:
        captured[0].join(stream, captured[1])
    elif stream.capture is not None:
        raise DriverError(ResultCode.STREAM_CAPTURE_ISOLATION)
    else:
        driver.enqueue(stream, waited_for(event))


@entry("cuEventQuery", "E")
def event_query(driver: Driver, event: DriverEvent) -> None:
    _not_captured(driver, event)
    _ask(driver, lambda queues: queues.is_pending(event))
    driver.trim_pools()


@entry("cuEventSynchronize", "E")
def event_synchronize(driver: Driver, event: DriverEvent) -> None:
    _not_captured(driver, event)
    if driver.queues is not None:
        driver.queues.wait_for_event(event)
    driver.fail_if_failed()
    driver.trim_pools()


def _not_captured(driver: Driver, event: DriverEvent) -> None:
    if event.captured is not None:
        event.captured[0].valid = False
        raise DriverError(ResultCode.CAPTURED_EVENT)
    driver.not_in_captures()


@entry("cuEventElapsedTime 2000 cuEventElapsedTime_v2 12080", "*f E E")
def elapsed(driver: Driver, first: DriverEvent, last: DriverEvent) -> float:
    """Milliseconds."""
    queues = driver.queues
    fail_if(any(each.captured is not None for each in (first, last)), ResultCode.CAPTURED_EVENT)
    pending = queues is not None and any(queues.is_pending(each) for each in (first, last))
    fail_if(pending, ResultCode.NOT_READY)
    if first.cycle is None or last.cycle is None or (first.flags | last.flags) & DISABLE_TIMING:
        raise DriverError(ResultCode.INVALID_HANDLE)
    return driver.config.time_us(last.cycle - first.cycle) / 1000
