"""The kernel around one instruction.

Every thread loads 32 bytes into R12..R15 and R4..R7, copies of the warp's lowest lane stand in the uniform registers
of the same numbers, bits 0..6 of R5 are in P0..P6 and their disjunction over the warp in UP0..UP6. R24..R27 and UR24,
UR25 are zero. Then comes the instruction. What a thread writes back is listed in `OUTPUT`.

A thread's memory operands are 32 bytes of its own, which hold its input: in global memory at R8:R9, where it was
loaded from, in shared memory at R2, in local memory at R3. R16 holds a small multiple of 4 from R14.
"""

from __future__ import annotations

from isa import compile_cuda
from isa.elf import Elf
from validate.instructions.encode import RA, RB, RC, RD, field, with_control

INPUT_BYTES = 32
OUTPUT = ("R24", "R25", "R26", "R27", "P", "UP", "UR24", "UR25") + ("shared",) * 8 + ("local",) * 8
"""The words that a thread writes, in order."""
OUTPUT_BYTES = 4 * len(OUTPUT)
SHARED_START = 0x400
"""Shared memory below belongs to the system on compute capability 9.0."""
_PARAMETERS = 0x210

_SOURCE = """
struct Words { unsigned w[16]; };
extern "C" __global__ void form(const float4 *in, float4 *out, Words words) {
    __shared__ float4 shared[256];
    float4 local[32];
    int t = threadIdx.x;
    float4 v[40];
    for (int k = 0; k < 40; ++k) v[k] = in[k * 32 + t];
    shared[t] = v[0];
    for (int k = 0; k < 32; ++k) local[k] = v[k];
    __syncthreads();
    float4 picked = local[words.w[t & 15] & 31];
    for (int k = 0; k < 40; ++k) { v[k].x += picked.x * shared[k ^ t].y; }
    for (int k = 0; k < 40; ++k) out[k * 32 + t] = v[39 - k];
}
"""


class Assembler:
    """Instructions of the fixed part: known encodings with their register fields replaced.

    Each waits for everything before it, so the order is all that matters.
    """

    def __init__(self) -> None:
        self.words: list[int] = []

    def put(self, bits: int, *, d: int = 255, a: int = 255, b: int | None = None, c: int | None = None) -> None:
        for at, value in ((RD, d), (RA, a), (RB, b), (RC, c)):
            if value is not None:
                bits = field(bits, at, 8, value)
        # A store has no result that a scoreboard could announce.
        self.words.append(with_control(bits, 11, write=7 if d == 0 and b is not None else 0, read=1, wait=0x3F))

    def fixed(self, bits: int) -> None:
        """An instruction of fixed latency, and time enough for its result to reach the other datapath too."""
        self.words += [with_control(each, 11, wait=0x3F) for each in (bits, _NOP)]


_S2R = 0x7919
_LDC = 0x00000800_00000000_00007B82
_LDC_64 = 0x00000A00_00000000_00007B82
_ULDC_64 = 0x00000A00_00000000_00007AB9
_LDG_128 = 0x0C1E1D00_00000000_00007981
_STG_128 = 0x0C101D00_00000000_00007986
_LDS_128 = 0x00000C00_00000000_00007984
_STS_128 = 0x00000C00_00000000_00007388
_LDL_128 = 0x00100C00_00000000_00007983
_STL_128 = 0x00100C00_00000000_00007387
_WIDE = 0x078E0000_00000000_00007825
_IMAD = 0x078E0000_00000000_00007824
_R2UR = 0x000E0000_00000000_000072CA
_R2P = 0x7804
_P2R = 0x7803
_VOTEU_ANY = 0x00000100_00000000_00007886
_UMOV = 0x7882
_USEL = 0x08000000_00000000_00007287
_LOP3_U = 0x0F8E0000_00000000_00007C12
_LOP3_I = 0x078E0000_00000000_00007812
_MOV = 0x00000F00_00000000_00007802
_NOP = 0x7918
_EXIT = 0x03800000_00000000_0000794D
_DESCRIPTOR = 30


def _constant(bits: int, offset: int) -> int:
    return field(bits, 38, 16, offset)


