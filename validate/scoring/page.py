"""The scores as one HTML page that needs nothing else: tables, pictures, and every point with what lies behind it.

The page is `page.html` with its places filled in. What a row opens to is made by the page's own script from the values
in it, so that the page stays small.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from gpusim.results.metrics import METRICS
from validate import score
from validate.replay import Failure, Pair
from validate.score import Row
from validate.scoring import counters, plots, stalls
from validate.scoring.text import done, splits

_TEMPLATE = Path(__file__).with_name("page.html")
_CAPTIONS = {
    "cycles": "Predicted against measured cycles of every point",
    "errors": "Errors of the cycles, sorted",
    "stalls": "Stall reasons, measured and predicted",
    "counters": "Errors of the counters of caches and memory",
}
_COLUMNS = (
    ("point", "text"),
    ("split", "text"),
    ("warp instructions", "number"),
    ("exact", "number"),
    ("measured, cycles", "number"),
    ("spread", "number"),
    ("predicted, cycles", "number"),
    ("error", "number"),
    ("stalls", "number"),
)


def page(rows: Sequence[Row]) -> str:
    """The page of at least one compared point, as HTML. Raises ValueError without one."""
    found = score.summary(rows)
    lead = (
        f"{len(done(rows))} of {len(rows)} points, each a program at one size, simulated from the machine code that "
        f"the GPU ran and compared with its counters; {found['exact_points']} with every exact counter equal. "
        "The families of judge were never looked at while the model was made."
    )
    fill = {
        "lead": escape(lead),
        "cycles": _cycles(rows),
        "groups": _groups(rows),
        "right": _right(rows),
        "reasons": _reasons(rows),
        "pictures": "\n".join(_picture(name, rows) for name in plots.FIGURES),
        "points": _points(rows),
        "counters": _counters(rows),
        "details": json.dumps({str(row.point): _detail(row) for row in rows}, separators=(",", ":")).replace(
            "<", "\\u003c"
        ),
    }
    text = _TEMPLATE.read_text("utf-8")
    for name, content in fill.items():
        text = text.replace("{{" + name + "}}", content)
    return text


def _table(headings: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """A table of texts, which are escaped here."""
    head = "".join(f"<th>{escape(each)}</th>" for each in headings)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(each)}</td>" for each in line) + "</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"


def _cycles(rows: Sequence[Row]) -> str:
    lines = []
    for name, part in splits(rows).items():
        found = score.summary(part)
        compared = round(found["covered"] * found["points"])
        line = [name, f"{compared} of {found['points']}"]
        if compared:
            correlation = found["log_correlation"]
            line += [_percent(found[f"{each}_absolute_error"]) for each in ("mean", "median", "p90", "worst")]
            line += [found["worst_point"], _percent(found["bias"], "+")]
            line.append("-" if correlation is None else f"{correlation:.4f}")
        lines.append(line)
    heads = ("", "compared", "mean error", "median", "p90", "worst", "at", "bias", "correlation of logarithms")
    return _table(heads, lines)


def _groups(rows: Sequence[Row]) -> str:
    lines = []
    for group in counters.GROUPS:
        for name, part in splits(rows).items():
            found = counters.score(group, done(part))
            if found is not None:
                target = f"{group.median:.0%}, {group.p90:.0%}: {'met' if found.meets(group) else 'missed'}"
                lines.append([group.title, name, *_numbers(found), found.worst_point, target])
    return _table(
        ("counter", "points", "scored", "median", "p90", "worst", "bias", "worst at", "target: median, p90"), lines
    )


def _numbers(found: counters.Score) -> list[str]:
    return [str(found.points), *map(_percent, (found.median, found.p90, found.worst)), _percent(found.bias, "+")]


def _right(rows: Sequence[Row]) -> str:
    lines = []
    for name, part in splits(rows).items():
        good, of = stalls.right(done(part))
        if of:
            lines.append([name, f"{good} of {of}", _percent(good / of), _percent(stalls.TARGET)])
    return _table(("", "three greatest reasons within 5 percentage points", "share", "target"), lines)


def _reasons(rows: Sequence[Row]) -> str:
    lines = [
        [each.name, f"{each.measured:.1f} %", f"{each.predicted:.1f} %", f"{each.difference:.1f}", str(each.misses)]
        for each in stalls.by_reason(done(rows))
    ]
    heads = ("reason, mean over all points", "measured", "predicted", "mean difference, points", "misses")
    return _table(heads, lines)


def _counters(rows: Sequence[Row]) -> str:
    lines = [
        [each.title, each.unit, *_numbers(each), each.worst_point]
        for each in counters.every(done(rows))
        if not each.title.startswith(stalls.PREFIX)
    ]
    return _table(("counter", "unit", "scored", "median", "p90", "worst", "bias", "worst at"), lines)


def _picture(name: str, rows: Sequence[Row]) -> str:
    # As an image of its own: pictures in one document would share their identifiers.
    content = base64.b64encode(plots.image(plots.FIGURES[name], rows)).decode()
    return f'<img alt="{escape(_CAPTIONS[name])}" src="data:image/svg+xml;base64,{content}">'


def _points(rows: Sequence[Row]) -> str:
    head = "".join(
        f'<th data-kind="{kind}"><button type="button">{escape(title)}</button></th>' for title, kind in _COLUMNS
    )
    body = "\n".join(map(_point, rows))
    return f'<table id="points"><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>'


def _point(row: Row) -> str:
    name = escape(str(row.point), quote=True)
    cells = [
        f'<td data-value="{name}"><button type="button" aria-expanded="false">{name}</button></td>',
        f'<td data-value="{row.point.split}" class="name">{row.point.split}</td>',
    ]
    if isinstance(row, Failure):
        cells += ['<td data-value="">-</td>'] * (len(_COLUMNS) - len(cells))
    else:
        worst = stalls.worst_difference(row)
        equal = len(row.exact) - len(row.differing)
        cells += [
            _cell(row.instructions, f"{row.instructions:,}"),
            _cell(-len(row.differing), f"{equal}/{len(row.exact)}"),
            _cell(row.cycles.measured, f"{row.cycles.measured:,.0f}"),
            _cell(row.spread.relative, _percent(row.spread.relative)),
            _cell(row.cycles.predicted, f"{row.cycles.predicted:,.0f}"),
            _cell(row.error, _percent(row.error, "+")),
            '<td data-value="">-</td>' if worst is None else _cell(worst, f"{worst:.1f}"),
        ]
    return f'<tr data-point="{name}" data-split="{row.point.split}">{"".join(cells)}</tr>'


def _cell(value: float, text: str) -> str:
    return f'<td data-value="{value:.6g}">{escape(text)}</td>'


def _detail(row: Row) -> dict[str, Any]:
    """What the script opens a row to."""
    if isinstance(row, Failure):
        return {"failure": row.reason}
    shares = sorted(stalls.shares(row).items(), key=lambda each: -each[1].measured)
    return {
        "mismatch": row.mismatch,
        "stalls": [
            [name, round(share.measured, 2), round(share.predicted, 2)]
            for name, share in shares
            if share.measured or share.predicted
        ],
        "modelled": [
            _counter(name, pair, None) for name, pair in row.modelled.items() if not name.startswith(stalls.PREFIX)
        ],
        "exact": [_counter(name, pair, pair.equal) for name, pair in row.exact.items()],
    }


def _counter(name: str, pair: Pair, exact: bool | None) -> list[Any]:
    unit = METRICS[name].unit if name in METRICS else ""
    return [name, unit, round(pair.measured, 4), round(pair.predicted, 4), exact]


def _percent(share: float, sign: str = "") -> str:
    return f"{100 * share:{sign}.1f} %"
