"""A systolic accelerator and a CPU at a matrix product, and both by name: the run, one model each, the shipped ones."""

from __future__ import annotations

import tomllib
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any

import simpy

from gpusim.beside.sections import CPU, SYSTOLIC, CpuConfig, SystolicConfig
from gpusim.config.load import Kind, Overrides, load
from gpusim.errors import ConfigError, nearest


@dataclass(frozen=True)
class ProductRun:
    """A product of m x k and k x n on `machine`, with data that nothing has touched before.

    seconds: from the first request to the last result. bytes: that passed each level, by its name, device memory
    'memory'. least_seconds: what each of these and the arithmetic would take alone at its peak. limit: what the
    machine spent most time with, in its own words. share: part of the time that was spent so.
    """

    machine: str
    m: int
    n: int
    k: int
    seconds: float
    bytes: dict[str, int]
    least_seconds: dict[str, float]
    limit: str
    share: float

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        return 2 * self.m * self.n * self.k

    @property
    def operations_per_s(self) -> float:
        """Achieved."""
        return self.operations / self.seconds

    @property
    def utilisation(self) -> float:
        """Part of the machine's peak arithmetic."""
        return self.least_seconds["arithmetic"] / self.seconds

    def __str__(self) -> str:
        return (
            f"{self.m} x {self.n} x {self.k} on {self.machine}: {self.seconds * 1e6:,.2f} us, "
            f"{self.operations_per_s / 1e12:.2f} TOP/s, {100 * self.utilisation:.1f} % of peak; "
            f"{self.limit} {100 * self.share:.0f} % of the time"
        )


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


def systolic_product(config: SystolicConfig, m: int, n: int, k: int) -> ProductRun:
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


def _on_cores(config: CpuConfig, m: int, n: int, k: int, cores: int) -> ProductRun:
    """The product on so many cores."""
    block, core, clock_hz = config.blocking, config.cores, config.chip.clock_mhz * 1e6
    parts = ceil(m / block.register_rows) * ceil(n / block.register_columns)
    each = ceil(parts / cores)  # parts of the result of the core that has most
    multiply_adds = each * block.register_rows * block.register_columns * k
    size = core.operand_bytes
    # Between two steps of depth the sums wait in L3, if there is room beside the second input, else in memory.
    steps, columns = ceil(k / block.depth), min(n, block.columns)
    stay = m * columns * core.result_bytes + min(k, block.depth) * columns * size <= config.l3.bytes
    results = m * n * core.result_bytes
    moved = {
        # A step of a part's sums needs a column of the first input and a row of the second one.
        "L1": parts * (block.register_rows + block.register_columns) * k * size,
        # Each part needs its rows of the block in L2; panels go to L1 once for each block.
        "L2": parts * block.register_rows * k * size + ceil(m / block.rows) * k * n * size,
        "L3": m * k * ceil(n / block.columns) * size + ceil(m / block.rows) * k * n * size + results * (2 * steps - 1),
        "memory": m * k * ceil(n / block.columns) * size + k * n * size + results * (1 if stay else 2 * steps - 1),
    }
    busy = min(cores, parts)
    rates = {
        name: level.bytes_per_cycle * busy * clock_hz
        for name, level in (("L1", config.l1), ("L2", config.l2), ("L3", config.l3))
    }
    # One core has as many lines of memory under way as its share of L3's bandwidth stands for.
    rates["memory"] = min(config.memory.bandwidth_gb_s * 1e9, rates["L3"])
    times = {name: moved[name] / rate for name, rate in rates.items()}
    instructions = multiply_adds / core.multiply_adds
    # Fewer sums than a unit works at cannot fill it.
    chains = block.register_rows * block.register_columns / core.sums / core.units
    interval = max(core.interval_cycles, core.latency_cycles / chains)
    times["arithmetic"] = instructions / core.units * interval / clock_hz
    latency = config.memory.latency_us * 1e-6 + core.latency_cycles / clock_hz
    fork = config.cores.fork_us * 1e-6 if cores > 1 else 0.0
    bound = max(times, key=lambda name: times[name])
    seconds = times[bound] + latency + fork
    spent = {bound: times[bound], "latency": latency, "starting the cores": fork}
    limit = max(spent, key=lambda name: spent[name])
    least = times | {"arithmetic": m * n * k / config.peak_macs_per_s}
    return ProductRun(config.chip.name, m, n, k, seconds, moved, least, limit, spent[limit] / seconds)


Named = str | Path | SystolicConfig | CpuConfig
"""A shipped name, a TOML file, or what `load_machine` gives."""


def shipped_machines() -> tuple[str, ...]:
    """Names of the machines that come with gpusim: accelerators, then CPUs."""
    return (*SYSTOLIC.names(), *CPU.names())


def load_machine(machine: Named, overrides: Overrides = None) -> SystolicConfig | CpuConfig:
    """A machine. overrides: as for `gpusim.load_config`. Raises ConfigError for what is wrong with any of it."""
    kind = CPU if isinstance(machine, CpuConfig) else SYSTOLIC
    if isinstance(machine, str | Path):
        kind = _kind(str(machine), Path())
    return load(kind, machine, overrides)  # type: ignore[no-any-return]


def _kind(name: str, folder: Path) -> Kind:
    """Kind of a machine by its name or file: that of its base, or a CPU if it has cores."""
    for kind in (SYSTOLIC, CPU):
        if name in kind.names():
            return kind
    path = folder / Path(name).expanduser()
    if not path.is_file():
        reason = f"no machine {name!r}: it is neither a file nor one of {', '.join(shipped_machines())}"
        raise ConfigError(reason, suggestion=nearest(name.lower(), shipped_machines(), 0.5))
    try:
        tree = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):  # which reading it as either will say
        return SYSTOLIC
    base = tree.get("base")
    if isinstance(base, str) and (path.parent / base).resolve() != path.resolve():
        return _kind(base, path.parent)
    return CPU if "cores" in tree else SYSTOLIC


def matrix_product(machine: Named, m: int, n: int, k: int) -> ProductRun:
    """Run of a machine that multiplies an m x k by a k x n matrix in its memory, m, n, k at least 1.

    Raises ConfigError for a machine that does not exist, ValueError for sizes that it cannot take.
    """
    if min(m, n, k) < 1:
        raise ValueError(f"a matrix has at least one row and one column, not {m} x {n} x {k}")
    found = load_machine(machine)
    if not isinstance(found, CpuConfig):
        return systolic_product(found, m, n, k)
    # One core or all, whichever is faster.
    return min((_on_cores(found, m, n, k, cores) for cores in (1, found.cores.count)), key=lambda each: each.seconds)


def dependent_load_us(machine: Named, nbytes: int) -> float:
    """Microseconds of a load whose address the one before has given, in a working set of so many bytes.

    An accelerator without caches goes to its memory each time.
    """
    found = load_machine(machine)
    if isinstance(found, CpuConfig):
        for level in (found.l1, found.l2, found.l3):
            if nbytes <= level.bytes:
                return level.latency_cycles / found.chip.clock_mhz
    return found.memory.latency_us
