"""Where a configuration's values come from, counted: how much of a GPU is known and how much is not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from gpusim.config.load import own_sources
from gpusim.config.models import describe_keys

KINDS = ("spec", "microbenchmark", "reported", "fitted", "assumed")
"""What a source begins with; h200.toml says what each means."""


@dataclass(frozen=True)
class SourceCounts:
    """own: how many values the file itself gives, by kind of source. base: what gives the others. inherited: how many
    these are; their sources speak of the base, so for this GPU they are assumptions unless the base's are specified for
    both."""

    own: dict[str, int]
    base: str | None
    inherited: int


def provenance(config: str | Path) -> SourceCounts:
    """Count the sources of a file's own values. Raises ConfigError for a file that cannot be read."""
    sources, base = own_sources(config)
    counts = Counter(source.partition(":")[0] for source in sources.values())
    own = {kind: counts.pop(kind, 0) for kind in KINDS} | dict(counts)
    return SourceCounts(own, base, len(describe_keys()) - len(sources))
