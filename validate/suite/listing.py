"""A list of executables: a TOML file that says how each is called and what its verdict looks like.

    [programs.saxpy]
    program = "bin/saxpy"         # relative to the list, or to --root
    arguments = ["1000", "3"]

Nothing is built here: programs come from wherever they are made, linked with the shared runtime library.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from validate.commands import UsageError


class ListError(UsageError):
    """A list that cannot be read."""


@dataclass(frozen=True)
class Listed:
    """A program of the list.

    program: the executable, or the name of one on PATH; folder: where it runs, an empty one if none is named; both
    relative to the list, or to --root. passes, fails: what it prints (searched in each line of both its streams) if all
    is well, or if something is not; it passes with the first and without the second, and status 0. detailed: small
    enough to be run with time as well. excluded: why it is not run.
    """

    program: Path = Path()
    arguments: tuple[str, ...] = ()
    folder: Path | None = None
    passes: str = r"(?i)\bpass(ed|es)?\b"
    fails: str = r"(?i)\bfail(s|ed|ure)?\b|\bmismatch"
    detailed: bool = False
    excluded: str = ""


def read(path: Path, root: Path | None = None) -> dict[str, Listed]:
    """The programs of a list by name, with paths made absolute: they are relative to `root`, or to the list's folder.
    Raises ListError."""
    here, where = (root or path.parent).resolve(), ""
    try:
        found = {}
        for name, entry in tomllib.loads(path.read_text("utf-8"))["programs"].items():
            where = f", program {name}"
            found[name] = _listed(here, entry)
        return found
    except (OSError, ValueError, re.error, KeyError, TypeError, AttributeError) as error:
        raise ListError(f"{path} is no list{where}: {error}") from None


def _listed(here: Path, entry: dict[str, Any]) -> Listed:
    program, folder = Path(entry.get("program", "")), entry.get("folder")
    on_path = shutil.which(program.name) if program.parent == Path() and not (here / program).exists() else None
    places = {"program": Path(on_path) if on_path else here / program, "folder": folder and here / folder}
    found = Listed(**entry | places | {"arguments": tuple(map(str, entry.get("arguments", ())))})
    for pattern in (found.passes, found.fails):
        re.compile(pattern)
    return found
