"""`gpusim figures`: simulate one launch and draw everything that it has a picture of."""

from __future__ import annotations

import argparse

from gpusim.cli.parser import EXIT_OK, UserError
from gpusim.cli.run import simulate_target, target_of


def execute(options: argparse.Namespace) -> int:
    from gpusim.plot import write_all
    from gpusim.tracing.recording import TraceOptions

    cycles = _window(options.cycles)
    result = simulate_target(target_of(options), options, TraceOptions())
    try:
        written = write_all(result, options.folder, options.kind, cycles)
    except (OSError, ValueError) as error:
        raise UserError(str(error)) from None
    for path in written:
        print(path)
    return EXIT_OK


def _window(text: str | None) -> tuple[int, int] | None:
    """First and last cycle of '12000:12400'."""
    if text is None:
        return None
    first, _, last = (part.strip() for part in text.replace(",", "").partition(":"))
    if not (first.isdecimal() and last.isdecimal() and int(first) < int(last)):
        raise UserError(f"--cycles is two cycles of the launch such as 12000:12400, not {text!r}")
    return int(first), int(last)
