"""What `gpusim sweep` prints last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpusim.explore.point import Point
from gpusim.explore.summary import Extremes, choices, extremes, failures

_MOST_FAILURES = 5
_MOST_ROWS = 40


def print_summary(points: Sequence[Point], rows: Sequence[Mapping[str, Any]], seconds: float, resumed: int) -> None:
    """Best and worst point of each program, failures, and the rate of this run."""
    unique = list({point.key: point for point in points}.values())
    varied = choices(unique)
    # Without a simulation, what the bound says.
    by = "time_us" if any(row["time_us"] is not None for row in rows) else "bound_cycles"
    found = extremes(unique, rows, by)
    if found:
        print(_table(found, varied, by))
    wrong = failures(rows)
    for error, members in list(wrong.items())[:_MOST_FAILURES]:
        first = Point.from_dict(next(p for p in unique if p.key == members[0]["key"]).to_dict())
        print(f"{len(members):,} failed: {error}\n  such as {first}")
    if len(wrong) > _MOST_FAILURES:
        print(f"and {len(wrong) - _MOST_FAILURES:,} more errors, in the table's column error")
    new = len(rows) - max(resumed, 0)
    failed = sum(map(len, wrong.values()))
    text = f"{len(rows):,} points, {failed:,} failed"
    if resumed > 0:
        text += f", {resumed:,} of them from the journal"
    if new:
        text += f"; {duration(seconds)}, {new / max(seconds, 1e-9):.1f} points/s"
        # Which of the rows are new is not told apart: with a journal, the mean of all counts.
        instructions = sum(row["warp_instructions"] or 0 for row in rows) * new / len(rows)
        if instructions:
            text += f", {instructions / max(seconds, 1e-9) / 1e6:.2f} Minstructions/s"
    print(text)


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 100 else f"{minutes} min {rest} s"


def _table(found: Sequence[Extremes], varied: Sequence[str], by: str) -> str:
    head = ("program", "points", "best", "with", "worst", "with")
    lines: list[tuple[str, ...]] = [head]
    for each in found[:_MOST_ROWS]:
        cells = [f"{each.program}" + (f" {each.best['size']:,}" if each.best.get("size") is not None else "")]
        cells.append(f"{each.points:,}")
        for row in (each.best, each.worst):
            value = f"{row[by]:,.2f} us" if by == "time_us" else f"{row[by]:,} cycles at least"
            cells += [value, _with(row, varied)]
        lines.append(tuple(cells))
    widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
    text = "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines)
    more = len(found) - _MOST_ROWS
    return text + (f"\nand {more:,} more" if more > 0 else "")


def _with(row: Mapping[str, Any], varied: Sequence[str]) -> str:
    names = [name for name in varied if row.get(name) is not None and name not in ("size",)]
    return " ".join(row[name] if name == "gpu" else f"{name}={row[name]}" for name in names) or "-"
