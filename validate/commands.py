"""The commands of `python -m validate`: a row each, with the function that runs it, which is imported when it does."""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

EXIT_OK, EXIT_WRONG, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130
Option = tuple[str, dict[str, Any]]


class UsageError(Exception):
    """A request that cannot be fulfilled; the message says why."""


@dataclass(frozen=True)
class Command:
    """name: 'node', or 'microbench build' for a part of a command. does: the summary. run: 'module:function' below
    `validate`; the function takes the parsed options and gives the exit status. example: what stands behind the
    name."""

    name: str
    does: str
    run: str
    example: str = ""
    options: Sequence[Option] = field(default=())


def option(name: str, text: str = "", **more: Any) -> Option:
    """An option or argument with its help; a default is told."""
    if more.get("default") not in (None, "", (), []) and "default:" not in text:
        text += " (default: %(default)s)"
    return name, {"help": text.strip(), **more}


def flag(name: str, text: str) -> Option:
    """An option without a value."""
    return name, {"help": text, "action": "store_true"}


def path(name: str, text: str, **more: Any) -> Option:
    """An option or argument that is a file or folder."""
    return option(name, text, type=Path, **more)


def some(name: str, text: str, **more: Any) -> Option:
    """An option that takes several values."""
    return option(name, text, nargs="*", default=(), metavar="NAME", **more)


GPU = option("--gpu", "configuration to simulate", default="h200")
SET = option("--set", "change the configuration", action="append", default=[], metavar="KEY=VALUE")
JSON = flag("--json", "everything as JSON; the table goes to standard error")
SPLIT = option(
    "--split",
    "families that may be looked at while modelling, those that judge, or all",
    choices=("train", "judge", "all"),
    default="all",
)
POINTS = (
    some("--only", "families or variants (default: all)"),
    option("--size", "which sizes", choices=("small", "large", "all"), default="all"),
)
JOBS = option("--jobs", "programs at a time", type=int, default=1, metavar="N")
TIMEOUT = option("--timeout", "limit of each", type=float, default=300.0, metavar="S")
RESUME = path("--resume", "journal: write every point down, and go on where it stops", metavar="FILE")
BENCHES = some("--only", "how the names of benchmarks begin (default: all)")
RESULTS = option(
    "--results", "GPU whose results to take (default: that of --gpu, or h200 if it has none)", metavar="GPU"
)
GROUPS = {
    "microbench": "microbenchmarks: compile, measure on a GPU, simulate, compare",
    "collection": "compare kernels of public collections, in their own programs, with what an H200 counted",
}
"""Commands of several parts."""

