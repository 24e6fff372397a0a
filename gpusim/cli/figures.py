"""`gpusim figures`: simulate one launch and draw everything that it has a picture of."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpusim.cli.options import add_command, add_run_options, add_target_options
from gpusim.cli.parser import EXIT_OK, UserError, help_text
from gpusim.cli.run import simulate_target, target_of


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    summary = "run a program and draw what happened: docs/figures.md"
    options = add_target_options, add_run_options
    parser = add_command(commands, "figures", summary, help_text("figures", "arguments"), execute, *options)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where the pictures go; made if need be")
    parser.add_argument("--kind", choices=("png", "svg", "pdf"), default="png", help="format (default: png)")
    words = "the part of the launch to look at (default: from its start, and lanes where they first part)"
    parser.add_argument("--cycles", metavar="FIRST:LAST", help=words)


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
