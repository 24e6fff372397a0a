"""The energy of a launch: static power over its time, and an energy for each event, by unit and by instruction.

An event has two energies: what it takes with operands that stay as they are, and what comes on top with random ones.
The activity of an instruction lies between: bits that change, of those that change in random values (half of them).
It is looked at in some warps (`engine.sm.run_warp`); what was not looked at has the mean of the launch. `Clocking` is
what clock and voltage do to energies, and how far a board's limit lets the clock be. docs/energy.md says where the
numbers come from and how well they agree with a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpusim.config import GPUConfig
from gpusim.config.sections import Energy
from gpusim.engine.state import L, ms
from gpusim.results.counts import GLOBAL, SHARED, Counts
from gpusim.results.metrics import DRAM_READ_SECTORS, DRAM_WRITE_SECTORS
from gpusim.results.roofline import multiply_adds
from isa import microops as M

Put = Callable[[str, np.ndarray, np.ndarray], None]
PARTS = {
    "launch": ("launch", "warp"),
    "issue": ("issue",),
    "registers": ("operand",),
    "integer units": ("alu", "integer_product", "wide_product", "vote"),
    "floating point units": ("single_product", "half_product", "double_sum", "double_product", "special"),
    "tensor cores": (
        "matrix_half", "matrix_single", "matrix_byte", "matrix_double", "group_half", "group_single", "group_int8",
        "group_fp8",
    ),
    "constants": ("constant",),
    "shared memory and L1": (
        "access", "shuffle", "shared_wavefront", "shared_word", "shared_atomic", "l1_tag", "l1_word",
    ),
    "L2": ("l2_request", "l2_read", "l2_write", "l2_atomic", "fabric"),
    "memory": ("dram_read", "dram_write", "dram_row"),
    "links": ("link",),
}  # fmt: skip
"""Units and the events that are theirs. Sums of single and half precision take no more than their issue and their
operands."""
EVENTS = tuple(event for events in PARTS.values() for event in events)
"""Events with an energy each, `energy.*_pj` of a configuration."""

_SUMS = (
    *(M.OP_FADD, M.OP_FADD_MODE, M.OP_FADD_FTZ, M.OP_FADD2, M.OP_HADD2, M.OP_HADD2_F32, M.OP_FHADD),
    *(M.OP_DADD, M.OP_DADD_MODE, M.OP_DSETP, M.OP_HSETP2, M.OP_HMNMX2),
)
_PRODUCTS = (M.OP_IMAD, M.OP_IMAD_X, M.OP_IMAD_CARRY, M.OP_IDP_4A, M.OP_IDP_2A)
_WIDE_PRODUCTS = (M.OP_IMAD_WIDE_U, M.OP_IMAD_WIDE_S, M.OP_IMAD_HI_U, M.OP_IMAD_HI_S)
_RANDOM_BITS = 16
"""Bits of a word of 32 that change from one random value to the next."""
UNKNOWN_ACTIVITY = 0.5
_MATRIX = {
    M.TENSOR_F16: "half",
    M.TENSOR_BF16: "half",
    M.TENSOR_TF32: "single",
    M.TENSOR_E4M3: "byte",
    M.TENSOR_E5M2: "byte",
    M.TENSOR_INTEGER: "byte",
}
_FACTORS = {M.OP_IMMA: "byte", M.OP_DMMA: "double", M.OP_QMMA: "byte"}
_IN_MEMORY = ("half", "fp8", "int8", "fp8")
"""Of products in tensor memory, by PRODUCT_*: as in those of four warps, packed four bits half of it (assumed)."""
_STEPS = 40  # of the search for a clock
_OFF_CHIP = (*PARTS["memory"], *PARTS["links"])


def activity_of(counts: Counts) -> np.ndarray:
    """Of each instruction, float64 [instructions], 1 for random values."""
    counters = counts.counters
    looked = counters[:, L.COUNT_LOOKED]
    changed = np.maximum(counters[:, L.COUNT_TOGGLED], counters[:, L.COUNT_SPREAD])
    weight = counters[:, L.COUNT_PRED_ON]
    known = looked > 0
    activity = changed / np.maximum(looked, 1) / _RANDOM_BITS
    mean = np.average(activity[known], weights=weight[known]) if weight[known].any() else UNKNOWN_ACTIVITY
    return np.where(known, activity, mean)


def events_of(counts: Counts) -> np.ndarray:
    """Of each instruction, float64 [instructions, EVENTS]. What L2 and the memory did is shared among those that asked,
    by sectors that L1 did not have."""
    code, counters = counts.code, counts.counters
    found = np.zeros((len(code), len(EVENTS)))

    def put(event: str, rows: np.ndarray, amount: np.ndarray) -> None:
        found[rows, EVENTS.index(event)] += amount[rows]

    kind, unit, op = code[:, M.COL_CLASS], code[:, M.COL_UNIT], code[:, M.COL_OP]
    lanes = counters[:, L.COUNT_PRED_ON].astype(float)
    every = np.ones(len(code), bool)
    scalar = unit == M.UNIT_UNIFORM
    fma = (unit == M.UNIT_FMA) | (unit == M.UNIT_FMAHEAVY)
    launch = counts.record.launch
    found[0, EVENTS.index("launch")] = 1
    found[0, EVENTS.index("warp")] = launch.blocks * -(-launch.threads_per_block // counts.record.config.gpu.warp_size)
    put("issue", every, counters[:, L.COUNT_EXECUTED])
    reads = code[:, M.COL_READS]
    put("operand", fma | (unit == M.UNIT_ALU) | (unit == M.UNIT_HALF), lanes * ((reads & 15) + (reads >> 4 & 15)))
    sums, products, wide = (np.isin(op, of) for of in (_SUMS, _PRODUCTS, _WIDE_PRODUCTS))
    put("integer_product", products, lanes)
    put("wide_product", wide, lanes)
    put("alu", fma & (kind == M.CLS_INT) & ~products & ~wide, lanes)
    double = (unit == M.UNIT_FP64) & (kind != M.CLS_TENSOR)
    put("single_product", fma & (kind == M.CLS_FLOAT) & ~sums, lanes)
    put("half_product", (kind == M.CLS_HALF) & ~scalar & ~sums, lanes)
    put("double_sum", double & sums, lanes)
    put("double_product", double & ~sums, lanes)
    put("special", unit == M.UNIT_XU, lanes)
    put("shuffle", (kind == M.CLS_CROSS) & (op == M.OP_SHFL), lanes)
    put("vote", (kind == M.CLS_CROSS) & (op != M.OP_SHFL), lanes)
    put("alu", (unit == M.UNIT_ALU) & (kind != M.CLS_HALF) & (kind != M.CLS_CROSS), lanes)
    addresses = counters[:, L.COUNT_EXECUTED] + counters[:, L.COUNT_TURNS]
    put("constant", (kind == M.CLS_MEMORY) & (op == M.OP_LDC), addresses)
    _put_matrices(put, counts, op)
    _put_accesses(put, counts, lanes)
    return found


def _put_matrices(put: Put, counts: Counts, op: np.ndarray) -> None:
    code, executed = counts.code, counts.counters[:, L.COUNT_EXECUTED]
    matrices = np.isin(op, (M.OP_HMMA, M.OP_IMMA, M.OP_DMMA, M.OP_GMMA, M.OP_QMMA)) & (executed > 0)
    for row in np.flatnonzero(matrices):
        first, amount = int(code[row, M.COL_AUX1]), np.zeros(len(code))
        factors = _FACTORS.get(int(op[row])) or _MATRIX.get(first & 255, "half")
        which = "group" if op[row] == M.OP_GMMA else "matrix"
        if which == "group" and factors == "byte":
            factors = "int8" if first & 255 == M.TENSOR_INTEGER else "fp8"
        packed = op[row] == M.OP_QMMA and first >> 8 & M.SCALES_PACKED
        amount[row] = executed[row] * multiply_adds(code[row]) / (2 if packed else 1)
        put(f"{which}_{factors}", amount > 0, amount)
    products, single = op == M.OP_TMEM_PRODUCT, counts.counters[:, L.TMEM_SINGLE].astype(float)
    put("group_single", products, single)
    for kind, factors in enumerate(_IN_MEMORY):
        amount = (counts.counters[:, L.TMEM_MULTIPLY_ADDS] - single) / (2 if kind == M.PRODUCT_NIBBLE else 1)
        put(f"group_{factors}", products & (code[:, M.COL_AUX0] == kind), amount)


def _put_accesses(put: Put, counts: Counts, lanes: np.ndarray) -> None:
    code, counters, memory = counts.code, counts.counters, counts.record.memory
    words = lanes * np.maximum((code[:, M.COL_AUX1] & 0xFF) / 4, 0.25)
    shared, beyond = counts.accesses(SHARED), counts.accesses((*GLOBAL, M.SPACE_LOCAL))
    put("shared_wavefront", np.ones(len(code), bool), counters[:, L.COUNT_SHARED_DATA].astype(float))
    put("shared_word", shared, words)
    put("shared_atomic", counts.accesses(SHARED, M.OP_ATOM, M.OP_RED), lanes)
    put("access", shared | beyond, counters[:, L.COUNT_EXECUTED].astype(float))
    put("l1_tag", beyond, counters[:, L.COUNT_TAGS].astype(float))
    put("l1_word", beyond, words)
    loads, stores, atomics = (
        beyond & counts.accesses((*GLOBAL, M.SPACE_LOCAL), *ops)
        for ops in ((M.OP_LOAD,), (M.OP_STORE,), (M.OP_ATOM, M.OP_RED))
    )
    missed = np.maximum(counters[:, L.COUNT_SECTORS] - counters[:, L.COUNT_HITS], 0) + 2 * counters[:, L.COUNT_PAST_L1]

    def share(event: str, rows: np.ndarray, *which: int, scale: float = 1.0) -> None:
        total, weight = scale * sum(int(memory[k]) for k in which), np.where(rows, missed, 0).astype(float)
        if total and not weight.any():
            weight[:] = counters[:, L.COUNT_EXECUTED]
        if total:
            put(event, weight > 0, total * weight / weight.sum())

    share("l2_read", loads, ms.CNT_TEX_READ_SECTORS)
    share("l2_write", stores, ms.CNT_TEX_WRITE_SECTORS)
    share("l2_atomic", atomics, ms.CNT_TEX_ATOMIC_SECTORS, ms.CNT_TEX_REDUCTION_SECTORS)
    share("l2_request", beyond, ms.CNT_REQUESTS)
    share("fabric", beyond, ms.CNT_FABRIC_READ_SECTORS, ms.CNT_FABRIC_WRITE_SECTORS)
    share("dram_read", loads, *DRAM_READ_SECTORS)
    share("dram_write", stores | atomics, *DRAM_WRITE_SECTORS)
    share("dram_row", beyond, ms.CNT_ROW_OPENS, ms.CNT_ROW_CONFLICTS)
    share("link", beyond, ms.CNT_PEER_RECEIVED_BYTES, ms.CNT_PEER_SENT_BYTES, scale=1 / ms.SECTOR_BYTES)


def picojoules(config: GPUConfig) -> tuple[np.ndarray, np.ndarray]:
    """Of each event, float64 [EVENTS]: with operands that stay as they are, and what random ones add."""
    values = np.array([getattr(config.energy, f"{each}_pj") for each in EVENTS])
    of = config.energy
    scale = np.array([of.memory_scale if each in PARTS["memory"] else of.logic_scale for each in EVENTS])
    return values[:, 0] * scale, values[:, 1] * scale


@dataclass(frozen=True)
class Clocking:
    """The law between clock, voltage and power of a board with so many SMs.

    The energy of an event goes with the square of the voltage, which falls along a line with the clock
    (`energy.volts_per_clock`) to a least one. Of the static power a part goes with the clock, the rest stays
    (`energy.still_share`).
    """

    of: Energy
    sms: int

    def volts(self, clock_mhz: float) -> float:
        """The voltage, 1 at the clock at which energies hold."""
        return max(1 + self.of.volts_per_clock * (clock_mhz / self.of.clock_mhz - 1), self.of.least_volts)

    def static_w(self, clock_mhz: float) -> float:
        """Of the board when no instruction runs."""
        full = self.of.board_w + self.of.sm_w * self.sms
        return full * (self.of.still_share + (1 - self.of.still_share) * clock_mhz / self.of.clock_mhz)

    def settle(
        self, clock_mhz: float, seconds: float, logic: float, off_chip: float
    ) -> tuple[float, float, float, float]:
        """Clock, microseconds, joules and watts of a launch that is repeated. logic, off_chip: its joules at
        `clock_mhz`. Time goes with the clock, of launches that come to the limit by memory alone too."""

        def at(clock: float) -> tuple[float, float]:
            time = seconds * clock_mhz / clock
            square = (self.volts(clock) / self.volts(clock_mhz)) ** 2
            return time, self.static_w(clock) * time + logic * square + off_chip

        low, high = 0.1 * clock_mhz, clock_mhz
        time, joules = at(high)
        if joules > self.of.limit_w * time:
            for _ in range(_STEPS):
                middle = (low + high) / 2
                time, joules = at(middle)
                low, high = (low, middle) if joules > self.of.limit_w * time else (middle, high)
            time, joules = at(low)
            return low, 1e6 * time, joules, joules / time
        return clock_mhz, 1e6 * time, joules, joules / time if time else 0.0


@dataclass(frozen=True)
class Sustained:
    """A launch that is repeated without an end. clock_mhz: what the board's limit leaves of the clock. time_us,
    energy_j: of one launch; power_w: of the board."""

    clock_mhz: float
    time_us: float
    energy_j: float
    power_w: float


class LaunchEnergy:
    """Of one launch, at the configuration's clock.

    seconds: what it takes. events: float64 [instructions, EVENTS]. activity: float64 [instructions], see
    `activity_of`. parts: joules by unit, static power under 'static'. instruction_j: joules of each
    instruction; static power and the launch itself are nobody's.
    """

    def __init__(self, counts: Counts, seconds: float):
        self._config = config = counts.record.config
        self._clocking = Clocking(config.energy, config.sm.count)
        self.seconds = seconds
        self.events, self.activity = events_of(counts), activity_of(counts)
        still, random = picojoules(config)
        square = self._clocking.volts(config.gpu.clock_mhz) ** 2
        by_event = self.events * still + self.events * self.activity[:, None] * random
        logic = np.array([1.0 if each in _OFF_CHIP else square for each in EVENTS])
        self.event_j = 1e-12 * by_event * logic

    @cached_property
    def instruction_j(self) -> np.ndarray:
        """Of each instruction, float64 [instructions]."""
        return self.event_j[:, len(PARTS["launch"]) :].sum(axis=1)

    @cached_property
    def parts(self) -> Mapping[str, float]:
        """Joules by unit."""
        each = dict(zip(EVENTS, self.event_j.sum(axis=0).tolist(), strict=True))
        found = {name: sum(each[event] for event in events) for name, events in PARTS.items()}
        return {"static": self._clocking.static_w(self._config.gpu.clock_mhz) * self.seconds} | found

    @property
    def energy_j(self) -> float:
        """All of it."""
        return sum(self.parts.values())

    @property
    def power_w(self) -> float:
        """In the mean over the launch."""
        return self.energy_j / self.seconds if self.seconds else 0.0

    def sustained(self, period_us: float | None = None) -> Sustained:
        """Return the clock, time and power of launches that follow each other for a second or more. period_us: from one
        to the next at full clock; by default the launch's own time."""
        seconds = self.seconds if period_us is None else 1e-6 * period_us
        off_chip = float(self.event_j[:, [EVENTS.index(each) for each in _OFF_CHIP]].sum())
        logic = float(self.event_j.sum()) - off_chip
        return Sustained(*self._clocking.settle(self._config.gpu.clock_mhz, seconds, logic, off_chip))
