"""The report of a result as one HTML file that opens from disk: no server, no network, nothing beside it.

`document` makes one JSON document from a result (`sections` its tables and what fills an SM, `steps` what
comes of its trace); `template.html`, `style.css` and the JavaScript modules in `js/` show it, and go into
the file as they are. Modules import each other by name, such as `gpusim/source`; an import map in the page says where
in the page they lie. What draws in JavaScript is a function of an element and data, and keeps nothing outside them.
Reading order: `main`, `format`, `sections`, `roofline`, `occupancy`, `source`, `warps`, `stepper`, `access`,
`registers`.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from gpusim.report_html.document import make_document
from gpusim.results.analysis import Analysis

MODULES = ("format", "sections", "roofline", "occupancy", "source", "access", "registers", "warps", "stepper")
"""Modules by name; `main` comes last and imports them."""
MARK = "<!-- launches -->"
"""Stands in a page that is one of several until all launches are known, see `index.put_above`."""


def render(result: Analysis, title: str | None = None, **more: Any) -> str:
    """The whole page. `title`: what was run, by default the kernel's name; more: as for `make_document`."""
    document = make_document(result, title, **more)
    modules = {f"gpusim/{name}": module_url(name, asset(f"js/{name}.js")) for name in MODULES}
    return filled(
        "template.html",
        title=html.escape(document["title"]),
        style=asset("style.css"),
        launches=MARK if document["index"] else "",
        imports=json.dumps({"imports": modules}),
        main=asset("js/main.js"),
        data=json_for_script(document),
    )


def filled(name: str, **texts: str) -> str:
    """A file of the page with texts in place of its marks, such as `{{title}}`; what they bring along is no mark."""
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: texts[mark[1]], asset(name))


def write(result: Analysis, path: str | os.PathLike[str], title: str | None = None, **more: Any) -> Path:
    """Write the page and return its path. Raises OSError if that cannot be done."""
    target = Path(path)
    target.write_text(render(result, title, **more), "utf-8")
    return target


@cache
def asset(name: str) -> str:
    """A file of the page."""
    return resources.files(__name__).joinpath(name).read_text("utf-8")


@cache
def module_url(name: str, text: str) -> str:
    """A module as a data URL, named for the browser's debugger."""
    code = f"{text}\n//# sourceURL=gpusim/{name}.js\n"
    return "data:text/javascript;base64," + base64.b64encode(code.encode()).decode()


def json_for_script(document: dict[str, Any]) -> str:
    """JSON that cannot end the script element that holds it."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
