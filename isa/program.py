"""`Program`: one kernel as immutable decoded machine code, and its recorded image on disk.

The image holds everything that a run needs (cubin, instructions as disassembled, source text), so it opens
without any tool chain: a short magic word, then JSON compressed with zlib.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import zlib
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from isa.cubin import Cubin, GlobalSymbol, Parameter, Relocation
from isa.errors import DecodeError, ProgramFileError
from isa.folders import put_file
from isa.instruction import INSTRUCTION_BYTES, Instruction, parse_instruction
from isa.limits import problem_with_program

_Fact = TypeVar("_Fact")
SUFFIX = ".gpuprog"
_MAGIC = b"GPUPROG\n"
_MOST_DOCUMENT_BYTES = 256 << 20
"""A kernel of a million instructions takes half of this."""
_DAMAGE = (
    zlib.error,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
    MemoryError,
    DecodeError,
)
"""Errors that reading a damaged image may raise."""
IMAGE_FORMAT = 1
"""Version of the program image; part of every cache key."""
DECODER = 7
"""Version of how a cubin becomes a program, part of every cache key too; older images stay readable."""


class Once:
    """An object that remembers what others have worked out of it, as long as it lives; copies and pickles do not."""

    @cached_property
    def _facts(self) -> dict[Hashable, Any]:
        return {}

    def once(self, what: Hashable, work_out: Callable[[], _Fact]) -> _Fact:
        """The fact of this name, worked out when it is first asked for."""
        if what not in self._facts:
            self._facts[what] = work_out()
        return self._facts[what]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_facts"}


@dataclass(frozen=True)
class Program(Once):
    """One kernel, compiled and decoded. The dictionaries are not to be changed: programs are shared.

    Attributes:
        name: the function's plain name, without namespace or parameters.
        symbol: its mangled name in the cubin.
        arch: architecture of the code, such as 'sm_90'.
        instructions: in address order; the instruction at byte address a has index a / 16.
        labels: label to byte address, as disassembled.
        registers: 32-bit registers per thread.
        static_shared_bytes: shared memory per block that the kernel declares, without the system's part.
        shared_base: shared address of its first byte; 1 KiB from Hopper on, where the system keeps what is
            below. Dynamic shared memory follows the static one, at the alignment that the code assumes.
        pair_barrier: shared address of the mbarrier by which blocks of a pair hand over tensor memory; behind it lies
            its phase. ptxas says where up to CUDA 12.9, and has one place for it since.
        local_bytes: stack per thread as the compiler counts it. Recursion and calls through pointers are not
            in it; CUDA gives every thread 1 KiB by default for them.
        barriers: named barriers per block.
        constant_banks: bank number to content. Bank 0 is a template: launch values below `parameter_base`,
            parameters from there. Bank 2 and 3 hold the compiler's and the user's constants, bank 4 addresses
            (`relocations`).
        parameter_base, parameter_bytes: where parameters start in bank 0, and their size together.
        parameters: position, offset from `parameter_base` and size of each, in the order of the signature
            (for the Numba ABI: after flattening arrays).
        max_threads: most threads per block that the kernel was compiled for, None where unstated.
        cluster: blocks per cluster if fixed at compile time.
        abi: 'numba' (arrays flatten to seven or more words) or 'c'.
        global_image: initial content of the module's variables; `global_symbols` says what lies where.
        relocations: addresses that a loader writes once it has placed the image.
        source: file name to its lines, for every source file that an instruction comes from.
        exceptions: text of the errors that a kernel compiled by Numba for debugging raises, by the code that it
            stores.
        cubin: the file itself, and sha256 its digest in hexadecimal.
    """

    name: str
    symbol: str
    arch: str
    instructions: tuple[Instruction, ...]
    registers: int
    static_shared_bytes: int
    local_bytes: int
    barriers: int
    constant_banks: dict[int, bytes]
    parameter_base: int
    parameter_bytes: int
    parameters: tuple[Parameter, ...]
    max_threads: int | None
    abi: str
    source: dict[str, list[str]]
    cubin: bytes
    sha256: str
    shared_base: int = 0
    pair_barrier: int = 0x48
    cluster: tuple[int, int, int] | None = None
    labels: dict[str, int] = field(default_factory=dict)
    global_image: bytes = b""
    global_symbols: tuple[GlobalSymbol, ...] = ()
    relocations: tuple[Relocation, ...] = ()
    exceptions: dict[int, str] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.sha256, self.symbol, self.abi))

    def but(self, **changes: Any) -> Program:
        """A program with other values of some attributes. It knows what this one does (`once`) if instructions and
        registers are the same: what is worked out under a name may depend on these and `arch` alone."""
        changed = replace(self, **changes)
        if changed.instructions is self.instructions and changed.registers == self.registers:
            changed.__dict__["_facts"] = self._facts
        return changed

    def opcode_histogram(self, modifiers: bool = True) -> Counter[str]:
        """Static count of each mnemonic in the code; without modifiers, each base opcode."""
        return Counter(each.mnemonic if modifiers else each.opcode for each in self.instructions)

    def source_line(self, instruction: Instruction) -> str | None:
        """Text of the source line that an instruction comes from, None where unknown."""
        lines = self.source.get(instruction.file or "", [])
        number = instruction.line or 0
        return lines[number - 1] if 0 < number <= len(lines) else None

    @cached_property
    def code_sha256(self) -> str:
        """Digest of what executes: encodings and constants. The cubin's own digest also changes with names,
        paths and line numbers.
        """
        digest = hashlib.sha256(self.arch.encode())
        for each in self.instructions:
            digest.update(each.encoding.to_bytes(INSTRUCTION_BYTES, "little"))
        for bank in sorted(self.constant_banks):
            digest.update(b"%d:%d:" % (bank, len(self.constant_banks[bank])) + self.constant_banks[bank])
        return digest.hexdigest()

    def save(self, path: str | os.PathLike[str], *, with_cubin: bool = True) -> Path:
        """Write the program image (suffix .gpuprog), see `to_bytes`, and return its path.

        It appears under its name in one step, so that a reader never sees half a file.
        """
        return put_file(Path(path), self.to_bytes(with_cubin=with_cubin))

    @classmethod
    def open(cls, path: str | os.PathLike[str], cubin: Cubin | None = None) -> Program:
        """Read a program image, see `from_bytes`. Raises ProgramFileError (there is no such file, or it is not an
        image, damaged, or of another format version)."""
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise ProgramFileError(f"cannot read {path}: {error.strerror}") from error
        return cls.from_bytes(data, str(path), cubin)

    def to_bytes(self, *, with_cubin: bool = True) -> bytes:
        """The program image as bytes; one without its cubin opens only where that is given."""
        files = sorted({each.file for each in self.instructions if each.file is not None})
        numbers = {file: index for index, file in enumerate(files)}
        document: dict[str, Any] = {"format": IMAGE_FORMAT, "files": files}
        for each in fields(self):
            value = getattr(self, each.name) if with_cubin or each.name != "cubin" else b""
            document[each.name] = _PACK.get(each.name, lambda value: value)(value)
        document["instructions"] = [
            (each.text, f"{each.encoding:x}", each.line, None if each.file is None else numbers[each.file])
            for each in self.instructions
        ]
        return _MAGIC + zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 6)

    @classmethod
    def from_bytes(cls, data: bytes, path: str = "<image>", cubin: Cubin | None = None) -> Program:
        """Rebuild a program from its image, with this cubin if given; raises ProgramFileError as `open` does."""
        if not data.startswith(_MAGIC):
            raise ProgramFileError(f"{path} is not a program image")
        try:
            document = json.loads(_unpacked(data[len(_MAGIC) :]))
            version = document.pop("format")
            if version != IMAGE_FORMAT:
                raise ProgramFileError(f"{path} has image format {version}, this version reads {IMAGE_FORMAT}")
            files = document.pop("files")
            labels = document["labels"]
            document["instructions"] = tuple(
                parse_instruction(
                    INSTRUCTION_BYTES * index,
                    text,
                    int(encoding, 16),
                    labels,
                    line,
                    None if file is None else files[file],
                )
                for index, (text, encoding, line, file) in enumerate(document["instructions"])
            )
            for name, unpack in _UNPACK.items():
                if name in document:  # an older image has no `exceptions`
                    document[name] = unpack(document[name])
            document["cubin"] = document["cubin"] if cubin is None else cubin.file.content
            program = cls(**document)
            if problem := problem_with_program(program):
                raise ValueError(problem)
            if (hashlib.sha256(program.cubin).hexdigest() if cubin is None else cubin.sha256) != program.sha256:
                raise ValueError("the cubin's digest does not match")
            return program
        except _DAMAGE as error:
            raise ProgramFileError(f"{path} is a damaged program image ({error or type(error).__name__})") from error


def _unpacked(data: bytes) -> bytes:
    """The document of an image. Raises ValueError if it is longer than any can be, or cut off."""
    stream = zlib.decompressobj()
    document = stream.decompress(data, _MOST_DOCUMENT_BYTES)
    if stream.unconsumed_tail:
        raise ValueError(f"it unpacks to more than {_MOST_DOCUMENT_BYTES:,} bytes")
    if not stream.eof:
        raise ValueError("it is cut off")
    return document


def _pack(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _rows(values: tuple[Any, ...]) -> list[list[Any]]:
    return [[getattr(value, each.name) for each in fields(value)] for value in values]


_CLASSES = {"parameters": Parameter, "global_symbols": GlobalSymbol, "relocations": Relocation}
_PACK: dict[str, Any] = {
    "cubin": _pack,
    "global_image": _pack,
    "constant_banks": lambda banks: {str(bank): _pack(content) for bank, content in banks.items()},
    **dict.fromkeys(_CLASSES, _rows),
}
_UNPACK: dict[str, Any] = {
    "cubin": base64.b64decode,
    "global_image": base64.b64decode,
    "constant_banks": lambda banks: {int(bank): base64.b64decode(content) for bank, content in banks.items()},
    **{name: lambda rows, of=of: tuple(of(*row) for row in rows) for name, of in _CLASSES.items()},
    "exceptions": lambda texts: {int(code): text for code, text in texts.items()},
    "cluster": lambda value: None if value is None else tuple(value),
}
