"""A heap of events in compiled code: the earliest first, and of those at one time the one with the lowest number.

`times` and `numbers` are arrays whose first `count` entries are the heap, the next event at 0. Since a number breaks
ties, the order of events depends on what is in the heap alone, never on how it came there.
"""

import numpy as np

from gpusim.engine.state.jit import compiled


@compiled
def heap_push(times: np.ndarray, numbers: np.ndarray, count: int, time: float, number: int) -> int:
    """Adds an event; returns how many there are then."""
    at = count
    while at > 0:
        parent = (at - 1) >> 1
        if times[parent] < time or (times[parent] == time and numbers[parent] <= number):
            break
        times[at], numbers[at] = times[parent], numbers[parent]
        at = parent
    times[at], numbers[at] = time, number
    return count + 1


@compiled
def heap_pop(times: np.ndarray, numbers: np.ndarray, count: int) -> int:
    """Takes the next event off; returns how many are left."""
    count -= 1
    time, number = times[count], numbers[count]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        other = child + 1
        if other < count and (
            times[other] < times[child] or (times[other] == times[child] and numbers[other] < numbers[child])
        ):
            child = other
        if time < times[child] or (time == times[child] and number <= numbers[child]):
            break
        times[at], numbers[at] = times[child], numbers[child]
        at = child
    times[at], numbers[at] = time, number
    return count
