"""Numbers of a report that a reader would not expect, in words: where they come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpusim.engine.state import layout as L
from gpusim.engine.state import memory as S
from gpusim.results.counts import Counts
from gpusim.results.metric_table import DRAM_READ_SECTORS
from gpusim.results.record import LaunchRecord
from gpusim.units import byte_text
from isa import microops as M


def shared_words(record: LaunchRecord) -> str:
    """Shared memory of a block, and how much of it the kernel has not asked for."""
    total, own = record.occupancy.shared_bytes_per_block, record.program.static_shared_bytes
    own += record.launch.shared_bytes
    kept = record.config.sm.shared_reserved_bytes
    told = f"{total:,} B of shared memory per block"
    if not kept or total <= own:
        return told
    if not own:
        return f"{told}, which the CUDA driver keeps for itself"
    rounded = f", in units of {record.config.sm.shared_unit_bytes:,}" if total > own + kept else ""
    return f"{told}: {own:,} of its own and {kept:,} that the CUDA driver keeps for itself{rounded}"


def read_words(counts: Counts) -> str:
    """Bytes read from device memory, and what of them the program has not asked for, or more than once."""
    record = counts.record
    read = counts.memory_bytes(*DRAM_READ_SECTORS)
    asked = counts.memory_bytes(S.CNT_HOME_MISS_SECTORS)
    along = counts.memory_bytes(S.CNT_FILL_SECTORS) - asked
    held = sum(int(getattr(each, "nbytes", 0)) for each in record.launch.args)
    again = max(asked - held, 0) if held and not record.program.local_bytes else 0
    parts = (
        (counts.memory_bytes(S.CNT_LAUNCH_SECTORS), "the launch's own: code and constants"),
        (along, f"that came along, since memory is read {record.config.l2.fetch_bytes} B at a time"),
        (counts.memory_bytes(S.CNT_MERGE_SECTORS), "for sectors written in part"),
        (again, "at least once more, as L2 had not kept them"),
    )
    told = ", ".join(f"{byte_text(nbytes)} {why}" for nbytes, why in parts if nbytes > 0)
    return byte_text(read) + (f" ({told})" if told else "")


def checked_words(counts: Counts, names: Iterable[str]) -> Iterator[str]:
    """For each check that found nothing, what it has looked at: a line each. names: as in `gpusim.CHECKS`."""
    shared, bars = counts.shared_total(L.N_SHARED_REQUESTS), _executed(counts, "BAR", "WARPSYNC", "UCGABAR_ARV")
    reads = (M.OP_LOAD, M.OP_ATOM)
    read = counts.global_total(L.N_REQUESTS, *reads) + counts.shared_total(L.N_SHARED_REQUESTS, *reads)
    every = counts.global_total(L.N_REQUESTS) + shared
    looked_at = {
        "memcheck": (every, "accesses to global or shared memory", "out of bounds, misaligned or to freed memory"),
        "initcheck": (read, "reads of global or shared memory", "of what nothing had been written to"),
        "racecheck": (shared, "accesses to shared memory", "in a race (it does not look at global memory)"),
        "synccheck": (bars, "barriers", "misused"),
    }
    for name in names:
        number, what, wrong = looked_at[name]
        yield f"{name}: none of {number:,} {what} is {wrong}" if number else f"{name}: the launch has no {what}"


def _executed(counts: Counts, *opcodes: str) -> int:
    rows = [k for k, each in enumerate(counts.record.program.instructions) if each.opcode in opcodes]
    return int(counts.counters[rows, L.N_EXECUTED].sum())
