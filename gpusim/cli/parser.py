"""The parser of the command line: argparse's, which also says what an option or a command nearly is called; exit codes,
and mistakes."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

EXIT_OK, EXIT_MISMATCH, EXIT_USER_ERROR, EXIT_FAILED_POINTS, EXIT_INTERRUPTED, EXIT_BROKEN_PIPE = 0, 1, 2, 3, 130, 141
_CHOICES = re.compile(r"invalid choice: '?(.*?)'? \(choose from (.*)\)", re.DOTALL)


def help_text(*names: str) -> str:
    """What stands below the options of a command: these files of `gpusim/cli/help`, an empty line between."""
    folder = Path(__file__).with_name("help")
    return "\n".join((folder / f"{name}.txt").read_text("utf-8") for name in names)


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
