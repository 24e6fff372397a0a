"""A program: kernels compiled to machine code (SASS), read from cubins and decoded.

`isa.compile_kernel` compiles a Python kernel, `isa.load` reads a file; both give an immutable `isa.Program`.
Reading order: program.py (the result), instruction.py and control.py (one instruction), listing.py
(disassembly to instructions), cubin.py (the ELF file), compile.py and load.py (the ways in), cache.py,
toolchain.py, errors.py; then opcodes.py, microops.py and lower.py, which say what each instruction does.
"""

from isa.assemble import assemble
from isa.compile import compile_cuda, compile_kernel
from isa.cubin import GlobalSymbol, Parameter, Relocation
from isa.errors import (
    CompileError,
    DecodeError,
    EntryError,
    NotACubin,
    ProgramFileError,
    SimulationError,
    ToolchainFailed,
    ToolchainMissing,
    UnknownInstruction,
)
from isa.instruction import NO_BARRIER, PT, RZ, URZ, Control, Instruction, Operand
from isa.load import load
from isa.program import Program

__all__ = [
    "NO_BARRIER", "PT", "RZ", "URZ", "CompileError", "Control", "DecodeError", "EntryError", "GlobalSymbol",
    "Instruction", "NotACubin", "Operand", "Parameter", "Program", "ProgramFileError", "Relocation", "SimulationError",
    "ToolchainFailed", "ToolchainMissing", "UnknownInstruction", "assemble", "compile_cuda", "compile_kernel",
    "load",
]  # fmt: skip
