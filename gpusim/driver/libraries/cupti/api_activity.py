"""CUPTI's activity interface: records of what the program does with the device, in buffers that its profiler gives.

Where a call of the program begins, simulated time goes on from there on the host's clock. So an activity begins behind
the call that asked for it, and lies to others of its time as it was simulated. A kernel begins here somewhat later than
in the table of launches, as on an H200 (`_LEAD`). Fields of records that nothing is known of are zero.
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from gpusim.driver.caller import caller, constant_text, get_pointer, get_pointers, get_uint, put_pointer, read
from gpusim.driver.codes import DriverError, ProfilerCode, fail_if, known
from gpusim.driver.objects import NamedRange
from gpusim.driver.registry import EntryPoint, entries, nothing
from gpusim.driver.state import Driver
from gpusim.driver.work.launches import CopyCall, JointCall, LaunchCall, Observer
from gpusim.driver.work.streams import NO_ORIGIN, OF_EACH_THREAD, new_handle

if TYPE_CHECKING:
    from gpusim.result import Result

_COPY, _FILL, _KERNEL, _DRIVER, _RUNTIME, _CONCURRENT, _MARKER, _OVERHEAD, _EXTERNAL = 1, 2, 3, 4, 5, 10, 12, 17, 39
_LAUNCH, _CALL = struct.Struct("<I2xH8xQQ8x3I3i3i2iI4xIqQ24xB39x3I28x"), struct.Struct("<IIQQ4I")
_FORMS = {
    _COPY: struct.Struct("<I4B3Q4I40xQ"),  # CUpti_ActivityMemcpy6
    _FILL: struct.Struct("<II3Q4I2xH36x"),  # CUpti_ActivityMemset4
    _MARKER: struct.Struct("<IIQII2I8xQQ"),  # CUpti_ActivityMarker2
    _EXTERNAL: struct.Struct("<IIQI4x"),  # CUpti_ActivityExternalCorrelation
    **dict.fromkeys((_KERNEL, _CONCURRENT), _LAUNCH),  # CUpti_ActivityKernel10
    **dict.fromkeys((_DRIVER, _RUNTIME), _CALL),  # CUpti_ActivityAPI
}
"""Records by CUpti_ActivityKind as CUDA 13.0 has them; those of CUDA 12 are their beginnings."""
_DIRECTIONS = {"HtoD": 1, "DtoH": 2, "DtoD": 8, "HtoH": 9}  # CUpti_ActivityMemcpyKind
_PAGEABLE, _PINNED, _DEVICE = 1, 2, 3  # CUpti_ActivityMemoryKind
_REFUSED = ProfilerCode.NOT_SUPPORTED
_LEAD = 0.78  # of launch.overhead_cycles: 0.97 us from kernel to kernel, the median of 1,876 in `validate programs`
_INSTANT, _START, _END, _THREAD = 1, 2, 4, 2  # CUpti_ActivityFlag, CUpti_ActivityObjectKind
_OF_DRIVER, _OF_RUNTIME, _OF_RESOURCES = 1, 2, 3  # CUpti_CallbackDomain
_RESULTS = {0: "CUPTI_SUCCESS"} | {int(code): f"CUPTI_ERROR_{code.name}" for code in ProfilerCode}
_NAMES: dict[tuple[int, ...], str] = {}
_NUMBERS: dict[str, int] = {}
for _line in resources.files("gpusim.driver.libraries.cupti").joinpath("callbacks.txt").read_text().splitlines()[1:]:
    _number, _name = _line.split()
    _NAMES[_OF_RUNTIME if _name.startswith("cuda") else _OF_DRIVER, int(_number)] = _name
    _NUMBERS[re.sub(r"_v\d{4,}$", "", _name)] = int(_number)


class _Moment(int):
    """Nanoseconds on the host's clock, which the program may want on its own."""


