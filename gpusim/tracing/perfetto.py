"""A trace as track events for Perfetto (ui.perfetto.dev): SMs, their schedulers, warp slots and blocks over time.

One nanosecond of the viewer's axis is one SM clock cycle. What is written, from the field numbers of Perfetto's
protos/perfetto/trace (perfetto.dev/docs/reference/synthetic-track-event):

- Every SM has a track with the lives of its blocks, a row for each that is resident at once.
- A traced SM has counters: resident warps, warps that wait for memory, and instructions issued per cycle.
- A scheduler has the instructions that it issues, a cycle each.
- Below it, each warp slot has the life of its warps, in it what they issue and, between, what they wait for by the name
  of the stall reason. Clicking on an issue shows its lanes, bank conflicts, sectors and source line.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

import numpy as np

from gpusim.engine.state import layout as L
from gpusim.tracing.recording import Recording, counts_over_time
from isa.folders import replacing

_VARINT, _FIXED64, _BYTES = 0, 1, 2


Value = int | float | str | bytes


def varint(value: int) -> bytes:
    """A number in groups of seven bits, the lowest first; negative ones as 64-bit two's complement."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def message(*fields: tuple[int, Value]) -> bytes:
    """A message of (field number, value): numbers and enums as varints, floats as doubles, text and messages by
    their length."""
    out = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3 | _VARINT) + varint(value)
        elif isinstance(value, float):
            out += varint(number << 3 | _FIXED64) + struct.pack("<d", value)
        else:
            content = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | _BYTES) + varint(len(content)) + content
    return bytes(out)


# Fields of the messages, by their names in the schema.
_PACKET = 1  # of Trace
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _INTERNED, _SEQUENCE_FLAGS, _TRACK = 8, 10, 11, 12, 13, 60  # of TracePacket
_UUID, _NAME, _PARENT, _COUNTER, _CHILD_ORDERING, _RANK = 1, 2, 5, 8, 11, 12  # of TrackDescriptor
_UNIT_NAME = 6  # of CounterDescriptor
_ANNOTATION, _TYPE, _NAME_IID, _TRACK_UUID = 4, 9, 10, 11  # of TrackEvent
_COUNTER_VALUE, _DOUBLE_COUNTER_VALUE = 30, 44
_ANNOTATION_NAME_IID, _ANNOTATION_STRING_IID = 1, 17  # of DebugAnnotation
_EVENT_NAMES, _ANNOTATION_NAMES, _ANNOTATION_STRINGS = 2, 3, 29  # of InternedData
_IID, _INTERNED_NAME = 1, 2  # of EventName and the like
_BEGIN, _END, _INSTANT, _COUNT = 1, 2, 3, 4  # TrackEvent.Type
_EXPLICIT = 3  # TrackDescriptor.ChildTracksOrdering
_CLEARED, _NEEDS = 1, 2  # sequence flags: interned data begins anew; it is used
_SEQUENCE_ID = 1
#: Cycles over which the rate of issue is averaged.
RATE_CYCLES = 32
_WAITS_FOR_MEMORY = (L.STALL_LONG, L.STALL_LG)

Fields = list[tuple[int, Value]]


