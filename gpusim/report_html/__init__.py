"""The report of a result as one HTML file that opens from disk: no server, no network, nothing beside it.

`make_document` makes one JSON document from a result (`sections` its tables and what fills an SM, `steps` what comes of
its trace); `template.html`, `style.css` and the JavaScript modules in `js/` show it, and go into the file as they are.
Modules import each other by name, such as `gpusim/source`; an import map in the page says where in the page they lie.
What draws in JavaScript is a function of an element and data, and keeps nothing outside them. Reading order: `main`,
`format`, `sections`, `roofline`, `occupancy`, `beside`, `source`, `warps`, `stepper`, `access`, `registers`.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
from collections.abc import Collection, Iterable
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from gpusim.engine.state import layout as L
from gpusim.report_html.sections import NAMES, make_occupancy, make_sections
from gpusim.report_html.steps import make_steps, make_warps
from gpusim.results import sentences
from gpusim.results.analysis import Analysis
from gpusim.results.quantities import shown, to_dict
from gpusim.results.stalls import STALL_MEANINGS, stall_dye
from gpusim.results.table import FACTS, SECTIONS, spelled
from isa.folders import replacing

FIELDS = (
    "instructions", "thread_instructions", "thread_instructions_pred_on", "branches", "divergent_branches",
    "shared_wavefronts", "shared_wavefronts_excessive", "requests", "sectors", "sectors_ideal", "cycles", "energy_j",
)  # fmt: skip
"""Fields of each instruction's `gpusim.results.analysis.InstructionCosts` in the document, in order, before stalls."""
_LARGE = frozenset({"configuration", "source_lines", "instructions"})
"""Of the result's document what the page has in fewer characters."""


def make_document(
    result: Analysis,
    title: str | None = None,
    *,
    kernel: str | None = None,
    sections: Collection[str] = (),
    index: str | None = None,
) -> dict[str, Any]:
    """The document, of plain Python values: what `to_dict` of the result has but for `_LARGE`, and what the page needs
    besides.

    kernel: its full name. sections: the only ones to show, by the names in `NAMES`; none for all. index: the page
    that lists this one.
    """
    gpu, launch = result.record.config.gpu, result.record.launch
    chosen = list(sections) or list(NAMES)
    coded = not {"source", "warps", "stepper"}.isdisjoint(chosen)
    numbers = [[each.label, spelled(each.value(result), each.unit, "µ")] for each in shown(FACTS)]
    sizes = {"Grid": launch.grid, "Block": launch.block}
    return to_dict(result, _LARGE) | {
        "title": title or result.kernel,
        "kernel": kernel or result.kernel,
        "index": index,
        "shown": chosen,
        "facts": [
            *numbers,
            ["GPU", f"{gpu.name}, {gpu.arch}, {gpu.clock_mhz:,.0f} MHz"],
            *([name, "\u00d7".join(f" {each:,} " for each in size).strip()] for name, size in sizes.items()),
            ["Registers/thread", f"{result.record.program.registers}"],
        ],
        "sure": str(result.interval or sentences.mode(result)),
        "words": {name: [each.title, each.about] for name, each in SECTIONS.items()},
        "sections": make_sections(result),
        "filling": make_occupancy(result),
        **make_code(result),
        **({} if coded else {"code": [], "source": []}),
        "warps": make_warps(result.trace) if "warps" in chosen else None,
        "trace": make_steps(result.trace) if "stepper" in chosen else None,
    }


def make_code(result: Analysis) -> dict[str, Any]:
    """The document's `code`, instructions with their costs, and `source`, the lines around them; and the names of
    costs and stalls."""
    span: dict[str, tuple[int, int]] = {}
    rows = []
    for each in result.instructions:
        where = -1
        if each.file is not None and each.line is not None:
            first, last = span.get(each.file, (each.line, each.line))
            span[each.file] = min(first, each.line), max(last, each.line)
            where = list(span).index(each.file)
        waits = [value for name, n in each.stalls.items() for value in (L.STALLS.index(name), n)]
        rows.append([each.address, each.text, where, each.line or 0, [getattr(each, f) for f in FIELDS], waits])
    text = result.record.program.source
    source = [
        {"name": Path(file).name, "first": first, "lines": text.get(file, [])[first - 1 : last]}
        for file, (first, last) in span.items()
    ]
    stalls = [[name, STALL_MEANINGS[name], *(stall_dye(name) or ())] for name in L.STALLS]
    return {"code": rows, "source": source, "fields": list(FIELDS), "stalls": stalls}


MODULES = ("format", "sections", "roofline", "occupancy", "beside", "source", "access", "registers", "warps", "stepper")
"""Modules by name; `main` comes last and imports them."""
MARK = "<!-- launches -->"
"""Stands in a page that is one of several until all launches are known, see `index.put_above`."""


def render(result: Analysis, title: str | None = None, **more: Any) -> str:
    """The whole page. `title`: what was run, by default the kernel's name; more: as for `make_document`."""
    document = make_document(result, title, **more)
    return render_document(document, "main", MODULES, MARK if document["index"] else "")


def render_document(document: dict[str, Any], main: str, modules: Iterable[str] = ("format",), above: str = "") -> str:
    """A page for a document with a title: the module `main` draws it with others. above: what stands over its head."""
    urls = {f"gpusim/{name}": module_url(name, asset(f"js/{name}.js")) for name in modules}
    return filled(
        asset("template.html"),
        title=html.escape(document["title"]),
        style=asset("style.css"),
        launches=above,
        imports=json.dumps({"imports": urls}),
        main=asset(f"js/{main}.js"),
        data=json_for_script(document),
    )


def filled(page: str, **texts: str) -> str:
    """A page with texts in place of its marks, such as `{{title}}`; what they bring along is no mark."""
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: texts[mark[1]], page)


def write(result: Analysis, path: str | os.PathLike[str], title: str | None = None, **more: Any) -> Path:
    """Write the page and return its path. Raises OSError if that cannot be done."""
    with replacing(path) as part:
        part.write_text(render(result, title, **more), "utf-8")
    return Path(path)


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
