"""`State`, the arrays that the compiled core reads and writes: one row each in `ARRAYS`.

Allocation, sharing between launches and clearing (`engine.launch_state`), `engine.describe` and the list in
docs/architecture.md read the row, so an array that is added here needs no other edit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba.extending import typeof_impl

from gpusim.engine.state import layout as L
from gpusim.engine.state import memory
from gpusim.engine.state.table import ArrayTable, TableType
from isa import microops as M

#: Owners. Arrays of the SMs are made by the first of several launches that share the GPU, which then have them
#: together; arrays of a launch are its own; others are handed in by whoever has them: the launch's code and parameters,
#: device memory, a recorder, a recording.
SMS, LAUNCH, GIVEN = "SMs", "launch", "given"
#: Times of clearing an array: as it is made; as any launch begins; as one begins that may share the SMs with others.
MADE, BEGUN, SHARED = "made", "begun", "shared"


class Clear(NamedTuple):
    """A value that elements get before a launch. field: of the record, None for all. every: of all rows, not only of
    those of SMs that get blocks."""

    value: int
    field: int | None = None
    every: bool = False
    when: str = MADE


class Record(NamedTuple):
    """A row of columns with names: constants of a module that begin with a prefix."""

    prefix: str
    width: int
    module: ModuleType = L

    @property
    def names(self) -> tuple[str, ...]:
        return _names(self.prefix, self.width, self.module)


@cache
def _names(prefix: str, width: int, module: ModuleType) -> tuple[str, ...]:
    """Names of a record's columns, in small letters and without the prefix; the k-th of several is `name[k]`."""
    named: dict[int, str] = {}
    for name, value in vars(module).items():
        if name.startswith(prefix) and isinstance(value, int) and value < width:
            named.setdefault(value, name[len(prefix) :].lower())
    names, at = [], 0
    for k in range(width):
        at = k if k in named else at
        names.append(named[at] if k == at else f"{named[at]}[{k - at}]")
    return tuple(names)


Used = Callable[[np.ndarray, np.ndarray], list[int]]
"""Rows in use of an array of an SM. Gets the SM's row of `State.sm`, and the rows."""


def pool(new: int, free: int, following: int) -> Used:
    """Rows of a pool taken and not given back. new: field with the first row that was never used; free: with 1 + the
    last one given back, which leads to the others by its field `following`."""

    def used(sm: np.ndarray, rows: np.ndarray) -> list[int]:
        idle, last = set(), int(sm[free])
        while last:
            idle.add(last - 1)
            last = int(rows[last - 1, following])
        return [k for k in range(sm[new]) if k not in idle]

    return used


def ring(count: int, first: int | None = None) -> Used:
    """A number of rows from one on, around the end. count, first: fields of the SM; without `first` from row 0 on."""
    return lambda sm, rows: [(k + (0 if first is None else int(sm[first]))) % len(rows) for k in range(sm[count])]


def nonzero(field: int) -> Used:
    """Rows in which a field is not 0."""
    return lambda _sm, rows: np.flatnonzero(rows[:, field]).tolist()


def any_nonzero(_sm: np.ndarray, rows: np.ndarray) -> list[int]:
    """Rows that are not all 0."""
    return np.flatnonzero(rows.reshape(len(rows), -1).any(axis=1)).tolist()


class Array(NamedTuple):
    """A row of the table.

    shape: extents, by name where they depend on the machine or the launch (`launch_state`). clear: in order;
    without any, an array of the SMs or of a launch begins with any content, and whoever takes a row of it sets it up.
    view: the array of other elements whose bytes it shares. fresh: never memory of the launch before, since it is read
    after the end of the launch or is large and rare. used: which rows of a record `describe` tells; None: not here.
    """

    name: str
    dtype: type
    shape: tuple[str | int | Record, ...]
    owner: str
    meaning: str
    clear: tuple[Clear, ...] = ()
    view: str | None = None
    fresh: bool = False
    used: Used | None = any_nonzero

    @property
    def record_axis(self) -> int:
        """The axis of its columns, the last one unless another has names."""
        return next((k for k, each in enumerate(self.shape) if isinstance(each, Record)), len(self.shape) - 1)

    @property
    def fixed(self) -> tuple[int, ...]:
        """The extents of its last dimensions, as far as they are the same in every launch."""
        names = [k for k, each in enumerate(self.shape) if isinstance(each, str)]
        return self._replace(shape=self.shape[max(names, default=-1) + 1 :]).extents({})

    def extents(self, sizes: dict[str, int]) -> tuple[int, ...]:
        """Its shape for extents of these names."""
        widths = (each.width if isinstance(each, Record) else each for each in self.shape)
        return tuple(sizes[each] if isinstance(each, str) else each for each in widths)


