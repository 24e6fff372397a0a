"""What `gpusim sweep` prints last: the best and the worst machine for each program, and what failed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gpusim.cli.outputs import columns
from gpusim.explore.evaluate import BOUNDS, RESULTS
from gpusim.explore.point import Point

RowOf = Mapping[str, Any]
_NOT_A_CHOICE = {"key", "program", "size", "seconds", "error", *RESULTS, *BOUNDS}
_MOST_FAILURES = 5
_MOST_ROWS = 40


def print_summary(points: Sequence[Point], rows: Sequence[RowOf], seconds: float, resumed: int) -> None:
    """Best and worst point of each program, failures, and the rate of this run. rows: of each point, once."""
    unique = {point.key: point for point in points}
    # Without a simulation, what the bound says.
    by = "time_us" if any(row["time_us"] is not None for row in rows) else "bound_cycles"
    kinds: dict[Any, list[RowOf]] = {}
    for point, row in zip(unique.values(), rows, strict=True):
        if row[by] is not None:
            kinds.setdefault((point.program, point.parameters), []).append(row)
    if kinds:
        varied = _choices(list(unique.values()))
        lines = [_line(members, varied, by) for members in list(kinds.values())[:_MOST_ROWS]]
        print(columns([("program", "points", "best", "with", "worst", "with"), *lines]))
    if len(kinds) > _MOST_ROWS:
        print(f"and {len(kinds) - _MOST_ROWS:,} more")
    wrong = _failures(rows)
    for error, members in list(wrong.items())[:_MOST_FAILURES]:
        print(f"{len(members):,} failed: {error}\n  such as {unique[members[0]['key']]}")
    if len(wrong) > _MOST_FAILURES:
        print(f"and {len(wrong) - _MOST_FAILURES:,} more errors, in the table's column error")
    text = f"{len(rows):,} points, {sum(map(len, wrong.values())):,} failed"
    if resumed > 0:
        text += f", {resumed:,} of them from the journal"
    new = len(rows) - resumed
    if new:
        minutes, rest = divmod(round(seconds), 60)
        text += f"; {seconds:.1f} s" if seconds < 100 else f"; {minutes} min {rest} s"
        text += f", {new / max(seconds, 1e-9):.1f} points/s"
        # Which of the rows are new is not told apart: with a journal, the mean of all counts.
        instructions = sum(row["warp_instructions"] or 0 for row in rows) * new / len(rows)
        if instructions:
            text += f", {instructions / max(seconds, 1e-9) / 1e6:.2f} Minstructions/s"
    print(text)


def _choices(points: Sequence[Point]) -> list[str]:
    """Names of what is not the same in all points, but for the program and its size."""
    seen: dict[str, list[Any]] = {}
    for point in points:
        for name, value in point.columns().items():
            if name not in _NOT_A_CHOICE:
                seen.setdefault(name, []).append(value)
    return [name for name, values in seen.items() if len(set(values)) > 1 or len(values) < len(points)]


def _failures(rows: Sequence[RowOf]) -> dict[str, list[RowOf]]:
    """Rows with an error, by the text of the first such one, the most frequent first. Numbers tell no errors apart."""
    kinds: dict[str, list[RowOf]] = {}
    for row in rows:
        if row["error"] is not None:
            kinds.setdefault(re.sub(r"\d[\d,.]*", "#", row["error"]), []).append(row)
    return {members[0]["error"]: members for members in sorted(kinds.values(), key=len, reverse=True)}


def _line(members: Sequence[RowOf], varied: Sequence[str], by: str) -> tuple[str, ...]:
    order = sorted(members, key=lambda row: row[by])
    size = order[0].get("size")
    cells = [order[0]["program"] + (f" {size:,}" if size is not None else ""), f"{len(members):,}"]
    for row in (order[0], order[-1]):
        cells.append(f"{row[by]:,.2f} us" if by == "time_us" else f"{row[by]:,} cycles at least")
        names = [name for name in varied if row.get(name) is not None]
        cells.append(" ".join(row[name] if name == "gpu" else f"{name}={row[name]}" for name in names) or "-")
    return tuple(cells)