class Activities(Observer):
    """What the program is still to be told."""

    def __init__(self, driver: Driver):
        self._driver = driver
        self.kinds: set[int] = set()
        self._chosen: dict[tuple[int, int], bool] = {}  # single functions that it wants, or does not
        self._functions: tuple[int, ...] = ()  # that give a buffer, and take it back
        self._buffer: tuple[int, ...] = (0, 0, 0)  # address, bytes, most records
        self._records: list[tuple[Any, ...]] = []
        self.clock: Callable[[], int] = time.time_ns
        self._looks: list[tuple[int, int]] = []  # at the host's clock and the program's, at the beginning and lately
        self._streams = dict.fromkeys(NO_ORIGIN, 7)
        self._dropped = self._calls = self._ranges = self._zero = 0
        driver.kept[Activities] = self
        driver.observers.append(self)
        driver.around_call = self._call

    @contextmanager
    def _call(self, point: EntryPoint) -> Iterator[None]:
        """Around a call of the program. One of cuBLAS that launches is known as the runtime's."""
        kind, blas = _DRIVER if point.api == "cu" else _RUNTIME, point.api == "cublas"
        number = _NUMBERS.get("cudaLaunchKernel" if blas else point.symbol.lstrip("_"))
        if number is None or not self._functions or not (self.kinds or any(self._chosen.values())):
            yield
            return
        if not self._buffer[0]:  # profilers count on being asked before the first record
            self._request()
        driver, thread, begun, code = self._driver, self._driver.thread, _Moment(time.time_ns()), 0
        launches = driver.log.number
        self._join(begun)
        self._calls = thread.correlation = asked = self._calls + 1
        try:
            yield
        except DriverError as error:
            code = int(error.code)
            raise
        finally:
            if (ahead := self._at(driver.host_cycles) - time.time_ns()) > 0:  # simulated faster than time passes
                with driver.unlocked():
                    time.sleep(ahead * 1e-9)
            if self._chosen.get((kind, number), kind in self.kinds) and (not blas or driver.log.number > launches):
                for of, numbers in thread.external.items():
                    self._add(_EXTERNAL, of, numbers[-1], asked)
                self._records.append((kind, number, begun, _Moment(time.time_ns()), *thread.ident, asked, code))
        if len(self._records) * _CALL.size > self._buffer[1]:
            self.flush()

    def _at(self, cycle: int) -> _Moment:
        return _Moment(self._zero + round(1000 * self._driver.config.time_us(cycle)))

    def _join(self, now: int) -> None:
        """Let the host's simulated time be the one that its clock shows, unless it was later already."""
        self._zero += max(now - self._at(self._driver.host_cycles), 0)

    def _add(self, kind: int, *values: Any) -> None:
        if kind in self.kinds:
            self._records.append((kind, *values))

    def _where(self, gpu: int, handle: int) -> tuple[int, int, int]:
        """Numbers of device, context and stream."""
        return gpu, gpu + 1, self._streams.setdefault(handle, 7 + len(self._streams))

    def launched(self, call: LaunchCall, result: Result, cycle: int) -> None:
        launch, program = call.launch, call.program
        began = cycle - max(result.record.cycles - round(_LEAD * self._driver.config.launch.overhead_cycles), 0)
        what = program.registers, self._at(began), self._at(cycle), *self._where(call.gpu, call.stream)
        sizes = *launch.grid, *launch.block, program.static_shared_bytes, launch.shared_bytes, program.local_bytes
        how = call.correlation, call.number, call.symbol, call.cooperative, *(program.cluster or (0, 0, 0))
        for kind in (_KERNEL, _CONCURRENT):
            self._add(kind, *what, *sizes, *how)

    def joined(self, call: JointCall, cycle: int, came: int, began: int) -> None:
        what = 0, self._at(came), self._at(cycle), *self._where(call.gpu, call.stream), *(1,) * 6, 0, 0, 0
        for kind in (_KERNEL, _CONCURRENT):
            self._add(kind, *what, call.correlation, 0, f"nccl_{call.name}", False, 0, 0, 0)

    def copied(self, copy: CopyCall, cycle: int, began: int) -> None:
        where = self._where(copy.source_gpu, copy.stream)
        what = copy.nbytes, self._at(began), self._at(cycle), *where, copy.correlation
        memory = {"D": _DEVICE, "H": _PINNED if copy.pinned else _PAGEABLE}
        if copy.kind == "fill":
            self._add(_FILL, copy.source, *what, _DEVICE)
        else:
            self._add(_COPY, _DIRECTIONS[copy.kind], memory[copy.kind[0]], memory[copy.kind[-1]], 0, *what, 1)

    def ranged(self, ended: NamedRange, cycle: int) -> None:
        self._ranges += 1
        now, whose = _Moment(time.time_ns()), (self._ranges, _THREAD, *ended.thread.ident)
        first = (_START, _Moment(ended.began_ns)) if ended.began_ns else (_INSTANT, now)
        self._add(_MARKER, *first, *whose, ended.name.removeprefix(f"{ended.domain}: "), ended.domain)
        if ended.began_ns:
            self._add(_MARKER, _END, now, *whose, "", "")

    def _request(self) -> None:
        room = caller().keep(b"CUPTI's buffer, its size, and records")
        caller().write(room, bytes(24))
        read(room, 1)  # it is there when another thread of the program looks
        with self._driver.unlocked():
            caller().function(self._functions[0], "ppp")(room, room + 8, room + 16)
        self._buffer = get_pointers(room, 3)

    def flush(self) -> None:
        """Put all records into buffers of the program, and give these back."""
        fail_if(not self._functions, ProfilerCode.INVALID_OPERATION)
        records, self._records, done = self._records, [], 0
        self._look()
        while done < len(records) or self._buffer[0]:
            if not self._buffer[0]:
                self._request()
            (buffer, size, most), self._buffer = self._buffer, (0, 0, 0)
            ends = accumulate(_FORMS[kind].size for kind, *_ in records[done : done + min(most or size, size)])
            count = sum(end <= size for end in ends) if buffer else 0
            these = records[done : done + count]
            data = b"".join(_FORMS[kind].pack(kind, *map(self._told, values)) for kind, *values in these)
            self._dropped += 0 if count else len(records) - done
            done = done + count if count else len(records)
            if buffer:
                caller().write(buffer, data)
                read(buffer, 1)
                with self._driver.unlocked():
                    caller().function(self._functions[1], "ppppp")(0, 0, buffer, size, len(data))

    def _told(self, value: Any) -> int:
        if isinstance(value, str):
            return constant_text(value) if value else 0
        if not isinstance(value, _Moment) or not self._looks:
            return int(value)
        (first, there), (last, later) = self._looks
        return there + round((value - first) * (later - there) / max(last - first, 1))

    def _look(self) -> None:
        """Compare the program's clock with the host's: the fastest of some looks tells."""
        if self.clock is not time.time_ns:
            looks = [(time.time_ns(), self.clock(), time.time_ns()) for _ in range(8)]
            before, there, after = min(looks, key=lambda look: look[2] - look[0])
            now = (before + after) // 2, there
            self._looks = [self._looks[0] if self._looks else now, now]

    def enable(self, kind: int) -> None:
        fail_if(kind not in (*_FORMS, _OVERHEAD), ProfilerCode.INVALID_KIND)  # of which there is none
        self.kinds.add(kind)
        self._join(time.time_ns())
        self._chosen = {each: wanted for each, wanted in self._chosen.items() if each[0] != kind}

    def choose(self, kind: int, number: int, wanted: int) -> None:
        self._chosen[kind, number] = bool(wanted)

    def register(self, *functions: int) -> None:
        fail_if(0 in functions, ProfilerCode.INVALID_PARAMETER)
        self._functions = functions

    def choose_clock(self, function: int) -> None:
        self.clock, self._looks = caller().function(function, ""), []
        self._look()

    def dropped(self) -> int:
        dropped, self._dropped = self._dropped, 0
        return dropped

    def stream(self, handle: int, own: int = 0) -> int:
        try:
            found = self._driver.stream_of(OF_EACH_THREAD if own and not handle else handle)
        except DriverError:
            raise DriverError(ProfilerCode.INVALID_STREAM) from None
        return self._where(0, found.shown_handle)[-1]


