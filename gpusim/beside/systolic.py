"""A matrix product on weight-stationary systolic arrays, as events: weights come, are shifted in, and are used.

A cell holds a weight. In each cycle it takes an input from its left and a sum from above, multiplies and adds, and
hands both on; row r of the array starts r cycles late, so that the sums meet their inputs (H. T. Kung, C. E. Leiserson,
"Systolic Arrays (for VLSI)", 1978). With m rows of inputs the last sum leaves m + rows + columns - 2 cycles after the
first input came. Weights are shifted in from above, a row a cycle. With two planes that happens while inputs pass, from
the cycle in which the weights before them are first used; the next inputs follow the last ones at once, and each brings
the new weights into use as it passes. `tests/gpusim/test_beside.py` holds these times to an array of moving values.

A product is cut into tiles of weights of the size of an array; each array takes columns of tiles, sums over the tiles
of one, and hands its results out while it sums the next. Rows of inputs are taken in pieces for which there are sums.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

import simpy

from gpusim.beside.product import ProductRun
from gpusim.beside.sections import SystolicConfig

_Process = Generator[simpy.Event, Any, Any]
STREAMS, MEMORY, WEIGHTS, DRAINS = _WAYS = (
    *("inputs stream", "waiting for memory", "shifting weights in", "fill and drain"),
)


@dataclass
class _Tile:
    """Weights of one array. rows, columns: that are used of it; inputs: rows that pass; brings: bytes of inputs that
    come ahead of it; there: cycle at which it had come."""

    rows: int
    columns: int
    inputs: int
    last: bool  # of its sums
    inputs_there: simpy.Event
    brings: int
    there: float = 0.0


@dataclass
class _Run:
    """One product. Time is in cycles."""

    config: SystolicConfig
    m: int
    n: int
    k: int
    env: simpy.Environment = field(default_factory=simpy.Environment)
    bytes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("memory", "buffer"), 0))
    spent: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_WAYS, 0.0))  # cycles of an array, the mean

    def __post_init__(self) -> None:
        self.port = simpy.Resource(self.env)
        self.rate = self.config.memory.bandwidth_gb_s * 1e3 / self.config.chip.clock_mhz
        self.latency = self.config.memory.latency_us * self.config.chip.clock_mhz
        self.used = min(self.config.units.arrays, -(-self.n // self.config.units.columns))

    def run(self) -> float:
        """Cycles until the last result is where results go."""
        env, work, done = self.env, list(self._work()), []
        for number in range(self.used):
            room = simpy.Container(env, self.config.on_chip.weight_tiles, self.config.on_chip.weight_tiles)
            plane = simpy.Container(env, 1, 1)
            come, shifted = simpy.Store(env), simpy.Store(env)
            tiles = [tile for array, tile in work if array == number]
            env.process(self._fetch(tiles, room, come))
            env.process(self._shift(len(tiles), room, plane, come, shifted))
            done.append(env.process(self._stream(tiles, plane, shifted)))
        env.run(until=env.all_of(done))
        return float(env.now)

    def _work(self) -> Iterator[tuple[int, _Tile]]:
        """(array, tile) in the order in which they are taken."""
        units = self.config.units
        piece = min(self.m, max(units.accumulator_rows // 2, 1))
        # This piece's inputs and the next one's; else they are brought again for each row of arrays.
        stay = 2 * piece * self.k * units.operand_bytes <= self.config.on_chip.buffer_bytes
        for first in range(0, self.m, piece):
            inputs = min(piece, self.m - first)
            there: dict[int, simpy.Event] = {}
            for column in range(0, self.n, units.columns):
                array = column // units.columns % units.arrays
                if array == 0 and not stay:
                    there = {}
                for row in range(0, self.k, units.rows):
                    rows, brings = min(units.rows, self.k - row), 0
                    if row not in there:
                        there[row], brings = self.env.event(), inputs * rows * units.operand_bytes
                    columns = min(units.columns, self.n - column)
                    yield array, _Tile(rows, columns, inputs, row + rows == self.k, there[row], brings)

    def _move(self, amount: int) -> _Process:
        """Bytes over the memory's port, one transfer after the other."""
        self.bytes["memory"] += amount
        with self.port.request() as turn:
            yield turn
            yield self.env.timeout(amount / self.rate)

    def _fetch(self, tiles: list[_Tile], room: simpy.Container, come: simpy.Store) -> _Process:
        """Inputs and weights from memory, tile by tile, as long as there is room in front of the array."""
        for tile in tiles:
            yield room.get(1)
            if tile.brings and self.config.memory.holds_activations:
                yield from self._move(tile.brings)
            yield from self._move(tile.rows * tile.columns * self.config.units.operand_bytes)
            self.env.process(self._arrive(tile, come))

    def _arrive(self, tile: _Tile, come: simpy.Store) -> _Process:
        yield self.env.timeout(self.latency)
        tile.there = self.env.now
        self.bytes["buffer"] += tile.brings
        if tile.brings:
            tile.inputs_there.succeed(self.env.now)
        yield come.put(tile)

    def _shift(
        self, count: int, room: simpy.Container, plane: simpy.Container, come: simpy.Store, shifted: simpy.Store
    ) -> _Process:
        """Weights into the free plane of the array's cells: all rows, used or not."""
        for _ in range(count):
            tile = yield come.get()
            yield plane.get(1)
            yield self.env.timeout(self.config.units.rows)
            yield room.put(1)
            yield shifted.put(tile)

    def _stream(self, tiles: list[_Tile], plane: simpy.Container, shifted: simpy.Store) -> _Process:
        """Inputs through the array. With two planes the last sums of a tile leave while the next one is in use."""
        units, env = self.config.units, self.env
        tail = units.rows + units.columns - 2
        leaving: list[simpy.Event] = []
        fresh = True  # sums of other columns
        for n, tile in enumerate(tiles):
            start = env.now
            yield shifted.get()
            came = max((yield tile.inputs_there), tile.there)
            sets = max(units.accumulator_rows // tile.inputs, 1)
            if fresh and len(leaving) >= sets:
                yield leaving[-sets]
                came = env.now
            self._spend(MEMORY, min(max(came - start, 0.0), env.now - start))
            self._spend(WEIGHTS, min(env.now - max(came, start), env.now - start))
            if units.weight_planes == 2:
                yield plane.put(1)  # the first inputs bring the new weights into use as they pass
            if tile.last:
                leaving.append(env.process(self._leave(tile, env.now + tail)))
            fresh = tile.last
            yield env.timeout(tile.inputs)
            self._spend(STREAMS, tile.inputs)
            if units.weight_planes == 1 or n == len(tiles) - 1:
                yield env.timeout(tail)
                self._spend(DRAINS, tail)
            if units.weight_planes == 1:
                yield plane.put(1)
        start = env.now
        yield env.all_of(leaving)
        self._spend(MEMORY, env.now - start)

    def _spend(self, what: str, cycles: float) -> None:
        self.spent[what] += cycles / self.used

    def _leave(self, tile: _Tile, first: float) -> _Process:
        """Results out of the sums as they are complete, row after row from cycle `first` on, into the buffer or on to
        memory; as many rows at once as the array has."""
        for done in range(0, tile.inputs, self.config.units.rows):
            rows = min(self.config.units.rows, tile.inputs - done)
            yield self.env.timeout(max(first + done + rows - self.env.now, 0))
            amount = rows * tile.columns * self.config.units.result_bytes
            self.bytes["buffer"] += amount
            if self.config.memory.holds_activations:
                yield from self._move(amount)


def multiply(config: SystolicConfig, m: int, n: int, k: int) -> ProductRun:
    """The product on an accelerator. Raises ValueError if inputs and results do not fit the buffer they stay in."""
    units = config.units
    needs = m * k * units.operand_bytes + m * n * units.result_bytes
    if not config.memory.holds_activations and needs > config.on_chip.buffer_bytes:
        raise ValueError(
            f"inputs and results take {needs:,} bytes; {config.chip.name} keeps both in a buffer of "
            f"{config.on_chip.buffer_bytes:,}"
        )
    run = _Run(config, m, n, k)
    cycles = run.run()
    limit, most = max(run.spent.items(), key=lambda each: each[1])
    return ProductRun(
        machine=config.chip.name,
        m=m,
        n=n,
        k=k,
        seconds=cycles / (config.chip.clock_mhz * 1e6),
        bytes=run.bytes,
        least_seconds={
            "arithmetic": m * n * k / config.peak_macs_per_s,
            "memory": run.bytes["memory"] / (config.memory.bandwidth_gb_s * 1e9),
        },
        limit=limit,
        share=most / cycles,
    )
