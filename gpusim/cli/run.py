"""`gpusim run`: simulate one launch, check what it computed, report; `gpusim figures`: draw what happened."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpusim.cli.outputs import check_writable, print_json
from gpusim.cli.parser import EXIT_MISMATCH, EXIT_OK, UserError, names_of
from gpusim.cli.tracing import trace_options, write_trace

if TYPE_CHECKING:
    from gpusim.result import Result
    from gpusim.workload.target import ReferenceCheck, Target


def execute(options: argparse.Namespace) -> int:
    if options.profile:
        options.threads = options.threads or 1
    target = target_of(options)
    if options.report:
        check_writable(options.report)
    # A sampled run computes outputs only where that is asked for.
    unchecked = options.no_check or (options.mode == "sampled" and not options.outputs)
    expected = None if unchecked else target.expected()
    trace = trace_options(options, target.launch)
    timed = options.mode != "functional"
    if options.report and not timed:
        raise UserError("--report shows times, which a functional run has none of")
    result = simulate_target(target, options, trace=trace, bound=options.bound and timed)
    if result.trace is not None and options.trace:
        write_trace(result.trace, options.trace)
    if options.report:
        result.report_html(options.report, target.name)
    check = target.check(expected)
    if options.json:
        print_json(make_document(target, result, check))
    else:
        if target.variant:
            print(f"{target.name}, size {target.size:,} {target.variant.size_name}, seed {target.seed}")
        from gpusim.results.counts import Counts
        from gpusim.results.quantities import render
        from gpusim.results.sentences import checked_words, render_profile

        print(render(result, options.all))
        if options.profile and result.record.host_parts:
            print(f"\n{render_profile(result)}")
        for line in checked_words(Counts(result.record), names_of(options.check)):
            print(line)
        if check is not None and check.equal:
            print(check.message)
    if check is None or check.equal:
        return EXIT_OK
    print(f"gpusim: error: wrong output: {check.message}", file=sys.stderr)
    return EXIT_MISMATCH


def draw(options: argparse.Namespace) -> None:
    """Draw everything that a launch has a picture of."""
    from gpusim.plot import write_all
    from gpusim.tracing.recording import TraceOptions

    result = simulate_target(target_of(options), options, trace=TraceOptions())
    print(*write_all(result, options.folder, options.kind), sep="\n")


def target_of(options: argparse.Namespace, launchable: bool = True) -> Target:
    """Find the target that the options of `add_target_options` name; launchable: as for `find_target`."""
    with collector_off():
        from gpusim.config import load_config
        from gpusim.workload.request import Request
        from gpusim.workload.target import find_target

        config = load_config(options.gpu, options.overrides)
        return find_target(Request.of(vars(options)), config, launchable=launchable)


@contextmanager
def collector_off() -> Iterator[None]:
    """While modules are loaded: Python's collector of garbage would look through them many times, and then in every
    run, and find nothing. Once in a process, since what is garbage by then is kept."""
    if not gc.isenabled() or gc.get_freeze_count():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def simulate_target(target: Target, options: argparse.Namespace, **more: Any) -> Result:
    """Simulate a target with the options of a run, those that the command has. more: as for `gpusim.simulate`, in their
    place."""
    from gpusim.cli.progress import announce_compilation, show_progress
    from gpusim.engine.stop import Stop
    from gpusim.host.options import DEFAULT_MAX_CYCLES
    from gpusim.workload.target import load_model

    check_limits(options)
    announce_compilation()

    def per_block() -> float:
        from gpusim.bound import quick_instructions
        from gpusim.config import load_config

        config = load_config(options.gpu, options.overrides)
        return quick_instructions(target.launch, config) / target.launch.blocks

    with show_progress(options.progress, per_block) as progress:
        how: dict[str, Any] = {
            "overrides": options.overrides,
            "max_cycles": options.max_cycles or DEFAULT_MAX_CYCLES,
            "threads": options.threads,
            "progress": progress,
            "check": names_of(getattr(options, "check", "")),
            "stop": Stop.of(getattr(options, "stop_at", None), getattr(options, "until", None)),
            "mode": getattr(options, "mode", "detailed"),
            "model": load_model(getattr(options, "model", "engine")),
            "outputs": getattr(options, "outputs", False),
        }
        return target.simulate(options.gpu, **how | more)


def check_limits(options: argparse.Namespace) -> None:
    """Refuse --threads and --max-cycles that are not positive."""
    for name in ("threads", "max_cycles"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UserError(f"--{name.replace('_', '-')} must be positive, got {value}")


def make_document(target: Target, result: Result, check: ReferenceCheck | None) -> dict[str, Any]:
    """Return the document that --json prints."""
    head = {"program": target.name, "size": target.size, "seed": target.seed, "check": check and asdict(check)}
    return head | result.to_dict()