COMMANDS = (
    Command(
        "images", "compile every bundled kernel into a program image", "images:command", "",
        [option("--arch", "architecture to compile for", default="sm_90"),
         flag("--force", "rewrite images whose code has not changed too")],
    ),
    Command(
        "record", "run the programs on this machine's GPU and measure", "record:command",
        "--out recording --only reduction transpose/naive",
        [path("--out", "folder for the recording", required=True), *POINTS,
         option("--repeats", "profiled launches of each point", type=int, default=3),
         option("--seconds", "limit of the recording", type=float, default=480.0)],
    ),
    Command(
        "import", "turn a recording into baselines, one file per variant", "importer:command",
        "recording/recording.json.gz",
        [path("raw", "the recording, recording.json.gz", metavar="RAW"), POINTS[0],
         option("--gpu", "the GPU (default: by its product name, such as h200)", metavar="NAME"),
         flag("--force", "replace baselines that differ")],
    ),
    Command(
        "instructions", "build the job that records the known single instructions again, or import its results",
        "instructions.job:command", "job.npz results.npz",
        [path("job", "file to write, or that the results belong to", metavar="JOB"),
         path("results", "what worker.py wrote", nargs="?", metavar="RESULTS"),
         option("--add", "forms that are not recorded yet: word, double, half, uniform or memory, and 128 bits in hex",
                nargs="*", default=(), metavar="FAMILY:ENCODING")],
    ),
    Command(
        "templates", "learn the texts of instructions from nvdisasm", "instructions.learn:command", "kernels.cubin",
        [path("cubins", "code to learn from", nargs="*", metavar="CUBIN"),
         option("--rounds", "at most so many", type=int, default=8, metavar="N")],
    ),
    Command(
        "compare", "simulate the recorded points and compare; status 1 if an exact counter differs",
        "comparing:command", "--only reduction --size large --resume compare.journal",
        [*POINTS, SPLIT, GPU,
         option("--baseline", "GPU to compare with (default: that of --gpu, or h200 if it has no baselines)",
                metavar="GPU"),
         SET, RESUME,
         option("--jobs", "points at a time (default: one per core)", type=int, metavar="N"),
         option("--threads", "host threads of each (default: the cores, shared out)", type=int, metavar="N"),
         flag("--full", "also how counters and stall reasons compare"), JSON],
    ),
    Command(
        "machine", "compare the machine of SimPy processes, and the engine, with a GPU; status 1 if outputs are wrong",
        "machine:command", "--only reduction transpose",
        [*POINTS, SPLIT, GPU, option("--most", "warp instructions of a point", type=int, default=300_000, metavar="N"),
         flag("--without", "also the mean error of both without a mechanism, one after the other")],
    ),
    Command(
        "score", "score a comparison that has been made; status 1 if an exact counter differs or a point is missing",
        "scoring.documents:command", "compare.journal --full",
        [path("file", "journal of compare --resume, or what --json printed", metavar="FILE"), *POINTS, SPLIT,
         option("--gpu", "configuration that was compared", default="h200"),
         flag("--points", "also the table of points"), flag("--full", "also every modelled counter by itself"),
         flag("--json", "everything as JSON instead"),
         flag("--accept", "from now on the tests hold the model to this score (all points needed)"),
         option("--because", "why a worse score than before is accepted", default="", metavar="TEXT"),
         flag("--docs", "renew docs/accuracy.md and its pictures (all points needed)")],
    ),
    Command(
        "intervals", "show how far predictions of a kind lie from a GPU, and store the points that say so",
        "intervals:run", "h200.journal h100.journal collection.journal",
        [path("journals", "journals of compare and of collection compare whose judging points are stored (default: "
              "only show)", nargs="*", metavar="JOURNAL"),
         path("--described", "journals of compare --set --baseline GPU of machines that a data sheet describes, stored "
              "as well", nargs="*", default=[], metavar="JOURNAL"),
         flag("--published", "also run published microbenchmarks on GPUs described by specifications alone; needs the "
              "tool chain"),
         flag("--docs", "put the tables into docs/accuracy.md")],
    ),
    Command(
        "generated", "replay recorded generated and ordinary kernels; status 1 if an output or a counter differs",
        "generated.archive:command", "--only numba17 bitonic_sort",
        [some("--only", "kernels (default: all)"), GPU],
    ),
    Command(
        "published", "run published microbenchmarks on the shipped configurations; status 1 if one is off by over 5 %",
        "published:command", "--gpu a100 h100",
        [some("--gpu", "configurations (default: all)"), flag("--docs", "put the table into docs/validation.md")],
    ),
    Command(
        "cuda-suite", "run a list of executables on the simulated GPU; status 1 if one does not pass its own check",
        "suite:command", "--suite programs.toml --only reduc --results results.json",
        [path("--suite", "the list (validate/suite.py says its form)", required=True, metavar="FILE"),
         path("--root", "where its programs lie (default: the list's folder)", metavar="DIR"),
         option("--only", "programs whose names match", type=re.compile, default="", metavar="REGEX"), JOBS,
         TIMEOUT, GPU,
         flag("--detailed", "with time, those that the list calls small enough"),
         path("--results", "what came out, as JSON: what has passed is not run again", metavar="FILE"),
         flag("--again", "run what has passed too"),
         flag("--docs", "put the table of all results into docs/programs.md")],
    ),
    Command(
        "collection compare",
        "run built programs, simulate their counted launches, compare; status 1 if an exact counter differs",
        "collection.compare:compare", "built --split train --resume compare.journal",
        [path("folder", "built programs with manifest.json; launches are kept there", metavar="FOLDER"), GPU, RESUME,
         flag("--docs", "write the scores of all points into docs/accuracy.md"), JSON,
         some("--only", "programs (default: all)"), SPLIT, JOBS, TIMEOUT],
    ),
    Command(
        "collection keep", "turn recordings of validate.collection.worker into the stored one",
        "collection.compare:keep", "built recorded.json.gz",
        [path("folder", "the programs that were counted", metavar="FOLDER"),
         path("recording", "what the worker wrote (default: the stored one of an H200)", nargs="*",
              metavar="RECORDING"), TIMEOUT],
    ),
    Command(
        "microbench build", "compile every kernel into its program image", "microbench.images:command", "--only pipe_",
        [BENCHES],
    ),
    Command(
        "microbench measure", "run the suite on this machine's GPU; needs NumPy and Numba, and compiles nothing",
        "microbench.measure:command", "--out h200.json",
        [BENCHES, path("--out", "file for the results", required=True),
         option("--repeats", "launches of each case", type=int, default=5)],
    ),
    Command(
        "microbench join", "make the stored results of a GPU out of recordings, best of several cards",
        "microbench.results:command", "card1.json card2.json",
        [path("recordings", "what 'measure' wrote", nargs="+", metavar="FILE"),
         option("--gpu", "the GPU", default="h200")],
    ),
    Command(
        "microbench compare",
        "simulate the suite and compare with what was measured; status 1 if a number is off that should not be",
        "microbench.compare:command", "--only pipe_ffma --full",
        [BENCHES, GPU, SET, RESULTS, flag("--full", "every number, not only the unexpected"),
         flag("--fast", "leave out what takes more than a second each"), JSON,
         flag("--update-gaps", "list exactly the numbers that are off as known gaps")],
    ),
    Command(
        "calibrate", "values of the configuration as the microbenchmarks have them", "microbench.calibrate:command",
        "--check",
        [option("--gpu", "configuration to look at", default="h200"), RESULTS,
         flag("--check", "status 1 if a value that claims to be measured differs")],
    ),
    Command(
        "node", "compare what several GPUs recorded with the simulated node; status 1 if something new is outside",
        "node.training:command", "copies --all",
        [option("what", "what was recorded", choices=("copies", "collectives", "training")),
         path("--recording", "instead of those that are kept", nargs="*", metavar="FILE"),
         option("--node", "node to simulate", default="hgx_h200"), flag("--all", "also every point"),
         flag("--json", "every point as JSON instead")],
    ),
    Command(
        "streams", "compare how streams, copies and managed memory share an H200 with the simulated one",
        "streams.compare:command", "compare --quick",
        [option("what", "streams and copies, or managed memory", choices=("compare", "managed")),
         option("--mb", "managed: largest array in MiB", type=int, default=64),
         some("--only", "experiments (default: all)"),
         flag("--quick", "compare some cases, for a minute or two")],
    ),
    Command(
        "persisting", "compare what L2 keeps with an H200; status 1 if something new is outside",
        "persisting.compare:command", "--families sliding --only 39321600",
        [option("--families", "experiments: working_set, sliding, loads (default: all)", nargs="*", metavar="NAME",
                default=("working_set", "sliding", "loads")),
         option("--only", "launches whose name contains this", default="", metavar="TEXT"), SET],
    ),
    Command(
        "energy", "compare the energy of the recorded programs with an H100's", "energy.command:command",
        "--split judge --jobs 2",
        [some("--only", "variants or families"), option("--split", "of the programs (default: all)",
                                                        choices=("train", "judge")),
         flag("--quick", "4 programs"), JOBS,
         flag("--fit", "fit the energies of events to the microbenchmarks instead")],
    ),
    Command(
        "play", "compare the experiments of gpusim lab with an H100", "play:command", "--places 20",
        [option("--places", "of each experiment", type=int, default=100), option("--seed", type=int, default=0)],
    ),
)  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    whole = argparse.ArgumentParser(
        prog="python -m validate",
        description="Program images, recordings from a real GPU, and the comparison with the simulator.",
    )
    places = {"": whole.add_subparsers(required=True, metavar="COMMAND")}
    for each in COMMANDS:
        group, _, name = each.name.rpartition(" ")
        if group not in places:
            does = GROUPS[group]
            made = places[""].add_parser(group, help=does, description=f"{does[0].upper()}{does[1:]}.")
            places[group] = made.add_subparsers(required=True, metavar="PART")
        about = f"{each.does[0].upper()}{each.does[1:]}."
        made = places[group].add_parser(name, help=each.does.replace("%", "%%"), description=about)
        made.epilog = f"example: {made.prog} {each.example}"
        made.set_defaults(run=each.run)
        for argument, more in each.options:
            made.add_argument(argument, **more)
    return whole


def known(names: Sequence[str], of: Collection[str], what: str) -> None:
    """Raise UsageError if a name is none of these."""
    if unknown := [name for name in names if name not in of]:
        raise UsageError(f"no {what} named {unknown[0]}; there are {', '.join(of)}")


def function_of(run: str) -> Any:
    """The function that a row names."""
    module, _, name = run.partition(":")
    return getattr(import_module(f"validate.{module}"), name)
