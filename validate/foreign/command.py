"""`python -m validate triton` and `cutlass`: simulate kernels, compare with NumPy and with a recording."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from gpusim.errors import SimulationError
from isa.errors import IsaError
from validate import comparing, score
from validate.commands import EXIT_OK, EXIT_WRONG, UsageError
from validate.foreign import compare, recording
from validate.foreign.launch import NotBuilt
from validate.replay import Comparison, Failure, StaleBaseline
from validate.scoring import text


def run(options: argparse.Namespace) -> int:
    """The status: 0 if every output is right and every exact counter equal. Raises UsageError if there is nothing to
    simulate."""
    cases = import_module(f"validate.{options.package}.cases")
    names = [name for name in cases.CASES
             if (not options.only or {name, name.split("@")[0], family(name)} & {*options.only})
             and options.split in ("all", split(cases, name))]  # fmt: skip
    if not names:
        raise UsageError(f"no such point; there are {', '.join(cases.CASES)}")
    if options.list:
        print("\n".join(f"{name:40s} {split(cases, name)}" for name in names))
        return EXIT_OK
    try:
        if options.keep:
            return _keep(options, cases)
        build = _builder(options)
        if not options.job:
            return comparing.show(_rows(options, cases, build, names), options, text.report_of_done)[0]
        recording.write_job(options.job, options.package, names, build)
    except NotBuilt as error:
        raise UsageError(str(error)) from None
    print(f"on the GPU machine: python -m validate.foreign.worker {options.job} recorded.json.gz")
    return EXIT_OK


def family(name: str) -> str:
    """The part of a name that is train or judge as a whole."""
    return name.split("@")[0].split("/")[0]


def split(cases: ModuleType, name: str) -> str:
    """'train' or 'judge'."""
    return "judge" if family(name) in cases.JUDGE else "train"


def _builder(options: argparse.Namespace) -> Any:
    """What gives a case's cubin, program and launch: out of the folder, or built here. Raises NotBuilt."""
    if options.folder:
        return lambda name: recording.load(options.folder, name)
    if options.package != "triton":
        raise NotBuilt("--folder has to name a folder of built kernels (validate/foreign/launch.py)")
    from validate.triton import build

    build.require()
    return build.build


def _file(cases: ModuleType) -> Path:
    return Path(str(cases.__file__)).with_name("h200.json")


def _keep(options: argparse.Namespace, cases: ModuleType) -> int:
    from validate.triton import build

    how, tools = (build.how, build.tools()) if options.package == "triton" else (lambda name: {}, {})
    if options.folder is None:
        raise NotBuilt("--folder has to name what was launched")
    try:
        document = recording.keep(options.folder, options.keep, how, tools)
    except recording.RecordingRefused as refused:
        print(f"nothing kept:\n{refused}", file=sys.stderr)
        return EXIT_WRONG
    if missing := {*cases.CASES} - {*document["points"]}:
        print(f"nothing kept: {len(missing)} points are missing, {min(missing)} for one", file=sys.stderr)
        return EXIT_WRONG
    _file(cases).write_text(recording.text_of(document))
    print(f"{len(document['points'])} points in {_file(cases).name}")
    return EXIT_OK


def _rows(options: argparse.Namespace, cases: ModuleType, build: Any, names: list[str]) -> Iterator[score.Row]:
    recorded = json.loads(_file(cases).read_text())["points"]
    for name in names:
        point = compare.ForeignPoint(name, 0, judging=split(cases, name) == "judge")
        try:
            yield _point(point, cases, build(name), recorded.get(name), options.gpu)
        except (SimulationError, IsaError, StaleBaseline) as error:
            yield Failure(point, str(error))


def _point(
    point: compare.ForeignPoint, cases: ModuleType, built: recording.Built, recorded: Any, gpu: str
) -> Comparison:
    """One point, against NumPy and the recording. Raises StaleBaseline where the recording is of something else."""
    (_, program, launch), work = built, cases.work_of(point.variant)
    if recorded is None:
        result, outputs = compare.simulate(program, launch, work, gpu)
        raise StaleBaseline(f"not recorded; {result.cycles} cycles, outputs {work.mismatch(outputs)[0] or 'right'}")
    if recorded["code_sha256"] != launch.code_sha256:
        raise StaleBaseline("other machine code than was measured")
    if recorded["inputs_sha256"] != work.digest():
        raise StaleBaseline("the inputs are not those that were measured")
    return compare.compare(point, program, launch, work, recorded["counters"], gpu=gpu)
