"""The commands of `python -m validate`: each is a table of `commands.toml`, with the function that runs it, which is
imported when it does."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from gpusim.cli.parser import Parser, UserError, add_commands


def parser() -> Parser:
    """The parser of all commands."""
    whole = Parser(
        prog="python -m validate",
        description="Program images, recordings from a real GPU, and the comparison with the simulator.",
    )
    add_commands(whole, declared=Path(__file__).with_suffix(".toml"))
    return whole


def known(names: Sequence[str], of: Collection[str], what: str) -> None:
    """Raise UserError if a name is none of these."""
    if unknown := [name for name in names if name not in of]:
        raise UserError(f"no {what} named {unknown[0]}; there are {', '.join(of)}")


def function_of(run: str) -> Any:
    """The function that a row names."""
    module, _, name = run.partition(":")
    return getattr(import_module(f"validate.{module}"), name)