ZERO, ZEROS, NEVER = (Clear(0),), (Clear(0, every=True),), (Clear(int(L.NEVER), every=True),)
NO_ISSUE = (*ZEROS, Clear(int(L.NEVER), L.SMSP_NEXT, every=True))
NO_CARVEOUT = (*ZEROS, Clear(-1, L.SM_CARVEOUT, every=True))
NO_CODE = (Clear(0), Clear(-1, 0))
NO_CONSTANTS = (Clear(L.CONSTANT_NOWHERE, when=BEGUN),)
#: Of warp slots of SMs without a block, all that is looked at is that no warp is there.
_NOBODY = (Clear(L.FREE, L.WARP_STATE, every=True), Clear(0, L.WARP_SINCE, every=True))
NO_WARPS = (Clear(0), Clear(-1, L.WARP_BLOCK), Clear(-1, L.WARP_AGE), *_NOBODY)
#: A launch that shares the GPU begins with what others have written to memory.
_NO_VALUES = (Clear(0, L.TAG_VALID, when=SHARED), Clear(0, L.TAG_WORDS, when=SHARED))
NO_LINES = (Clear(-1, L.TAG_TAG), Clear(0, L.TAG_PENDING), Clear(0, L.TAG_USED), *_NO_VALUES)

WARP, SPLIT, BLOCK = Record("WARP_", L.WARP_FIELDS), Record("SPLIT_", L.SPLIT_FIELDS), Record("BLOCK_", L.BLOCK_FIELDS)
SM, SMSP, TAG = Record("SM_", L.SM_FIELDS), Record("SMSP_", L.SMSP_FIELDS), Record("TAG_", L.TAG_FIELDS)
TOKEN, BULK, COPY = Record("TOKEN_", L.TOKEN_FIELDS), Record("BULK_", L.BULK_FIELDS), Record("COPY_", L.COPY_FIELDS)
MSHR, WAITING = Record("MSHR_", L.MSHR_FIELDS), Record("WAITING_", L.WAITING_FIELDS)
STORED, QUEUED = Record("STORED_", L.STORED_FIELDS), Record("QUEUED_", L.QUEUED_FIELDS)
DEFERRED, REQUEST = Record("DEFERRED_", L.DEFERRED_FIELDS), Record("REQ_", memory.REQ_FIELDS, memory)
COUNTERS, LOG = Record("COUNT_", L.COUNT_FIELDS), Record("EVENT_", L.EVENT_FIELDS)

TOKENS = pool(L.SM_TOKENS_NEW, L.SM_TOKEN_FREE, L.TOKEN_NEXT)
BULKS = pool(L.SM_BULKS_NEW, L.SM_BULK_FREE, L.BULK_NEXT)
COPIES = pool(L.SM_COPIES_NEW, L.SM_COPY_FREE, L.COPY_NEXT)
MSHRS = pool(L.SM_MSHRS_NEW, L.SM_MSHR_FREE, L.MSHR_NEXT)
WAITS = pool(L.SM_WAITS_NEW, L.SM_WAIT_FREE, L.WAITING_NEXT)
STORES, QUEUE = ring(L.SM_STORED, L.SM_STORED_FIRST), ring(L.SM_QUEUED, L.SM_QUEUED_FIRST)
DEFERRALS = ring(L.SM_DEFERRED)

