"""Bytes on links: every transfer under way is a fluid flow, and flows share links fairly (max-min).

Why not packets: served in turn at every link, packets of 4 KB end within 0.3 % of the same times (measured on 30 random
sets of transfers that contend; `tests/gpusim/test_node_flows.py` keeps both side by side), but take a hundred times as
long to simulate, and more the more bytes there are: an event for each packet and link, instead of two for a transfer.
So rates are computed anew only when a transfer begins or ends, and only for transfers that share links with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import simpy

from gpusim.node.build import Link

_ROUNDS = 3
"""Rates depend on what goes the opposite way, which depends on rates: each round leaves `Link.reverse` of the error."""
_TOGETHER_US = 1e-6
"""Flows that end within so short a time end together: only rounding keeps them apart."""


@dataclass(frozen=True)
class Clock:
    """The time of an environment: what turns microseconds into its units, and back. per_us: units in a microsecond.
    whole: everything happens at whole units, such as SM clock cycles, to which durations are rounded up."""

    env: simpy.Environment
    per_us: float = 1.0
    whole: bool = False

    @property
    def now_us(self) -> float:
        """The time in microseconds."""
        return float(self.env.now / self.per_us)

    def nearest(self, time: float) -> float:
        """The nearest time at which something may happen."""
        return round(time) if self.whole else time

    def after(self, duration: float) -> simpy.Event:
        """An event after so many units."""
        return self.env.timeout(math.ceil(duration) if self.whole else duration)

    def after_us(self, duration_us: float) -> simpy.Event:
        """An event after so many microseconds."""
        return self.after(duration_us * self.per_us)


class Flow:
    """A transfer under way. `done` fires when its last byte has left, which is at `end` if rates stay as they are;
    `held_us` says how long each link set its pace."""

    __slots__ = ("done", "end", "held_us", "limit", "links", "rate", "rest", "serial", "since")

    def __init__(self, serial: int, links: tuple[int, ...], nbytes: float, now: float, done: simpy.Event):
        self.serial, self.links, self.rest, self.since = serial, links, nbytes, now
        self.done = done
        self.rate = 0.0
        self.end = math.inf
        self.limit = links[0] if links else -1
        self.held_us: dict[int, float] = {}


class Flows:
    """All flows of a simulation. Bandwidths in 10^9 bytes a second are 1,000 bytes a microsecond.

    `bytes` counts what each link has carried; `steps[link]` are (microsecond, bytes a microsecond, share of capacity)
    at every change of its load.
    """

    def __init__(self, clock: Clock, links: Sequence[Link]):
        self.env, self._clock = clock.env, clock
        self.links = links
        self.bytes = [0.0] * len(links)
        self.steps: list[list[tuple[float, float, float]]] = [[] for _ in links]
        self._capacity = [link.bandwidth_gb_s * 1e3 for link in links]
        ends = {(link.start, link.end, link.kind): index for index, link in enumerate(links)}
        self._opposite = [ends.get((link.end, link.start, link.kind)) for link in links]
        self._on: dict[int, dict[int, Flow]] = {}
        self._changed: set[int] = set()
        self._flows: dict[int, Flow] = {}
        self._serial = 0
        self._timer: simpy.Event | None = None

    def start(self, path: Sequence[int], nbytes: float) -> Flow:
        """Send so many bytes over the links of a path, at once and all along it."""
        self._serial += 1
        flow = Flow(self._serial, tuple(dict.fromkeys(path)), nbytes, self._clock.now_us, self.env.event())
        if nbytes <= 0 or not path:
            flow.done.succeed()
            return flow
        self._flows[flow.serial] = flow
        for link in flow.links:
            self._on.setdefault(link, {})[flow.serial] = flow
        self._change(flow.links)
        return flow

    def _change(self, links: Iterable[int]) -> None:
        """Have rates computed anew once everything that happens now has happened."""
        if not self._changed:
            self.env.timeout(0).callbacks.append(lambda _: self._share())
        self._changed.update(links)

    def _share(self) -> None:
        """New rates for every flow that shares a link, directly or through others, with one that changed."""
        links, flows = self._together()
        now = self._clock.now_us
        for flow in flows:
            self._settle(flow, now)
        self._changed = set()
        load = self._rates(links, flows)
        for link in sorted(links):
            self._note(link, load)
        for flow in flows:
            flow.end = now + flow.rest / flow.rate
        self._wake()

    def _together(self) -> tuple[set[int], list[Flow]]:
        links, flows, todo = set(self._changed), {}, list(self._changed)
        while todo:
            link = todo.pop()
            opposite = self._opposite[link]
            for serial, flow in self._on.get(link, {}).items():
                if serial not in flows:
                    flows[serial] = flow
                    fresh = [each for each in flow.links if each not in links]
                    links.update(fresh)
                    todo += fresh
            if opposite is not None and opposite not in links and self.links[link].reverse:
                links.add(opposite)
                todo.append(opposite)
        return links, [flows[serial] for serial in sorted(flows)]

    def _rates(self, links: set[int], flows: list[Flow]) -> dict[int, float]:
        """Gives every flow its fair rate; returns what each link carries, in bytes a microsecond."""
        load: dict[int, float] = {}
        for _ in range(_ROUNDS):
            room = {link: self._capacity[link] - self._overhead(link, load) for link in links}
            fill(flows, room)
            before, load = load, dict.fromkeys(links, 0.0)
            for flow in flows:
                for link in flow.links:
                    load[link] += flow.rate
            if not any(self._overhead(link, load) != self._overhead(link, before) for link in links):
                break
        return load

    def _overhead(self, link: int, load: dict[int, float]) -> float:
        """Return the load on a link, in bytes a microsecond, that the opposite direction's traffic causes."""
        opposite = self._opposite[link]
        return 0.0 if opposite is None else self.links[opposite].reverse * load.get(opposite, 0.0)

    def _settle(self, flow: Flow, now: float) -> None:
        """Account for what has moved since the last change."""
        spent = now - flow.since
        if spent > 0:
            moved = min(flow.rest, flow.rate * spent)
            flow.rest -= moved
            for link in flow.links:
                self.bytes[link] += moved
            flow.held_us[flow.limit] = flow.held_us.get(flow.limit, 0.0) + spent
            flow.since = now

    def _note(self, link: int, load: dict[int, float]) -> None:
        share = (load[link] + self._overhead(link, load)) / self._capacity[link]
        step = (self._clock.now_us, load[link], min(share, 1.0))
        steps = self.steps[link]
        if steps and steps[-1][0] == step[0]:
            steps.pop()
        if not steps or steps[-1][1:] != step[1:]:
            steps.append(step)

    def _wake(self) -> None:
        """Come back when the next flow ends, unless rates change before."""
        self._timer = None
        if self._flows:
            next_end = min(flow.end for flow in self._flows.values())
            self._timer = self._clock.after(max(next_end * self._clock.per_us - self.env.now, 0.0))
            self._timer.callbacks.append(self._end)

    def _end(self, timer: simpy.Event) -> None:
        """Take away the flows that end now."""
        if timer is not self._timer:
            return  # rates have changed since
        now = self._clock.now_us
        ended = [flow for flow in self._flows.values() if flow.end <= now + _TOGETHER_US]
        for flow in sorted(ended, key=lambda each: (each.end, each.serial)):
            self._settle(flow, now)
            for link in flow.links:
                self.bytes[link] += flow.rest  # what rounding has left
                del self._on[link][flow.serial]
            del self._flows[flow.serial]
            flow.rest = flow.rate = 0.0
            self._change(flow.links)
            flow.done.succeed()
        if not self._changed:
            self._wake()


def fill(flows: Sequence[Flow], room: dict[int, float]) -> None:
    """Max-min fair rates: all grow alike until a link is full; its flows stay at that, the others go on.

    Sets `rate` and `limit`, the link that a flow is held up by, of every flow. `room` is used up.
    """
    on: dict[int, list[Flow]] = {}
    for flow in flows:
        for link in flow.links:
            on.setdefault(link, []).append(flow)
    count = {link: len(there) for link, there in on.items()}
    growing = {flow.serial for flow in flows}
    while growing:
        # The lowest number breaks ties, so that a run repeats exactly.
        level, full = min((room[link] / n, link) for link, n in count.items() if n)
        for flow in on[full]:
            if flow.serial in growing:
                growing.discard(flow.serial)
                flow.rate, flow.limit = level, full
                for link in flow.links:
                    room[link] = max(room[link] - level, 0.0)
                    count[link] -= 1
