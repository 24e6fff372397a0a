"""Keeping a recording: what `measure.py` wrote, in a form small enough for the repository.

A grid is a list of six numbers: first and last start, first and last end in ns, blocks, SMs; where every block is kept,
`[[sm, start, end], ...]` of all. Three repetitions of five stay.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "h200.json.gz"
BRIEF = ("first_start", "last_start", "first_end", "last_end", "blocks", "sms")
REPEATS = 3
WHOLE = ("two_kernels_fit", "leftover", "mixed", "fillers", "places", "held_free")
"""Experiments of which every block is kept."""
LONGEST = 1024
"""Lists of page by page times that are longer are not kept."""


def shorten(found: Any, whole: bool) -> Any:
    """Kernels as lists, and no more than three repetitions; what else there is stays."""
    if isinstance(found, dict):
        if set(found) == {"sm", "start", "end"}:
            sms, starts, ends = found["sm"], found["start"], found["end"]
            if whole:
                return [list(each) for each in zip(sms, starts, ends, strict=True)]
            return [min(starts), max(starts), min(ends), max(ends), len(sms), len(set(sms))]
        if set(found) == set(BRIEF):
            return [found[key] for key in BRIEF]
        logs = [key for key in ("came_ns", "each_ns") if len(found.get(key, ())) > LONGEST]
        return {key: shorten(value, whole) for key, value in found.items() if key not in logs}
    if isinstance(found, list) and found and isinstance(found[0], dict):
        return [shorten(each, whole) for each in found if not each.get("late")][:REPEATS]
    if isinstance(found, list):
        return [shorten(each, whole) for each in found]
    return round(found, 1) if isinstance(found, float) else found


def keep(paths: list[Path], target: Path = RESULTS) -> None:
    """Add recordings of one GPU to what is kept; of an experiment that several have, the last one's."""
    kept: dict[str, Any] = load(target) if target.exists() else {"about": {}, "experiments": {}}
    for path in paths:
        document = json.loads(path.read_text("utf-8"))
        kept["about"] = document["about"] | kept["about"]
        kept["experiments"] |= {
            name: shorten(found, name in WHOLE) for name, found in document["experiments"].items()
        }
    target.parent.mkdir(exist_ok=True)
    text = json.dumps(kept, separators=(",", ":"))
    target.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def load(path: Path = RESULTS) -> dict[str, Any]:
    """A recording that was kept: {"about": ..., "experiments": {name: ...}}."""
    return json.loads(gzip.decompress(path.read_bytes()))