class TrackWriter:
    """Tracks and events, collected in any order and written in order of time."""

    def __init__(self) -> None:
        self.tracks: list[bytes] = []
        self.events: list[tuple[int, int, int, bytes]] = []
        # Texts that are written once and named by a number.
        self.names, self.keys, self.values = (defaultdict[str, int](count(1).__next__) for _ in range(3))

    def track(self, name: str, parent: int = 0, rank: int = 0, counter: str | None = None) -> int:
        """A new track; its number. counter: unit of what it counts."""
        uuid = len(self.tracks) + 1
        fields: Fields = [(_UUID, uuid), (_NAME, name), (_CHILD_ORDERING, _EXPLICIT), (_RANK, rank)]
        if parent:
            fields.append((_PARENT, parent))
        if counter is not None:
            fields.append((_COUNTER, message((_UNIT_NAME, counter))))
        self.tracks.append(message(*fields))
        return uuid

    def slice(self, track: int, start: int, end: int, name: str, facts: dict[str, str]) -> None:
        """An interval of a track. Slices of a track lie in one another or apart."""
        # At one time what ends comes first, and what ends last begins first, so that slices nest.
        self._event(track, start, 1, -end, _BEGIN, name, facts)
        self.events.append((end, 0, -start, message((_TYPE, _END), (_TRACK_UUID, track))))

    def _event(self, track: int, time: int, rank: int, order: int, kind: int, name: str, facts: dict[str, str]) -> None:
        fields: Fields = [(_TYPE, kind), (_TRACK_UUID, track), (_NAME_IID, self.names[name])]
        for key, value in facts.items():
            named = (_ANNOTATION_NAME_IID, self.keys[key]), (_ANNOTATION_STRING_IID, self.values[value])
            fields.append((_ANNOTATION, message(*named)))
        self.events.append((time, rank, order, message(*fields)))

    def instant(self, track: int, time: int, name: str, facts: dict[str, str]) -> None:
        """Something that takes no time."""
        self._event(track, time, 2, 0, _INSTANT, name, facts)

    def count(self, track: int, time: int, value: int | float) -> None:
        """A counter's value from a time on."""
        field = _DOUBLE_COUNTER_VALUE if isinstance(value, float) else _COUNTER_VALUE
        self.events.append((time, 2, 0, message((_TYPE, _COUNT), (_TRACK_UUID, track), (field, value))))

    def packets(self) -> Iterator[bytes]:
        """All packets of the trace."""
        tables = (_EVENT_NAMES, self.names), (_ANNOTATION_NAMES, self.keys), (_ANNOTATION_STRINGS, self.values)
        texts = ((field, number, text) for field, table in tables for text, number in table.items())
        interned = message(*((field, message((_IID, number), (_INTERNED_NAME, text))) for field, number, text in texts))
        yield message((_SEQUENCE, _SEQUENCE_ID), (_SEQUENCE_FLAGS, _CLEARED), (_INTERNED, interned))
        for track in self.tracks:
            yield message((_SEQUENCE, _SEQUENCE_ID), (_TRACK, track))
        for time, _, _, event in sorted(self.events, key=lambda event: event[:3]):
            yield message(
                (_TIMESTAMP, time), (_SEQUENCE, _SEQUENCE_ID), (_SEQUENCE_FLAGS, _NEEDS), (_TRACK_EVENT, event)
            )


def write_packets(packets: Iterable[bytes], path: str | Path) -> None:
    """Write packets as a file."""
    with replacing(path) as part, part.open("wb") as file:
        for packet in packets:
            file.write(message((_PACKET, packet)))


def perfetto_packets(trace: Recording) -> Iterator[bytes]:
    """The packets of the trace, `TracePacket` messages."""
    writer = TrackWriter()
    whole = writer.track(f"{trace.program.name} on {trace.config.gpu.name}: 1 ns is 1 SM cycle")
    sms = np.union1d(trace.blocks["sm"], np.array(trace.options.sms, np.int64))
    tracks = {int(sm): writer.track(f"SM {sm}", whole, int(sm)) for sm in sms}
    _write_blocks(trace, writer, tracks)
    for sm in sorted(set(trace.options.sms) & tracks.keys()):
        _write_counters(trace, writer, tracks[sm], sm)
    _write_warps(trace, writer, tracks)
    return writer.packets()


