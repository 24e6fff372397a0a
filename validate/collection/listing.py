"""The list of programs, and which of them judge.

`programs.toml` has them by collection and name: arguments, and what else a program needs. Whether one is train or judge
follows from its name alone, so that nobody has chosen it.
"""

from __future__ import annotations

import hashlib
import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).with_name("programs.toml")
JUDGE_SHARE = 0.45


@dataclass(frozen=True)
class ListedProgram:
    """A program of a collection. name: 'hecbench/adam'. folder: of its sources in the collection's checkout.
    arguments: of the command line. files: what it reads, relative to the folder of all programs; each is copied beside
    the executable, where the program runs."""

    name: str
    folder: Path
    arguments: tuple[str, ...]
    files: tuple[Path, ...] = ()

    @property
    def split(self) -> str:
        """'train' or 'judge'."""
        return split(self.name)


def split(name: str) -> str:
    """'train' or 'judge', by the digest of a program's name: 'adam' of 'hecbench/adam'."""
    digest = hashlib.sha256(name.rpartition("/")[2].encode()).digest()
    return "judge" if int.from_bytes(digest[:4], "big") < JUDGE_SHARE * 2**32 else "train"


def read() -> dict[str, ListedProgram]:
    """All programs by name, in the order of the list."""
    listed = tomllib.loads(LIST.read_text("utf-8"))
    found = {}
    for collection, programs in listed.items():
        for key, entry in programs.items():
            values = {"arguments": entry} if isinstance(entry, str) else entry
            where = (
                Path("src", f"{key}-cuda")
                if collection == "hecbench"
                else Path("Samples", values["folder"], key)
            )
            files = tuple(Path("src", each) for each in values.get("files", ()))
            program = ListedProgram(
                f"{collection}/{key}", where, tuple(shlex.split(values.get("arguments", ""))), files
            )
            found[program.name] = program
    return found
