"""The command line: `gpusim run`, `list`, `show`, `figures`, `config` and others.

`main` parses and turns every mistake of the user into one line and an exit code. `commands.toml` declares the commands
and their options, and names the function of each, in a module of its own that is imported when it runs, so that a help
text does not wait for Numba; the function returns an exit code, or None for success. Examples are files of `help`.
`outputs` and `progress` have what several of them print; what PROGRAM and --args may be says `gpusim.workload`.

Exit codes: 0 success, 1 a program's output differs from its reference, 2 a mistake in what was asked for,
3 some points of a sweep failed, 130 interrupted, 141 the reader of the output went away.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from gpusim.cli import parser as command_line
from gpusim.cli.parser import EXIT_BROKEN_PIPE, EXIT_INTERRUPTED, EXIT_OK, EXIT_USER_ERROR, UserError

__all__ = ["UserError", "main", "make_parser"]


def make_parser(command: str | None = None) -> argparse.ArgumentParser:
    """The parser of the whole command line; `options.command` names the function that runs the command chosen.

    command: the one that is on the command line, which alone is declared then; anything else for all of them.
    """
    from gpusim import __version__

    parser = command_line.Parser(
        prog="gpusim", description="A GPU simulator that executes the machine code a real GPU would run.",
        epilog=command_line.help_text("gpusim"), formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    told = f"gpusim {__version__}"
    parser.add_argument("--version", action="version", version=told, help="print the version and exit")
    command_line.add_commands(parser, command)
    return parser


def _mistakes() -> tuple[type[Exception], ...]:
    """Return the exceptions that are a user's mistake, once one was raised: a help text does not wait for them."""
    from isa.errors import SimulationError

    return UserError, SimulationError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. argv: arguments without the program's name, None for the process's."""
    if argv is None:
        if "_ARGCOMPLETE" in os.environ:
            from gpusim.cli.completion import answer

            answer(make_parser)
        argv = sys.argv[1:]
        if argv[:1] != ["script"]:  # whose files may wait for the last search for garbage to be written
            atexit.register(gc.freeze)  # without one, which would take as long as importing Numba did
    parser = make_parser(argv[0] if argv else None)
    try:
        options = parser.parse_args(argv)
    except SystemExit as stop:  # argparse has printed its message, or the help text
        return int(stop.code or 0)
    try:
        module, _, function = options.command.partition(":")
        code: int | None = getattr(import_module(f"gpusim.cli.{module}"), function)(options)
        sys.stdout.flush()
        return code or EXIT_OK
    except _mistakes() as error:
        if type(error).__name__ == "Stopped":  # where --stop-at or --until has said
            print(error)
            return EXIT_OK
        print(f"gpusim: error: {' '.join(str(error).split())}", file=sys.stderr)
        return getattr(error, "status", EXIT_USER_ERROR)
    except BrokenPipeError:
        # As for any filter: `gpusim list | head` ends quietly, with the code of a process ended by SIGPIPE.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except OSError as error:
        names = ", ".join(str(each) for each in (error.filename, error.filename2) if each is not None)
        print(f"gpusim: error: {names + ': ' if names else ''}{error.strerror or error}", file=sys.stderr)
        return EXIT_USER_ERROR
    except MemoryError:
        print("gpusim: error: this needs more memory than the host has", file=sys.stderr)
        return EXIT_USER_ERROR
    except KeyboardInterrupt:
        print("gpusim: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