def _write_blocks(trace: Recording, writer: TrackWriter, tracks: dict[int, int]) -> None:
    """The life of every block, in the first row of its SM that is free."""
    rows: dict[tuple[int, int], int] = {}
    blocks, places, _ = trace.places()
    for (number, sm, start, end), place in zip(blocks.tolist(), places.tolist(), strict=True):
        if start >= trace.until:
            continue
        if (sm, place) not in rows:
            rows[sm, place] = writer.track("blocks", tracks[sm])
        name = trace.warp_label(number * trace.warps_per_block).rpartition(" warp ")[0]
        writer.slice(rows[sm, place], start, min(end, trace.until), name, {"number": str(number)})


def _write_counters(trace: Recording, writer: TrackWriter, sm_track: int, sm: int) -> None:
    """Counters of an SM over time."""
    warps = trace.warps[trace.warps["sm"] == sm]
    stalls = trace.stalls[np.isin(trace.stalls["warp"], warps["warp"])]
    stalls = stalls[np.isin(stalls["reason"], _WAITS_FOR_MEMORY)]
    for rank, (name, spans) in enumerate((("resident warps", warps), ("warps waiting for memory", stalls)), 1):
        track = writer.track(name, sm_track, rank, "warps")
        for time, value in zip(*map(np.ndarray.tolist, counts_over_time(spans)), strict=True):
            writer.count(track, time, value)
    track = writer.track("issued per cycle", sm_track, 3, "instructions")
    cycles = trace.issues["cycle"][trace.issues["sm"] == sm]
    if len(cycles):
        base = int(cycles[0]) // RATE_CYCLES
        counts = np.append(np.bincount(cycles // RATE_CYCLES - base), 0)
        for k, count in enumerate(counts.tolist()):
            writer.count(track, (base + k) * RATE_CYCLES, count / RATE_CYCLES)


def _write_warps(trace: Recording, writer: TrackWriter, tracks: dict[int, int]) -> None:
    """Schedulers, and below them the warp slots with what their warps do."""
    schedulers: dict[tuple[int, int], int] = {}
    slots: dict[tuple[int, int, int], int] = {}
    for warp in np.sort(trace.warps, order=["sm", "scheduler", "slot"]):
        sm, scheduler, slot = int(warp["sm"]), int(warp["scheduler"]), int(warp["slot"])
        if (sm, scheduler) not in schedulers:
            schedulers[sm, scheduler] = writer.track(f"scheduler {scheduler}", tracks[sm], 10 + scheduler)
        if (sm, scheduler, slot) not in slots:
            slots[sm, scheduler, slot] = writer.track(f"warp slot {slot}", schedulers[sm, scheduler], slot)
    for warp in trace.warps:
        number = int(warp["warp"])
        place = int(warp["sm"]), int(warp["scheduler"])
        track = slots[*place, int(warp["slot"])]
        writer.slice(track, int(warp["start"]), int(warp["end"]), trace.warp_label(number), {})
        for stall in trace.stalls_of(number):
            name = L.STALLS[stall["reason"]]
            writer.slice(track, int(stall["start"]), int(stall["end"]), name, _waiting(trace, int(stall["pc"])))
        for issue in trace.of_warp(number):
            cycle = int(issue["cycle"])
            name = trace.instructions[issue["pc"]].mnemonic
            facts = trace.describe(issue)
            writer.slice(track, cycle, cycle + 1, name, facts)
            writer.slice(schedulers[place], cycle, cycle + 1, name, {"warp": trace.warp_label(number)} | facts)


def _waiting(trace: Recording, pc: int) -> dict[str, str]:
    """Facts of the instruction that a warp waits to issue."""
    if pc >= len(trace.instructions):
        return {}
    each = trace.instructions[pc]
    return {"instruction": f"{each.address:04x}  {each.text}", "source": trace.source_of(pc)}


class Trace(Recording):
    """The recording of one launch, `result.trace`, which can be written for a timeline viewer."""

    def perfetto(self, path: str | Path) -> None:
        """Write a trace for https://ui.perfetto.dev: SMs, schedulers and warps as tracks."""
        write_packets(perfetto_packets(self), path)
