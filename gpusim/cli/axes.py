"""Spaces of machines and programs, as the command line or a file spells them, and the evaluator of their points."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpusim.cli.parser import UserError, names_of
from gpusim.workload.request import LAUNCH_PARAMETERS

if TYPE_CHECKING:
    from gpusim.explore.space import Sweep
    from gpusim.explore.sweep import PointEvaluator

_NUMBER = re.compile(r"[-+]?(\d[\d_]*)?(\.\d+)?([eE][-+]?\d+)?")


@contextmanager
def evaluator(options: argparse.Namespace, of: str = "points", **how: Any) -> Iterator[PointEvaluator]:
    """Yield the evaluator that the options ask for, with a progress bar. of: noun that the bar counts; how: further
    arguments of `PointEvaluator`."""
    from gpusim.cli.progress import say_compiling, show_points
    from gpusim.explore.sweep import PointEvaluator
    from gpusim.explore.workers import dask_executor

    with show_points(options.progress, of) as show, dask_executor(options.dask) as executor:
        how = {"journal": options.journal, "progress": show, "executor": executor, **how}
        with PointEvaluator(options.workers, timeout_s=options.timeout, announce=say_compiling, **how) as rows:
            try:
                yield rows
            except KeyboardInterrupt:
                if kept := how["journal"]:
                    print(f"gpusim: what has run is kept in {kept}; the same command goes on", file=sys.stderr)
                raise


def fill_lines(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """A line for each launch that leaves some machine partly empty, on which more SMs or bandwidth are worth little."""
    found: dict[str, list[tuple[float, int]]] = {}
    for row in rows:
        if row.get("waves"):
            size = f" {row['size']:,}" if row.get("size") else f" grid {row['grid']}" if row.get("grid") else ""
            found.setdefault(f"{row['program']}{size}", []).append((row["waves"], row["blocks"]))
    lines = []
    for name, ((low, blocks), high) in {name: (min(own), max(own)[0]) for name, own in found.items()}.items():
        text = f"{name} fills {100 * low:.2g} % of the {'largest ' * (low < high)}machine: {blocks:,} of the"
        lines += [f"{text} {blocks / low:,.0f} blocks that it holds at once, {low:.3g} waves"] if low < 1 else []
    told = lines[:5] + [f"{len(lines) - 5} more launches fill no machine"] * (len(lines) > 5)
    more = "A launch that leaves a machine partly empty shows less of more SMs or bandwidth than a larger --size does"
    return told + [more] * bool(told)


def read_space(options: argparse.Namespace) -> Sweep:
    """The sweep of a file, or of programs; options add to a file or replace what it says. Raises UserError."""
    from gpusim.explore.space import Space, Sweep, read_sweep

    axes: dict[str, Any] = {}
    for text in options.axes:
        name, equals, values = text.partition("=")
        name = name.strip()
        if not equals or not values.strip():
            raise UserError(f"--set takes KEY=VALUES, such as sm.count=66,132,264, not {text!r}")
        if name in axes:
            raise UserError(f"--set {name} stands twice; several values are spelled {name}=1,2,3")
        axes[name] = parse_axis(values, f"--set {name}")
    if options.size is not None:
        axes["size"] = parse_axis(options.size, "--size")
    if options.model:
        axes["model"] = names_of(options.model)
    axes |= {name: getattr(options, name) for name in LAUNCH_PARAMETERS if getattr(options, name) is not None}
    for name in {"grid", "block"} & axes.keys():
        axes[name] = [shape.strip() for shape in axes[name].split(";")]
    if "shared_bytes" in axes:
        axes["shared_bytes"] = parse_axis(axes["shared_bytes"], "--shared-bytes")
    gpus = [name.strip() for name in options.gpu.split(",")] if options.gpu else None
    files = [each for each in options.what if each.endswith(".toml")]
    if files and len(options.what) > 1:
        raise UserError("a sweep is one FILE.toml, or programs")
    if not files:
        return Sweep(Space(options.what, gpus or "h200", axes))
    sweep = read_sweep(files[0])
    if not axes and not gpus:
        return sweep
    old = sweep.space
    programs = [{"name": name} | dict(own) for name, own in old.programs]
    merged: dict[str, Any] = {axis.name: axis for axis in old.axes if axis.name != "gpu"} | axes
    known = next(axis.values for axis in old.axes if axis.name == "gpu")
    return replace(sweep, space=Space(programs, gpus or known or "h200", merged))


def parse_axis(text: str, option: str) -> Any:
    """Return the arguments of `Axis.of` for a text as `help/axes.txt` spells it. Raises UserError."""
    parts = [part.strip() for part in text.strip().split(":")]
    if len(parts) > 1 and all(_NUMBER.fullmatch(part) and part for part in parts[:2]):
        return _range(parts, text, option)
    return [_value(part, option) for part in re.split(r",(?![^\[]*\])", text.strip())]


def _range(parts: list[str], text: str, option: str) -> dict[str, Any]:
    log = parts[-1] == "log"
    numbers = parts[:-1] if log else parts
    if len(numbers) != 3:
        raise UserError(f"{option}: a range is spelled LOW:HIGH:STEP, or LOW:HIGH:RATIO:log, not {text!r}")
    given = dict(zip(("low", "high", "step"), (_value(each, option) for each in numbers), strict=True))
    return given | ({"log": True} if log else {})


def _value(text: str, option: str) -> Any:
    """A TOML value; a bare word is a text, as in --set of the other commands."""
    import tomllib

    text = text.strip()
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        if not re.fullmatch(r"[A-Za-z_][\w./-]*", text):
            raise UserError(f"{option}: not a value: {text[:100]!r}") from None
        return text
