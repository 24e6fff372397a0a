"""Read a cubin: kernels, registers, shared and local memory, parameters, constant banks, global data.

A cubin is a 64-bit ELF file for machine 190. What the ELF header and section names do not say stands in the
`.nv.info` sections, a list of attributes whose codes `nvdisasm` prints by name (EIATTR_...).
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

from isa import elf
from isa.elf import Elf, ElfSection
from isa.errors import NotACubin
from isa.limits import MOST_GLOBAL_BYTES, problem_with
from isa.source_lines import Frame, source_lines

_ELF_MAGIC = b"\x7fELF"
_EM_CUDA = 190
_STO_CUDA_ENTRY = 0x10
# EIATTR codes, as `nvdisasm` names them.
_MAX_THREADS = 0x05
_PARAM_CBANK = 0x0A
_FRAME_SIZE = 0x11
_MIN_STACK_SIZE = 0x12
_KPARAM_INFO = 0x17
_CBANK_PARAM_SIZE = 0x19
_REGCOUNT = 0x2F
_CTA_PER_CLUSTER = 0x3D
_KPARAM_INFO_V2 = 0x45
_NUM_BARRIERS = 0x4C
_RECURSION = 0xFFFFFFFF
_PAIR_BARRIER = "__nv_reservedSMEM_tmem_allocation_pipeline_mbarrier"
_CONSTANTS = re.compile(r"\.nv\.constant(\d+)(?:\.(.+))?$")
_RELOCATIONS = re.compile(r"\.rela?\.(?:nv\.(constant\d+)|(text)|nv\.(global)(?:\.init)?)(?:\.(.+))?$")
"""Sections with constants and relocations: those of one code section end in its name, others are for all."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A kernel parameter: position in the signature, offset from the parameter base and size in bytes."""

    index: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class GlobalSymbol:
    """A module-level variable, or the section that holds it: its offset and size in bytes in the global image,
    or in a constant bank.
    """

    name: str
    offset: int
    size: int
    bank: int | None = None


@dataclass(frozen=True, slots=True)
class Relocation:
    """An address that the loader writes.

    Attributes:
        target: 'constant<bank>', 'global' (the global image) or 'text' (the code).
        offset: where in it, in bytes.
        kind: ELF relocation type; 2 is R_CUDA_64, a 64-bit absolute address.
        symbol: whose address; in `Program.global_symbols`, or a function, which `Program.labels` places.
        addend: added to the address.
    """

    target: str
    offset: int
    kind: int
    symbol: str
    addend: int


@dataclass
class CubinKernel:
    """One code section of an ELF file, a kernel's or a function's; sizes in bytes, field meanings as in `isa.Program`.

    `functions` says which functions begin in the section, and at which byte of it.
    """

    name: str
    symbol_index: int
    code: bytes
    registers: int = 0
    static_shared_bytes: int = 0
    shared_base: int = 0
    pair_barrier: int = 0x48
    local_bytes: int = 0
    barriers: int = 0
    parameter_base: int = 0
    parameter_bytes: int = 0
    parameters: tuple[Parameter, ...] = ()
    max_threads: int | None = None
    cluster: tuple[int, int, int] | None = None
    constant_banks: dict[int, bytes] = field(default_factory=dict)
    relocations: tuple[Relocation, ...] = ()
    functions: dict[str, int] = field(default_factory=dict)


