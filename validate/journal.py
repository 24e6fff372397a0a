"""The journal of a long comparison: one row a point, in the format of sweeps (`gpusim.explore.journal`).

Its header says what the rows depend on beside the simulator's sources: configuration, machine code, baselines, and
which counters are compared. Another comparison than that is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gpusim
from gpusim.config import load_config
from gpusim.explore.journal import FORMAT, Journal, JournalError, read_journal, sources_digest
from programs import images
from validate import baseline, score
from validate.points import ProgramPoint, select

_HERE = Path(__file__).parent


def open_journal(
    path: Path, gpu: str, baseline_of: str, overrides: Sequence[str], files: Sequence[Path] | None = None,
    warm: bool = False,
) -> Journal:  # fmt: skip
    """The journal of a comparison, new or as it was left. files: what was measured, and of what; by default images and
    baselines. warm: whether rows have warm launches too. Raises JournalError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if files is None:
        files = [images.INDEX, *sorted((baseline.FOLDER / baseline_of).rglob("*.json"))]
    return Journal(path, _header(gpu, files, overrides, warm), resume=True)


def read(
    path: Path, point_of: Callable[[str], ProgramPoint] = ProgramPoint.parse
) -> tuple[dict[str, Any], list[score.Row]]:
    """Header and rows of a journal. Raises JournalError."""
    try:
        header, lines = read_journal(path)
        return header, [score.row_of(each, point_of) for each in lines]
    except OSError as error:
        raise JournalError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise JournalError(f"{path} is no journal of compare, or of a version that told less: {error}") from None


def rows_of(path: Path, gpu: str = "h200") -> tuple[list[score.Row], str]:
    """The rows of a journal, and what is to be known of them: '' if they are of the shipped GPU and today's sources.
    Raises JournalError."""
    header, rows = read(path)
    if not rows:
        return rows, "the journal is empty"
    notes = [f"configuration {header['of']}"] if header["of"] != gpu else []
    if header["sources"] != sources_digest():
        notes.append("made with other sources of the simulator than there are now")
    return rows, "; ".join(notes)


def _header(gpu: str, files: Sequence[Path], overrides: Sequence[str], warm: bool) -> dict[str, Any]:
    """Return what all rows of a journal depend on."""
    digest = hashlib.blake2b(json.dumps(load_config(gpu, overrides).to_dict(), sort_keys=True).encode(), digest_size=16)
    for path in (_HERE / "replay.py", _HERE / "metrics.py", *files):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    digest.update(b"warm" * warm)
    return {
        "journal": "gpusim sweep",
        "format": FORMAT,
        "gpusim": gpusim.__version__,
        "sources": sources_digest(),
        "points": len(select()),
        "space": digest.hexdigest(),
        "of": " ".join((gpu, *overrides)),
    }
