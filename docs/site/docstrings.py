"""Docstrings of this project as Sphinx reads them: parameters from their plain lines, code spans, links to pages."""

from __future__ import annotations

import re

PARAMETER = re.compile(r"[a-z_]\w*(, \w+)*: \S")
"""How a line that explains parameters begins: `grid, block: ...`."""


def as_rst(text: str) -> str:
    """A docstring with `name: meaning` lines as an `Args` section, and its Markdown code spans as reStructuredText."""
    paragraphs = [_arguments(each) for each in re.split(r"\n{2,}", text)]
    return "\n\n".join(_spans(each) for each in paragraphs)


def _arguments(paragraph: str) -> str:
    """A paragraph that begins with the meaning of a parameter, as a section that Napoleon knows."""
    lines = paragraph.split("\n")
    if not PARAMETER.match(lines[0]):
        return paragraph
    indented = [" " * (4 if PARAMETER.match(each) else 8) + each.lstrip() for each in lines]
    return "\n".join(["Args:", *indented])


def _spans(text: str) -> str:
    """`code` as code whatever follows it, names of gpusim's and isa's as links, docs/page.md as a link to that page."""
    pieces = re.split(r"(``?[^`]+``?)", text)
    for place, piece in enumerate(pieces):
        if place % 2:
            code = " ".join(piece.strip("`").split())
            piece = f":py:obj:`{code}`" if re.fullmatch(r"(gpusim|isa)(\.\w+)+", code) else f"``{code}``"
            pieces[place] = piece + (r"\ " if re.match(r"\w", pieces[place + 1]) else "")
        else:
            plain = re.sub(r"(?<=\w)_(?!\w)|[*|]", r"\\\g<0>", piece)
            pieces[place] = re.sub(r"\bdocs/([\w-]+)\.md", r":doc:`/docs/\1`", plain)
    return "".join(pieces)
