"""A new configuration file: a base, what differs from it, and comments that say what each value means."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from gpusim.config.keys import toml_value
from gpusim.config.load import diff, load_config, shipped_names
from gpusim.config.models import GPUConfig, describe_keys
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
    after = load_config(base, overrides)
    changed = {key: pair[1] for key, pair in diff(before, after).items() if key != "gpu.name"}
    lines = [
        f"#:schema {FILE_NAME}",
        f"# {name}: what differs from {before.gpu.name}.",
        f"# `gpusim config check {path.name}` says what follows from it, `gpusim config keys` what else there is.",
        f"base = {toml_value(_base_from(base, path))}",
        "",
        "[gpu]",
        f"name = {toml_value(name)}",
    ]
    if changed:
        for key, value in changed.items():
            lines += _line(lines, before, key, f"{toml_value(value)}")
    else:
        for key in _OFTEN:
            lines += _line(lines, before, key, toml_value(dict(before.items())[key]), comment="# ")
    lines += ["", "# A value may carry where it comes from:", '# count = { value = 132, source = "spec: data sheet" }']
    return "\n".join(lines) + "\n"


def _line(lines: list[str], before: GPUConfig, key: str, value: str, comment: str = "") -> list[str]:
    table, last = key.rsplit(".", 1)
    head = [] if _table_of(lines) == table else ["", f"[{table}]"]
    was = "" if comment else f"; {toml_value(dict(before.items())[key])} in the base"
    return [*head, f"{comment}{last} = {value}  # {describe_keys()[key]}{was}"]


def _table_of(lines: list[str]) -> str | None:
    heads = [line for line in lines if line.startswith("[")]
    return heads[-1].strip("[]") if heads else None


def _base_from(base: str, path: Path) -> str:
    """The base as the file names it: a path is relative to the file."""
    if base in shipped_names():
        return base
    return Path(os.path.relpath(Path(base).expanduser().resolve(), path.resolve().parent)).as_posix()