class CodeSections(Mapping[str, CubinKernel]):
    """Code sections by name, each read when it is first asked for: a library has thousands."""

    def __init__(self, names: Iterable[str], read: Callable[[str], CubinKernel]) -> None:
        self._found: dict[str, CubinKernel | None] = dict.fromkeys(names)
        self._read = read

    def __getitem__(self, name: str) -> CubinKernel:
        """Raises KeyError, and NotACubin if what the file says about the section is damaged."""
        found = self._found[name]
        if found is None:
            found = self._found[name] = self._read(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


@dataclass(frozen=True)
class Cubin:
    """A parsed cubin.

    Attributes:
        file: its sections; `file.content` are its bytes.
        arch: architecture ('sm_90').
        kernels: by mangled name.
        functions: the code sections of functions that lie outside their callers' section.
        places: name of each function in them to its code section's name and its byte there.
        code_bytes: sizes of the code sections.
        externals: names of functions that it calls and does not define.
        global_image, global_symbols: initial content of the module's variables, and what lies where.
        constant_banks: those that all kernels share: bank 3 has `__constant__` variables.
        relocations: addresses in data that all kernels share.
    """

    file: Elf
    arch: str
    kernels: Mapping[str, CubinKernel]
    functions: Mapping[str, CubinKernel]
    places: Mapping[str, tuple[str, int]]
    code_bytes: Mapping[str, int]
    externals: frozenset[str]
    global_image: bytes
    global_symbols: tuple[GlobalSymbol, ...]
    constant_banks: Mapping[int, bytes]
    relocations: tuple[Relocation, ...]

    @cached_property
    def sha256(self) -> str:
        """Digest of the file in hexadecimal."""
        return hashlib.sha256(self.file.content).hexdigest()

    def code(self, name: str) -> CubinKernel:
        """A code section, of a kernel or of a function."""
        return self.kernels[name] if name in self.kernels else self.functions[name]

    @cached_property
    def lines(self) -> Mapping[str, list[tuple[int, Frame]]]:
        """Source lines by code section, see `source_lines`. Raises NotACubin."""
        with damage(self.file.path):
            return source_lines(self.file)


def read_cubin(data: bytes, path: str = "<cubin>") -> Cubin:
    """Parse a cubin. data: the file's content. path: its name, for messages. Raises NotACubin (not an ELF file,
    truncated, or for another machine)."""
    if data[:4] != _ELF_MAGIC:
        raise NotACubin(path, "it does not start with the ELF magic number")
    machine = int.from_bytes(data[18:20], "little")
    if len(data) >= elf.HEADER_BYTES and machine != _EM_CUDA:
        raise NotACubin(path, f"it is an ELF file for machine {machine}, not for CUDA ({_EM_CUDA})")
    with damage(path):
        return _Reader(Elf(data, path)).read()


@contextmanager
def damage(path: str) -> Iterator[None]:
    """Tells what a damaged file makes of a reader."""
    try:
        yield
    except (struct.error, LookupError, ValueError, ArithmeticError) as error:
        raise NotACubin(path, f"its sections are damaged ({error or type(error).__name__})") from error


class _Reader:
    """Reads what the kernels of a cubin share at once, and each kernel when it is asked for."""

    def __init__(self, file: Elf) -> None:
        self.file, self.pair_barrier = file, CubinKernel.pair_barrier
        # ABI version 8 (CUDA 13) moved the architecture from the lowest byte of the flags to the next one.
        number = file.flags >> 8 & 0xFF if file.abi >= 8 else file.flags & 0xFF
        self.arch = f"sm_{number}"
        self.constants: dict[str | None, list[tuple[int, int, ElfSection]]] = defaultdict(list)
        self.changes: dict[str | None, list[tuple[ElfSection, str]]] = defaultdict(list)
        for section in file.sections:
            if match := _CONSTANTS.match(section.name):
                if section.kind == elf.PROGBITS:
                    self.constants[match[2]].append((section.number, int(match[1]), section))
            elif match := _RELOCATIONS.match(section.name):
                self.changes[match[4]].append((section, match[1] or match[2] or match[3]))

    def read(self) -> Cubin:
        self.kernels: dict[str, int] = {}  # by name, indices of their symbols
        functions: dict[str, int] = {}
        externals: set[str] = set()
        self.inside: dict[str, dict[str, int]] = {}
        code_bytes = {}
        for index, symbol in enumerate(self.file.symbols):
            if symbol.name == _PAIR_BARRIER:
                self.pair_barrier = symbol.value
            if symbol.kind != elf.FUNC:
                continue
            if symbol.section is None:
                externals.add(symbol.name)
                continue
            home = symbol.section.name.removeprefix(".text.")
            self.inside.setdefault(home, {})[symbol.name] = symbol.value
            if symbol.section.name == f".text.{symbol.name}":
                group = self.kernels if symbol.other & _STO_CUDA_ENTRY else functions
                group[symbol.name] = index
                code_bytes[symbol.name] = symbol.section.size
        image, self.starts = self._global_image()
        self.shared = self._relocations(self.changes[None])
        self.indices = self.kernels | functions
        return Cubin(
            file=self.file,
            arch=self.arch,
            kernels=CodeSections(self.kernels, self._code),
            functions=CodeSections(functions, self._code),
            places={name: (home, at) for home in functions for name, at in self.inside[home].items()},
            code_bytes=code_bytes,
            externals=frozenset(externals),
            global_image=image,
            global_symbols=self._global_symbols(),
            constant_banks=self._banks(None),
            relocations=_in_order(self.shared),
        )

    def _code(self, name: str) -> CubinKernel:
        index = self.indices[name]
        text = self.file.symbols[index].section
        assert text is not None
        kernel = CubinKernel(name, index, self.file.data(text))
        with damage(self.file.path):
            self._read_code(kernel, text)
        if problem := problem_with(kernel):
            raise NotACubin(self.file.path, f"kernel {name}: {problem}")
        return kernel

    def _banks(self, name: str | None) -> dict[int, bytes]:
        """Constant banks of a code section, or those that all share for None; of one bank's, the last counts."""
        found = sorted((*self.constants[None], *(self.constants.get(name, ()) if name is not None else ())))
        return {bank: self.file.data(section) for _, bank, section in found}

    def _read_code(self, kernel: CubinKernel, text: ElfSection) -> None:
        # Up to version 7 of the ABI the section header has both; later files have the attributes below.
        kernel.registers = text.info >> 24
        kernel.barriers = text.flags >> 20 & 0x7F
        shared = self.file.by_name.get(f".nv.shared.{kernel.name}")
        # From Hopper on, the first 1 KiB of shared memory is the system's, and the section's size has it.
        kernel.shared_base = 0x400 if int(self.arch[3:]) >= 90 else 0
        kernel.pair_barrier = self.pair_barrier
        kernel.static_shared_bytes = max(0, (shared.size if shared is not None else 0) - kernel.shared_base)
        kernel.constant_banks = self._banks(kernel.name)
        # A kernel without parameters has no PARAM_CBANK; its bank 0 ends where they would begin.
        kernel.parameter_base = len(kernel.constant_banks.get(0, b""))
        parameters = []
        for code, payload in self._attributes(f".nv.info.{kernel.name}"):
            if code == _KPARAM_INFO:
                _, ordinal, offset, bits = struct.unpack_from("<IHHI", payload)
                parameters.append(Parameter(ordinal, offset, bits >> 18))
            elif code == _KPARAM_INFO_V2:  # written where the parameters need more than 4 KiB
                # sm_100 says in the last half word what is a pointer.
                parameters.append(Parameter(*struct.unpack_from("<HHH", payload, 4)))
            elif code == _PARAM_CBANK:
                _, kernel.parameter_base, kernel.parameter_bytes = struct.unpack_from("<IHH", payload)
            elif code == _CBANK_PARAM_SIZE:
                kernel.parameter_bytes = struct.unpack_from("<H", payload)[0]
            elif code == _MAX_THREADS:
                kernel.max_threads = math.prod(struct.unpack_from("<III", payload))
            elif code == _NUM_BARRIERS:
                kernel.barriers = payload[0]
            elif code == _CTA_PER_CLUSTER:
                kernel.cluster = struct.unpack_from("<III", payload)
        kernel.parameters = tuple(sorted(parameters, key=lambda parameter: parameter.index))
        for code, value in self.info.get(kernel.symbol_index, ()):
            if code == _REGCOUNT:
                kernel.registers = value
            elif value != _RECURSION:
                kernel.local_bytes = max(kernel.local_bytes, value)
        found = self._relocations(self.changes.get(kernel.name, ()))
        kernel.relocations = _in_order(found | self.shared if kernel.name in self.kernels else found)
        kernel.functions = self.inside[kernel.name]

    @cached_property
    def info(self) -> dict[int, list[tuple[int, int]]]:
        """The module's attributes by index of symbol: registers, and stack from a kernel's frame to its deepest callee.
        """
        found = defaultdict(list)
        for code, payload in self._attributes(".nv.info"):
            if code in (_REGCOUNT, _FRAME_SIZE, _MIN_STACK_SIZE):
                index, value = struct.unpack_from("<II", payload)
                found[index].append((code, value))
        return found

    def _attributes(self, name: str) -> Iterator[tuple[int, bytes]]:
        """(code, payload) of every attribute of a .nv.info section; formats 1 to 3 keep two bytes inline."""
        section = self.file.by_name.get(name)
        data, position = b"" if section is None else self.file.data(section), 0
        while position + 4 <= len(data):
            form, code, short = struct.unpack_from("<BBH", data, position)
            start, position = (position + 4, position + 4 + short) if form == 4 else (position + 2, position + 4)
            yield code, data[start:position]

    def _global_image(self) -> tuple[bytes, dict[int, int]]:
        """Initialised data followed by zeroed data, and where each section starts in it."""
        image, starts = b"", {}
        for section in self.file.sections:
            if section.name not in (".nv.global.init", ".nv.global"):
                continue
            alignment = max(section.alignment, 1)
            if len(image) + alignment + section.size > MOST_GLOBAL_BYTES:
                words = f"{section.name} takes {section.size:,} bytes aligned to {alignment:,}"
                raise NotACubin(self.file.path, words)
            image += bytes(-len(image) % alignment)
            starts[section.number] = len(image)
            image += self.file.data(section) if section.kind == elf.PROGBITS else bytes(section.size)
        return image, starts

    def _global_symbols(self) -> tuple[GlobalSymbol, ...]:
        found = []
        for symbol in self.file.symbols:
            section = symbol.section
            if symbol.kind not in (elf.OBJECT, elf.SECTION) or section is None:
                continue
            # Relocations may count from where a section starts.
            whole = symbol.kind == elf.SECTION
            name, size = (section.name, section.size) if whole else (symbol.name, symbol.size)
            bank = _CONSTANTS.match(section.name)
            if section.number in self.starts:
                found.append(GlobalSymbol(name, self.starts[section.number] + symbol.value, size))
            elif bank and not bank[2]:
                found.append(GlobalSymbol(name, symbol.value, size, int(bank[1])))
        return tuple(found)

    def _relocations(self, sections: Iterable[tuple[ElfSection, str]]) -> dict[int, list[Relocation]]:
        """Relocations in the sections that hold them for one code section, or for all, by the section's number."""
        found: dict[int, list[Relocation]] = {}
        for section, target in sections:
            shift = self.starts.get(section.info, 0)
            found[section.number] = [
                Relocation(target, offset + shift, kind, whole.name if whole else symbol.name, addend)
                for offset, kind, symbol, addend in self.file.relocations(section)
                for whole in [symbol.section if symbol.kind == elf.SECTION else None]
            ]
        return found


def _in_order(found: Mapping[int, list[Relocation]]) -> tuple[Relocation, ...]:
    return tuple(each for _, rows in sorted(found.items()) for each in rows)
