"""The difference as one HTML page: no script, no network, readable on a phone and in the dark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from gpusim.difference.pairs import Change, LineChange, Pairs, cells, spelled, times
from gpusim.report_html.plain import Markup, PagePart, bar, folded, join, render_plain, table
from gpusim.results.quantities import QUANTITIES
from gpusim.results.stalls import STALL_MEANINGS, stall_dye
from gpusim.results.table import spelled as in_words
from gpusim.units import joule_text


def render_page(difference: Pairs, why: Sequence[str]) -> str:
    """The page with its sentences."""
    a, b = difference.a, difference.b
    facts = {
        side: ", ".join(
            in_words(value, row.unit, "µ")
            for row, change in difference.numbers.values()
            if (value := getattr(change, side.lower())) is not None
        )
        for side in "AB"
    } | {
        f"{row.label}, B of A": times(change)
        for row, change in difference.numbers.values()
        if None not in (change.a, change.b)
    }
    makers = (_why, _launch, _stalls, _energy, _advice, _lines, _metrics)
    head = join(Markup(f'<p class="kernel">{name}: {join([run.heading])}</p>') for name, run in (("A", a), ("B", b)))
    parts = [part for make in makers for part in make(difference, why)]
    return render_plain(f"{a.title} and {b.title}", "gpusim diff · A and B side by side", facts, parts, head)


def _joules(value: float) -> str:
    return joule_text(value, "µ")


def _why(difference: Pairs, why: Sequence[str]) -> Iterator[PagePart]:
    most = max(difference.a.cycles, difference.b.cycles, 1)
    runs = (("A", difference.a), ("B", difference.b))
    bars = join(bar(name, run.cycles / most, f"{run.cycles:,.0f} cycles", note=run.title) for name, run in runs)
    items = join(Markup(f"<li>{join([text])}</li>") for text in why)
    yield PagePart("why", "Why", (), Markup(f'<div class="bars">{bars}</div><ul>{items}</ul>'))


def _launch(difference: Pairs, _why: Sequence[str]) -> Iterator[PagePart]:
    for title, changes in difference.described:
        rows = [(each.name, spelled(each.a), spelled(each.b)) for each in changes]
        yield PagePart(title.lower(), title, ("What differs.",), table(title, ("", "A", "B"), rows))


def _pairs(changes: Sequence[Change], spell: Callable[[float], str], meanings: Mapping[str, str]) -> Markup:
    """Two bars for each change, in its colour where it is a stall reason; empty where all are zero."""
    most = max([max(each.a, each.b) for each in changes], default=0.0)
    if not most:
        return Markup("")
    rows = join(
        bar(name, value / most, number, stall_dye(each.name), note)
        for each in changes
        for name, value, number, note in (
            (each.name.replace("_", " "), each.a, f"A {spell(each.a)}", meanings.get(each.name, "")),
            ("", each.b, f"B {spell(each.b)} ({cells(each, spell)[-1]})", ""),
        )
    )
    return Markup(f'<div class="bars">{rows}</div>')


def _stalls(difference: Pairs, _why: Sequence[str]) -> Iterator[PagePart]:
    rows = _pairs(difference.stalls, "{:.2f}".format, STALL_MEANINGS)
    if not rows:
        return
    about = (
        f"Warp cycles per issued instruction: {difference.a.latency:.2f} in A, {difference.b.latency:.2f} in B; what "
        "changed most comes first.",
    )
    yield PagePart("stalls", "Stall reasons", about, rows)


def _energy(difference: Pairs, _why: Sequence[str]) -> Iterator[PagePart]:
    if rows := _pairs(difference.energy_parts, _joules, {}):
        yield PagePart("energy", "Energy", ("Joules by unit; what changed most comes first.",), rows)


def _advice(difference: Pairs, _why: Sequence[str]) -> Iterator[PagePart]:
    if rows := [each.cells for each in difference.findings]:
        about = ("Shares of the launch that each cause takes, and the cycles that B saves.",)
        yield PagePart("advice", "Advice", about, table("Advice", ("", "A", "B", "saved", ""), rows))


def _lines(difference: Pairs, _why: Sequence[str]) -> Iterator[PagePart]:
    if rows := [_line(each) for each in difference.changed_lines]:
        head = ("line", "A cycles", "B cycles", "B / A", "bank conflicts", "energy")
        about = ("Warp cycles at each line that differ, the largest difference first.",)
        yield PagePart("lines", "Source lines", about, table("Source lines", head, rows))


def _line(change: LineChange) -> Sequence[str]:
    numbers = " → ".join("-" if line is None else str(line.line) for line in (change.a, change.b))
    cycles, conflicts = change.cycles, change.of("conflicts")
    name = Markup(f"{join([numbers])} <code>{join([change.text.strip()])}</code>")
    both = f"{conflicts.a:,} → {conflicts.b:,}" if conflicts.a or conflicts.b else ""
    energy = change.of("energy_j")
    joules = f"{_joules(energy.a)} → {_joules(energy.b)}" if energy.a or energy.b else ""
    return name, f"{cycles.a:,}", f"{cycles.b:,}", times(cycles), both, joules


def _metrics(difference: Pairs, _why: Sequence[str]) -> Iterator[PagePart]:
    body = []
    for section, differing, alike in difference.sections:
        body.append(Markup(f"<h3>{join([section])}</h3>"))
        body += [_metrics_of(section, differing)] if differing else []
        if alike:
            body.append(folded(f"{len(alike)} of {len(alike) + len(differing)} alike", _metrics_of(section, alike)))
    if body:
        yield PagePart("metrics", "Metrics", ("The largest relative change first.",), join(body))


def _metrics_of(section: str, changes: Sequence[Change]) -> Markup:
    rows = [
        (
            Markup(f'<span title="{join([QUANTITIES[each.name].meaning])}">{join([each.name])}</span>'),
            spelled(each.a), spelled(each.b), times(each),
        )
        for each in changes
    ]  # fmt: skip
    return table(section, ("", "A", "B", "B / A"), rows)
