"""The rows that the engine runs of a program, once for each program and machine that times them differently."""

from __future__ import annotations

from gpusim.config import GPUConfig
from gpusim.engine.retime import changes, retimed
from isa import Program
from isa.lower import Lowered, lower

_MOST_RETIMED = 16


def lowered_once(program: Program, config: GPUConfig) -> Lowered:
    """The program's rows, timed for the machine; from the last time if its instructions are the same, since constants
    may have changed."""
    lowered = program.once("rows", lambda: lower(program))
    if not (later := changes(config, program.arch)):
        return lowered
    kept: dict[tuple[tuple[int, int], ...], Lowered] = program.once("retimed rows", dict)
    key = tuple(later.items())
    if key not in kept:
        if len(kept) == _MOST_RETIMED:
            del kept[next(iter(kept))]
        kept[key] = retimed(lowered, later)
    return kept[key]
