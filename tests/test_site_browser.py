"""The site in a real browser, opened from disk: its search, and the pages that `make docs` built.

`make docs` runs this with `GPUSIM_SITE`, the folder that it made; without it, the pages here are a site of two.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

from docs.site import sections
from gpusim.cli import make_parser
from tests.gpusim.test_report_browser import DESKTOP, PHONE, browser, texts  # noqa: F401
from tests.house import ROOT

DOORS = ("teach", "explore", "pin")
PAGE = """<!doctype html><html data-content_root="{root}"><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<link rel="stylesheet" href="{root}_static/site.css"><script src="{root}_static/search.js"></script>
<div class="header-right"></div><form class="sidebar-search-container" action="{root}search.html">
<input class="sidebar-search" name="q"></form>{body}</html>"""
BANKS = """<article><section id="memory"><h1>Memory<a class="headerlink" href="#memory">¶</a></h1><p>Of all kinds.</p>
<section id="its-banks"><h2>Its banks</h2><p>{before}A <em>bank</em> serves a word; two words of a bank
are a bank <span>con</span><span>flict</span>.</p></section></section></article>"""
CALLS = """<article><section id="calls"><h1>Calls</h1>
<dl class="py function"><dt class="sig sig-object py" id="gpusim.run">
gpusim.run<span>(</span>bank<span>)</span></dt><dd><dl class="field-list"><dt>Args</dt><dd>&lt;b&gt;</dd></dl></dd></dl>
<p>After it.</p></section></article>"""
FIELD = '<article><form><input class="search-field"></form><div id="search-results" class="found"></div></article>'


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of two pages in two folders, and the page of the search."""
    site = tmp_path_factory.mktemp("site with a space")
    shutil.copytree(ROOT / "docs" / "site" / "static", site / "_static")
    for name, body in (("search", FIELD), ("docs/memory", BANKS.format(before="word " * 300)), ("docs/calls", CALLS)):
        (site / name).parent.mkdir(exist_ok=True)
        page = PAGE.format(root="../" * name.count("/"), body=body)
        (site / name).with_suffix(".html").write_text(page, "utf-8")
    sections.write(site)
    return site


def opened(browser, page: Path, window=DESKTOP, query: str = ""):  # noqa: F811
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", window)
    browser.get(page.as_uri() + query)
    return browser


def answers(page) -> list[str]:
    """The titles that the search shows, once it has looked."""
    for _ in range(200):
        if page.execute_script("return document.querySelector('.found:not([hidden]) > p')?.textContent"):
            break
        page.execute_async_script("setTimeout(arguments[0], 50)")
    return texts(page, ".found:not([hidden]) a strong")


def type_in(page, selector: str, text: str) -> list[str]:
    field = page.find_element("css selector", selector)
    field.clear()
    field.send_keys(text)
    return answers(page)


def test_the_text_of_a_site(small: Path) -> None:
    text = (small / sections.FILE).read_text("utf-8")
    pages = json.loads(text.removeprefix("window.gpusimPages = ").removesuffix(";\n"))
    calls, memory = (pages[name] for name in (0, 1))
    assert calls == [
        "docs/calls.html",
        [["calls", "Calls", "After it."], ["gpusim.run", "gpusim.run", "gpusim.run(bank) Args <b>"]],
    ]
    assert memory[1][0] == ["memory", "Memory", "Of all kinds."]
    assert memory[1][1][2].endswith("word A bank serves a word; two words of a bank are a bank conflict.")
    assert len(pages) == 2


def test_search_answers_as_one_types(browser, small: Path) -> None:  # noqa: F811
    page = opened(browser, small / "docs" / "memory.html")
    assert page.execute_script("return window.gpusimPages") is None  # no page loads it before it is needed
    assert type_in(page, ".sidebar-search", "ban") == ["Its banks", "gpusim.run"]
    page.find_element("css selector", ".sidebar-search").send_keys("k conflict")
    assert answers(page) == ["Its banks"]
    excerpt = texts(page, ".found a span")[0]
    assert excerpt.startswith("…") and "two words of a bank are a bank conflict." in excerpt
    assert len(excerpt) < 300
    assert {"bank", "conflict"} <= set(texts(page, ".found a span mark"))
    assert type_in(page, ".sidebar-search", "conflict bank word") == ["Its banks"]
    assert type_in(page, ".sidebar-search", "<b>") == ["gpusim.run"]
    assert type_in(page, ".sidebar-search", "absent") == []
    assert texts(page, ".found > p") == ["no sections"]
    assert type_in(page, ".sidebar-search", "its bank") == ["Its banks"]
    page.find_element("css selector", ".found a").click()
    assert page.current_url.endswith("docs/memory.html#its-banks")
    assert texts(page, ".found:not([hidden])") == []
    assert page.get_log("browser") == []


