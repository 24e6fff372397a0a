"""The difference as one HTML file without a script: it opens from disk and looks as the report does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from itertools import groupby
from typing import Any

from gpusim.difference.numbers import percent, signed, spelled, times
from gpusim.difference.pairs import Change, FindingChange, LineChange, Pairs
from gpusim.difference.side import Run
from gpusim.results.metric_table import METRICS, STALL_MEANINGS

_STYLE = """
.why { padding-left: 1.2rem; max-width: 100ch; } .why li { margin: .35rem 0; }
td { white-space: nowrap; } td.text { text-align: left; white-space: normal; min-width: 20rem; }
td.text code { white-space: pre-wrap; overflow-wrap: anywhere; }
td.better { box-shadow: inset 3px 0 var(--accent); } td.worse { box-shadow: inset 3px 0 var(--bad); }
.sides { display: grid; grid-template-columns: 1fr 1fr; gap: .6rem 2rem; } .sides p { overflow-wrap: anywhere; }
.pair { display: grid; grid-template-columns: 1.2rem 1fr; gap: .2rem .5rem; align-items: center; min-width: 8rem; }
.fill.b { background: var(--lane-off); } tr.alike { color: var(--soft); } #advice th:last-child { text-align: left; }
@media (max-width: 800px) { .sides { grid-template-columns: 1fr; } th, td { padding-inline: .35rem; } }
"""
_CONTENT = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_SECTIONS = (
    ("summary", "What changed and why"), ("launch", "Launch and configuration"), ("advice", "Advice"),
    ("metrics", "Metrics"), ("stalls", "Warp State Statistics"), ("source", "Source lines"),
)  # fmt: skip


def render(difference: Pairs, why: Sequence[str]) -> str:
    """The whole page."""
    style = resources.files("gpusim.report_html").joinpath("style.css").read_text("utf-8")
    title = f"{difference.a.label} against {difference.b.label}"
    links = "".join(f'<li><a href="#{name}">{text}</a></li>' for name, text in _SECTIONS)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_CONTENT}">\n'
        f"<title>{escape(title)} \N{EN DASH} gpusim</title>\n<style>\n{style}{_STYLE}</style>\n</head>\n<body>\n"
        '<a class="skip" href="#advice">Skip to the advice</a>\n'
        f'<header id="head"><p class="brand">gpusim diff</p><h1>{escape(title)}</h1>'
        f'<div class="sides">{_side("A", difference.a)}{_side("B", difference.b)}</div></header>\n'
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n<main id="page">\n{body(difference, why)}\n</main>\n'
        "</body>\n</html>\n"
    )


def body(difference: Pairs, why: Sequence[str]) -> str:
    """The sections of the page."""
    parts = [_summary(difference, why)]
    parts += [make(difference) for make in (_launch, _advice, _metrics, _stalls, _source)]
    return "\n".join(
        f'<section id="{name}"><h2>{title}</h2>{part}</section>'
        for (name, title), part in zip(_SECTIONS, parts, strict=True)
    )


def _side(name: str, run: Run) -> str:
    return f"<p><strong>{name}</strong> {escape(run.heading)}</p>"


def _table(head: Iterable[str], rows: Iterable[str]) -> str:
    columns = "".join(f'<th scope="col">{each}</th>' for each in head)
    body = f'<thead><tr>{columns}</tr></thead><tbody>{"".join(rows)}</tbody>'
    return f'<div class="wide" tabindex="0"><table>{body}</table></div>'


def _cells(*values: Any) -> str:
    return "".join(f"<td>{escape(str(each))}</td>" for each in values)


def _summary(difference: Pairs, why: Sequence[str]) -> str:
    change = difference.cycles
    facts = (
        ("Cycles of A", spelled(change.a)), ("Cycles of B", spelled(change.b)), ("B / A", times(change)),
        ("Duration of A", f"{difference.a.time_us:,.2f} µs"), ("Duration of B", f"{difference.b.time_us:,.2f} µs"),
    )  # fmt: skip
    shown = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts)
    told = "".join(f"<li>{escape(text)}</li>" for text in why)
    return f'<dl class="facts" data-a="{change.a}" data-b="{change.b}">{shown}</dl><ul class="why">{told}</ul>'


def _launch(difference: Pairs) -> str:
    rows = [*difference.launch, *difference.configuration]
    if not rows:
        return '<p class="about">Launch and configuration are the same.</p>'
    return _table(
        ("", "A", "B"),
        (f'<tr><th scope="row">{escape(r.name)}</th>{_cells(spelled(r.a), spelled(r.b))}</tr>' for r in rows),
    )


def _advice(difference: Pairs) -> str:
    if not difference.findings:
        measured = difference.a.measured or difference.b.measured
        reason = "A measured run has no advice." if measured else "None on either side."
        return f'<p class="about">{reason}</p>'
    head = ("Finding", "A", "B", "Cycles saved", "", "What the advice says")
    about = '<p class="about">Shares of the launch that a cause takes; they overlap. Dearest change first.</p>'
    return about + _table(head, map(_finding, difference.findings))


def _finding(change: FindingChange) -> str:
    shares = [percent(finding.share if finding else None) for finding in (change.a, change.b)]
    told = change.a or change.b
    return (
        f'<tr data-kind="{escape(change.kind)}" data-state="{change.state}"><th scope="row">{escape(str(change))}</th>'
        f'{_cells(*shares)}<td class="{_side_of(change.saved)}">{signed(change.saved)}</td>{_cells(change.state)}'
        f'<td class="text">{escape(told.sentence if told else "")}</td></tr>'
    )


def _side_of(saved: float) -> str:
    return "better" if saved > 0 else "worse" if saved < 0 else ""


def _metrics(difference: Pairs) -> str:
    parts = []
    for section, group in groupby(difference.metrics, key=lambda each: each.section):
        members = list(group)
        differing = [_metric(each) for each in members if not each.equal]
        alike = [_metric(each) for each in members if each.equal]
        head = ("Metric", "A", "B", "B / A", "Unit")
        table = _table(head, differing) if differing else '<p class="about">Nothing differs.</p>'
        rest = f"<details><summary>{len(alike)} alike</summary>{_table(head, alike)}</details>" if alike else ""
        parts.append(f"<h3>{escape(section)}</h3>{table}{rest}")
    return "".join(parts)


def _metric(change: Change) -> str:
    meaning = escape(METRICS[change.name].meaning, quote=True)
    kind = ' class="alike"' if change.equal else ""
    return (
        f'<tr{kind} data-metric="{change.name}"><th scope="row" title="{meaning}"><code>{change.name}</code></th>'
        f"{_cells(spelled(change.a), spelled(change.b), times(change), change.unit)}</tr>"
    )


def _stalls(difference: Pairs) -> str:
    most = max((max(each.a, each.b) for each in difference.stalls), default=0) or 1
    rows = (
        f'<tr data-stall="{each.name}"><th scope="row" title="{escape(STALL_MEANINGS.get(each.name, ""))}">'
        f"{each.name}</th>"
        f"{_cells(f'{each.a:.2f}', f'{each.b:.2f}', signed(each.difference, 2))}"
        f'<td><span class="pair">{_bar("A", each.a / most)}{_bar("B", each.b / most)}</span></td></tr>'
        for each in difference.stalls
    )
    about = (
        '<p class="about">Warp cycles per issued instruction: '
        f"{difference.a.latency:.2f} in A, {difference.b.latency:.2f} in B.</p>"
    )
    return about + _table(("Stall reason", "A", "B", "B - A", ""), rows)


def _bar(name: str, share: float) -> str:
    return (
        f'<span>{name}</span><span class="track"><span class="fill {name.lower()}" '
        f'style="width:{100 * share:.1f}%"></span></span>'
    )


def _source(difference: Pairs) -> str:
    if difference.a.measured or difference.b.measured:
        return '<p class="about">A measured run has no source lines.</p>'
    head = (
        "A", "B", "Line", "Warp cycles A", "B", "B - A", "Bank conflicts A", "B",
        "Excess sectors A", "B", "Lanes A", "B",
    )  # fmt: skip
    return _table(head, map(_line, difference.lines))


def _line(change: LineChange) -> str:
    numbers = ("" if line is None else line.line for line in (change.a, change.b))
    cycles = change.cycles
    wide = [value for name in ("conflicts", "excess_sectors") for value in (change.of(name).a, change.of(name).b)]
    lanes = ("" if line is None else f"{line.threads:.1f}" for line in (change.a, change.b))
    return (
        f'<tr>{_cells(*numbers)}<td class="text">{_text(change)}</td>'
        f"{_cells(spelled(cycles.a), spelled(cycles.b))}"
        f'<td class="{_side_of(-cycles.difference)}">{signed(cycles.difference)}</td>'
        f"{_cells(*map(spelled, wide), *lanes)}</tr>"
    )


def _text(change: LineChange) -> str:
    """The line as written, on both sides where it was rewritten."""
    texts = dict.fromkeys(line.text for line in (change.a, change.b) if line)
    return "<br>".join(f"<code>{escape(text)}</code>" for text in texts)
