"""Compile the kernels: `python -m validate.persisting.build` writes `kernels.cubin` with nvcc 13.0 for sm_90."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

from elftools.elf.elffile import ELFFile

HERE = Path(__file__).parent
CUBIN = HERE / "kernels.cubin"
PARAMETER, DESCRIPTOR = bytes.fromhex("00840000"), bytes.fromhex("00820000")
"""High half of LDC.64 c[0x0][0x210], the first parameter, and of c[0x0][0x208], the descriptor in front of it."""


def build(nvcc: str = "nvcc") -> None:
    """Write the cubin; the kernel `descriptor` reads the word in front of its parameters, which no CUDA C++ can."""
    subprocess.run([nvcc, "-arch=sm_90", "-O3", "-cubin", "-o", str(CUBIN), str(HERE / "kernels.cu")], check=True)
    data = bytearray(CUBIN.read_bytes())
    section = ELFFile(io.BytesIO(bytes(data))).get_section_by_name(".text.descriptor")
    assert section is not None
    first, size = section["sh_offset"], section["sh_size"]
    at = [k for k in range(first, first + size, 16) if data[k + 4 : k + 8] == PARAMETER and data[k] == 0x82]
    if len(at) != 1:
        raise ValueError(f"{len(at)} loads of the first parameter in the kernel `descriptor`")
    data[at[0] + 4 : at[0] + 8] = DESCRIPTOR
    CUBIN.write_bytes(data)


if __name__ == "__main__":
    build()
