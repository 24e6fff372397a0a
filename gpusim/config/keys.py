"""Dotted keys and their values as text: the unit that a key's name carries, the key that was meant, TOML."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

from gpusim.errors import ConfigError

_UNITS = {
    "cycles": "SM clock cycles",
    "bytes": "bytes",
    "mhz": "MHz",
    "us": "microseconds",
    "gbit_s": "10^9 bits a second",
    "gb_s": "10^9 bytes a second",
    "bytes_per_cycle": "bytes per SM clock cycle",
}
_OTHER_UNITS = (
    r"ns|us|ms|s|seconds|clk|clocks|cycle|ghz|hz|khz|kb|kib|mb|mib|gb|gib|tb|byte|bits|gbps|tb_s|gib_s|mb_s"
)
_UNIT = re.compile(rf"_(bytes_per_cycle|gb_s|gbit_s|cycles|bytes|mhz|{_OTHER_UNITS})$")


def unit_of(key: str) -> str:
    """The unit that a key's name carries, such as 'SM clock cycles'; '' where it has none."""
    unit = _UNIT.search(key.replace(".", "_"))
    return _UNITS.get(unit[1], "") if unit else ""


def unknown(key: str, keys: Mapping[str, str], where: str | None = None) -> ConfigError:
    """The error for a dotted key that is not among `keys`; it names the nearest one, and the unit if that is what
    differs."""
    stem = _UNIT.sub("", key)
    for known in keys:
        unit = _UNIT.search(known)
        if unit and known != key and _UNIT.sub("", known) == stem:
            meant = _UNITS.get(unit[1], unit[1])
            return ConfigError(f"wrong unit, the key counts {meant}", key=key, suggestion=known, where=where)
    sections = sorted({known[: i.start()] for known in keys for i in re.finditer(r"\.", known)})
    if key in sections:
        inside = next(known for known in keys if known.startswith(key + "."))
        return ConfigError("is a section, not a value", key=key, suggestion=inside)
    close = difflib.get_close_matches(key, keys, n=1, cutoff=0.6)
    if not close:
        # A key in the wrong section, or without one.
        last = key.rsplit(".", 1)[-1]
        tails = {known.rsplit(".", 1)[-1]: known for known in reversed(list(keys))}
        close = [tails[t] for t in difflib.get_close_matches(last, tails, n=1, cutoff=0.6)]
    reason = "unknown key" if close else f"unknown key; the sections are {', '.join(sections)}"
    return ConfigError(reason, key=key, suggestion=close[0] if close else None, where=where)


def toml_value(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(toml_value(part) for part in value) + "]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(c if c >= " " and c != "\x7f" else f"\\u{ord(c):04x}" for c in escaped) + '"'
    return repr(value)