def _before(asm: Assembler) -> None:
    asm.put(field(_S2R, 72, 8, 0x21), d=0)
    asm.put(field(_S2R, 72, 8, 0x25), d=3)
    asm.put(_IMAD, d=0, a=3, b=32, c=0)
    asm.put(field(_S2R, 72, 8, 0x21), d=2)
    asm.put(field(_MOV, RB, 32, SHARED_START), d=17)
    asm.put(field(_IMAD, RB, 32, INPUT_BYTES), d=2, a=2, c=17)
    asm.fixed(_constant(field(_ULDC_64, RD, 8, _DESCRIPTOR) | 0xFF << RA, 0x208))
    asm.put(_constant(_LDC_64, _PARAMETERS), d=8)
    asm.put(_constant(_LDC_64, _PARAMETERS + 8), d=10)
    asm.put(_constant(_LDC, 0x28), d=3)
    asm.put(field(_WIDE, RB, 32, INPUT_BYTES), d=8, a=0, c=8)
    asm.put(field(_WIDE, RB, 32, OUTPUT_BYTES), d=10, a=0, c=10)
    asm.put(_LDG_128, d=12, a=8, b=_DESCRIPTOR)
    asm.put(field(_LDG_128, 40, 24, 16), d=4, a=8, b=_DESCRIPTOR)
    # The thread's cell in local memory; the stack grows downwards from the word at 0x28.
    asm.put(field(_MOV, RB, 32, -64), d=18)
    asm.put(field(_IMAD, RB, 32, 1), d=3, a=3, c=18)
    for at, first in ((0, 12), (16, 4)):
        asm.put(field(_STS_128, 40, 24, at), d=0, a=2, b=first)
        asm.put(field(_STL_128, 40, 24, at), d=0, a=3, b=first)
    # LOP3 with table 0xc0 is the conjunction, with 0xfc the disjunction of its first two operands.
    asm.put(field(field(_LOP3_I, RB, 32, 0x1C), 72, 8, 0xC0), d=16, a=14, c=255)
    for register in (12, 13, 14, 15, 4, 5, 6, 7):
        asm.put(_R2UR, d=register, a=register)
    asm.fixed(field(field(_R2P, RB, 32, 0x7F), RA, 8, 5))
    for k in range(7):
        asm.fixed(field(field(field(_VOTEU_ANY, 81, 3, k), 87, 3, k), RD, 8, 63))
    for register in (24, 25, 26, 27):
        asm.put(field(_MOV, RB, 32, 0), d=register)
    for register in (24, 25):
        asm.fixed(field(field(_UMOV, RD, 8, register), RB, 32, 0))


def _after(asm: Assembler) -> None:
    asm.fixed(_NOP)
    asm.fixed(field(field(field(_P2R, RB, 32, 0x7F), RA, 8, 255), RD, 8, 28))
    asm.put(field(_MOV, RB, 32, 0), d=29)
    for k in range(7):
        asm.fixed(field(field(_UMOV, RD, 8, 26), RB, 32, 1 << k))
        asm.fixed(field(field(field(field(_USEL, RD, 8, 26), RA, 8, 26), RB, 8, 63), 87, 3, k))
        asm.put(field(_LOP3_U, 72, 8, 0xFC), d=29, a=29, b=26, c=255)
    for register, uniform in ((30, 24), (31, 25)):
        asm.put(field(_LOP3_U, 72, 8, 0xFC), d=register, a=255, b=uniform, c=255)
    for k, (load, address) in enumerate(((_LDS_128, 2), (_LDL_128, 3))):
        for half in (0, 16):
            asm.put(field(load, 40, 24, half), d=32 + 8 * k + half // 4, a=address)
    for k in range(OUTPUT_BYTES // 16):
        asm.put(field(_STG_128, 40, 24, 16 * k), d=0, a=10, b=24 + 4 * k)
        asm.words[-1] = field(asm.words[-1], RC, 6, _DESCRIPTOR)
    asm.fixed(_EXIT)


def build() -> tuple[bytes, int]:
    """The cubin with a NOP in the place of the instruction, and that place's byte offset in the file.

    Raises:
        ToolchainMissing, ToolchainFailed: the tools that compile it are missing or refuse.
        ValueError: the compiled kernel leaves no room for the assembled one.
    """
    asm = Assembler()
    _before(asm)
    slot = len(asm.words)
    asm.fixed(_NOP)
    _after(asm)
    code = b"".join(word.to_bytes(16, "little") for word in asm.words)
    cubin = compile_cuda(_SOURCE, "sm_90")
    start, size = _code_range(cubin)
    if len(code) > size:
        raise ValueError(f"{len(code)} bytes of code do not fit into {size}")
    return cubin[:start] + code + cubin[start + len(code) :], start + 16 * slot


def _code_range(cubin: bytes) -> tuple[int, int]:
    """Byte offset and size of the kernel's code in its file."""
    section = Elf(cubin, "the kernel").by_name[".text.form"]
    return section.offset, section.size
