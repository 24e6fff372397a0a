"""What pages of the site are made of besides their text: where a page says `<!-- made: NAME -->`, the Markdown of a
function here takes its place when the site is built. A code host shows nothing there."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from docs.site.reports import REPORTS, file_of

ROOT = Path(__file__).resolve().parents[2]
MARK = re.compile(r"<!-- made: ([a-z]+) -->$", re.MULTILINE)
NAMED_BY_FILE = re.compile(r"\[[\w/.-]+\.md\](?=\([\w/.#-]+\))")


def with_made(text: str) -> str:
    """A page with what its marks stand for, and titles for links that show a file's name.

    Raises KeyError for a mark that nothing is made for.
    """
    return NAMED_BY_FILE.sub("[]", MARK.sub(lambda mark: MADE[mark[1]](), text))


def commands() -> str:
    """The help text of every command, and of what it is divided into."""
    from gpusim.cli import make_parser

    with mock.patch.dict("os.environ", {"COLUMNS": "100", "NO_COLOR": "1"}):
        told = [(parser.prog, parser.format_help()) for parser in _parsers(make_parser())]
    return "\n\n".join(f"## {name}\n\n```text\n{text}```" for name, text in told)


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from _parsers(each)


def configuration() -> str:
    """Every key of a configuration: its meaning, the H200's value and where that comes from."""
    from gpusim.config import GPUConfig, describe_keys, load_config

    config = load_config("h200")
    values, parts = dict(config.items()), []
    for section, field in GPUConfig.model_fields.items():
        parts.append(f"## {section}\n\n{' '.join((field.annotation.__doc__ or '').split())}\n\n")
        parts.append("| key | h200 | what it is | source |\n|---|---|---|---|\n")
        for key, meaning in describe_keys().items():
            if key.startswith(section + "."):
                value = str(values[key])
                shown = value if len(value) < 60 else f"{len(values[key])} values"
                cells = f"`{key}`", shown, meaning, config.source(key)
                parts.append("| " + " | ".join(_cell(each) for each in cells) + " |\n")
        parts.append("\n")
    return "".join(parts)


def _cell(text: str) -> str:
    return re.sub(r"[|*_<\[](?![^`]*`(?:[^`]*`[^`]*`)*[^`]*$)", r"\\\g<0>", " ".join(text.split()))


def reports() -> str:
    """The reports that the site has, with what each program teaches and, in italics, what to look at."""
    from programs import registry

    return "\n".join(
        f'- <a href="../reports/{file_of(program)}">{program}</a>: {registry.get(program).teaches} *{look}*'
        for program, look in REPORTS.items()
    )


def gallery() -> str:
    """Every picture of docs/figures.md, small, as a link to where it is explained."""
    heading, found = "", []
    for line in (ROOT / "docs" / "figures.md").read_text("utf-8").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif picture := re.match(r"!\[.*\]\((figures/\w+\.png)\)$", line):
            anchor = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
            found.append(f"[![{heading}]({picture[1]})](#{anchor})")
    return "```{container} gallery\n" + "\n".join(found) + "\n```"


def lessons() -> str:
    """The notebooks in the navigation, below the page that lists them."""
    return "```{toctree}\n:hidden:\n:glob:\n\n[0-9]*\n```"


def play() -> str:
    """The page of Play that needs no server."""
    return '<a href="../play.html">Play now, in this site</a>: banks, sectors, branches and the shape of a block.'


def quantities() -> str:
    """Every number of a result, from the table of what is shown."""
    from gpusim.results.quantities import reference

    return reference()


def arrays() -> str:
    """Every array of the engine's state; of a record, what the names of its columns begin with."""
    from gpusim.engine.state.arrays import ARRAYS, Record

    parts = ["| array | elements | shape | owner | what it is |\n|---|---|---|---|---|\n"]
    for each in ARRAYS:
        shape = ", ".join(f"{part.prefix}*" if isinstance(part, Record) else str(part) for part in each.shape)
        parts.append(f"| `{each.name}` | {each.dtype.__name__} | {_cell(shape)} | {each.owner} | {each.meaning} |\n")
    return "".join(parts)


MADE = {each.__name__: each for each in (arrays, commands, configuration, quantities, reports, gallery, lessons, play)}