def _of(driver: Driver) -> Activities:
    return driver.kept.get(Activities) or Activities(driver)


def _next_record(driver: Driver, buffer: int, nbytes: int, place: int) -> None:
    """Write the address of the record behind the one that the place names, the first for none."""
    before = get_pointer(place)
    following = before + _FORMS[get_uint(before)].size if before else buffer
    fail_if(following >= buffer + nbytes, ProfilerCode.MAX_LIMIT_REACHED)
    put_pointer(place, following)


def _push(driver: Driver, kind: int, number: int) -> None:
    driver.thread.external.setdefault(kind, []).append(number)


def _pop(driver: Driver, kind: int) -> int:
    numbers: list[int] = known(driver.thread.external.pop(kind, None), ProfilerCode.QUEUE_EMPTY)
    driver.thread.external |= {kind: numbers[:-1]} if numbers[1:] else {}
    return numbers[-1]


def _text(found: str | None) -> int:
    return constant_text(known(found, ProfilerCode.INVALID_PARAMETER))


entries(
    ("cuptiGetVersion", "*i", lambda driver: 130001),
    ("cuptiGetVersion@12", "*i", lambda driver: 26),
    ("cuptiGetTimestamp", "*p", lambda driver: _of(driver).clock()),
    ("cuptiGetDeviceId", "(p)*i", lambda driver: 0),
    ("cuptiGetStreamId", "(p)p*i", lambda driver, handle: _of(driver).stream(handle)),
    ("cuptiGetStreamIdEx", "(p)pb*i", lambda driver, *which: _of(driver).stream(*which)),
    ("cuptiGetResultString cuptiGetErrorMessage", "i*p", lambda driver, code: _text(_RESULTS.get(code))),
    ("cuptiGetCallbackName", "iu*p", lambda driver, *which: _text(_NAMES.get(which))),
    ("cuptiActivityRegisterCallbacks", "pp", lambda driver, *functions: _of(driver).register(*functions)),
    ("cuptiActivityRegisterTimestampCallback", "p", lambda driver, function: _of(driver).choose_clock(function)),
    ("cuptiActivityEnable", "i", lambda driver, kind: _of(driver).enable(kind)),
    ("cuptiActivityDisable", "i", lambda driver, kind: _of(driver).kinds.discard(kind)),
    ("cuptiActivityEnableDriverApi", "ub", lambda driver, *which: _of(driver).choose(_DRIVER, *which)),
    ("cuptiActivityEnableRuntimeApi", "ub", lambda driver, *which: _of(driver).choose(_RUNTIME, *which)),
    ("cuptiActivitySetAttribute", "", nothing),  # of buffers of the device, and of threads
    ("cuptiActivityFlushAll cuptiActivityFlush", "", lambda driver: _of(driver).flush()),
    ("cuptiActivityGetNextRecord", "pqp", _next_record),
    ("cuptiActivityGetNumDroppedRecords", "(pu)*p", lambda driver: _of(driver).dropped()),
    ("cuptiActivityPushExternalCorrelationId", "iq", _push),
    ("cuptiActivityPopExternalCorrelationId", "i*p", _pop),
    ("cuptiSubscribe", "*p", lambda driver: new_handle()),
    # Callbacks at resources may be enabled, without which PyTorch takes no records; none is called.
    ("cuptiEnableCallback cuptiEnableDomain", "(up)i", lambda driver, of: fail_if(of != _OF_RESOURCES, _REFUSED)),
    ("cuptiUnsubscribe", "", nothing),
    ("cuptiFinalize", "", lambda driver: _of(driver).kinds.clear()),
    anytime=True,
)
