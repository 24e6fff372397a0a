"""The form of the rows of `isa.microops`, and the checks that they pass when they are imported.

A row is the one place of a micro-operation: its name and number, the executor that runs it, its operands, and the
meaning of its AUX words. Lowering sets no other word, and tests hold the executors to the rows: a column that a row
does not name changes nothing. The documentation is written from them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

CLASS_SIZE = 100
_WORD = re.compile(r"aux[0-5]")
_COLUMN = re.compile(r"\b(A|B|C|d|PS[012]|PD[01])\b")
_FAMILY = re.compile(r"\b([A-Z]\w*_)\*")


@dataclass(frozen=True)
class MicroOperation:
    """One row.

    Attributes:
        number: what stands in column OP; divided by CLASS_SIZE it is the class.
        executor: file and function in `gpusim/engine` that give it its meaning.
        meaning: one line, in terms of its columns: d, A, B, C, source and destination predicates.
        words: what its AUX words say, 'aux0' to 'aux5'.
    """

    number: int
    executor: str
    meaning: str
    words: Mapping[str, str]

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it reads or writes, named as COL_* are."""
        text = " ".join((self.meaning, *self.words.values()))
        named = {"DST" if name == "d" else name for name in _COLUMN.findall(text)}
        return frozenset(named | {name.upper() for name in self.words})


class MicroOperations:
    """The rows while they are written, block by block: rows of a block have one executor and successive numbers."""

    def __init__(self) -> None:
        self.rows: dict[int, MicroOperation] = {}
        self._executor, self._next = "", 0
        self._words: Mapping[str, str] = {}

    def block(self, first: int, executor: str, **words: str) -> None:
        """Begin a block at a number. `words`: AUX words of all its rows, of which a row may change one."""
        self._executor, self._words, self._next = executor, words, first

    def row(self, meaning: str, **words: str) -> int:
        """The number of the next micro-operation of the block."""
        number, words = self._next, {**self._words, **words}
        if number in self.rows:
            raise ValueError(f"micro-operation {number} is there twice: blocks overlap at '{meaning}'")
        for name, text in words.items():
            if not _WORD.fullmatch(name) or not text:
                raise ValueError(f"micro-operation {number}: '{name}' is not a word with a meaning")
        self._next += 1
        self.rows[number] = MicroOperation(number, self._executor, meaning, dict(sorted(words.items())))
        return number

    def named(self, constants: Mapping[str, object]) -> dict[str, MicroOperation]:
        """The rows by name, from the module that holds them as OP_*. Raises ValueError (a row without a name, or with
        two; a class that does not exist; words of a family that has no constants)."""
        names = {name.removeprefix("OP_"): number for name, number in constants.items() if name.startswith("OP_")}
        if sorted(names.values()) != sorted(self.rows):  # type: ignore[type-var]
            raise ValueError("every micro-operation has one name, and every name a row of its own")
        classes = {number for name, number in constants.items() if name.startswith("CLS_")}
        for number, row in self.rows.items():
            if number // CLASS_SIZE not in classes:
                raise ValueError(f"micro-operation {number} is in no class")
            for family in _FAMILY.findall(" ".join((row.meaning, *row.words.values()))):
                if not any(name.startswith(family) for name in constants):
                    raise ValueError(f"micro-operation {number} speaks of {family}*, which does not exist")
        return {name: self.rows[number] for name, number in names.items()}  # type: ignore[index]
