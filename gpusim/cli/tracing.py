"""`gpusim run ... --trace FILE`: what to record, and writing it for a timeline viewer. See docs/traces.md."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim.cli.outputs import check_writable
from gpusim.cli.parser import UserError
from gpusim.units import counted

if TYPE_CHECKING:
    from gpusim.launch import Launch
    from gpusim.tracing.perfetto import Trace
    from gpusim.tracing.recording import TraceOptions

ENDING = ".perfetto-trace"


def trace_options(options: argparse.Namespace, launch: Launch) -> TraceOptions | None:
    """Options of the recording, None without --trace and --report. Raises UserError before anything runs if the trace
    could not be written."""
    given = {name: getattr(options, f"trace_{name}") for name in ("sms", "blocks", "limit")}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if options.trace is None and options.report is None:
        if chosen:
            what = f"--trace-{next(iter(chosen))} says what --trace FILE and --report FILE record"
            raise UserError(f"{what}; both are missing")
        return None
    from gpusim.tracing.recording import TraceOptions

    if options.trace is not None:
        check_writable(options.trace, "--trace", ENDING)
    for name in ("sms", "blocks"):
        if name in chosen:
            chosen[name] = number_list(chosen[name], f"--trace-{name}")
    if max(chosen.get("blocks", ()), default=0) >= launch.blocks:
        raise UserError(f"--trace-blocks: the grid's {launch.blocks:,} blocks are numbered from 0")
    return TraceOptions(**chosen)


def write_trace(trace: Trace, file: str) -> None:
    """Write a trace, and say what is in it."""
    path = Path(file)
    trace.perfetto(path)
    warps = counted(len(trace.warps), "warp")
    part = "" if trace.complete else f", until cycle {trace.until:,}: see --trace-limit"
    print(
        f"{path}: {counted(len(trace.issues), 'issue')} and {counted(len(trace.stalls), 'stall')} of {warps}{part}",
        file=sys.stderr,
    )


def number_list(text: str, option: str) -> list[int]:
    """The numbers of a list such as '0,4-7', sorted; 'none' is empty."""
    if text == "none":
        return []
    numbers: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        try:
            low = int(first)
            numbers.update(range(low, (int(last) if dash else low) + 1))
        except ValueError:
            raise UserError(f"{option} is a list of numbers such as 0,4-7, not {text!r}") from None
    return sorted(numbers)
