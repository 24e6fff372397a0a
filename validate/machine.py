"""The engine and the machine of SimPy processes beside recorded hardware, on points that the machine takes."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial

import gpusim
from gpusim.errors import ModeError
from validate import baseline
from validate.commands import EXIT_OK, EXIT_WRONG
from validate.comparing import points_of
from validate.points import ProgramPoint
from validate.replay import Comparison, replay
from validate.score import p90


def small(points: Sequence[ProgramPoint], gpu: str, most: int) -> list[ProgramPoint]:
    """The points of at most so many warp instructions, as the hardware counted them."""
    return [each for each in points if baseline.measured(each, gpu)["smsp__inst_executed.sum"] <= most]


def pairs(points: Sequence[ProgramPoint], gpu: str) -> Iterator[tuple[Comparison, Comparison]]:
    """Each point on the engine and on the machine, but for those that the machine refuses."""
    for point in points:
        try:
            simpy = replay(point, gpu, gpu, simulate=partial(gpusim.simulate, model="simpy"))
        except ModeError:
            continue
        yield replay(point, gpu, gpu), simpy


def command(options: argparse.Namespace) -> int:
    """`validate machine`: status 1 if an output is wrong."""
    gpu = baseline.gpu_of(options.gpu)
    found = []
    print(f"{'error of cycles':40} {'engine':>8} {'simpy':>8}")
    for both in pairs(small(points_of(options), gpu, options.most), gpu):
        found.append(both)
        wrong = "".join(f"  {name}" for name in both[1].differing) + ("" if both[1].mismatch is None else "  outputs")
        print(f"{both[0].point!s:40} {both[0].error:+8.1%} {both[1].error:+8.1%}{wrong}", flush=True)
    for name, each in zip(("engine", "simpy"), zip(*found, strict=True), strict=False):
        errors = [abs(row.error) for row in each]
        print(f"{name}: {len(errors)} points, mean error {sum(errors) / len(errors):.1%}, p90 {p90(errors):.1%}")
    return EXIT_OK if all(row.mismatch is None for _, row in found) else EXIT_WRONG
