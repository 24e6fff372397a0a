"""`python -m validate`: program images, recordings from a real GPU, and the comparison with the simulator."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import validate.collection
import validate.commands
import validate.cupy_suite
import validate.foreign.command
import validate.suite
from validate.energy import command as energy
from validate.microbench import command as microbench
from validate.node import command as node
from validate.persisting import command as persisting
from validate.play import compare as play
from validate.pytorch import command as torch
from validate.streams import command as streams


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0 if all went well, 1 if something was wrong, 2 for bad usage."""
    from programs.registry import UnknownProgram

    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except UnknownProgram as error:
        print(f"validate: error: {error.args[0]}", file=sys.stderr)
        return 2


def _images(options: argparse.Namespace) -> int:
    from validate import images

    written = images.build(options.arch, force=options.force)
    print(f"{len(written)} images written")
    return 0


def _record(options: argparse.Namespace) -> int:
    from validate import record

    document = record.record(
        options.out,
        options.only,
        sizes=options.size,
        repeats=options.repeats,
        seconds=options.seconds,
        say=lambda text: print(text, flush=True),
    )
    print(record.table(document))
    wrong = [name for name, row in document["points"].items() if not row.get("check", {}).get("ok")]
    return 1 if wrong or document["failures"] else 0


def _import(options: argparse.Namespace) -> int:
    from validate import importer

    try:
        outcome = importer.import_recording(options.raw, options.only, gpu=options.gpu, force=options.force)
    except importer.ImportRefused as refused:
        print(f"nothing imported:\n{refused}", file=sys.stderr)
        return 1
    for name, what in outcome.items():
        print(f"{name}: {what}")
    return 0


def _generated(options: argparse.Namespace) -> int:
    from validate.generated import archive, replay, seeds

    if options.seeds:
        return 1 if seeds.compare(*options.seeds, gpu=options.gpu, nvcc=options.nvcc) else 0
    kernels = archive.load()[1]
    if options.only:
        kernels = tuple(each for each in kernels if each.name in options.only)
    return 1 if replay.replay_all(kernels, options.gpu) or not kernels else 0


def _instructions(options: argparse.Namespace) -> int:
    from validate.instructions import forms, importer, job

    if options.results is None:
        job.write(options.job, forms.find())
        print(f"run on the GPU machine: python validate/instructions/worker.py {options.job} results.npz")
        return 0
    print(importer.write(options.job, options.results))
    return 0


def _figures(options: argparse.Namespace) -> int:
    from validate.scoring import gallery

    unknown = [name for name in options.only if name not in gallery.PICTURES]
    if unknown:
        known = ", ".join(gallery.PICTURES)
        print(f"validate: error: no picture named {unknown[0]}; there are {known}", file=sys.stderr)
        return 2
    for path in gallery.write(only=options.only):
        print(path, flush=True)
    return 0


def _published(options: argparse.Namespace) -> int:
    from validate import published
    from validate.scoring import documents

    found = published.outcomes(options.gpu)
    print(published.table(found))
    if options.docs:
        documents.put("validation.md", "table", published.table(found), fence="")
    return 0 if all(each.passed for each in found) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m validate", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    images = _command(commands, "images", _images, "compile every bundled kernel into a program image", "")
    images.add_argument("--arch", default="sm_90", help="architecture to compile for (default: %(default)s)")
    images.add_argument("--force", action="store_true", help="rewrite images whose code has not changed too")

    example = "--out recording --only reduction transpose/naive"
    summary = "run the programs on this machine's GPU and measure"
    record = _command(commands, "record", _record, summary, example)
    record.add_argument("--out", type=Path, required=True, help="folder for the recording")
    _choose_points(record)
    record.add_argument(
        "--repeats", type=int, default=3, help="profiled launches of each point (default: %(default)s)"
    )
    record.add_argument(
        "--seconds", type=float, default=480.0, help="limit of the recording (default: %(default)s)"
    )

    summary = "turn a recording into baselines, one file per variant"
    importing = _command(commands, "import", _import, summary, "recording/recording.json.gz")
    importing.add_argument("raw", type=Path, metavar="RAW", help="the recording, recording.json.gz")
    importing.add_argument("--only", nargs="*", default=(), help="families or variants (default: all)")
    importing.add_argument("--gpu", metavar="NAME", help="the GPU (default: by its product name, such as h200)")
    importing.add_argument("--force", action="store_true", help="replace baselines that differ")

    summary = "build the job that records single instructions, or import its results"
    single = _command(commands, "instructions", _instructions, summary, "job.npz results.npz")
    single.add_argument("job", type=Path, metavar="JOB", help="file to write, or that the results belong to")
    single.add_argument("results", type=Path, nargs="?", metavar="RESULTS", help="what worker.py wrote")

    validate.commands.add(commands, _command, _choose_points)

    summary = "replay recorded generated and ordinary kernels; status 1 if an output or a counter differs"
    generated = _command(commands, "generated", _generated, summary, "--only numba17 bitonic_sort")
    generated.add_argument("--only", nargs="*", default=(), metavar="NAME", help="kernels (default: all)")
    generated.add_argument("--gpu", default="h200", help="configuration to simulate (default: %(default)s)")
    generated.add_argument(
        "--seeds", nargs=2, type=int, metavar=("FIRST", "LAST"), help="kernels 10000 to 20000 are kept by their seeds"
    )
    generated.add_argument("--nvcc", metavar="PATH", help="compiles those as they were measured: nvcc 13.0")

    summary = "draw the pictures of docs/figures.md, and renew their descriptions there"
    figures = _command(commands, "figures", _figures, summary, "")
    figures.add_argument("--only", nargs="*", default=(), metavar="NAME", help="pictures (default: all)")

    summary = "run published microbenchmarks on the shipped configurations; status 1 if one is off by over 5 %"
    published = _command(commands, "published", _published, summary, "--gpu a100 h100")
    published.add_argument("--gpu", nargs="*", default=(), metavar="NAME", help="configurations (default: all)")
    published.add_argument("--docs", action="store_true", help="put the table into docs/validation.md")

    validate.foreign.command.add(commands, _command)
    validate.suite.add(commands, _command)
    validate.collection.add(commands, _command)
    validate.cupy_suite.add(commands, _command)
    torch.add(commands, _command)
    microbench.add(commands, _command)
    node.add(commands, _command)
    streams.add(commands, _command)
    persisting.add(commands, _command)
    energy.add(commands, _command)
    play.add(commands, _command)
    return parser


def _command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], summary: str, example: str
) -> argparse.ArgumentParser:
    """Declare a command, or a part of one; example: what stands behind its name on the command line."""
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary.replace("%", "%%"),
        description=f"{summary[0].upper()}{summary[1:]}.",
    )
    command.epilog = f"example: {command.prog} {example}"
    command.set_defaults(run=run)
    return command


def _choose_points(command: argparse.ArgumentParser, sizes: str = "all") -> None:
    command.add_argument("--only", nargs="*", default=(), help="families or variants (default: all)")
    command.add_argument(
        "--size", choices=("small", "large", "all"), default=sizes, help="which sizes (default: %(default)s)"
    )


if __name__ == "__main__":
    sys.exit(main())
