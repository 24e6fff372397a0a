"""Moves real data as a plan says: the same tables that the machine times, on NumPy arrays."""

from __future__ import annotations

from collections import deque

import numpy as np

from gpusim.collectives.errors import CollectiveError
from gpusim.collectives.programs import (
    BYTES,
    END,
    IN_AT,
    IN_PIECE,
    IN_STRIDE,
    NONE,
    OUT_AT,
    OUT_PIECE,
    OUT_STRIDE,
    RECEIVES,
    SENDS,
    Plan,
)


def move(plan: Plan, inputs: list[np.ndarray], output_bytes: int) -> list[np.ndarray]:
    """Outputs of all ranks, as arrays of the inputs' type and `output_bytes` each; sums are made in the order in which
    the plan adds. Raises CollectiveError if a slice is waited for that nobody sends."""
    kind = inputs[0].dtype
    sources = [np.ascontiguousarray(each).reshape(-1) for each in inputs]
    outputs = [np.zeros(output_bytes // kind.itemsize, kind) for _ in inputs]
    queues: list[deque[np.ndarray]] = [deque() for _ in plan.connections]
    at = [0] * len(plan.rank)
    ready = deque(range(len(plan.rank)))
    asleep: set[int] = set()
    while ready:
        actor = ready.popleft()
        table = plan.tables[plan.table[actor]]
        while at[actor] < len(table.operations):
            operation = table.operations[at[actor]]
            takes = [c for i, c in enumerate(plan.sources[actor]) if int(operation[RECEIVES]) >> i & 1]
            if any(not queues[c] for c in takes):
                asleep.add(actor)
                break
            value = _step(plan, actor, table.places[at[actor]], int(operation[BYTES]), takes, queues, sources, outputs)
            for i, c in enumerate(plan.destinations[actor]):
                if int(operation[SENDS]) >> i & 1:
                    queues[c].append(value)
                    other = plan.connections[c][1]
                    if other in asleep:
                        asleep.remove(other)
                        ready.append(other)
            at[actor] += 1
    if asleep:
        stuck = sorted({plan.rank[actor] for actor in asleep})
        raise CollectiveError(f"ranks {', '.join(map(str, stuck))} wait for data that no rank sends")
    return outputs


def _step(plan, actor, place, nbytes, takes, queues, sources, outputs):  # type: ignore[no-untyped-def]
    rank, item = plan.rank[actor], sources[0].dtype.itemsize
    order = plan.orders[plan.channel[actor] % len(plan.orders)]

    def where(columns: tuple[int, int, int], buffer: np.ndarray) -> np.ndarray:
        at, piece, stride = (int(place[k]) for k in columns)
        number = (plan.place[actor] + piece) % len(order)
        start = at + (number if plan.by_place else order[number]) * stride
        size = max(min(nbytes, int(place[END]) - start), 0)
        return buffer[start // item : start // item + size // item]

    value = None
    if place[IN_PIECE] != NONE:
        value = where((IN_AT, IN_PIECE, IN_STRIDE), sources[rank]).copy()
    for c in takes:
        come = queues[c].popleft()
        value = come if value is None else value + come
    assert value is not None
    if place[OUT_PIECE] != NONE:
        where((OUT_AT, OUT_PIECE, OUT_STRIDE), outputs[rank])[:] = value
    return value
