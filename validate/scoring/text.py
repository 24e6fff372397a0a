"""The scores as text: what `python -m validate score` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from validate import score
from validate.replay import Comparison, Failure
from validate.scoring import counters, stalls

SPLITS = ("train", "judge")


def done(rows: Sequence[score.Row]) -> list[Comparison]:
    """The points that could be compared."""
    return [row for row in rows if isinstance(row, Comparison)]


def splits(rows: Sequence[score.Row]) -> Mapping[str, list[score.Row]]:
    """All points, and those of each split that has any."""
    parts = {name: [row for row in rows if row.point.split == name] for name in SPLITS}
    return {"all": list(rows)} | {name: part for name, part in parts.items() if part}


def warm(rows: Sequence[score.Row]) -> list[score.Row]:
    """The warm launches of these points; one without is a failure. None at all if no point has any."""
    found = [getattr(row, "warm", None) or Failure(row.point, "no warm launch") for row in rows]
    return found if done(found) else []


def cycles_text(rows: Sequence[score.Row], title: str = "cycles") -> str:
    """Errors of the cycles: a line for all points and one for each split; the same of warm launches below."""
    lines = [
        f"{title:8s} {'compared':>9s} {'exact':>6s} {'mean':>6s} {'median':>7s} {'p90':>6s} {'worst':>6s} "
        f"{'bias':>6s} {'corr.':>7s}  worst at"
    ]
    for name, part in splits(rows).items():
        compared = done(part)
        exact = sum(not row.differing for row in compared) if any(row.exact for row in compared) else "-"
        text = f"{name:8s} {len(compared):4d}/{len(part):<4d} {exact:>6}"
        if found := score.Errors.of([(row.point, row.error) for row in compared]):
            cycles = [(row.cycles.measured, row.cycles.predicted) for row in compared]
            correlation = score.log_correlation(*zip(*cycles, strict=True))
            text += (
                f" {found.mean:6.1%} {found.median:7.1%} {found.p90:6.1%} {found.worst:6.1%} {found.bias:+6.1%} "
                f"{'-' if correlation is None else format(correlation, '.4f'):>7s}  {found.worst_point}"
            )
        lines.append(text)
    again = warm(rows)
    return "\n".join([*lines, "", cycles_text(again, "warm")] if again else lines)


def groups_text(rows: Sequence[score.Row]) -> str:
    """Counters with targets: a line for each of them and each split."""
    lines = [
        f"{'counters':16s} {'points':7s} {'scored':>6s} {'median':>7s} {'p90':>7s} {'worst':>7s} {'bias':>7s} "
        f"{'target':>12s}  worst at"
    ]
    for group in counters.GROUPS:
        for name, part in splits(rows).items():
            found = counters.score(group, done(part))
            if found is None:
                lines.append(f"{group.title:16s} {name:7s} {0:6d}")
                continue
            target = f"{group.median:.0%}, {group.p90:.0%} {'met' if group.met_by(found) else '-':>3s}"
            lines.append(f"{group.title:16s} {name:7s} {_numbers(found)} {target:>12s}  {found.worst_point}")
    return "\n".join(lines)


def counters_text(rows: Sequence[score.Row]) -> str:
    """Every modelled counter but the stall reasons, over all points."""
    lines = [f"{'counter':60s} {'scored':>6s} {'median':>7s} {'p90':>7s} {'worst':>7s} {'bias':>7s}  worst at"]
    lines += [
        f"{name:60s} {_numbers(found)}  {found.worst_point}"
        for name, found in counters.every(done(rows)).items()
        if not name.startswith(stalls.PREFIX)
    ]
    return "\n".join(lines)


def _numbers(found: score.Errors) -> str:
    return (
        f"{found.points:6d} {found.median:7.1%} {found.p90:7.1%} {_wide(found.worst):>7s} {_wide(found.bias, '+'):>7s}"
    )


def _wide(share: float, sign: str = "") -> str:
    """A share in five characters or so, however great."""
    return f"{share:{sign}.1%}" if abs(share) < 10 else f"{share:{sign}.0%}"


def stalls_text(rows: Sequence[score.Row]) -> str:
    """At what part of the points the reasons that count are right, and each reason over all points."""
    lines = []
    for name, part in splits(rows).items():
        good, of = stalls.right(done(part))
        if of:
            lines.append(
                f"stall reasons, {name}: the {stalls.REASONS_THAT_COUNT} greatest within {stalls.WITHIN_POINTS:.0f} "
                f"percentage points at {good} of {of} points, {good / of:.1%} (target {stalls.TARGET:.0%})"
            )
    lines.append(f"{'reason':22s} {'measured':>9s} {'predicted':>10s} {'difference':>11s} {'misses':>7s}")
    lines += [
        f"{each.name:22s} {each.measured:8.1f}% {each.predicted:9.1f}% {each.difference:8.1f} pp {each.misses:7d}"
        for each in stalls.by_reason(done(rows))
    ]
    return "\n".join(lines)


def report(rows: Sequence[score.Row], *, full: bool = False) -> str:
    """Everything but the table of points; `full` adds every modelled counter."""
    parts = [cycles_text(rows)]
    if done(rows):
        parts += [groups_text(rows), stalls_text(rows)]
        parts += [counters_text(rows)] if full else []
        if full and (again := warm(rows)):
            parts += ["Of warm launches:", groups_text(again)]
    return "\n\n".join(parts)
