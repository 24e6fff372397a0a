"""Advice on the memory of a launch: rules about shared, global, local and constant memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from gpusim.config.derived import peak_bytes_per_cycle
from gpusim.engine.state import layout as L
from gpusim.engine.state.memory import SECTOR_BYTES
from gpusim.results.counts import GLOBAL, LOCAL, SHARED, Place, ratio
from gpusim.results.finding import Finding, LaunchSums, percent, where
from gpusim.results.limiter import utilisation
from isa import microops as M

_ARITHMETIC = {
    "FADD", "FMUL", "FFMA", "FMNMX", "DADD", "DMUL", "DFMA", "IADD3", "IMAD", "IMNMX", "VIMNMX", "LOP3", "HADD2",
}  # fmt: skip
_SHORT = {"LDS", "S2R", "S2UR", "SHFL", "MUFU", "LDSM", "ATOMS", "VOTE", "MATCH", "REDUX", "F2I", "I2F", "POPC"}


def bank_conflicts(launch: LaunchSums) -> Iterator[Finding]:
    """Wavefronts of shared memory beyond the ideal, by line."""
    shared = launch.counts.accesses(SHARED) & ~atomics_of(launch)
    cycles = launch.record.config.shared.wavefront_cycles
    for place, rows in launch.counts.lines.items():
        members = rows[shared[rows]]
        total = int(launch.counters[members, L.COUNT_SHARED_WAVEFRONTS].sum())
        excessive = total - int(launch.counters[members, L.COUNT_SHARED_IDEAL].sum())
        if excessive <= 0:
            continue
        each = ratio(total, int(launch.counters[members, L.COUNT_SHARED_REQUESTS].sum()))
        share = excessive * cycles / launch.sms / launch.cycles
        yield Finding("bank conflicts", *place, excessive, min(share, 1.0), (
            f"{where(place)}: {excessive:,} of {total:,} shared-memory wavefronts are excessive"
            + (f" ({each:.1f} wavefronts per request)" if each else "")
            + f", {percent(share)} of the time on the shared-memory data pipe. "
            "Pad the rows by one word, or let neighbouring threads use neighbouring words."
        ))  # fmt: skip


def uncoalesced(launch: LaunchSums) -> Iterator[Finding]:
    """Sectors of global memory beyond the ideal, by line."""
    config = launch.record.config
    bandwidth = min(launch.sms * config.crossbar.sm_reply_bytes_per_cycle, peak_bytes_per_cycle(config)["L2"])
    latency, rows_global = config.l2.latency_near_cycles, launch.counts.accesses(GLOBAL)
    for place, rows in launch.counts.lines.items():
        members = rows[rows_global[rows]]
        ideal, sectors = launch.counters[members, L.COUNT_SECTORS_IDEAL], launch.counters[members, L.COUNT_SECTORS]
        over = np.maximum(sectors - ideal, 0)
        if not (excessive := int(over.sum())):
            continue
        total, worst = int(sectors.sum()), int(members[np.argmax(sectors - ideal)])
        requests = int(launch.counters[worst, L.COUNT_REQUESTS])
        # What is worn out first: the way to L2; the sectors of loads and lines of stores that an SM may have on their
        # way, each for the latency of L2; slices, which merge a sector that is written in part.
        stores = launch.counts.code[members, M.COL_OP] != M.OP_LOAD
        lines = np.maximum(launch.counters[members, L.COUNT_TAGS] - ideal * SECTOR_BYTES // config.l2.line_bytes, 0)
        in_flight = (
            float(over[~stores].sum()) / config.l1.max_outstanding_sectors
            + 2 * float(lines[stores].sum()) / config.l1.max_outstanding_flits  # a header and a sector
        )
        merging = float(over[stores].sum()) * config.l2.partial_write_cycles / config.l2.slices
        share = max(excessive * SECTOR_BYTES / bandwidth, in_flight * latency / launch.sms, merging) / launch.cycles
        yield Finding("uncoalesced accesses", *place, excessive, min(share, 1.0), (
            f"{where(place)}: {launch.instructions[worst].opcode} touches "
            f"{ratio(int(launch.counters[worst, L.COUNT_SECTORS]), requests):.1f} sectors per request where "
            f"{ratio(int(launch.counters[worst, L.COUNT_SECTORS_IDEAL]), requests):.1f} would do: {excessive:,} of "
            f"{total:,} sectors are excessive, {percent(share)} of the time on the way to L2. Let neighbouring "
            "threads touch neighbouring addresses, through a tile in shared memory where rows become columns."
        ))  # fmt: skip


def shared_exchange(launch: LaunchSums) -> Iterator[Finding]:
    """Partial results that go through shared memory from one step to the next."""
    chains = [row for row in range(len(launch.instructions)) if _accumulates(launch, row)]
    stores = int(launch.counters[chains, L.COUNT_EXECUTED].sum())
    if not stores:
        return
    loads = launch.counts.opcodes("LDS")
    accesses = loads | launch.counts.opcodes("STS")
    short = launch.waits("short_scoreboard", "mio_throttle").sum()
    executed = launch.counters[:, L.COUNT_EXECUTED]
    part = ratio(int(executed[loads].sum()), int(executed[launch.counts.opcodes(*_SHORT)].sum()))
    share = launch.of_duration(part * float(short) + float(launch.waits("selected", "wait")[accesses].sum()))
    share += launch.of_duration(float(launch.waits("barrier").sum())) / 2
    count = int(launch.counters[accesses, L.COUNT_EXECUTED].sum())
    place = launch.place(max(chains, key=lambda row: int(launch.counters[row, L.COUNT_EXECUTED])))
    yield Finding("shared-memory exchange", *place, count, share, (
        f"{where(place)}: {stores:,} of {count:,} shared-memory instructions hand a partial result on to the next "
        f"step; with the waits for them and half of the barriers that is {percent(share)} of the time. Lanes of a "
        "warp exchange registers by shuffles (shfl_down_sync) instead; one word per warp is left for shared memory."
    ))  # fmt: skip


def _accumulates(launch: LaunchSums, row: int) -> bool:
    """Return whether an instruction stores to shared memory what arithmetic made of a word of shared memory."""
    store = launch.instructions[row]
    if store.opcode != "STS" or store.operands[-1].kind != "reg":
        return False
    adder = _writer(launch, row, store.operands[-1].index)
    if adder is None or launch.instructions[adder].opcode not in _ARITHMETIC:
        return False
    sources = [o.index for o in launch.instructions[adder].operands[1:] if o.kind == "reg"]
    writers = [_writer(launch, adder, source) for source in sources]
    return any(each is not None and launch.instructions[each].opcode == "LDS" for each in writers)


def _writer(launch: LaunchSums, row: int, register: int) -> int | None:
    """The last instruction before `row` in the listing that writes a register."""
    for index in range(row - 1, max(row - 64, -1), -1):
        operands = launch.instructions[index].operands
        if operands and operands[0].kind == "reg" and operands[0].index == register and (
            launch.instructions[index].opcode not in ("STS", "STG", "ST")
        ):  # fmt: skip
            return index
    return None


def memory_latency(launch: LaunchSums) -> Iterator[Finding]:
    """Waits for loads of global memory, by the line of the load."""
    local = launch.counts.accesses(LOCAL)
    by_line: dict[Place, float] = {}
    for row, cycles in launch.waits_by_access("long_scoreboard", "lg_throttle").items():
        if not local[row]:
            by_line[launch.place(row)] = by_line.get(launch.place(row), 0.0) + cycles
    resident = ratio(launch.counts.warp_cycles, launch.counts.active_cycles)
    more = "everal independent loads per thread before the first is used"
    more = f"S{more} hide more." if launch.record.occupancy.theoretical >= 1 else f"More warps, or s{more}, hide more."
    for place, cycles in by_line.items():
        share = launch.of_duration(cycles)
        yield Finding("memory latency", *place, cycles, share, (
            f"{where(place)}: warps wait {percent(share)} of the time for its accesses to global memory, "
            f"with {resident:.1f} of {launch.record.config.sm.max_warps} warps on an SM to hide them. {more}"
        ))  # fmt: skip


def local_memory(launch: LaunchSums) -> Iterator[Finding]:
    """Registers that the compiler has spilled, and arrays whose index only the running program knows.

    Such an array is addressed by a register, spilled registers by the stack pointer and a number. Where there is an
    array, a number that is only stored or only loaded stands for one of its elements.
    """
    members = launch.counts.accesses(LOCAL) & (launch.counters[:, L.COUNT_EXECUTED] > 0)
    offsets = {row: _on_the_stack(launch, row) for row in np.flatnonzero(members).tolist()}
    if not offsets:
        return
    stored, loaded = (
        {offset for row, offset in offsets.items() if launch.instructions[row].opcode == opcode}
        for opcode in ("STL", "LDL")
    )
    spilled = (stored & loaded if None in offsets.values() else stored | loaded) - {None}
    spills, array = ([row for row, offset in offsets.items() if (offset in spilled) == each] for each in (True, False))
    program, waits = launch.record.program, launch.waits_by_access("long_scoreboard")
    used = next(iter(utilisation(launch.counts, launch.running).values()))
    sectors = launch.counts.total(L.COUNT_LOCAL_SECTORS)
    for rows, kind in ((spills, "register spills"), (array, "local arrays")):
        if not rows:
            continue
        own = launch.counters[rows]
        executed, touched = int(own[:, L.COUNT_EXECUTED].sum()), int(own[:, L.COUNT_LOCAL_SECTORS].sum())
        part = ratio(touched, sectors + launch.counts.global_total(L.COUNT_SECTORS))
        waited = sum(waits.get(row, 0.0) for row in rows) + launch.waits("selected", "lg_throttle")[rows].sum()
        share = min(max(launch.of_duration(float(waited)), part * used * launch.running / launch.cycles), 1.0)
        lines: dict[Place, int] = {}
        for row, count in zip(rows, own[:, L.COUNT_EXECUTED].tolist(), strict=True):
            lines[launch.place(row)] = lines.get(launch.place(row), 0) + count
        most = sorted(lines, key=lambda place: -lines[place])
        if kind == "register spills":
            cause = f"{program.registers} registers do not hold the values of a thread, and the others lie in memory"
            advice = "Let the compiler use more: a smaller __launch_bounds__ or a larger maxrregcount; or keep fewer "
            advice += "values at a time. More warps would leave each thread fewer registers still."
        else:
            cause = "an array is indexed by what only the running program knows, so that it lies in memory"
            advice = "Unroll the loop, so that each index is a number and the array lies in registers; or put it into "
            advice += "shared memory."
        yield Finding(kind, *most[0], executed, share, (
            f"{where(most[0])}{_others(most[1:])}: {cause} ({program.local_bytes:,} bytes of stack). {executed:,} of "
            f"{launch.counts.instructions:,} warp instructions store or load it, {percent(part)} of all sectors, "
            f"{percent(share)} of the time. {advice}"
        ))  # fmt: skip


def _others(places: list[Place]) -> str:
    numbers = [str(number) for _, number in places[:3] if number is not None]
    return f" (and {', '.join(numbers)}{' ...' if len(places) > 3 else ''})" if numbers else ""


def _on_the_stack(launch: LaunchSums, row: int) -> int | None:
    """The offset of a local access from the stack pointer, R1; None if another register is in its address."""
    address = next(each for each in launch.instructions[row].operands if each.kind == "mem")
    own = address.base is not None and address.base.index == 1 and address.ubase is None
    return address.offset if own else None


def atomics_of(launch: LaunchSums) -> np.ndarray:
    """Atomics and reductions, as bool [instructions]."""
    memory = launch.counts.code[:, M.COL_CLASS] == M.CLS_MEMORY
    return memory & np.isin(launch.counts.code[:, M.COL_OP], (M.OP_ATOM, M.OP_RED))


def contended_atomics(launch: LaunchSums) -> Iterator[Finding]:
    """Atomics that meet at few addresses, which serve them one after the other: words of shared memory by line, sectors
    of global memory by the busiest slice of L2."""
    config, counts, atomics = launch.record.config, launch.counts, atomics_of(launch)
    first = "Let lanes of a warp add up by shuffles first, so that one of them adds for all"
    for place, rows in counts.lines.items():
        members = rows[atomics[rows]]
        fields = L.COUNT_SHARED_WAVEFRONTS, L.COUNT_SHARED_IDEAL
        turns, ideal = (int(launch.counters[members, field].sum()) for field in fields)
        if turns <= ideal:
            continue
        share = (turns - ideal) * config.shared.atomic_wavefront_cycles / launch.sms / launch.cycles
        each = ratio(turns, int(launch.counters[members, L.COUNT_SHARED_REQUESTS].sum()))
        yield Finding("contended atomics", *place, turns - ideal, min(share, 1.0), (
            f"{where(place)}: lanes meet at words or banks of {_array(launch, int(members[0]))}shared memory, whose "
            f"atomics take turns: {each:.1f} wavefronts per request, {percent(share)} of the time on the shared-memory "
            f"data pipe. {first}, or give each warp a copy of its own."
        ))  # fmt: skip
    members = np.flatnonzero(atomics & counts.accesses(GLOBAL) & (launch.counters[:, L.COUNT_REQUESTS] > 0))
    slices = launch.record.slices
    if not len(members) or not len(slices) or slices.max() < 2 * slices.mean():
        return
    kinds = counts.code[members, M.COL_AUX4]
    floats = ((kinds >> 8 == M.ATOMIC_ADD) & (kinds & 255 >= M.TYPE_F32)).any()
    cycles = config.l2.atomic_same_float_cycles if floats else config.l2.atomic_same_address_cycles
    share = min(float(slices.max()) * cycles / launch.cycles, 1.0)
    operations = launch.counters[members, L.COUNT_PRED_ON]
    row, count = int(members[np.argmax(operations)]), int(operations.sum())
    yield Finding("contended atomics", *launch.place(row), count, share, (
        f"{where(launch.place(row))}: {count:,} atomic operations meet at few addresses of {_array(launch, row)}"
        f"global memory. The busiest of {len(slices)} slices of L2 serves {int(slices.max()):,} sectors, "
        f"{slices.mean():,.0f} are the mean, one after the other: {percent(share)} of the time. {first}, or let each "
        "block count in shared memory and add its sums at the end (privatisation)."
    ))  # fmt: skip


def _array(launch: LaunchSums, row: int) -> str:
    """The array that an atomic names in its source line, and 'in '; '' where the line does not tell."""
    text = launch.record.program.source_line(launch.instructions[row]) or ""
    found = re.search(r"atomic\w*(?:\.\w+)?\(\s*&?\s*(\w+)", text)
    return f"{found[1]} in " if found else ""


def divergent_constants(launch: LaunchSums) -> Iterator[Finding]:
    """Constants whose lanes have different addresses, which are read one after the other."""
    loads = launch.counts.code[:, M.COL_OP] == M.OP_LDC
    waits = launch.waits_by_access("short_scoreboard", "mio_throttle", "imc_miss")
    for place, rows in launch.counts.lines.items():
        members = rows[loads[rows]]
        turns, executed = (int(launch.counters[members, k].sum()) for k in (L.COUNT_TURNS, L.COUNT_EXECUTED))
        if turns <= executed:  # one more where the constant was not there yet
            continue
        share = launch.of_duration(turns / (turns + executed) * sum(waits.get(row, 0.0) for row in members.tolist()))
        yield Finding("divergent constants", *place, turns, share, (
            f"{where(place)}: lanes read constants at {1 + turns / executed:.1f} different addresses, which are served "
            f"one by one: {percent(share)} of the time. Constant memory is for what all lanes read at once; put such a "
            "table into shared memory, or let it be read from global memory through L1."
        ))  # fmt: skip


RULES = (
    bank_conflicts, uncoalesced, shared_exchange, memory_latency, local_memory, contended_atomics, divergent_constants,
)  # fmt: skip
