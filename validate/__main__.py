"""`python -m validate`: program images, recordings from a real GPU, and the comparison with the simulator."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from validate import commands


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0 if all went well, 1 if something was wrong, 2 for bad usage."""
    from gpusim.cli.parser import EXIT_USER_ERROR, UserError
    from gpusim.errors import SimulationError
    from programs.registry import UnknownProgram

    options = commands.parser().parse_args(arguments)
    try:
        status: int = commands.function_of(options.command)(options)
        return status
    except (UnknownProgram, UserError, SimulationError) as error:
        print(f"validate: error: {error.args[0]}", file=sys.stderr)
        return EXIT_USER_ERROR


if __name__ == "__main__":
    sys.exit(main())
