"""Pages without a script: a head of facts, and sections of text, tables and bars, in the report's style."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpusim.report_html import asset, filled


class Markup(str):
    """HTML that is put into a page as it is; all other texts are escaped."""

    __slots__ = ()


@dataclass(frozen=True)
class PagePart:
    """A section: its id, title, sentences about it, and what it holds."""

    name: str
    title: str
    about: Sequence[str]
    body: Markup


def escaped(text: object) -> Markup:
    """A text as HTML."""
    return text if isinstance(text, Markup) else Markup(html.escape(str(text)))


def join(parts: Iterable[str]) -> Markup:
    """Pieces of HTML, and texts, one behind the other."""
    return Markup("".join(map(escaped, parts)))


def render_plain(title: str, brand: str, facts: Mapping[str, str], parts: Sequence[PagePart], head: str = "") -> str:
    """The page. brand: the line above the title; facts: by name; head: what follows them."""
    dl = join(Markup(f"<div><dt>{escaped(k)}</dt><dd>{escaped(v)}</dd></div>") for k, v in facts.items())
    sections = "".join(
        f'<section id="{part.name}" aria-labelledby="{part.name}-title">\n<h2 id="{part.name}-title">'
        f"{escaped(part.title)}</h2>\n"
        + "".join(f'<p class="about">{escaped(text)}</p>\n' for text in part.about)
        + f"{escaped(part.body)}\n</section>\n"
        for part in parts
    )
    texts = {"title": escaped(title), "style": asset("style.css"), "brand": escaped(brand), "facts": dl}
    return filled(asset("plain.html"), **texts, head=escaped(head), sections=sections)


def table(label: str, head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "stacked") -> Markup:
    """A table whose first column names its rows. On a phone, where `kind` is 'stacked', names stand above numbers."""
    columns = "".join(f'<th scope="col">{escaped(each)}</th>' for each in head)
    lines = "\n".join(f"<tr>{_cells(row, head)}</tr>" for row in rows)
    return Markup(
        f'<div class="wide" tabindex="0" role="group" aria-label="{escaped(label)}"><table class="{kind}">'
        f"<thead><tr>{columns}</tr></thead>\n<tbody>\n{lines}\n</tbody></table></div>"
    )


def _cells(row: Sequence[str], head: Sequence[str]) -> str:
    first, *others = row
    cells = (
        f'<td data-head="{escaped(name)}">{escaped(each)}</td>' for each, name in zip(others, head[1:], strict=True)
    )
    return f'<th scope="row">{escaped(first)}</th>{"".join(cells)}'


def folded(summary: str, body: Markup) -> Markup:
    """Return a part that is shown when its summary is clicked."""
    return Markup(f"<details><summary>{escaped(summary)}</summary>{body}</details>")
