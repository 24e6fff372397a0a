"""Configuration files from outside: a new one with comments, and counts of their sources."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from gpusim.config.load import Overrides, diff, load_config, own_sources, shipped_names
from gpusim.config.models import describe_keys, toml_value
from gpusim.errors import ConfigError

_OFTEN = ("sm.count", "l2.bytes", "dram.bandwidth_gb_s", "dram.channels")
"""Keys that a new file offers, commented out."""


def new_file(name: str, base: str, overrides: Overrides, path: Path, sources: Mapping[str, str] | None = None) -> str:
    """Text of a short configuration file called `name`, to be written to `path`; sources: of values that have one.

    Raises ConfigError for an unknown base, a bad override, or a name that a shipped configuration has.
    """
    if path.stem in shipped_names():
        raise ConfigError(f"{path.stem!r} is a shipped configuration; a file of another name can be told from it")
    before = load_config(base)
    values, meaning = dict(before.items()), describe_keys()
    changed = {key: pair[1] for key, pair in diff(before, load_config(base, overrides)).items() if key != "gpu.name"}
    tables = {"gpu": [f"name = {toml_value(name)}"]}
    for key, value in (changed or {key: values[key] for key in _OFTEN}).items():
        table, last = key.rsplit(".", 1)
        said, source = toml_value(value), (sources or {}).get(key)
        said = f"{{ value = {said}, source = {toml_value(source)} }}" if source else said
        line = f"{last} = {said}  # {meaning[key]}"
        line = f"{line}; {toml_value(values[key])} in the base" if changed else f"# {line}"
        tables.setdefault(table, []).append(line)
    head = [
        f"# {name}: what differs from {before.gpu.name}.",
        f"# `gpusim config check {path.name}` says what follows from it, `gpusim config keys` what else there is.",
        f"base = {toml_value(_base_from(base, path))}",
    ]
    tail = ["# A value may carry where it comes from:", '# count = { value = 132, source = "spec: data sheet" }']
    parts = [head, *([f"[{table}]", *lines] for table, lines in tables.items()), tail]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _base_from(base: str, path: Path) -> str:
    """The base as the file names it: a path is relative to the file."""
    if base.lower() in shipped_names() and not Path(base).is_file():
        return base.lower()
    return Path(os.path.relpath(Path(base).expanduser().resolve(), path.resolve().parent)).as_posix()


KINDS = ("spec", "microbenchmark", "reported", "fitted", "assumed")
"""First words of sources; h200.toml says what each means."""


def provenance(config: str | Path) -> tuple[dict[str, int], str | None, int]:
    """Return how many values a file itself gives, by kind of source, what gives the others, and how many these are:
    their sources speak of the base, so for this GPU they are assumptions unless the base's are specified for both.
    Raises ConfigError for a file that cannot be read."""
    sources, base = own_sources(config)
    counts = Counter(source.partition(":")[0] for source in sources.values())
    own = {kind: counts.pop(kind, 0) for kind in KINDS} | dict(counts)
    return own, base, len(describe_keys()) - len(sources)
