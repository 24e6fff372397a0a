"""`gpusim diff`: two runs side by side, what changed and why."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpusim.cli.outputs import check_writable, print_json
from gpusim.cli.parser import EXIT_MISMATCH, EXIT_OK, UserError
from gpusim.cli.run import make_document, simulate_target, target_of
from gpusim.workload.request import OWN_PARAMETERS

if TYPE_CHECKING:
    from gpusim.difference import Run

HARDWARE = "hardware"
_OF_A_SIDE = ("size", *(each for each in OWN_PARAMETERS if each != "cuda_options"), "gpu", "model")
"""Options that a side may have of its own; `--set-a` and `--set-b` add to `--set`."""


def execute(options: argparse.Namespace) -> int:
    from gpusim.difference import Difference
    from gpusim.difference.side import as_run, read_result

    if options.report:
        check_writable(options.report)
    texts = {"a": options.a, "b": options.b or options.a}
    sides = {side: _options_of(options, side, text) for side, text in texts.items()}
    _refuse_twice_the_same(options, sides)
    runs: dict[str, Run] = {}
    wrong = []
    other = {"a": "b", "b": "a"}
    kinds = {side: HARDWARE if text == HARDWARE else Path(text).suffix.lower() for side, text in texts.items()}
    for side, text in texts.items():
        if kinds[side] == ".csv":
            _launch_as_profiled(sides[other[side]], Path(text))
    # The hardware's side needs to know what the other one ran.
    for side in sorted(sides, key=lambda name: (kinds[name] == HARDWARE, kinds[name] == ".csv")):
        if kinds[side] == HARDWARE:
            runs[side] = _hardware(runs[other[side]])
        elif kinds[side] == ".csv":
            runs[side] = _profiled(sides[side], runs.get(other[side]))
        elif kinds[side] == ".json":
            runs[side] = as_run(read_result(Path(texts[side])))
        else:
            runs[side], mismatch = _simulate(sides[side], HARDWARE in texts.values())
            wrong += [f"{side.upper()}: wrong output: {mismatch}"] if mismatch else []
    difference = Difference(runs["a"], runs["b"])
    if options.json:
        print_json(difference.to_dict())
    else:
        print(difference)
    if options.report:
        difference.report_html(options.report)
    for text in wrong:
        print(f"gpusim: error: {text}", file=sys.stderr)
    return EXIT_MISMATCH if wrong else EXIT_OK


def _options_of(options: argparse.Namespace, side: str, program: str) -> argparse.Namespace:
    """The options of one side, as `gpusim run` has them."""
    chosen = argparse.Namespace(**vars(options))
    chosen.program = program
    for name in _OF_A_SIDE:
        own = getattr(options, f"{name}_{side}")
        if own is not None:
            setattr(chosen, name, own)
    chosen.overrides = [*options.overrides, *getattr(options, f"set_{side}")]
    return chosen


def _refuse_twice_the_same(options: argparse.Namespace, sides: dict[str, argparse.Namespace]) -> None:
    a, b = (sides[side] for side in "ab")
    if a.program == b.program == HARDWARE:
        raise UserError(f"{HARDWARE} needs a program on the other side")
    same = all(getattr(a, name) == getattr(b, name) for name in ("program", "overrides", *_OF_A_SIDE))
    if same and options.b is None:
        raise UserError("nothing to compare: give B, or an option of one side such as --gpu-b or --set-b")


def _simulate(options: argparse.Namespace, recorded: bool) -> tuple[Run, str | None]:
    """One side, and what is wrong with its output if anything is."""
    from gpusim.difference.side import as_run

    if recorded:
        _at_a_recorded_point(options)
    target = target_of(options)
    if recorded:
        target = target.recorded()
    expected = None if options.no_check else target.expected()
    result = simulate_target(target, options)
    check = target.check(expected)
    run = as_run(make_document(target, result, check))
    return run, None if check is None or check.equal else check.message


def _at_a_recorded_point(options: argparse.Namespace) -> None:
    """Size and seed that were recorded, where they are not given."""
    from gpusim.difference import recorded

    known = recorded.points(recorded.read(recorded.recording_of(options.program)))
    if options.size is None:
        options.size = known[0][0]
    if options.seed is None:
        options.seed = known[0][1]


def _hardware(other: Run) -> Run:
    """Return what was recorded on a GPU of the other side's program."""
    from gpusim.difference import recorded

    document = recorded.read(recorded.recording_of(other.launch.get("program", other.title)))
    return recorded.as_run(document, other.launch["size"], other.launch["seed"])


def _launch_as_profiled(options: argparse.Namespace, profile: Path) -> None:
    """Give a side that is the user's own kernel the grid, block and shared memory of a profile, where it has none."""
    from gpusim.results.profile import read_profile
    from gpusim.workload.target import registry

    text = options.program
    if text in registry().names() or Path(text).suffix.lower() in (".json", ".csv"):
        return
    found = read_profile(profile, options.kernel, *_sizes(options))
    options.grid, options.block = (",".join(map(str, size)) for size in (found.grid, found.block))
    dynamic = found.counters.get("launch__shared_mem_per_block_dynamic")
    if options.shared_bytes is None and dynamic:
        options.shared_bytes = round(dynamic[0])


def _profiled(options: argparse.Namespace, other: Run | None) -> Run:
    """The launches of a profile that are the other side's."""
    from gpusim.difference.recorded import profiled_run
    from gpusim.results.profile import read_profile

    grid, block = (other.launch["grid"], other.launch["block"]) if other else _sizes(options)
    path = Path(options.program)
    return profiled_run(read_profile(path, options.kernel, grid, block), path.name)


def _sizes(options: argparse.Namespace) -> list[tuple[int, ...] | None]:
    """Grid and block where they are given."""
    from gpusim.workload.target import parse_dim3

    given = ((getattr(options, name), f"--{name}") for name in ("grid", "block"))
    return [parse_dim3(text, flag) if text else None for text, flag in given]
