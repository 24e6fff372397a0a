"""The parser of the command line, made of `commands.toml` or a file like it: argparse's, which also says what an option
or a command is nearly called; exit codes, and mistakes."""

from __future__ import annotations

import argparse
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpusim.units import whole

COMMANDS = Path(__file__).with_name("commands.toml")
EXIT_OK, EXIT_MISMATCH, EXIT_USER_ERROR, EXIT_FAILED_POINTS, EXIT_INTERRUPTED, EXIT_BROKEN_PIPE = 0, 1, 2, 3, 130, 141
_CHOICES = re.compile(r"invalid choice: '?(.*?)'? \(choose from (.*)\)", re.DOTALL)


def help_text(*names: str | None) -> str:
    """What stands below the options of a command: these files of `gpusim/cli/help`, an empty line between."""
    folder = Path(__file__).with_name("help")
    return "\n".join((folder / f"{name}.txt").read_text("utf-8") for name in names if name)


def names_of(text: str) -> list[str]:
    """The names of a list such as 'racecheck, initcheck'."""
    return [name.strip() for name in text.split(",") if name.strip()]


class UserError(Exception):
    """A mistake on the command line; the message is all that is printed."""


def _meant(wrong: str, known: Sequence[str]) -> str:
    from gpusim.errors import did_you_mean  # loads the decoder, for which help texts need not wait

    return did_you_mean(wrong, known)


class Parser(argparse.ArgumentParser):
    """Like `argparse.ArgumentParser`; commands below it are of this class as well."""

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Raises SystemExit, with the usage of the command that an unknown option was given to."""
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            used = getattr(options, "parser", self)
            known = [name for action in used._actions for name in action.option_strings]
            wrong = [each.partition("=")[0] for each in unknown if each.startswith("-")]
            told = next(filter(None, (_meant(each, known) for each in wrong)), "")
            used.error(f"unrecognized arguments: {' '.join(unknown)}{told}")
        return options

    def error(self, message: str) -> Any:
        """Adds the nearest of the choices to a message about one that does not exist."""
        if found := _CHOICES.search(message):
            message += _meant(found[1], re.findall(r"[^\s',]+", found[2]))
        super().error(message)


class _Words(argparse.Action):
    """Add to a command line: `const` with the value, quoted; the value as it is where that is empty."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:
        given = shlex.quote(self.const + values) if self.const else values
        setattr(namespace, self.dest, " ".join(filter(None, (getattr(namespace, self.dest), given))))


def _whole(text: str) -> int:
    try:
        return whole(text)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"a whole number such as 1000 or 1e6, not {text!r}") from None


_TYPES = {"int": _whole, "float": float, "path": Path}
_ACTIONS = {"boolean": argparse.BooleanOptionalAction, "words": _Words}


def add_commands(whole: argparse.ArgumentParser, chosen: str | None = None, declared: Path = COMMANDS) -> None:
    """Add the commands that a file declares, or the chosen one alone if there is one of the name."""
    document = tomllib.loads(declared.read_text("utf-8"))
    places = {"": whole.add_subparsers(title="commands", metavar="COMMAND", required=True)}
    rows = [each for each in document["commands"] if each["name"].split()[0] == chosen] or document["commands"]
    for row in rows:
        group, _, name = row["name"].rpartition(" ")
        files = row["name"].replace(" ", "-"), row.get("also")
        made = places[group].add_parser(
            name, help=row["does"].replace("%", "%%"), description=row["does"][0].upper() + row["does"][1:] + ".",
            epilog=f"example: %(prog)s {row['example']}" if "example" in row else help_text(*files),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        made.prefix_chars = row.get("prefix_chars", made.prefix_chars)
        _add_options(made, document.get("groups", {}), _options(row["options"], document["shared"]))
        # parser: who tells what an unknown option is nearly called
        made.set_defaults(parser=made, command=row.get("run"), **dict.fromkeys(row.get("unset", ())))
        if "run" not in row:
            places[row["name"]] = made.add_subparsers(title="actions", metavar="ACTION", required=True)


def _options(rows: Iterable[Any], shared: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """Options, with those of shared rows in their places."""
    for row in rows:
        if isinstance(row, str):
            yield from _options(shared[row], shared)
        elif "suffix" in row:
            for each in _options(shared[row["shared"]], shared):
                kept = {"type": each["type"]} if "type" in each else {}
                yield kept | {"name": each["name"] + row["suffix"], "group": row["group"], "hidden": True}
        else:
            yield dict(row)


def _add_options(parser: argparse.ArgumentParser, about: Mapping[str, str], rows: Iterable[dict[str, Any]]) -> None:
    groups: dict[str, argparse._ActionsContainer] = {"": parser}
    for row in rows:
        names, group = row.pop("name"), row.pop("group", "")
        if group not in groups:
            groups[group] = parser.add_argument_group(group, about.get(group))
        if row.pop("hidden", False):
            row["help"] = argparse.SUPPRESS
        for key, meanings in (("type", _TYPES), ("action", _ACTIONS)):
            if key in row:
                row[key] = meanings.get(row[key], row[key])
        groups[group].add_argument(*([names] if isinstance(names, str) else names), **row)