def test_search_by_its_keys(browser, small: Path) -> None:  # noqa: F811
    page = opened(browser, small / "docs" / "calls.html")
    active = "return document.activeElement.className || document.activeElement.href"
    page.find_element("css selector", "body").send_keys("/")
    assert page.execute_script(active) == "sidebar-search"
    assert type_in(page, ".sidebar-search", "bank") == ["Its banks", "gpusim.run"]
    press = "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0], bubbles: true}))"
    for key, expected in (("ArrowDown", "#its-banks"), ("ArrowDown", "#gpusim.run"), ("ArrowUp", "#its-banks")):
        page.execute_script(press, key)
        assert page.execute_script(active).endswith(expected)
    page.execute_script(press, "Escape")
    assert texts(page, ".found:not([hidden])") == []


@pytest.mark.parametrize("window", [DESKTOP, PHONE])
def test_the_page_of_the_search(browser, small: Path, window) -> None:  # noqa: F811
    page = opened(browser, small / "search.html", window, "?q=bank")
    assert answers(page) == ["Its banks", "gpusim.run"]
    assert page.execute_script("return document.querySelector('.search-field').value") == "bank"
    assert type_in(page, ".search-field", "kinds") == ["Memory"]
    assert page.current_url.endswith("?q=kinds")
    page.execute_script("document.querySelector('.found a').click()")
    assert page.current_url.endswith("docs/memory.html")
    assert page.execute_script("return document.querySelector('.search-link').href").endswith("/search.html")


def test_each_door_has_a_command_and_links() -> None:
    text = (ROOT / "docs" / "index.md").read_text("utf-8")
    headings = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert [each.lower() for each in headings[:3]] == list(DOORS)
    for door in re.split(r"^## .*$", text, flags=re.MULTILINE)[1:4]:
        (command,) = re.findall(r"^```sh\n(gpusim .*)\n```$", door, flags=re.MULTILINE)
        make_parser().parse_args(shlex.split(command)[1:])
        links = re.findall(r"\]\(([^)#]+)[^)]*\)", door)
        assert links and all((ROOT / "docs" / each).exists() for each in links)


@pytest.fixture(scope="module")
def built() -> Path:
    if not (site := os.environ.get("GPUSIM_SITE")):
        pytest.skip("make docs runs this on what it built")
    return Path(site).resolve()


def test_doors_stand_side_by_side_or_below_each_other(browser, built: Path) -> None:  # noqa: F811
    where = "return arguments[0].map((id) => [document.getElementById(id)].map((it) => it.getBoundingClientRect())[0])"
    for window in (DESKTOP, PHONE):
        page = opened(browser, built / "docs" / "index.html", window)
        boxes = page.execute_script(where, DOORS)
        assert len({round(box["x"]) for box in boxes}) == (1 if window is PHONE else 3)
        assert len({round(box["y"]) for box in boxes}) == (3 if window is PHONE else 1)
        if window is DESKTOP:
            assert all(box["bottom"] < window["height"] for box in boxes)
            assert type_in(page, ".sidebar-search", "long_scoreboard") != []


def test_no_page_is_wider_than_its_window(browser, built: Path) -> None:  # noqa: F811
    wide, said = [], []
    for path in sorted(built.rglob("*.html")):
        page = opened(browser, path, PHONE)
        if page.execute_script("return document.documentElement.scrollWidth") > PHONE["width"]:
            wide.append(str(path.relative_to(built)))
        said += page.get_log("browser")
    assert (wide, said) == ([], [])
