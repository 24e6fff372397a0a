"""What the site's search looks through: the text of every section, written as a script that a page loads.

Sphinx's own search fetches the pages that it shows excerpts of, which a browser refuses to a page that lies on disk.
"""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

FILE = "_static/sections.js"
BLOCKS = re.compile(r"p|li|d[dt]|t[dh]|pre|div|h[1-6]")
NOT_PAGES = ("genindex.html", "py-modindex.html", "search.html")


class Article(HTMLParser):
    """The sections of a page's article: of each its anchor, its title and its own text. What a docstring describes is
    a section too."""

    def __init__(self, text: str):
        super().__init__()
        self.sections: list[list[str]] = []
        self._open: list[list[str]] = []
        self._left_out = self._heading = False
        self.feed(text.partition("<article")[2].partition("</article>")[0])

    def _begin(self, anchor: str, title: str) -> None:
        self._open.append([anchor, title, ""])
        self.sections.append(self._open[-1])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        kinds = given.get("class", "").split()
        if tag == "section":
            self._begin(given.get("id", ""), "")
        elif tag == "dl":
            self._open.append(self._open[-1] if self._open else ["", "", ""])
        elif tag == "dt" and "sig" in kinds and "id" in given:
            self._open.pop()
            self._begin(given["id"], given["id"])
        self._left_out |= "headerlink" in kinds
        self._heading = self._heading or bool(re.fullmatch(r"h[1-6]", tag))
        if self._open and BLOCKS.fullmatch(tag):
            self._open[-1][2] += " "

    def handle_endtag(self, tag: str) -> None:
        if tag in ("section", "dl"):
            self._open.pop()
        self._left_out &= tag != "a"
        self._heading &= not re.fullmatch(r"h[1-6]", tag)

    def handle_data(self, data: str) -> None:
        if self._open and not self._left_out:
            self._open[-1][1 if self._heading else 2] += data


def write(site: Path) -> None:
    """Write the text of every page of `site` that has an article into `FILE`."""
    pages = []
    for path in sorted(site.rglob("*.html")):
        found = Article(path.read_text("utf-8")).sections if path.name not in NOT_PAGES else []
        sections = [[" ".join(each.split()) for each in section] for section in found]
        if sections:
            pages.append([path.relative_to(site).as_posix(), sections])
    text = json.dumps(pages, ensure_ascii=False, separators=(",", ":"))
    (site / FILE).write_text(f"window.gpusimPages = {text};\n", "utf-8")
