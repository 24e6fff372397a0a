"""The site: every page once in its navigation, every export in its reference, links that are checked, a lock that fits.

`make docs` itself takes longer than a test may; the workflow runs it for every change.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from docs.site import links, made
from docs.site.docstrings import as_rst
from docs.site.reports import REPORTS
from programs import registry
from tests.house import ROOT


def listed(root: Path, page: Path) -> Iterator[Path]:
    """The pages that a page's tables of contents name, and those that they name in turn."""
    text = page.read_text("utf-8") if page.suffix == ".md" else ""
    for block in re.findall(r"^```\{toctree\}\n(.*?)^```", made.with_made(text), flags=re.DOTALL | re.MULTILINE):
        for line in filter(None, (each for each in block.splitlines() if not each.startswith(":"))):
            name = re.sub(r".*<(.*)>$", r"\1", line)
            found = [*page.parent.glob(name + ".md"), *page.parent.glob(name + ".ipynb")]
            assert found, f"{page.relative_to(root)} lists {line}, which is not there"
            for each in sorted(path.resolve() for path in found):
                yield each
                yield from listed(root, each)


def not_once(root: Path) -> set[str]:
    """Pages that the navigation does not have, or has twice."""
    index = root / "docs" / "index.md"
    pages = {*root.glob("docs/**/*.md"), *root.glob("notebooks/*.ipynb"), root / "notebooks" / "README.md"}
    pages |= {root / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")}
    times = Counter(listed(root, index.resolve()))
    return {str(page.relative_to(root)) for page in pages - {index} if times[page.resolve()] != 1}


def test_the_navigation_has_every_page_once() -> None:
    assert not_once(ROOT) == set()


def test_a_page_that_is_missing_or_twice_is_found(tmp_path: Path) -> None:
    for name in (
        "docs/one",
        "docs/two",
        "docs/deep/three",
        "notebooks/README",
        "README",
        "CHANGELOG",
        "CONTRIBUTING",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).with_suffix(".md").write_text("# A page\n", "utf-8")
    entries = "One <one>\none\n../README\n../CHANGELOG\n../CONTRIBUTING\n../notebooks/README\ndeep/three"
    (tmp_path / "docs/index.md").write_text(f"```{{toctree}}\n:caption: All\n\n{entries}\n```\n", "utf-8")
    assert not_once(tmp_path) == {"docs/one.md", "docs/two.md"}


def documented() -> tuple[set[str], list[object]]:
    """The modules that the reference shows whole, and every object that it shows."""
    text = "\n".join(path.read_text("utf-8") for path in sorted(ROOT.glob("docs/reference/api/*.md")))
    modules, shown = set(), []
    for name, options in re.findall(r"^\.\. automodule:: (\S+)\n((?: +:.*\n)*)", text, flags=re.MULTILINE):
        modules.add(name)
        module, left_out = import_module(name), re.findall(r"\w+", options.partition("exclude-members:")[2])
        shown += [getattr(module, each) for each in getattr(module, "__all__", ()) if each not in left_out]
    for name in re.findall(r"^\.\. (?:auto(?:class|function|data)|py:data):: (\S+)", text, flags=re.MULTILINE):
        module, _, name = name.rpartition(".")
        shown.append(getattr(import_module(module), name))
    return modules, shown


def test_the_reference_has_every_export() -> None:
    modules, shown = documented()
    known = {id(each) for each in shown}
    for package in (import_module(name) for name in {*modules, "gpusim", "gpusim.launch"} - {"gpusim.errors"}):
        for name in package.__all__:
            thing = getattr(package, name)
            defined_in = getattr(thing, "__module__", "")
            assert inspect.ismodule(thing) or id(thing) in known or defined_in == "gpusim.errors", f"{package}.{name}"


def test_the_make_target_and_the_workflow_fit() -> None:
    told = subprocess.run(["make", "--dry-run", "docs"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    folder = re.findall(r"python docs/site/build\.py (\S+)$", told, flags=re.MULTILINE)
    flow = yaml.safe_load((ROOT / ".github/workflows/docs.yml").read_text("utf-8"))
    build, deploy = flow["jobs"]["build"], flow["jobs"]["deploy"]
    steps = {step.get("uses", step.get("run", "")).partition("@")[0]: step for step in build["steps"]}
    assert list(steps)[-2:] == ["make docs", "actions/upload-pages-artifact"]
    assert [steps["actions/upload-pages-artifact"]["with"]["path"]] == folder
    assert deploy["needs"] == "build"
    assert deploy["permissions"] == {"pages": "write", "id-token": "write"}
    assert flow["permissions"] == {"contents": "read"}


def test_the_site_has_a_lock_of_its_own() -> None:
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]["docs"]
    lock, other = ((ROOT / name).read_text("utf-8") for name in ("docs/site/requirements.lock", "requirements.lock"))
    pinned = re.findall(r"^([\w-]+)==\S+.*\\\n    --hash=sha256:[0-9a-f]{64}", lock, flags=re.MULTILINE)
    assert {re.split(r"[^\w-]", each)[0] for each in asked} <= set(pinned)
    assert len(pinned) == len(re.findall(r"^\w", lock, flags=re.MULTILINE))
    assert not set(pinned) & set(re.findall(r"^([\w-]+)==", other, flags=re.MULTILINE))
    assert "://" not in lock


SOUND = {
    "index.html": '<h1 id="top">x</h1><a href="a/b.html#there">b</a><a href="a/">a</a><img src="a/p.png">'
    '<a href="https://example.org">elsewhere</a><link rel="stylesheet" href="s.css">',
    "a/index.html": '<a href="../index.html">up</a><a href="#">top</a>',
    "a/b.html": '<p id="there"><style>p { background: url(p.png) }</style>',
    "a/report.html": '<script type="application/json">{}</script><a href="#drawn">what the page draws itself</a>',
    "a/p.png": "",
    "s.css": "p { background: url('a/p.png') } /* url(absent.png) */ q { background: url(data:image/png;base64,AA==) }",
}
PLANTED = [
    ("<a href='absent.html'>", "links to absent.html"),
    ("<a href='a/b.html#nowhere'>", "links to a/b.html#nowhere"),
    ("<a href='a/absent.png'>", "links to a/absent.png"),
    ("<meta http-equiv='refresh' content='0; url=absent.html'>", "links to absent.html"),
    ("<img src='a/absent.png'>", "loads a/absent.png"),
    ("<script src='https://cdn.example.org/x.js'></script>", "loads https://cdn.example.org/x.js"),
    ("<script src='//cdn.example.org/x.js'></script>", "loads //cdn.example.org/x.js"),
    (
        "<link rel='stylesheet' href='https://fonts.example.org/f.css'>",
        "loads https://fonts.example.org/f.css",
    ),
    ("<style>@import 'https://fonts.example.org/f.css';</style>", "loads https://fonts.example.org/f.css"),
]


@pytest.mark.parametrize(("text", "found"), PLANTED)
def test_a_broken_link_is_found(tmp_path: Path, text: str, found: str) -> None:
    for name, content in SOUND.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, "utf-8")
    assert links.broken(tmp_path) == []
    (tmp_path / "bad.html").write_text(text, "utf-8")
    assert links.broken(tmp_path) == [f"bad.html {found}"]


def test_a_font_from_elsewhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "s.css").write_text("@font-face { src: url(https://fonts.example.org/f.woff2) }", "utf-8")
    assert links.broken(tmp_path) == ["s.css loads https://fonts.example.org/f.woff2"]


def test_docstrings_become_restructured_text() -> None:
    text = (
        "Run it; see docs/traces.md.\n\ngrid, block: blocks, and\nthreads of `x`s.\n"
        "args: *arrays* of `isa.Program`.\n\nNote: b."
    )
    assert as_rst(text) == (
        "Run it; see :doc:`/docs/traces`.\n\nArgs:\n    grid, block: blocks, and\n        threads of ``x``\\ s.\n"
        "    args: \\*arrays\\* of :py:obj:`isa.Program`.\n\nNote: b."
    )


def test_what_pages_are_made_of() -> None:
    assert "## gpusim config keys\n\n```text\nusage: gpusim config keys" in made.commands()
    assert "| `sm.count` | 132 | SMs that are enabled | spec: device query |" in made.configuration()
    assert made.gallery().count("](figures/") == len(list((ROOT / "docs/figures").iterdir()))
    assert set(REPORTS) <= set(registry.names())
    assert made.reports().count('<a href="../reports/') == len(REPORTS)
    assert made.with_made("see [a.md](x/a.md#b), [b](b.md)") == "see [](x/a.md#b), [b](b.md)"
    with pytest.raises(KeyError):
        made.with_made("<!-- made: nothing -->")
