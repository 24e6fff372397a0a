"""A new configuration file: a base, what differs from it, and comments that say what each value means."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from gpusim.config.keys import toml_value
from gpusim.config.load import diff, load_config, shipped_names
from gpusim.config.models import describe_keys
from gpusim.config.schema import FILE_NAME
from gpusim.errors import ConfigError

_OFTEN = ("sm.count", "l2.bytes", "dram.bandwidth_gb_s", "dram.channels")
"""What a file that changes nothing yet offers, commented out."""


def new_file(name: str, base: str, overrides: Iterable[str], path: Path) -> str:
    """Text of a short configuration file called `name`, to be written to `path`.

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
        line = f"{last} = {toml_value(value)}  # {meaning[key]}"
        line = f"{line}; {toml_value(values[key])} in the base" if changed else f"# {line}"
        tables.setdefault(table, []).append(line)
    head = [
        f"#:schema {FILE_NAME}",
        f"# {name}: what differs from {before.gpu.name}.",
        f"# `gpusim config check {path.name}` says what follows from it, `gpusim config keys` what else there is.",
        f"base = {toml_value(_base_from(base, path))}",
    ]
    tail = ["# A value may carry where it comes from:", '# count = { value = 132, source = "spec: data sheet" }']
    parts = [head, *([f"[{table}]", *lines] for table, lines in tables.items()), tail]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _base_from(base: str, path: Path) -> str:
    """The base as the file names it: a path is relative to the file."""
    if base in shipped_names():
        return base
    return Path(os.path.relpath(Path(base).expanduser().resolve(), path.resolve().parent)).as_posix()
