"""The control field of a 128-bit instruction (Volta and later): what the compiler tells the scheduler.

Bit positions agree between Mesa's NAK compiler, CuAssembler and the listings of sm_75 to sm_120.
"""

from __future__ import annotations

from dataclasses import dataclass

NO_BARRIER = 7
"""Value of `Control.write_barrier` and `Control.read_barrier` that means that no scoreboard is set."""


@dataclass(frozen=True, slots=True)
class Control:
    """Scheduling bits of one instruction.

    Attributes:
        stall: cycles before the same warp may issue its next instruction (0..15).
        yield_flag: True when the scheduler is advised to switch to another warp after this instruction.
        write_barrier: scoreboard (0..5) that is released when the result has been written, 7 = none.
        read_barrier: scoreboard (0..5) that is released when the source registers have been read, 7 = none.
        wait_mask: bit i set = wait until scoreboard i is zero before issuing.
        reuse: bit i set = keep source slot i (0 = Ra, 1 = Rb, 2 = Rc) in the operand reuse cache.
    """

    stall: int
    yield_flag: bool
    write_barrier: int
    read_barrier: int
    wait_mask: int
    reuse: int


def decode_control(encoding: int) -> Control:
    """Read the control bits (105..125) of a 128-bit encoding.

    The yield bit (109) is stored inverted: 0 asks for a switch to another warp. Two facts of ptxas's output
    say so: a switch would void the operand reuse cache, and of the instructions that keep an operand there
    none has the bit clear; and every stall of 12 cycles or more has it clear (Jia et al., "Dissecting the
    NVIDIA Volta GPU Architecture via Microbenchmarking", 2018, describe the same polarity).
    """
    bits = encoding >> 105
    return Control(
        stall=bits & 0xF,
        yield_flag=not bits >> 4 & 1,
        write_barrier=bits >> 5 & 0x7,
        read_barrier=bits >> 8 & 0x7,
        wait_mask=bits >> 11 & 0x3F,
        reuse=bits >> 17 & 0xF,
    )
