"""Options and outputs of the commands that run other people's launches: the table, pages, traces, saved launches."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim.cli.options import (
    add_gpu_options,
    add_json_option,
    add_limit_options,
    add_mode_option,
    add_progress_option,
    names_of,
)
from gpusim.cli.outputs import check_writable
from gpusim.cli.parser import UserError
from gpusim.cli.tracing import ENDING

if TYPE_CHECKING:
    from gpusim.driver.outputs.log import LaunchLog
    from gpusim.driver.outputs.outputs import Telling

_NUMBERS = re.compile(r"(\d+)(?:(-)(\d*))?")


def add_program_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands whose programs launch by themselves."""
    for add in (add_gpu_options, add_limit_options, add_progress_option, add_mode_option, add_table_options):
        add(parser)
    add_telling_options(parser)


def driver_options(options: argparse.Namespace) -> dict[str, Any]:
    """Arguments of a `gpusim.driver.state.Driver`, but for the GPU and what it tells."""
    return {name: getattr(options, name) for name in ("overrides", "threads", "max_cycles", "mode")}


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """--output, --no-report and --json."""
    parser.add_argument(
        "--output", type=Path, metavar="PATH", help="write the table there instead of to standard output"
    )
    parser.add_argument("--no-report", action="store_true", help="print nothing of gpusim's own")
    add_json_option(parser)


def print_table(log: LaunchLog, as_json: bool, output: Path | None) -> None:
    """Print or write what was launched."""
    write_table(json.dumps(log.to_dict(), indent=2) if as_json else log.render(), as_json, output)


def write_table(text: str, as_json: bool, output: Path | None) -> None:
    """Print a table as text or JSON, or write it."""
    if output is not None:
        try:
            output.write_text(text + "\n")
        except OSError as error:
            print(f"gpusim: error: cannot write {output}: {error.strerror}", file=sys.stderr)
    else:
        sys.stdout.flush()
        print(text if as_json else f"\n{text}", flush=True)


def add_telling_options(parser: argparse.ArgumentParser, *, save: bool = True) -> None:
    """The fields of `gpusim.driver.outputs.outputs.Telling`. save: whether launches can be saved."""
    group = parser.add_argument_group("what launches tell")
    group.add_argument("--report", metavar="DIR", help="write a page for each launch, and index.html that lists them")
    group.add_argument(
        "--section", action="append", default=[], metavar="NAME", dest="sections",
        help="only this section of the pages, such as memory or source (may be repeated; see docs/report.md)",
    )  # fmt: skip
    group.add_argument(
        "--report-limit", type=int, metavar="N", help="pages at most, of launches that differ (default: 200)"
    )
    group.add_argument(
        "--trace",
        metavar="FILE",
        help="write a timeline of launches and copies: FILE.perfetto-trace, for ui.perfetto.dev",
    )
    group.add_argument(
        "--check",
        default="",
        metavar="TOOLS",
        help="what to look for: initcheck, racecheck, synccheck, separated by commas, or all (memcheck is always on)",
    )
    if save:
        group.add_argument("--save", metavar="FILE", help="save launches with all that they read, for gpusim replay")
    group.add_argument(
        "--kernel",
        default="",
        metavar="REGEX",
        help="only launches of kernels in whose full name it is found have pages, are checked or saved",
    )
    group.add_argument(
        "--launch", metavar="N-M", help="only launches with these numbers, from 1: 7, 7-12 or 7- (to the end)"
    )


def telling_of(options: argparse.Namespace) -> Telling:
    """Make the `Telling` that the options ask for. Raises UserError for what could only fail later."""
    from gpusim.driver.outputs.outputs import REPORT_LIMIT, Telling
    from gpusim.host.options import CHECKS

    first, last = _numbers(options.launch)
    try:
        re.compile(options.kernel)
    except re.error as error:
        raise UserError(f"--kernel {options.kernel}: no regular expression: {error}") from None
    if options.mode == "functional" and (options.report or options.trace):
        raise UserError("--report and --trace show times, which a functional run has none of")
    if options.trace is not None:
        check_writable(options.trace, "--trace", ENDING)
    if (save := getattr(options, "save", None)) is not None:
        check_writable(save, "--save")
    _check_report(options)
    names = names_of(options.check)
    limit = options.report_limit if options.report_limit is not None else REPORT_LIMIT
    return Telling(
        report=options.report,
        sections=tuple(options.sections),
        report_limit=limit,
        trace=options.trace,
        save=save,
        check=tuple(name for name in CHECKS if name != "memcheck") if names == ["all"] else tuple(names),
        kernel=options.kernel,
        first=first,
        last=last,
    )


def _check_report(options: argparse.Namespace) -> None:
    if options.report is None:
        for name, value in (("--section", options.sections), ("--report-limit", options.report_limit)):
            if value:
                raise UserError(f"{name} says what --report DIR writes, which is missing")
        return
    from gpusim.report_html.sections import NAMES

    if unknown := [name for name in options.sections if name not in NAMES]:
        raise UserError(f"--section {unknown[0]}: there are {', '.join(NAMES)}")
    if options.report_limit is not None and options.report_limit < 1:
        raise UserError(f"--report-limit must be positive, got {options.report_limit}")
    try:
        Path(options.report).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--report {options.report}: {error.strerror}") from None


def _numbers(text: str | None) -> tuple[int, int | None]:
    """First and last number of '7', '7-12' or '7-'."""
    if text is None:
        return 1, None
    found = _NUMBERS.fullmatch(text)
    first = int(found[1]) if found else 0
    last = first if found and not found[2] else int(found[3]) if found and found[3] else None
    if first < 1 or (last is not None and last < first):
        raise UserError(f"--launch is a number, from 1, or two such as 7-12, not {text!r}")
    return first, last
