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
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from validate.commands import UsageError


class ListError(UsageError):
    """A list that cannot be read."""


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from None
    return text


Pattern = Annotated[str, AfterValidator(_pattern)]


class Listed(BaseModel):
    """A program of the list.

    program: the executable, or the name of one on PATH; folder: where it runs, an empty one if none is named; both
    relative to the list, or to --root. passes, fails: what it prints (searched in each line of both its streams) if all
    is well, or if something is not; it passes with the first and without the second, and status 0. detailed: small
    enough to be run with time as well. excluded: why it is not run.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    program: Path = Path()
    arguments: tuple[str, ...] = ()
    folder: Path | None = None
    passes: Pattern = r"(?i)\bpass(ed|es)?\b"
    fails: Pattern = r"(?i)\bfail(s|ed|ure)?\b|\bmismatch"
    detailed: bool = False
    excluded: str = ""


class _List(BaseModel):
    model_config = ConfigDict(extra="forbid")

    programs: dict[str, Listed]


def _found(root: Path, program: Path) -> Path:
    """Where a program lies: one without a folder that is not there is looked for on PATH."""
    on_path = shutil.which(program.name) if program.parent == Path() and not (root / program).exists() else None
    return Path(on_path) if on_path else root / program


def read(path: Path, root: Path | None = None) -> dict[str, Listed]:
    """The programs of a list by name, with paths made absolute: they are relative to `root`, or to the list's folder.
    Raises ListError."""
    try:
        found = _List.model_validate(tomllib.loads(path.read_text("utf-8"))).programs
    except OSError as error:
        raise ListError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ListError(f"{path} is no TOML file: {error}") from None
    except ValidationError as error:
        wrong = error.errors()[0]
        raise ListError(f"{path}: {'.'.join(map(str, wrong['loc']))}: {wrong['msg']}") from None
    here = (root or path.parent).resolve()
    return {
        name: each.model_copy(
            update={"program": _found(here, each.program), "folder": each.folder and here / each.folder}
        )
        for name, each in found.items()
    }
