"""The rows that the engine runs of a program, once for each program and machine that times them differently."""

from __future__ import annotations

from collections import OrderedDict

from gpusim.config import GPUConfig
from gpusim.engine.retime import changes, retimed
from isa import Program
from isa.instruction import Instruction
from isa.lower import Lowered, lower

_lowered: OrderedDict[tuple[int, tuple[tuple[int, int], ...]], tuple[tuple[Instruction, ...], Lowered]] = OrderedDict()
_MOST_LOWERED = 128


def lowered_once(program: Program, config: GPUConfig) -> Lowered:
    """The program's rows, timed for the machine; from the last time if its instructions are the same objects, since
    constants may have changed."""
    later = changes(config, program.arch)
    key = id(program.instructions), tuple(later.items())
    if key not in _lowered:
        lowered = retimed(lower(program), later)
        _lowered[key] = program.instructions, lowered  # keeps the instructions, so nothing else gets their id
        if len(_lowered) > _MOST_LOWERED:
            _lowered.popitem(last=False)
    _lowered.move_to_end(key)
    return _lowered[key][1]
