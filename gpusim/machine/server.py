"""What serves one after the other: ports, pipes, slices, channels."""

from __future__ import annotations

import math

import simpy


class Server:
    """A unit that serves in the order of arrival, each for as long as it says: a `simpy.Resource` of which the end is
    known at once, so that waiting costs one event instead of three."""

    def __init__(self, env: simpy.Environment):
        self.env = env
        self.free: float = 0

    def book(self, cycles: float, earliest: float = 0) -> float:
        """Take the next turn, of so many cycles. Returns the cycle at which it begins."""
        start = max(self.free, self.env.now, earliest)
        self.free = start + cycles
        return start

    def serve(self, cycles: float) -> simpy.Timeout:
        """Take the next turn; the event is its end."""
        self.book(cycles)
        return self.env.timeout(math.ceil(self.free) - self.env.now)
