"""The user's sentence for what a compiler says of a mistake: `mistakes.toml` has the two side by side."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_suffix(".toml")
_read = cache(lambda table: tomllib.loads(table.read_text("utf-8")))


def told(
    said: str, lines: Mapping[int, str], line: int | None, table: Path = TABLE, facts: Mapping[str, Any] = {}
) -> tuple[str | None, int | None]:
    """Return the sentence for a message, None if no row of the table fits, and the line that it is about.

    lines: the source by number. line: that the message names. facts: what a sentence may name besides the groups of its
    row.
    """
    rows = ((row, found) for row in _read(table)["mistake"] if (found := re.search(row["says"], said, re.MULTILINE)))
    row, found = next(rows, ({}, None))
    if found is None:
        return None, line
    groups = {name: _plain(name, text or "", _read(table).get("type", ())) for name, text in found.groupdict().items()}
    sentence, known, where = row["told"].format_map({**facts, **groups}), row.get("known", ""), row.get("where")
    if name := groups.get("name"):
        words = {*re.findall(r"[A-Za-z_]\w*", " ".join(lines.values())), *known.split()} - {name}
        sentence += "".join(f"; did you mean {each}?" for each in difflib.get_close_matches(name, sorted(words), 1))
    if "at" in row and (line is None or where):
        pattern = row["at"].replace("{name}", groups.get("name", "")).replace("{function}", groups.get("function", ""))
        fits = [n for n, text in lines.items() if re.search(pattern, text) and (where != "back" or n < (line or n))]
        line = next(iter(fits[-1:] if where in ("back", "last") else fits), line)
    return sentence, line


def _plain(name: str, text: str, types: Any) -> str:
    """A group of a message as a user reads it."""
    for row in types:
        text = re.sub(row["says"], row["told"], text)
    return f"{int(text, 16):,}" if name.startswith("hex") else text