CHECKED = "last write and reads of each byte of shared memory"
CLOCKS = "what each knows of the others, see `sm.shadow_clocks`"
COPIED = "what a block knows of its asynchronous copies, see `sm.shadow_copies`"
I32, I64, U8, U32 = np.int32, np.int64, np.uint8, np.uint32
ARRAYS = (
    # What a launch brings with it.
    Array("code", I32, ("instructions", M.COLUMNS), GIVEN, "micro-operations; the last row ends a run"),
    Array("par", I64, ("parameters",), GIVEN, "parameters, by the numbers of `state.parameters`"),
    Array("chosen", I64, ("chosen_blocks",), GIVEN, "blocks that are run, in this order; none: all, in theirs"),
    Array("recorded", I64, ("recorded_words",), GIVEN, "a recording, see `sm.recording`"),
    Array("record_starts", I64, ("recorded_warps",), GIVEN, "place in it of each warp's first word"),
    Array("bank8", U8, ("banks", "bank_bytes"), GIVEN, "constant banks"),
    Array("bank32", U32, ("banks", "bank_words"), GIVEN, "constant banks", view="bank8"),
    Array("memory8", U8, ("memory_bytes",), GIVEN, "device memory"),
    Array("memory32", U32, ("memory_words",), GIVEN, "device memory", view="memory8"),
    Array("starts", I64, ("allocations",), GIVEN, "first addresses of live allocations, sorted"),
    Array("ends", I64, ("allocations",), GIVEN, "addresses behind them"),
    Array("unknown", U8, ("known_bytes",), GIVEN, "checks: 1 for a byte of memory that was never written"),
    # Its own.
    Array("regs", U32, ("register_words",), LAUNCH, "rows of 32 lanes: constants, then each warp's registers"),
    Array("local8", U8, ("local_bytes",), LAUNCH, "local memory of all threads, the words of a warp together", ZERO),
    Array("local32", U32, ("local_words",), LAUNCH, "local memory", view="local8"),
    Array("kept", I64, ("kept_warps", "kept_words"), LAUNCH, "what `sm.spinning` remembers of each warp", fresh=True),
    Array("counters", I64, ("chunks", "instructions", COUNTERS), LAUNCH, "counters by host thread", ZEROS, fresh=True),
    Array("handed", I64, ("handed_blocks", 2), LAUNCH, "start and end of each of `chosen`", ZEROS, fresh=True),
    # Slots of the SMs.
    Array("seats", I64, ("seats",), SMS, "addresses of the states of resident launches", ZEROS, fresh=True),
    Array("preds", U32, ("predicates",), SMS, "16 predicates of each warp"),
    Array("sm", I64, ("sms", SM), SMS, "the SM", NO_CARVEOUT, fresh=True),
    Array("warp", I64, ("warps", WARP), SMS, "warps", NO_WARPS, used=nonzero(L.WARP_STATE)),
    Array("split", I64, ("warps", SPLIT), SMS, "lanes of warps that do not run, see `sm.lane_states`", used=None),
    Array("ready", I64, ("sub_partitions", "slots"), SMS, "cycle from which each warp may issue", NEVER, fresh=True),
    Array("block_order", I64, ("sub_partitions", "slots"), SMS, "age of each warp's block", ZEROS, fresh=True),
    Array("smsp", I64, ("sub_partitions", SMSP), SMS, "sub-partitions", NO_ISSUE, fresh=True),
    Array("block", I64, ("sms", "block_slots", BLOCK), SMS, "blocks", ZEROS, used=nonzero(L.BLOCK_STATE)),
    Array("done", I64, ("sms", "block_slots", 2), SMS, "cycle and slot of blocks that have ended in this window"),
    Array("shared8", U8, ("sms", "shared_bytes"), SMS, "shared memory of all block slots", ZERO),
    Array("shared32", U32, ("sms", "shared_words"), SMS, "shared memory", view="shared8"),
    # Their caches.
    Array("tags", I64, ("sms", TAG, "l1_lines"), SMS, "L1's lines, a field of all beside each other", NO_LINES),
    Array("icache", I64, ("sms", "icache_lines", 3), SMS, "lines of all levels of instruction caches", NO_CODE),
    Array("constant", I64, ("sms", "constant_lines"), SMS, "where each line is, from when on", NO_CONSTANTS),
    Array("loaded", I64, ("sms", "loaded_lines"), SMS, "cycle from which LDC has a line of bank 0", NO_CONSTANTS),
    Array("constant_order", I64, ("sms", "constant_places"), SMS, "lines that both levels took in last, rings"),
    # What is in flight.
    Array("token", I64, ("sms", "tokens", TOKEN), SMS, "memory instructions in flight", used=TOKENS),
    Array("bulk", I64, ("sms", "bulk_copies", BULK), SMS, "bulk copies whose bytes have not moved", used=BULKS),
    Array("copy_lanes", I64, ("sms", "copies", COPY), SMS, "asynchronous copies in flight", used=COPIES),
    Array("mshr", I64, ("sms", "mshrs", MSHR), SMS, "L1 misses in flight", used=MSHRS),
    Array("waiting", I64, ("sms", L.WAITS_MOST, WAITING), SMS, "tokens behind those of an MSHR", used=WAITS),
    Array("stored", I64, ("sms", L.STORED_MOST, STORED), SMS, "lines of stores that wait", used=STORES),
    Array("queued", I64, ("sms", "places", QUEUED), SMS, "instructions that wait for the way to L2", used=QUEUE),
    Array("queued_lines", I64, ("sms", "places", L.QUEUED_LINES, 3), SMS, "lines of each, as in `touched`"),
    Array("queued_values", U32, ("sms", "places", 8, 32), SMS, "operands of each that takes effect at L2"),
    Array("queued_address", I64, ("sms", "places", 32), SMS, "addresses of each"),
    Array("deferred", I64, ("sms", "deferred", DEFERRED), SMS, "accesses that take effect at L2", used=DEFERRALS),
    Array("deferred_address", I64, ("sms", "deferred", 32), SMS, "addresses of each"),
    Array("deferred_values", U32, ("sms", "deferred", 8, 32), SMS, "operands of each"),
    Array("request", I64, ("sms", "requests", REQUEST), SMS, "requests to the memory system in this window", used=None),
    Array("requests", I64, ("sms",), SMS, "how many", ZEROS, fresh=True),
    Array("event_time", I64, ("sms", "events"), SMS, "cycles of replies to come, a heap, see `state.heap`"),
    Array("event", I64, ("sms", "events"), SMS, "what each answers, see `sm.flight`"),
    # Scratch of the instruction that is being executed.
    Array("address", I64, ("sms", 32), SMS, "its addresses"),
    Array("touched", I64, ("sms", "touched_lines", 5), SMS, "its lines, their sectors and words, see `sm.l1`"),
    Array("copy_targets", I64, ("sms", "copy_words"), SMS, "where an asynchronous copy goes"),
    Array("tile", U32, ("tile_words",), SMS, "fragments of a matrix product of four warps"),
    # What `sm.shadow` remembers, where it checks.
    Array("shadow", I64, ("checked_sms", "checked_bytes", "accesses"), LAUNCH, CHECKED, ZEROS, fresh=True),
    Array("lane_clock", I64, ("raced_warps", "lane_rows", "lane_columns"), LAUNCH, CLOCKS, ZEROS, fresh=True),
    Array("warp_clock", I64, ("raced_sms", "raced_blocks", "rows", "columns", "of"), LAUNCH, CLOCKS, ZEROS, fresh=True),
    Array("copies_seen", I64, ("raced_sms", "raced_blocks", "seen", "fields"), LAUNCH, COPIED, ZEROS, fresh=True),
    Array("local_known", U8, ("known_local_bytes",), LAUNCH, "1 for a byte of local8 that is known", ZEROS, fresh=True),
    # What `state.log` writes, where anything is logged.
    Array("log", I64, ("logged_sms", "log_rows", LOG), GIVEN, "events of this window"),
    Array("log_lanes", I64, ("logged_sms", "lane_rows_logged", 32), GIVEN, "addresses and values of their lanes"),
    Array("wanted", I32, ("logged_blocks",), GIVEN, "number, from 1 on, of a block that is logged on any SM"),
    Array("log_before", U32, ("logged_warps", "logged_registers", 32), GIVEN, "registers as they were logged last"),
    Array("life", I64, ("logged_blocks", 3), GIVEN, "SM, start and end of each block"),
)


def fields_of(arrays: tuple[Array, ...]) -> dict[str, tuple[Any, ...]]:
    """Elements, dimensions and fixed extents of arrays, by name, as compiled code wants them."""
    return {each.name: (each.dtype, len(each.shape), *each.fixed) for each in arrays}


class State(ArrayTable):
    """The arrays of `ARRAYS`, by name."""

    ARRAYS: ClassVar = ARRAYS
    FIELDS: ClassVar = fields_of(ARRAYS)
    CONSTANT: ClassVar = frozenset(("code", "par"))


_TYPE = TableType(State)  # made once, since every call of compiled code asks for it
typeof_impl.register(State, lambda value, _context: _TYPE if type(value) is State else TableType(type(value)))
