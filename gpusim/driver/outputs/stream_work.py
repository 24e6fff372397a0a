"""What the streams of several GPUs did, without the program: heard as it is put there, and put there again.

Kernels have run one by one by then (`replay`), and are known by their cycles here: those of a GPU follow each other.
Copies go over the links of the node, collectives take the time that they take there, and a host waits again for what it
has waited for; between that it takes the time that it has taken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import simpy

from gpusim.collectives import collective
from gpusim.driver.caller import caller
from gpusim.driver.outputs.saved import SavedLaunches, SavedWork
from gpusim.driver.work.launches import JointCall, LaunchCall, Observer
from gpusim.engine.grid import Process, Transfer
from gpusim.engine.streams import KernelWork, QueuedWork, StreamQueue
from gpusim.node.work import CopyWork, HostWork, JointWork, Meeting, PauseWork, RecordWork, TimedWork, WaitWork
from gpusim.units import byte_text

if TYPE_CHECKING:
    from gpusim.device import Device
    from gpusim.result import Result

_HOST = "host"  # the memory nearest to the GPU at the other end


class StreamRecorder(Observer):
    """Hears what is put into streams, if there are several GPUs. works: fields of a `SavedWork` for each."""

    def __init__(self) -> None:
        self.works: list[dict[str, Any]] = []
        self._streams: dict[StreamQueue, int] = {}
        self._numbers: dict[Any, int] = {}  # of works by their ends, and of meetings
        self._clocks: defaultdict[Any, float] = defaultdict(float)  # of processes
        self._waits: defaultdict[Any, list[int]] = defaultdict(list)  # what they have waited for since
        self._told: LaunchCall | JointCall | None = None

    def began(self, device: Device) -> None:
        self._env = device.streams.env
        if device.memory.gpus > 1 and device.streams.timed:
            device.streams.engines.heard = self._put

    def waited(self, process: Any, done: simpy.Event) -> None:
        self._clocks[process] = max(self._clocks[process], float(self._env.now))
        self._waits[process] += [self._numbers[done]] if done in self._numbers else []

    def launched(self, call: LaunchCall, result: Result, cycle: int) -> None:
        self._told = call  # of the work that ends now

    def joined(self, call: JointCall, cycle: int, came: int, began: int) -> None:
        self._told = call

    def _put(self, queue: StreamQueue, work: Any) -> None:
        process, number = caller().process, len(self.works)
        clock = self._clocks[process]
        self._clocks[process] = max(clock, work.submitted)
        saved = {
            "host": list(self._clocks).index(process), "gap": max(work.submitted - clock, 0),
            "waits": tuple(self._waits.pop(process, ())), "gpu": int(queue.gpu.removeprefix("gpu")),
            "stream": self._streams.setdefault(queue, len(self._streams)), "priority": queue.priority,
            "queue": queue.queue, **self._described(queue, work),
        }  # fmt: skip
        self.works.append(saved)
        self._numbers[work.done] = number
        if isinstance(work, CopyWork):
            self._numbers[work.returned] = ~number
        work.done.callbacks.append(partial(self._ended, saved, work))

    def _described(self, queue: StreamQueue, work: Any) -> dict[str, Any]:
        if isinstance(work, KernelWork):
            if isinstance(work.grid, Transfer):
                return {"kind": "copy", "ends": (queue.gpu, queue.gpu), "nbytes": work.grid.nbytes}
            return {"kind": "kernel", "name": work.grid.name, "overhead": queue.overhead}
        if isinstance(work, CopyWork):
            ends = (_HOST if each.startswith(_HOST) else each for each in (work.copy.source, work.copy.destination))
            return {"kind": "copy", "ends": tuple(ends), "nbytes": work.copy.nbytes, "pinned": not work.pageable}
        if isinstance(work, RecordWork):
            return {"kind": "record", "takes": bool(work.takes)}
        if isinstance(work, WaitWork):
            after = tuple(self._numbers[each] for each in work.events if each in self._numbers)
            return {"kind": "wait", "after": after, "takes": bool(work.takes)}
        if isinstance(work, PauseWork):
            return {"kind": "pause", "cycles": work.duration}
        if isinstance(work, JointWork):
            after = tuple(self._numbers.setdefault(each, len(self._numbers)) for each in work.meetings)
            return {"kind": "joint", "after": after}
        return {"kind": "host" if isinstance(work, HostWork) else "nothing"}

    def _ended(self, saved: dict[str, Any], work: Any, _: simpy.Event) -> None:
        told, self._told = self._told, None
        if isinstance(told, LaunchCall):
            saved |= {"launch": told.number, "cycles": work.grid.end - work.grid.began}
        elif isinstance(told, JointCall):
            saved |= {"name": told.name, "cycles": round(self._env.now - work.began)}
            saved |= {"nbytes": told.nbytes} if told.how else {}


class StreamReplay:
    """Puts saved work into streams of GPUs. cycles: of launches, from the hand-out of their first blocks, by number; of
    others the recording has them. observers: hear of collectives."""

    def __init__(
        self, saved: SavedLaunches, devices: Sequence[Device], cycles: dict[int, int], observers: Sequence[Observer]
    ):
        self._devices, self._cycles, self._observers, self._works = devices, cycles, observers, saved.head.works
        self._env, self._node = devices[0].streams.env, devices[0].streams.mover.node
        clock_mhz = saved.config().gpu.clock_mhz
        self._pace = devices[0].config.gpu.clock_mhz / clock_mhz  # cycles now for one of the recording
        self._queues: dict[int, StreamQueue] = {}
        self._ends = [self._env.event() for _ in self._works]
        self._returned: dict[int, simpy.Event] = {}  # when hosts have done their parts of copies
        self._parts: defaultdict[int, list[int]] = defaultdict(list)  # GPUs of meetings
        for work in self._works:
            for meeting in work.after if work.kind == "joint" else ():
                self._parts[meeting].append(work.gpu)
        self._meetings = {each: Meeting(self._env, len(gpus), _nothing, str) for each, gpus in self._parts.items()}
        self._time = cache(lambda name, nbytes, who: collective(name, nbytes, None, self._node.among(who)))

    def run(self) -> None:
        """Let all of it happen."""
        self._devices[0].streams.engines.spans.clear()
        for host in {work.host for work in self._works}:
            self._env.process(self._host(host))
        self._env.run(until=self._env.all_of(self._ends))

    def _host(self, host: int) -> Process:
        """Puts a process's work into streams, as soon as it knows when."""
        clock = float(self._env.now)
        for number, work in enumerate(self._works):
            if work.host == host:
                for each in work.waits:
                    yield self._ends[each] if each >= 0 else self._returned[~each]
                    clock = max(clock, float(self._env.now))
                clock += work.gap * self._pace
                streams = self._devices[work.gpu].streams
                streams.host.time = clock  # when the call has been made
                with streams.one_call(0.0):
                    made = self._put(work)
                made.done.callbacks.append(self._ends[number].trigger)
                if isinstance(made, CopyWork):
                    self._returned[number] = made.returned

    def _put(self, work: SavedWork) -> QueuedWork:
        env, device = self._env, self._devices[work.gpu]
        streams, nearest = device.streams, self._node.host_of(device.name)
        if work.stream not in self._queues:
            self._queues[work.stream] = device.stream(work.priority).queue
        queue = self._queues[work.stream]
        queue.queue = work.queue
        if work.kind == "kernel":
            takes = self._cycles.get(work.launch, round(work.cycles * self._pace))
            grid = Transfer(env, work.name, takes, _nothing)
            grid.kind, queue.overhead = "kernel", work.overhead
            return streams.engine.submit(grid, queue, int(streams.call(0.0)))
        if work.kind == "copy":
            start, end = (nearest if each == _HOST else each for each in work.ends)
            return streams.copy_between(queue, start, end, work.nbytes, work.pinned, _nothing)
        if work.kind == "record":
            made = RecordWork(env, None, streams.event_takes) if work.takes else RecordWork(env, ())
        elif work.kind == "wait":
            made = WaitWork(env, [self._ends[each] for each in work.after], streams.wait_takes if work.takes else 0)
        elif work.kind == "joint":
            made = self._joint(work)
        elif work.kind == "pause":
            made = PauseWork(env, work.cycles * self._pace, ())
        elif work.kind == "host":
            made = HostWork(env, _nothing, streams.units(streams.calls.function_us))
        else:
            made = TimedWork(env)
        return streams.put(queue, made, 0.0)

    def _joint(self, work: SavedWork) -> JointWork:
        """A part in a collective or in messages; where nothing moves, as long as it was."""
        who = tuple(sorted({gpu for number in work.after for gpu in self._parts[number]}))
        call = JointCall(work.name, len(who), work.nbytes, "", "", work.gpu, work.stream)
        takes = work.cycles * self._pace
        if work.nbytes:
            found = self._time(work.name, work.nbytes, who)
            takes = self._devices[0].streams.units(found.kernel_us)
            call = replace(
                call, how=f"{found.algorithm} {found.protocol}", link=found.bottleneck.name, links=found.links
            )
        meetings, name = [self._meetings[each] for each in work.after], f"{work.name} {byte_text(work.nbytes)}"
        made = JointWork(self._env, meetings, self._env.event(), takes, name)

        def done(_: simpy.Event) -> None:
            for each in self._observers:
                each.joined(call, *(round(time) for time in (self._env.now, made.came, made.began)))

        made.done.callbacks.append(done)
        return made


def _nothing() -> None:
    """What moves no bytes: each launch has had what it reads."""
