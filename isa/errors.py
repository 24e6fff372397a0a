"""Every error that `isa` raises, under one base class.

Each message says what is wrong and where, so that a command-line tool can print it alone, without a traceback.
"""

from __future__ import annotations

from typing import Any

from isa.demangle import demangle


class SimulationError(Exception):
    """Base class of whatever is wrong with a user's program, from its compilation to its run. `str(error)` is the whole
    message."""

    def __reduce__(self) -> tuple[Any, ...]:
        # The default would call the class with the formatted message alone, which fails when a worker process
        # sends an error back to its parent.
        return _restore, (type(self), self.args, self.__dict__)


def _restore(cls: type[SimulationError], args: tuple[Any, ...], state: dict[str, Any]) -> SimulationError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class ToolchainMissing(SimulationError):
    """A program of the vendor's tool chain (ptxas, nvdisasm, NVRTC) or Numba's CUDA target was not found."""


class ToolchainFailed(SimulationError):
    """A program of the vendor's tool chain ended with an error that is not the user's kernel's fault."""


class CompileError(SimulationError):
    """A kernel does not compile: the user's mistake, named with file and line where they are known."""

    def __init__(self, message: str, file: str | None = None, line: int | None = None) -> None:
        self.reason = message
        self.file = file
        self.line = line
        where = f"{file}:{line}: " if file and line else f"{file}: " if file else ""
        super().__init__(where + message)


class ProgramFileError(SimulationError):
    """A file cannot be loaded: missing, of an unknown type, or a damaged program image."""


class NotACubin(ProgramFileError):
    """A file is not a cubin (wrong magic number, truncated, or made for another machine)."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path} is not a cubin: {reason}")


class EntryError(SimulationError):
    """The kernel asked for is not in the file, or the file holds several and none was chosen."""

    def __init__(self, message: str, available: tuple[str, ...]) -> None:
        self.available = available
        listing = "".join(f"\n  {demangle(name)}" for name in available)
        super().__init__(message + (f"; the file holds:{listing}" if available else "; the file holds no kernel"))


class DecodeError(SimulationError):
    """The text of a disassembled instruction has no form that this decoder knows."""


class UnknownInstruction(SimulationError):
    """A decoded instruction has no entry in the opcode table, so it cannot be executed.

    Args:
        text: the instruction as disassembled, guard included.
        encoding: its 128 bits.
        line: source line, or None.
        kernel: name of the kernel that holds it.
        reason: what exactly is not known, if more than the opcode.
    """

    def __init__(self, text: str, encoding: int, line: int | None = None, kernel: str = "", reason: str = "") -> None:
        self.text = text
        self.encoding = encoding
        self.line = line
        self.kernel = kernel
        where = f" in kernel {kernel}" if kernel else ""
        where += f", source line {line}" if line else ""
        super().__init__(f"unknown instruction '{text}' (0x{encoding:032x}){where}" + (f": {reason}" if reason else ""))
