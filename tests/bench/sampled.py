"""Sampled runs against detailed ones and an H200, for docs/modes.md.

    python -m tests.bench.sampled [VARIANT:SIZE ...]

runs each of the recorded points that is sampled at all, or those that are named, in both modes.
"""

from __future__ import annotations

import sys

import gpusim
from gpusim.result import Result
from programs import images
from validate import baseline
from validate.points import ProgramPoint, select


def run(point: ProgramPoint, mode: str) -> Result:
    launch = point.make()
    return gpusim.simulate(
        images.image(point.variant), launch.grid, launch.block, launch.args, "h200", launch.shared_bytes,
        threads=1, mode=mode,
    )  # fmt: skip


def main(named: list[str]) -> None:
    """Prints a row for each point, and what they come to."""
    pairs = (each.rpartition(":") for each in named)
    points = [ProgramPoint(name, int(size)) for name, _, size in pairs] or select()
    print("| point | waves | timed | off a detailed run | said | times faster |\n|---|---|---|---|---|---|")
    held, moved, count = [], 0.0, 0
    for point in points:
        sampled = run(point, "sampled")
        what = sampled.sampling
        assert what is not None
        count += 1
        if what.why_all:
            continue
        detailed = run(point, "detailed")
        off = sampled.cycles / detailed.cycles - 1
        held.append(abs(off) <= what.error)
        faster = detailed.record.host_seconds / sampled.record.host_seconds
        print(
            f"| {point.variant} {point.size:,} | {what.blocks / what.resident:.1f} | {what.timed / what.blocks:.0%} "
            f"| {off:+.1%} | {what.error:.0%} | {faster:.1f} |",
            flush=True,
        )
        if not named:
            measured = baseline.measured(point).cycles.median
            moved += abs(sampled.cycles / measured - 1) - abs(detailed.cycles / measured - 1)
    print(f"{sum(held)} of {len(held)} keep to what is said")
    if not named:
        print(f"mean error against the H200 over all {count} points: {100 * moved / count:+.2f} percentage points")


if __name__ == "__main__":
    main(sys.argv[1:])
