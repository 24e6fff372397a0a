"""The engine and the machine of SimPy processes beside recorded hardware, on points that the machine takes."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from statistics import fmean

import gpusim
from gpusim.cli.parser import EXIT_MISMATCH, EXIT_OK
from gpusim.errors import ModeError
from validate import baseline
from validate.comparing import points_of
from validate.points import ProgramPoint
from validate.replay import Comparison, replay
from validate.score import p90


def small(points: Sequence[ProgramPoint], gpu: str, most: int) -> list[ProgramPoint]:
    """The points of at most so many warp instructions, as the hardware counted them."""
    return [each for each in points if baseline.measured(each, gpu)["smsp__inst_executed.sum"] <= most]


def pairs(
    points: Sequence[ProgramPoint], gpu: str, overrides: Sequence[str] = ()
) -> Iterator[tuple[Comparison, Comparison]]:
    """Each point on the engine and on the machine, but for those that the machine refuses."""
    for point in points:
        try:
            simpy = replay(point, gpu, gpu, overrides=overrides, simulate=partial(gpusim.simulate, model="simpy"))
        except ModeError:
            continue
        yield replay(point, gpu, gpu, overrides=overrides), simpy


def mechanisms(gpu: str) -> dict[str, list[str]]:
    """Changes to a GPU that leave a mechanism out, by its name."""
    l2 = gpusim.load_config(gpu).l2
    return {
        "refresh of device memory": ["dram.refresh_cycles=0"],
        "the far half of L2": [f"l2.latency_far_cycles={l2.latency_near_cycles}"],
        "misses of code": ["icache.l2_latency_cycles=1", "icache.l15_line_cycles=1"],
        "misses of constants": ["constant.memory_latency_cycles=1", "constant.l15_latency_cycles=1"],
        "the TPC's port to L2": [f"crossbar.{key}_bytes_per_cycle=1000000" for key in ("port_request", "sm_reply")],
        "the queue in front of memory": ["memory_instruction.queue_depth=32"],
        "turns of warps (greedy, then the oldest)": ["issue.policy=gto"],
    }


def absolute_errors(found: Sequence[tuple[Comparison, Comparison]]) -> list[list[float]]:
    """Of the engine and of the machine, at each point."""
    return [[abs(pair[k].error) for pair in found] for k in (0, 1)]


def command(options: argparse.Namespace) -> int:
    """`validate machine`: status 1 if an output is wrong."""
    gpu = baseline.gpu_of(options.gpu)
    points, found = small(points_of(options), gpu, options.most), []
    print(f"{'error of cycles':40} {'engine':>8} {'simpy':>8}")
    for both in pairs(points, gpu):
        found.append(both)
        wrong = "".join(f"  {name}" for name in both[1].differing) + ("" if both[1].mismatch is None else "  outputs")
        print(f"{both[0].point!s:40} {both[0].error:+8.1%} {both[1].error:+8.1%}{wrong}", flush=True)
    for name, errors in zip(("engine", "simpy"), absolute_errors(found), strict=True):
        print(f"{name}: {len(errors)} points, mean error {fmean(errors):.1%}, p90 {p90(errors):.1%}")
    if options.without:
        print(f"{'mean error':40} {'engine':>8} {'simpy':>8}")
        for name, overrides in {"as it is": [], **mechanisms(gpu)}.items():
            engine, simpy = map(fmean, absolute_errors([*pairs(points, gpu, overrides)] if overrides else found))
            print(f"{'without ' * bool(overrides) + name:40} {engine:8.1%} {simpy:8.1%}", flush=True)
    return EXIT_OK if all(row.mismatch is None for _, row in found) else EXIT_MISMATCH
