"""The command line: `gpusim run`, `list`, `show`, `figures`, `config` and others.

`main` parses and turns every mistake of the user into one line and an exit code. One module per command; each has
`add(commands)`, which declares its arguments, and imports what it needs only when it runs, so that a help text does
not wait for Numba. `target.py` and `spec.py` say what a program on the command line may be and how arguments of a
kernel are spelled.

Exit codes: 0 success, 1 a program's output differs from its reference, 2 a mistake in what was asked for,
3 some points of a sweep failed, 130 interrupted, 141 the reader of the output went away.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

EXIT_OK, EXIT_MISMATCH, EXIT_USER_ERROR, EXIT_FAILED_POINTS, EXIT_INTERRUPTED, EXIT_BROKEN_PIPE = 0, 1, 2, 3, 130, 141


class UserError(Exception):
    """A mistake on the command line; the message is all that is printed."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. argv: arguments without the program's name, None for the process's."""
    from gpusim.cli.parser import make_parser
    from isa.errors import IsaError

    parser = make_parser()
    try:
        options = parser.parse_args(argv)
    except SystemExit as stop:  # argparse has printed its message, or the help text
        return int(stop.code or 0)
    try:
        code = options.command(options)
        sys.stdout.flush()
        return code
    except (UserError, IsaError) as error:
        print(f"gpusim: error: {' '.join(str(error).split())}", file=sys.stderr)
        return EXIT_USER_ERROR
    except MemoryError:
        print("gpusim: error: this needs more memory than the host has", file=sys.stderr)
        return EXIT_USER_ERROR
    except KeyboardInterrupt:
        print("gpusim: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # As for any filter: `gpusim list | head` ends quietly, with the code of a process ended by SIGPIPE.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
