"""One run of a sweep: a program with its parameters on a GPU with its changes. Plain values only."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gpusim.errors import ConfigError
from gpusim.workload.request import BUNDLED_PARAMETERS, OWN_PARAMETERS

PARAMETERS = tuple(dict.fromkeys([*BUNDLED_PARAMETERS, *OWN_PARAMETERS, "model", "weight"]))
"""What a point can set beside its machine: parameters of programs and the model, under the names of `gpusim run`; and
how often a workload launches it, which is for `gpusim compare` alone."""

Pairs = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, init=False)
class Point:
    """One run; hashable, and as JSON the same everywhere.

    program: a bundled variant ("matmul/tiled"), FILE.py:KERNEL, or a compiled file. gpu: a shipped name or the path of
    a TOML file. config: changes to it, (dotted key, value). parameters: of the program, (name, value): size and seed;
    for a kernel of the user's grid, block and args as the command line spells them, and so on. Mappings are taken
    too; both are kept as pairs in the order of their names.
    """

    program: str
    gpu: str = "h200"
    config: Pairs = ()
    parameters: Pairs = ()

    # Written out because it accepts more types than the fields hold.
    def __init__(
        self,
        program: str,
        gpu: str = "h200",
        config: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
        parameters: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
    ) -> None:
        fields = {"program": program, "gpu": gpu, "config": _pairs(config), "parameters": _pairs(parameters)}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @cached_property
    def key(self) -> str:
        """The point's identity in a journal: 32 hexadecimal digits, a digest of everything in it."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """The point as plain values, also after a journey through JSON: `Point(**values)` is equal."""
        plain = {"program": self.program, "gpu": self.gpu}
        return plain | {"config": dict(self.config), "parameters": dict(self.parameters)}

    def columns(self) -> dict[str, Any]:
        """Return the first columns of the point's row: what the point is."""
        return {"key": self.key, "program": self.program, "gpu": self.gpu} | dict(self.parameters) | dict(self.config)

    def __str__(self) -> str:
        changes = [f"{name}={value}" for name, value in (*self.parameters, *self.config)]
        return " ".join([self.program, "on", self.gpu, *changes])


def _pairs(given: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> Pairs:
    items = given.items() if isinstance(given, Mapping) else given
    return tuple(sorted((str(name), plain(value)) for name, value in items))


def plain(value: Any) -> Any:
    """A value that is hashable and survives JSON: NumPy's numbers as Python's, lists as tuples. Raises ConfigError."""
    if isinstance(value, list | tuple):
        return tuple(plain(each) for each in value)
    if not isinstance(value, bool | int | float | str) and hasattr(value, "item"):
        value = value.item()
    if not isinstance(value, bool | int | float | str):
        raise ConfigError(f"a value of a point is a number, a text, true, false or a list of those, not {value!r}")
    if isinstance(value, float):
        value = float(value)  # numpy.float64 is one, but prints as itself
        if value != value or value in (float("inf"), float("-inf")):
            raise ConfigError(f"a value of a point is finite, not {value}")
    return value
