"""The command lines `python -m validate microbench ...` and `python -m validate calibrate`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from validate.microbench.bench import Bench


def _chosen(options: argparse.Namespace) -> list[Bench]:
    from validate.microbench import suite

    try:
        return suite.select(options.only)
    except LookupError as problem:
        raise SystemExit(str(problem)) from None


def _build(options: argparse.Namespace) -> int:
    from validate.microbench import images

    written = images.build(_chosen(options))
    print(f"{len(written)} images written")
    return 0


def _measure(options: argparse.Namespace) -> int:
    from validate.microbench import measure

    return measure.main(options.out, _chosen(options), options.repeats)


def _join(options: argparse.Namespace) -> int:
    from validate.microbench import results, suite

    joined = results.join([json.loads(path.read_text()) for path in options.recordings])
    order = {name: place for place, name in enumerate(suite.benches())}
    joined["benches"] = dict(sorted(joined["benches"].items(), key=lambda each: order[each[0]]))
    results.write(joined, results.FOLDER / f"{options.gpu}.json")
    return 0


def _compare(options: argparse.Namespace) -> int:
    from validate.microbench import compare, results

    measured = options.results or results.gpu_of(options.gpu)
    benches = _chosen(options)
    out = sys.stderr if options.json else sys.stdout
    print(compare.HEAD, file=out)
    rows = []
    for row in compare.compare(benches, options.gpu, measured, options.set, slow=not options.fast):
        rows.append(row)
        if options.full or row.verdict:
            print(compare.line(row), file=out, flush=True)
    print(compare.summary(rows), file=out)
    if options.update_gaps:
        print(f"{compare.update_gaps(rows, measured)} known gaps listed", file=out)
        return 0
    if options.json:
        print(json.dumps(compare.document(rows), indent=1))
    return 1 if any(row.verdict for row in rows) else 0


def _calibrate(options: argparse.Namespace) -> int:
    from validate.microbench import calibrate, results

    rows = calibrate.calibrate(options.gpu, options.results or results.gpu_of(options.gpu))
    print(calibrate.HEAD)
    for row in rows:
        print(calibrate.line(row))
    return 1 if options.check and any(row.wrong for row in rows) else 0


def add(commands: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Add both commands to the parser of `python -m validate`; `command` makes one."""
    micro = commands.add_parser(
        "microbench",
        help="microbenchmarks: compile, measure on a GPU, simulate, compare",
        description="Kernels that isolate one mechanism each, measured on a GPU and simulated.",
    )
    parts = micro.add_subparsers(required=True, metavar="COMMAND")
    build = command(parts, "build", _build, "compile every kernel into its program image", "--only pipe_")
    _choose_benches(build)

    summary = "run the suite on this machine's GPU; needs NumPy, Numba and CuPy, and compiles nothing"
    measure = command(parts, "measure", _measure, summary, "--out h200.json")
    _choose_benches(measure)
    measure.add_argument("--out", type=Path, required=True, help="file for the results")
    measure.add_argument("--repeats", type=int, default=5, help="launches of each case (default: %(default)s)")

    summary = "make the stored results of a GPU out of recordings, best of several cards"
    join = command(parts, "join", _join, summary, "card1.json card2.json")
    join.add_argument("recordings", type=Path, nargs="+", metavar="FILE", help="what 'measure' wrote")
    join.add_argument("--gpu", default="h200", help="the GPU (default: %(default)s)")

    summary = "simulate the suite and compare with what was measured; status 1 if a number is off that should not be"
    compare = command(parts, "compare", _compare, summary, "--only pipe_ffma --full")
    _choose_gpu(compare)
    _choose_results(compare)
    compare.add_argument("--full", action="store_true", help="every number, not only the unexpected")
    compare.add_argument("--fast", action="store_true", help="leave out what takes more than a second each")
    compare.add_argument("--json", action="store_true", help="everything as JSON; the table goes to standard error")
    compare.add_argument(
        "--update-gaps", action="store_true", help="list exactly the numbers that are off as known gaps"
    )

    summary = "values of the configuration as the microbenchmarks have them"
    calibrate = command(commands, "calibrate", _calibrate, summary, "--check")
    calibrate.add_argument("--gpu", default="h200", help="configuration to look at (default: %(default)s)")
    _choose_results(calibrate)
    calibrate.add_argument(
        "--check", action="store_true", help="status 1 if a value that claims to be measured differs"
    )


def _choose_benches(part: argparse.ArgumentParser) -> None:
    text = "how the names of benchmarks begin (default: all)"
    part.add_argument("--only", nargs="*", default=(), metavar="NAME", help=text)


def _choose_gpu(part: argparse.ArgumentParser) -> None:
    _choose_benches(part)
    part.add_argument("--gpu", default="h200", help="configuration to simulate (default: %(default)s)")
    part.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change the configuration")


def _choose_results(part: argparse.ArgumentParser) -> None:
    text = "GPU whose results to take (default: that of --gpu, or h200 if it has none)"
    part.add_argument("--results", metavar="GPU", help=text)
