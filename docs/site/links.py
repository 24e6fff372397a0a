"""The links of a built site: each leads to a page that is there, and nothing is loaded from another host."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"img": "src", "script": "src", "iframe": "src", "source": "src", "embed": "src"}
LOADED_BY_LINK = {"stylesheet", "icon", "preload", "modulepreload"}
"""What a browser loads by itself: elements, and relations of a `link`. `a` waits for a click."""


class Page(HTMLParser):
    """What a page links to, what it loads, and the places in it that links can name."""

    def __init__(self, path: Path):
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places = {"", "top"}
        self.draws_itself = False
        self._in_style = False
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        self._in_style = tag == "style"
        self.draws_itself |= given.get("type") == "application/json"
        if tag in LOADED and LOADED[tag] in given:
            self.loads.append(given[LOADED[tag]])
        elif tag == "link" and LOADED_BY_LINK & set(given.get("rel", "").split()):
            self.loads.append(given.get("href", ""))
        elif tag in ("a", "link", "area") and "href" in given:
            self.links.append(given["href"])
        elif tag == "meta" and "url=" in given.get("content", ""):
            self.links.append(given["content"].partition("url=")[2])

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.loads += loaded_by(data)


def loaded_by(css: str) -> list[str]:
    """What a style sheet loads."""
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)
    return re.findall(r"""(?:url\(|@import\s)\s*["']?([^"')\s;]+)""", css)


def broken(site: Path) -> list[str]:
    """Every link of the pages and style sheets below `site` that leads nowhere, and every load from elsewhere."""
    pages = cache(Page)
    found = []
    for path in sorted(site.rglob("*.html")):
        page, name = pages(path), path.relative_to(site)
        found += [f"{name} links to {each}" for each in page.links if not _leads(path, each, pages)]
        found += [f"{name} loads {each}" for each in page.loads if not _is_here(path, each)]
    for path in sorted(site.rglob("*.css")):
        loads = loaded_by(path.read_text("utf-8"))
        found += [f"{path.relative_to(site)} loads {each}" for each in loads if not _is_here(path, each)]
    return found


def _leads(page: Path, target: str, pages: Callable[[Path], Page]) -> bool:
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return parts.scheme in ("http", "https", "mailto", "data")
    file = _file(page, parts.path)
    if file.suffix != ".html" or not file.is_file():
        return file.is_file()
    # A report makes its sections in the browser, from data that it holds.
    return unquote(parts.fragment) in pages(file).places or pages(file).draws_itself


def _is_here(page: Path, target: str) -> bool:
    parts = urlsplit(target)
    elsewhere = parts.scheme or parts.netloc
    return parts.scheme == "data" or (not elsewhere and _file(page, parts.path).is_file())


def _file(page: Path, path: str) -> Path:
    file = (page.parent / unquote(path)).resolve() if path else page.resolve()
    return file / "index.html" if file.is_dir() else file
