"""`gpusim run`: simulate one launch, check what it computed, report."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim.cli import EXIT_MISMATCH, EXIT_OK, UserError
from gpusim.cli.parser import ARGUMENT_HELP, add_command, add_json_option, add_target_options
from gpusim.cli.tracing import add_trace_options, trace_options, write_trace

if TYPE_CHECKING:
    from gpusim.cli.target import Target
    from gpusim.result import Result
    from gpusim.tracing.trace import TraceOptions

EXAMPLES = """\
examples:
  gpusim run vector_add
  gpusim run reduction/shuffle --size 1000000 --gpu a100
  gpusim run vector_add --set sm.count=66 --json
  gpusim run transpose/tiled --report transpose.html      a page with source view and warp stepper
  gpusim run histogram/shared --check initcheck,racecheck
  gpusim run transpose/naive --size 256 --trace naive.perfetto-trace
  gpusim run reduction/sequential --trace warps.kanata --trace-blocks 0,1 --trace-sms none
  gpusim run kernels.py:scale --grid 8 --block 128 --args "float32[1024]=random, float32(2.5)"
  gpusim run kernel.cubin --entry saxpy --grid 8 --block 128 --args "float32(2), float32[1024], float32[1024]"

"""


def add(commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands, "run", "run a program on a simulated GPU and report", EXAMPLES + ARGUMENT_HELP
    )
    add_target_options(parser)
    add_run_options(parser)
    parser.add_argument(
        "--no-check",
        action="store_true",
        help="do not compare a bundled program's output with its NumPy reference",
    )
    parser.add_argument(
        "--bound",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also the least time the launch could take, where a few blocks tell: docs/bound.md (default: yes)",
    )
    parser.add_argument(
        "--report",
        metavar="FILE.html",
        help="also write the report as one HTML file, with a stepper through the warps of block 0",
    )
    add_trace_options(parser)
    add_json_option(parser)
    parser.set_defaults(command=execute)


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Options of every command that simulates."""
    parser.add_argument(
        "--threads", type=int, metavar="N", help="host threads (default: one per core; same result)"
    )
    parser.add_argument("--max-cycles", type=int, metavar="N", help="give up after so many cycles")
    parser.add_argument(
        "--check",
        default="",
        metavar="TOOLS",
        help="what else to look for: initcheck, racecheck, synccheck, separated by commas (memcheck is always on)",
    )
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="show progress after two seconds (default: if standard error is a terminal)",
    )


def execute(options: argparse.Namespace) -> int:
    """Run the command."""
    from gpusim.cli.target import find_target
    from gpusim.config import load_config

    target = find_target(options, load_config(options.gpu, options.overrides))
    if options.report:
        check_writable(options.report)
    expected = target.variant.reference(target.launch) if target.variant and not options.no_check else None
    trace = trace_options(options, target.launch)
    result = simulate_target(target, options, trace, bound=options.bound)
    if result.trace is not None and options.trace:
        write_trace(result.trace, options.trace)
    if options.report:
        _write_report(result, options.report, target)
    check = check_outputs(target, expected)
    if options.json:
        print(json.dumps(make_document(target, result, check), indent=2))
    else:
        if target.variant:
            print(f"{target.name}, size {target.size:,} {target.variant.size_name}, seed {target.seed}")
        print(result)
    if check is None:
        return EXIT_OK
    if not options.json and check["equal"]:
        print(check["message"])
    if not check["equal"]:
        print(f"gpusim: error: wrong output: {check['message']}", file=sys.stderr)
    return EXIT_OK if check["equal"] else EXIT_MISMATCH


def check_writable(path: str) -> None:
    """Refuse before a long run what can only fail after it."""
    target = Path(path)
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise UserError(f"--report {path}: {'is a folder' if target.is_dir() else 'no such folder'}")


def _write_report(result: Result, path: str, target: Target) -> None:
    try:
        result.report_html(path, target.name)
    except OSError as error:
        raise UserError(f"--report {path}: {error.strerror}") from error


def simulate_target(
    target: Target, options: argparse.Namespace, trace: TraceOptions | None = None, bound: bool = False
) -> Result:
    """Simulate a target, with the options of `add_run_options` and of the GPU. bound: as for `gpusim.simulate`."""
    from gpusim.cli.progress import announce_compilation, show_progress
    from gpusim.host.options import DEFAULT_MAX_CYCLES
    from gpusim.simulation import simulate

    for name in ("threads", "max_cycles"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UserError(f"--{name.replace('_', '-')} must be positive, got {value}")
    launch = target.launch
    announce_compilation()
    with show_progress(options.progress) as progress:
        return simulate(
            launch.kernel,
            launch.grid,
            launch.block,
            launch.args,
            options.gpu,
            launch.shared_bytes,
            signature=launch.signature,
            overrides=options.overrides,
            max_cycles=options.max_cycles or DEFAULT_MAX_CYCLES,
            threads=options.threads,
            progress=progress,
            check=[name.strip() for name in options.check.split(",") if name.strip()],
            trace=trace,
            bound=bound,
        )


def check_outputs(target: Target, expected: Any) -> dict[str, Any] | None:
    """Whether the outputs are what the reference computed from the inputs; None if there is none to compare with."""
    if expected is None:
        return None
    variant = target.variant
    mismatch = variant.mismatch(expected, variant.results(target.launch))
    exact = variant.rtol == variant.atol == 0
    within = "" if exact else f" within rtol {variant.rtol:.2g}, atol {variant.atol:.2g}"
    return {"equal": mismatch is None, "message": mismatch or f"output equals the NumPy reference{within}"}


def make_document(target: Target, result: Result, check: dict[str, Any] | None) -> dict[str, Any]:
    """What --json prints."""
    head = {"program": target.name, "size": target.size, "seed": target.seed, "check": check}
    return head | result.to_dict()
