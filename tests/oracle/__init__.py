"""An obvious interpreter of single instructions: one lane at a time, from what the manuals say, never fast.

It shares the decoder of instructions with the simulator and nothing else. Reading order: lane.py is what an instruction
sees; integers.py, floating.py, conversions.py, later.py, memory.py and atomics.py say what each opcode means, on
floats.py, which is IEEE 754 in exact fractions; lanes_between.py and matrices.py have whole warps whose lanes see each
other, functions.py what approximate functions may give. replay.py has recorded and written forms for the executors,
kernel.py puts an instruction into a kernel.
"""

from isa.instruction import Instruction
from tests.oracle import atomics, conversions, floating, integers, later, memory
from tests.oracle.lane import Lane, Undefined, View

_VECTOR = (
    "MOV SEL IADD3 IMAD LEA LOP3 SHF BMSK SGXT PRMT ISETP PLOP3 POPC FLO BREV IABS IMNMX VIMNMX VIADD FADD FMUL FFMA"
    " FMNMX FSEL FSET FSETP F2I I2F I2FP FRND F2F F2FP IADD"
)
UNIFORM = {"U" + name: name for name in _VECTOR.split()} | {"UP2UR": "P2R", "UR2UP": "R2P"}
"""Uniform opcodes and the vector ones that mean the same."""
_GROUPS = (integers, floating, conversions, later, memory, atomics)
MEANINGS = {name: meaning for group in _GROUPS for name, meaning in group.MEANINGS.items()}
MEANINGS |= {uniform: MEANINGS[vector] for uniform, vector in UNIFORM.items()}
_NO_RESULT = {name for group in _GROUPS for name in group.NO_RESULT}
_NO_RESULT |= {uniform for uniform, vector in UNIFORM.items() if vector in _NO_RESULT}


def execute(instruction: Instruction, lane: Lane) -> None:
    """Carry out one instruction, guard and all, on one lane.

    Raises:
        KeyError: the opcode has no meaning here.
        Undefined: this form of it is not documented.
    """
    meaning = MEANINGS[instruction.opcode]
    view = View(instruction, lane, instruction.opcode not in _NO_RESULT)
    file = lane.uniform_predicates if instruction.guard_uniform else lane.predicates
    if (instruction.guard == 7 or file[instruction.guard]) != instruction.guard_negated:
        meaning(view)


__all__ = ["MEANINGS", "UNIFORM", "Lane", "Undefined", "execute"]
