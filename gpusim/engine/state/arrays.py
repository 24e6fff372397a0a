"""`State`, the arrays that the compiled core reads and writes: one row each in `arrays.toml`.

Allocation, sharing between launches and clearing (`engine.launch_state`), `engine.describe` and the list in
docs/architecture.md read the row, so an array that is added here needs no other edit.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
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
#: device memory, a recorder.
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
NO_PATTERN = (Clear(0, L.PATTERN_FIRST),)
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
PATTERN, RUN = Record("PATTERN_", L.PATTERN_FIELDS), Record("RUN_", L.RUN_FIELDS)

TOKENS = pool(L.SM_TOKENS_NEW, L.SM_TOKEN_FREE, L.TOKEN_NEXT)
BULKS = pool(L.SM_BULKS_NEW, L.SM_BULK_FREE, L.BULK_NEXT)
COPIES = pool(L.SM_COPIES_NEW, L.SM_COPY_FREE, L.COPY_NEXT)
MSHRS = pool(L.SM_MSHRS_NEW, L.SM_MSHR_FREE, L.MSHR_NEXT)
WAITS = pool(L.SM_WAITS_NEW, L.SM_WAIT_FREE, L.WAITING_NEXT)
STORES, QUEUE = ring(L.SM_STORED, L.SM_STORED_FIRST), ring(L.SM_QUEUED, L.SM_QUEUED_FIRST)
DEFERRALS, UNTOLD = ring(L.SM_DEFERRED), None
WARPS, BLOCKS = nonzero(L.WARP_STATE), nonzero(L.BLOCK_STATE)

I32, I64, U8, U32 = np.int32, np.int64, np.uint8, np.uint32


def _named(each: Any) -> Any:
    """What a name in capitals stands for; anything else is itself."""
    if isinstance(each, list):
        return tuple(map(_named, each))
    return {**vars(M), **vars(L), **globals()}[each] if isinstance(each, str) and each.isupper() else each


_ROWS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
ARRAYS = tuple(Array(name, **{key: _named(value) for key, value in row.items()}) for name, row in _ROWS.items())


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
