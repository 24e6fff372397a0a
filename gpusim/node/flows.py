"""Bytes on links: every transfer under way is a fluid flow, and flows share links fairly (max-min).

Why not packets: served in turn at every link, packets of 4 KB end within 0.3 % of the same times (measured on 30 random
sets of transfers that contend; `tests/gpusim/test_node_flows.py` keeps both side by side), but take a hundred times as
long to simulate, and more the more bytes there are: an event for each packet and link, instead of two for a transfer.
So rates are computed anew only when a transfer begins or ends, and only for transfers that share links with it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

import simpy

from gpusim.node.link import Link

_ROUNDS = 3
"""Rates depend on what goes the opposite way, which depends on rates: each round leaves `Link.reverse` of the error."""
_TOGETHER_US = 1e-6
"""Flows that end within so short a time end together: only rounding keeps them apart."""


class Flow:
    """A transfer under way. `done` fires when its last byte has left; `held_us`: how long each link set its pace."""

    __slots__ = ("done", "held_us", "limit", "links", "rate", "rest", "serial", "since", "version")

    def __init__(self, serial: int, links: tuple[int, ...], nbytes: float, now: float, done: simpy.Event):
        self.serial, self.links, self.rest, self.since = serial, links, nbytes, now
        self.done = done
        self.rate = 0.0
        self.version = 0
        self.limit = links[0] if links else -1
        self.held_us: dict[int, float] = {}


class Flows:
    """All flows of a simulation. Bandwidths in 10^9 bytes a second are 1,000 bytes a microsecond, which `env` counts.

    `bytes` counts what each link has carried; `steps[link]` are (time, bytes a microsecond, share of capacity) at every
    change of its load.
    """

    def __init__(self, env: simpy.Environment, links: Sequence[Link]):
        self.env = env
        self.links = links
        self.bytes = [0.0] * len(links)
        self.steps: list[list[tuple[float, float, float]]] = [[] for _ in links]
        self._capacity = [link.bandwidth_gb_s * 1e3 for link in links]
        ends = {(link.start, link.end, link.kind): index for index, link in enumerate(links)}
        self._opposite = [ends.get((link.end, link.start, link.kind)) for link in links]
        self._on: dict[int, dict[int, Flow]] = {}
        self._changed: set[int] = set()
        self._ends: list[tuple[float, int, Flow, int]] = []
        self._serial = 0
        self._timer = 0

    def start(self, path: Sequence[int], nbytes: float) -> Flow:
        """Send so many bytes over the links of a path, at once and all along it."""
        self._serial += 1
        flow = Flow(self._serial, tuple(dict.fromkeys(path)), nbytes, self.env.now, self.env.event())
        if nbytes <= 0 or not path:
            flow.done.succeed()
            return flow
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
        now = self.env.now
        for flow in flows:
            self._settle(flow, now)
        self._changed = set()
        load = self._rates(links, flows)
        for link in sorted(links):
            self._note(link, load)
        for flow in flows:
            flow.version += 1
            heapq.heappush(self._ends, (now + flow.rest / flow.rate, flow.serial, flow, flow.version))
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
        """What a link carries for the opposite direction's sake."""
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
        step = (self.env.now, load[link], min(share, 1.0))
        steps = self.steps[link]
        if steps and steps[-1][0] == step[0]:
            steps.pop()
        if not steps or steps[-1][1:] != step[1:]:
            steps.append(step)

    def _wake(self) -> None:
        """Come back when the next flow ends, unless rates change before."""
        ends = self._ends
        while ends and ends[0][2].version != ends[0][3]:  # its rate has changed since, or it has ended
            heapq.heappop(ends)
        self._timer += 1
        timer = self._timer
        if ends:
            wait = self.env.timeout(max(ends[0][0] - self.env.now, 0.0))
            wait.callbacks.append(lambda _: self._end() if timer == self._timer else None)

    def _end(self) -> None:
        """Take away the flows that end now."""
        ends, now = self._ends, self.env.now
        while ends and ends[0][0] <= now + _TOGETHER_US:
            _, serial, flow, version = heapq.heappop(ends)
            if flow.version != version:
                continue
            self._settle(flow, now)
            for link in flow.links:
                self.bytes[link] += flow.rest  # what rounding has left
                del self._on[link][serial]
            flow.rest = flow.rate = 0.0
            flow.version += 1
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
