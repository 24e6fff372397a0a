"""Launches in streams: told of when they begin and end, which several may do in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import simpy

from gpusim.device import Device
from gpusim.driver.outputs.log import LaunchLog
from gpusim.driver.work.launches import LaunchCall, Observer, tell_failure
from gpusim.engine.grid import EndedWithAnother, Grid, Seat
from gpusim.engine.streams import StreamQueue
from gpusim.errors import LaunchError
from gpusim.host.options import DEFAULT_MAX_CYCLES, LaunchOptions
from gpusim.result import Result
from gpusim.results.record import LaunchRecord


class LaunchUnderWay:
    """A launch in a stream, beside others. ended: called with None, or with what it has ended with."""

    def __init__(
        self,
        device: Device,
        call: LaunchCall,
        log: LaunchLog,
        observers: Sequence[Observer],
        ended: Callable[[Exception | None], object],
    ):
        self._device, self._call, self._log, self._observers = device, call, log, observers
        self._then = ended
        self._records: list[LaunchRecord] = []
        self._begun = self._over = False

    def begin(self, queue: StreamQueue, max_cycles: int | None) -> simpy.Event:
        """Put it into a stream of the device; what it ends with. Raises LaunchError, and IsaError if it cannot run."""
        call = self._call
        limits = max_cycles or DEFAULT_MAX_CYCLES, False, call.cooperative
        options = LaunchOptions(*limits, window=call.window, programmatic=call.programmatic)
        what = call.program, call.launch, call.parameter_bytes
        self._pending = self._device.begin(queue, *what, options, self._records.append)
        self._log.number += 1
        call.number = self._log.number
        self._prepare, self._pending.work.prepare = self._pending.work.prepare, self._launching
        self._pending.work.done.callbacks.append(self._ended)
        return self._pending.work.done

    def drop(self) -> None:
        """It will not come to its end."""
        self._pending.drop()
        self._give_up()

    def _launching(self, grid: Grid, seat: Seat | None) -> None:
        self._begun = True
        for each in self._observers:
            each.launching(self._call, grid.start)
        prepare, self._prepare = self._prepare, None
        assert prepare is not None
        prepare(grid, seat)

    def _ended(self, _: Any) -> None:
        error, device, call = self._pending.error, self._device, self._call
        if self._over:
            return
        if isinstance(error, EndedWithAnother):
            self._give_up()
            self._then(None)
            return
        self._over = True
        if error is not None:
            tell_failure(device, call, self._log, self._observers, error)
        else:
            result = Result(self._records[0])
            device.memory.know_all()
            self._log.add(call.symbol, result, call.number)
            for each in self._observers:
                each.launched(call, result, device.now_cycles)
        self._then(error)

    def _give_up(self) -> None:
        if self._begun and not self._over:
            for each in self._observers:
                each.failed(self._call, LaunchError("it ended with another"), self._device.now_cycles)
        self._over = True
