"""`python -m validate triton` and `cutlass`: build kernels, simulate them, compare with NumPy and with a recording."""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from validate.foreign.launch import NotBuilt

if TYPE_CHECKING:
    from validate.foreign.compare import ForeignPoint
    from validate.replay import Comparison
    from validate.score import Row

EXIT_OK, EXIT_WRONG, EXIT_USAGE = 0, 1, 2


def run(options: argparse.Namespace) -> int:
    """The status: 0 if every output is right and every exact counter equal, 1 if not, 2 if nothing could be built."""
    cases = import_module(f"validate.{options.package}.cases")
    names = [name for name in cases.CASES
             if (not options.only or {name, name.split("@")[0], family(name)} & {*options.only})
             and options.split in ("all", split(cases, name))]  # fmt: skip
    if not names:
        print(f"validate: error: no such point; there are {', '.join(cases.CASES)}", file=sys.stderr)
        return EXIT_USAGE
    if options.list:
        print("\n".join(f"{name:40s} {split(cases, name)}" for name in names))
        return EXIT_OK
    builder = import_module(f"validate.{options.package}.build")
    try:
        builder.require()
        return (
            _job(options, cases, builder, names)
            if options.record
            else _compare(options, cases, builder, names)
        )
    except NotBuilt as error:
        print(f"validate: error: {error}", file=sys.stderr)
        return EXIT_USAGE


def family(name: str) -> str:
    """The part of a name that is train or judge as a whole."""
    return name.split("@")[0].split("/")[0]


def split(cases: ModuleType, name: str) -> str:
    """'train' or 'judge'."""
    return "judge" if family(name) in cases.JUDGE else "train"


def _file(cases: ModuleType) -> Path:
    return Path(str(cases.__file__)).with_name("h200.json")


def _job(options: argparse.Namespace, cases: ModuleType, builder: ModuleType, names: list[str]) -> int:
    from validate.foreign import recording

    if options.keep is None:
        recording.write_job(options.record, cases, names, builder.build)
        print(
            f"on the GPU machine: cd {options.record}; python -m validate.foreign.worker . recorded.json.gz"
        )
        return EXIT_OK
    try:
        document = recording.keep(options.record, options.keep, builder.how, builder.tools())
    except recording.RecordingRefused as refused:
        print(f"nothing kept:\n{refused}", file=sys.stderr)
        return EXIT_WRONG
    if missing := {*cases.CASES} - {*document["points"]}:
        print(f"nothing kept: {len(missing)} points are missing, {min(missing)} for one", file=sys.stderr)
        return EXIT_WRONG
    _file(cases).write_text(recording.text_of(document))
    print(f"{len(document['points'])} points in {_file(cases).name}")
    return EXIT_OK


def _compare(options: argparse.Namespace, cases: ModuleType, builder: ModuleType, names: list[str]) -> int:
    from gpusim.errors import SimulationError
    from isa.errors import IsaError
    from validate import score
    from validate.foreign.compare import ForeignPoint
    from validate.replay import Failure, StaleBaseline
    from validate.scoring import text

    out = sys.stderr if options.json else sys.stdout
    recorded = json.loads(_file(cases).read_text())["points"] if _file(cases).exists() else {}
    rows: list[Row] = []
    print(score.TIMED_HEAD, file=out)
    for name in names:
        point = ForeignPoint(name, 0, judging=split(cases, name) == "judge")
        try:
            rows.append(_point(point, cases, builder, recorded.get(name), options.gpu))
        except (SimulationError, IsaError, StaleBaseline) as error:
            rows.append(Failure(point, str(error)))
        print(score.timed_line(rows[-1]), file=out, flush=True)
    print(f"\n{text.report(rows, full=False)}" if text.done(rows) else "", file=out)
    if options.json:
        print(json.dumps(score.document(rows), indent=1))
    return EXIT_OK if score.ok(rows) else EXIT_WRONG


def _point(
    point: ForeignPoint, cases: ModuleType, builder: ModuleType, recorded: Any, gpu: str
) -> Comparison:
    """One point, against NumPy and the recording. Raises StaleBaseline where the recording is of something else."""
    from validate.foreign import compare
    from validate.replay import StaleBaseline

    _, program, launch = builder.build(point.variant)
    work = cases.work_of(point.variant)
    if recorded is None:
        result, outputs = compare.simulate(program, launch, work, gpu)
        raise StaleBaseline(
            f"not recorded; {result.cycles} cycles, outputs {work.mismatch(outputs)[0] or 'right'}"
        )
    if recorded["code_sha256"] != launch.code_sha256:
        raise StaleBaseline("what is installed here builds other machine code than was measured")
    if recorded["inputs_sha256"] != work.digest():
        raise StaleBaseline("the inputs are not those that were measured")
    return compare.compare(point, program, launch, work, recorded["counters"], gpu=gpu)
