"""The kernel around one instruction.

Every thread loads 32 bytes into R12..R15 and R4..R7, copies of the warp's lowest lane stand in the uniform registers
of the same numbers, bits 0..6 of R5 are in P0..P6 and their disjunction over the warp in UP0..UP6. R24..R27 and UR24,
UR25 are zero. Then comes the instruction. What a thread writes back is listed in `OUTPUT`.

A thread's memory operands are 32 bytes of its own, which hold its input: in global memory at R8:R9, where it was
loaded from, in shared memory at R2, in local memory at R3. R16 holds a small multiple of 4 from R14.
"""

from __future__ import annotations

from pathlib import Path

from isa import compile_cuda
from isa.elf import Elf
from isa.instruction import INSTRUCTION_BYTES

OUTPUT = ("R24", "R25", "R26", "R27", "P", "UP", "UR24", "UR25") + ("shared",) * 8 + ("local",) * 8
"""The words that a thread writes, in order."""
_LISTING = Path(__file__).with_suffix(".sass")
"""The kernel's instructions, each of which waits for everything before it, so the order is all that matters."""
_SLOT = 54
"""Place of the instruction among them."""

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


def build() -> tuple[bytes, int]:
    """The cubin with a NOP in the place of the instruction, and that place's byte offset in the file.

    Raises:
        ToolchainMissing, ToolchainFailed: the tools that compile it are missing or refuse.
        ValueError: the compiled kernel leaves no room for the assembled one.
    """
    lines = [line for line in _LISTING.read_text("utf-8").splitlines() if not line.startswith("//")]
    code = b"".join(int(line.split()[0], 16).to_bytes(INSTRUCTION_BYTES, "little") for line in lines)
    cubin = compile_cuda(_SOURCE, "sm_90")
    section = Elf(cubin, "the kernel").by_name[".text.form"]
    if len(code) > section.size:
        raise ValueError(f"{len(code)} bytes of code do not fit into {section.size}")
    start = section.offset
    return cubin[:start] + code + cubin[start + len(code) :], start + INSTRUCTION_BYTES * _SLOT
