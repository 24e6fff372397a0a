"""Moves real data as a plan says: the same tables that the machine times, on NumPy arrays."""

from __future__ import annotations

from collections import deque

import numpy as np

from gpusim.collectives import machine as M
from gpusim.collectives import programs as P
from gpusim.collectives.names import CollectiveError


def move(plan: P.CollectivePlan, inputs: list[np.ndarray], output_bytes: int) -> list[np.ndarray]:
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
        table, rank = plan.tables[plan.table[actor]], plan.rank[actor]
        while at[actor] < len(table.operations):
            operation, place = table.operations[at[actor]], table.places[at[actor]]
            takes = [c for i, c in enumerate(plan.sources[actor]) if int(operation[M.RECEIVES]) >> i & 1]
            if any(not queues[c] for c in takes):
                asleep.add(actor)
                break
            values = [queues[c].popleft() for c in takes]
            nbytes = int(operation[M.BYTES])
            if place[P.IN_PIECE] != P.NONE:
                values.insert(0, _part(plan, actor, place, P.IN_AT, nbytes, sources[rank]).copy())
            value = values[0]
            for each in values[1:]:
                value = value + each
            if place[P.OUT_PIECE] != P.NONE:
                _part(plan, actor, place, P.OUT_AT, nbytes, outputs[rank])[:] = value
            for i, c in enumerate(plan.destinations[actor]):
                if int(operation[M.SENDS]) >> i & 1:
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


def _part(
    plan: P.CollectivePlan, actor: int, place: np.ndarray, first: int, nbytes: int, buffer: np.ndarray
) -> np.ndarray:
    """What an operation reads or writes of a buffer. first: the column of three that says where."""
    order = plan.orders[plan.channel[actor] % len(plan.orders)]
    at, piece, stride = (int(each) for each in place[first : first + 3])
    number = (plan.place[actor] + piece) % len(order)
    start = at + (number if plan.by_place else order[number]) * stride
    item, size = buffer.itemsize, max(min(nbytes, int(place[P.END]) - start), 0)
    return buffer[start // item : start // item + size // item]
