"""Fair sharing of links, against packets that are served in turn and against the definition of max-min fairness."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque

import pytest
import simpy

from gpusim.node.build import Link
from gpusim.node.flows import Clock, Flow, Flows, fill

Transfer = tuple[float, tuple[int, ...], int]
"""When it starts, over which links, how many bytes."""


def link(number: int, rate: float, reverse: float = 0.0, back: bool = False) -> Link:
    ends = (f"b{number}", f"a{number}") if back else (f"a{number}", f"b{number}")
    return Link(f"{number}{back}", *ends, "wire", rate, 0.0, reverse)


def fluid(links: list[Link], transfers: list[Transfer]) -> tuple[list[float], Flows]:
    """When each transfer ends."""
    env = simpy.Environment()
    flows, ends = Flows(Clock(env), links), [0.0] * len(transfers)

    def go(number: int, start: float, path: tuple[int, ...], nbytes: int):  # type: ignore[no-untyped-def]
        yield env.timeout(start)
        yield flows.start(path, nbytes).done
        ends[number] = env.now

    for number, transfer in enumerate(transfers):
        env.process(go(number, *transfer))
    env.run()
    return ends, flows


def packets(rates: list[float], transfers: list[Transfer], size: int = 4096, window: int = 8) -> list[float]:
    """The same with packets: a transfer keeps some on their way, and a link serves its transfers in turn."""
    turns: list[deque[int]] = [deque() for _ in rates]
    queued = [dict.fromkeys(range(len(transfers)), 0) for _ in rates]
    busy = [False] * len(rates)
    left = [nbytes // size for _, _, nbytes in transfers]
    flying, ends = [0] * len(transfers), [0.0] * len(transfers)
    order = itertools.count()
    heap = [(start, next(order), -1, number) for number, (start, _, _) in enumerate(transfers)]
    heapq.heapify(heap)

    def put(at: int, number: int, now: float) -> None:
        queued[at][number] += 1
        if queued[at][number] == 1:
            turns[at].append(number)
        serve(at, now)

    def serve(at: int, now: float) -> None:
        if not busy[at] and turns[at]:
            number = turns[at].popleft()
            queued[at][number] -= 1
            if queued[at][number]:
                turns[at].append(number)
            busy[at] = True
            heapq.heappush(heap, (now + size / rates[at] / 1e3, next(order), at, number))

    def send(number: int, now: float) -> None:
        left[number] -= 1
        flying[number] += 1
        put(transfers[number][1][0], number, now)

    while heap:
        now, _, at, number = heapq.heappop(heap)
        path = transfers[number][1]
        if at < 0:
            for _ in range(window):
                send(number, now)
            continue
        busy[at] = False
        if at != path[-1]:
            put(path[path.index(at) + 1], number, now)
        else:
            flying[number] -= 1
            if left[number]:
                send(number, now)
            elif not flying[number]:
                ends[number] = now
        serve(at, now)
    return ends


@pytest.mark.parametrize("seed", range(4))
def test_flows_end_when_packets_served_in_turn_do(seed: int) -> None:
    chance = random.Random(seed)
    rates = [chance.choice([50.0, 100.0, 400.0]) for _ in range(6)]
    transfers = [
        (chance.uniform(0, 500), tuple(chance.sample(range(6), chance.randint(1, 3))), 4096 * chance.randint(500, 3000))
        for _ in range(6)
    ]
    ends, flows = fluid([link(number, rate) for number, rate in enumerate(rates)], transfers)
    assert ends == pytest.approx(packets(rates, transfers), rel=0.01)
    for number, carried in enumerate(flows.bytes):
        assert carried == pytest.approx(sum(nbytes for _, path, nbytes in transfers if number in path))


@pytest.mark.parametrize("seed", range(10))
def test_rates_are_max_min_fair(seed: int) -> None:
    """Every flow has a full link on its path on which none is faster; no link carries more than it can."""
    chance = random.Random(seed)
    env = simpy.Environment()
    room = {number: chance.uniform(10, 100) for number in range(8)}
    paths = [tuple(chance.sample(range(8), chance.randint(1, 5))) for _ in range(12)]
    flows = [Flow(number, path, 1.0, 0.0, env.event()) for number, path in enumerate(paths)]
    fill(flows, dict(room))
    load = {at: sum(flow.rate for flow in flows if at in flow.links) for at in room}
    assert all(load[at] <= room[at] * (1 + 1e-12) for at in room)
    for flow in flows:
        assert flow.limit in flow.links
        assert load[flow.limit] == pytest.approx(room[flow.limit])
        assert flow.rate >= max(each.rate for each in flows if flow.limit in each.links) * (1 - 1e-9)


def test_a_textbook_case() -> None:
    # Three flows over links of 10, 10 and 4: the third shares the last with the second, the first takes what is left.
    ends, flows = fluid([link(0, 10), link(1, 10), link(2, 4)], [
        (0, (0,), 80_000), (0, (0, 2), 10_000), (0, (2,), 20_000),
    ])  # fmt: skip
    # 2 GB/s each on link 2 until 5 us; then the third has 4 until 7.5 us; the first 8, then 10.
    assert ends == pytest.approx([9.0, 5.0, 7.5])
    assert [step[:2] for step in flows.steps[0]] == [(0.0, 1e4), (9.0, 0.0)]  # full until it is empty
    assert [step[:2] for step in flows.steps[2]] == [(0.0, 4e3), (7.5, 0.0)]


def test_the_opposite_direction_costs_its_share() -> None:
    links = [link(0, 10, 0.1), link(0, 10, 0.1, back=True)]
    alone, _ = fluid(links, [(0, (0,), 110_000)])
    assert alone == pytest.approx([11.0])
    both, flows = fluid(links, [(0, (0,), 110_000), (0, (1,), 110_000)])
    assert both == pytest.approx([12.1] * 2, rel=2e-3)  # 10 / 1.1 each
    assert flows.bytes == pytest.approx([110_000] * 2)
    assert flows.steps[0][0][2] == pytest.approx(1.0, rel=2e-3)


def test_nothing_to_move_ends_at_once() -> None:
    ends, flows = fluid([link(0, 1)], [(3.0, (0,), 0), (5.0, (), 10)])
    assert ends == [3.0, 5.0] and flows.bytes == [0.0]
