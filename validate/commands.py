"""The commands of `python -m validate`: each is a table of `commands.toml`, with the function that runs it, which is
imported when it does."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

EXIT_OK, EXIT_WRONG, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130
_TYPES = {"path": Path, "int": int, "float": float}
"""What an option's text becomes, by the names of `commands.toml`."""


class UsageError(Exception):
    """A request that cannot be fulfilled; the message says why."""


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    document = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    whole = argparse.ArgumentParser(
        prog="python -m validate",
        description="Program images, recordings from a real GPU, and the comparison with the simulator.",
    )
    places = {"": whole.add_subparsers(required=True, metavar="COMMAND")}
    for each in document["commands"]:
        group, _, name = each["name"].rpartition(" ")
        if group not in places:
            made = _add_command(places[""], group, document["groups"][group])
            places[group] = made.add_subparsers(required=True, metavar="PART")
        made = _add_command(places[group], name, each["does"])
        made.epilog = f"example: {made.prog} {each['example']}"
        made.set_defaults(run=each["run"])
        for option in each["options"]:
            _add_option(made, document["shared"][option] if isinstance(option, str) else option)
    return whole


def _add_command(place: Any, name: str, does: str) -> argparse.ArgumentParser:
    about = f"{does[0].upper()}{does[1:]}."
    made: argparse.ArgumentParser = place.add_parser(name, help=does.replace("%", "%%"), description=about)
    return made


def _add_option(parser: argparse.ArgumentParser, row: Mapping[str, Any]) -> None:
    """An option or argument with its help; a default is told."""
    more = dict(row)
    name, text = more.pop("name"), more.pop("help", "")
    if more.get("default") not in (None, "", []) and "default:" not in text:
        text += " (default: %(default)s)"
    if "type" in more:
        more["type"] = _TYPES[more["type"]]
    parser.add_argument(name, help=text.strip(), **more)


def known(names: Sequence[str], of: Collection[str], what: str) -> None:
    """Raise UsageError if a name is none of these."""
    if unknown := [name for name in names if name not in of]:
        raise UsageError(f"no {what} named {unknown[0]}; there are {', '.join(of)}")


def function_of(run: str) -> Any:
    """The function that a row names."""
    module, _, name = run.partition(":")
    return getattr(import_module(f"validate.{module}"), name)
