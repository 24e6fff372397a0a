"""What `gpusim sweep` prints: its table, the best and the worst machine for each program, and what failed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gpusim.cli.outputs import columns
from gpusim.explore.evaluate import BOUNDS, RESULTS
from gpusim.explore.point import Point

RowOf = Mapping[str, Any]
_NOT_A_CHOICE = {"key", "program", "size", "seconds", "error", *RESULTS, *BOUNDS}
_OUTPUTS = ("time_us", "cycles", "energy_j", "bound_cycles", "bound_by")
"""Columns of a result that are printed; --out writes the others too, and --metrics prints those of energy."""
_MOST_FAILURES = 5
_MOST_ROWS = 40


def print_table(points: Sequence[Point], rows: Sequence[RowOf], metrics: Sequence[str], whole: bool) -> None:
    """The rows with what varies in them and what came out: all of them if they are few, or the `whole` table is asked
    for. rows: of each point, once."""
    unique = {point.key: point for point in points}
    order = list(dict.fromkeys((point.program, point.parameters) for point in unique.values()))
    rows = sorted(rows, key=lambda row: order.index((unique[row["key"]].program, unique[row["key"]].parameters)))
    chosen = rows if whole else rows[:_MOST_ROWS]
    varied = _choices(list(unique.values()))
    sizes = any(row.get("size") is not None for row in rows)
    names = ["program", *(["size"] if sizes else []), *varied, *_OUTPUTS, *metrics]
    names = [name for name in dict.fromkeys(names) if any(row.get(name) is not None for row in rows)]
    outputs = {*_OUTPUTS, *metrics} - {"bound_by"}
    lines = [["failed" if name == "time_us" and row["error"] else _cell(row.get(name), name in outputs)
              for name in names] for row in chosen]  # fmt: skip
    sides = "".join("<" if name in ("program", "gpu", "bound_by") else ">" for name in names)
    print(columns([names, *lines], sides))
    if len(chosen) < len(rows):
        print(f"{len(chosen):,} of {len(rows):,} rows, all with --all; --out FILE writes them")
    print()


def _cell(value: Any, is_output: bool) -> str:
    if value is None:
        return "-"
    if is_output and not isinstance(value, str):
        return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}" if abs(value) >= 0.1 else f"{value:.3g}"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def print_summary(points: Sequence[Point], rows: Sequence[RowOf], seconds: float, resumed: int) -> None:
    """Best and worst point of each program that has several, failures, and the rate of this run. rows: as above."""
    unique = {point.key: point for point in points}
    # Without a simulation, what the bound says.
    by = "time_us" if any(row["time_us"] is not None for row in rows) else "bound_cycles"
    kinds: dict[Any, list[RowOf]] = {}
    for point, row in zip(unique.values(), rows, strict=True):
        if row[by] is not None:
            kinds.setdefault((point.program, point.parameters), []).append(row)
    several = [members for members in kinds.values() if len(members) > 1]
    if several:
        varied = _choices(list(unique.values()))
        lines = [_line(members, varied, by) for members in several[:_MOST_ROWS]]
        print(columns([("program", "points", "best", "with", "worst", "with"), *lines]))
    if len(several) > _MOST_ROWS:
        print(f"and {len(several) - _MOST_ROWS:,} more")
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
    if order[0][by] == order[-1][by]:
        return (*cells, _of(order[0], by), "all alike", "", "")
    for row in (order[0], order[-1]):
        cells.append(_of(row, by))
        names = [name for name in varied if row.get(name) is not None]
        cells.append(" ".join(row[name] if name == "gpu" else f"{name}={row[name]}" for name in names) or "-")
    return tuple(cells)


def _of(row: RowOf, by: str) -> str:
    return f"{row[by]:,.2f} us" if by == "time_us" else f"{row[by]:,} cycles at least"
