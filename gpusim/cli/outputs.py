"""Output of several commands: JSON, columns, pictures."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gpusim.cli.parser import UserError
from gpusim.results import SCHEMA_VERSION


def print_json(document: Any) -> None:
    """Print it as --json does."""
    print(json.dumps(document, indent=2))


def versioned(document: dict[str, Any]) -> dict[str, Any]:
    """It, after the version of its schema."""
    return {"schema_version": SCHEMA_VERSION} | document


def cell(value: Any) -> str:
    """A value in a table: numbers with four digits at least where there are any, those of thousands apart."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return "-" if value is None else str(value) if isinstance(value, str | bool) else f"{value:,}"


def columns(table: Iterable[Sequence[Any]], align: str = "<") -> str:
    """Rows of values as lines; align: of each column, the last one for all that follow."""
    rows = [[cell(value) for value in row] for row in table]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = align + align[-1] * len(widths)
    return "\n".join(
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=False)).rstrip()
        for row in rows
    )


def check_writable(path: str | Path, option: str = "--report", *endings: str) -> None:
    """Refuse before a long run what can only fail after it. endings: that the file's name may have, if not any."""
    target = Path(path)
    if endings and target.suffix not in endings:
        raise UserError(f"{option} {path}: the file's name ends in {' or '.join(endings)}")
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise UserError(f"{option} {path}: {'is a folder' if target.is_dir() else 'no such folder'}")
    if not os.access(target.absolute().parent, os.W_OK):
        raise UserError(f"{option} {path}: no permission to write into its folder")


def save_picture(kind: str, of: Any, path: Path, **options: Any) -> None:
    """Draw a picture, by the name of its function in `gpusim.plot`, and write it. Raises UserError where that fails."""
    from gpusim import plot

    try:
        plot.save(getattr(plot, kind)(of, **options), path)
    except (OSError, ValueError) as error:
        raise UserError(f"--plot {path}: {error}") from None
