"""Read a cubin: kernels, registers, shared and local memory, parameters, constant banks, global data.

A cubin is a 64-bit ELF file for machine 190. What the ELF header and section names do not say stands in the
`.nv.info` sections, a list of attributes whose codes `nvdisasm` prints by name (EIATTR_...).
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from isa.elf import HEADER_BYTES, check_sections
from isa.errors import NotACubin
from isa.limits import MOST_GLOBAL_BYTES, problem_with

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

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
    """What the ELF file says about one code section, a kernel's or a function's; sizes in bytes, field meanings
    as in `isa.Program`.

    `functions` says which functions begin in the section, and at which byte of it.
    """

    name: str
    symbol_index: int
    code: bytes
    registers: int = 0
    static_shared_bytes: int = 0
    shared_base: int = 0
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


@dataclass(frozen=True)
class Cubin:
    """A parsed cubin: architecture ('sm_90'), kernels by mangled name, and the module's global data.

    `functions` are the code sections of functions that lie outside their callers' section,
    `externals` the names of functions that it calls and does not define.
    """

    arch: str
    kernels: dict[str, CubinKernel]
    global_image: bytes
    global_symbols: tuple[GlobalSymbol, ...]
    functions: dict[str, CubinKernel] = field(default_factory=dict)
    externals: frozenset[str] = frozenset()


def read_cubin(data: bytes, path: str = "<cubin>") -> Cubin:
    """Parse a cubin.

    Args:
        data: the file's content.
        path: its name, for messages.

    Raises:
        NotACubin: not an ELF file, truncated, or for another machine.
    """
    if data[:4] != _ELF_MAGIC:
        raise NotACubin(path, "it does not start with the ELF magic number")
    machine = int.from_bytes(data[18:20], "little")
    if len(data) >= HEADER_BYTES and machine != _EM_CUDA:
        raise NotACubin(path, f"it is an ELF file for machine {machine}, not for CUDA ({_EM_CUDA})")
    check_sections(data, path)
    from elftools.elf.elffile import ELFFile

    try:
        return _Reader(ELFFile(io.BytesIO(data)), data, path).read()
    except NotACubin:
        raise
    except Exception as error:  # pyelftools checks only part of what it reads: a damaged file may raise anything
        raise NotACubin(path, f"its sections are damaged ({error or type(error).__name__})") from error


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(code, payload) of every attribute of a .nv.info section; formats 1 to 3 keep two bytes inline."""
    position = 0
    while position + 4 <= len(data):
        form, code, short = struct.unpack_from("<BBH", data, position)
        if form == 4:
            yield code, data[position + 4 : position + 4 + short]
            position += 4 + short
        else:
            yield code, data[position + 2 : position + 4]
            position += 4


class _Reader:
    """One pass over the sections of a cubin."""

    def __init__(self, elf: ELFFile, data: bytes, path: str) -> None:
        self.elf = elf
        self.path = path
        self.sections: list[Any] = list(elf.iter_sections())
        self.by_name = {section.name: section for section in self.sections}
        table = self.by_name.get(".symtab")
        self.symbols: list[Any] = list(table.iter_symbols()) if table is not None else []
        self.symbol_table = table.data() if table is not None else b""
        flags, version = elf["e_flags"], data[8]
        # ABI version 8 (CUDA 13) moved the architecture from the lowest byte of the flags to the next one.
        number = flags >> 8 & 0xFF if version >= 8 else flags & 0xFF
        self.arch = f"sm_{number}"

    def read(self) -> Cubin:
        kernels: dict[str, CubinKernel] = {}
        functions: dict[str, CubinKernel] = {}
        externals: set[str] = set()
        inside: dict[str, dict[str, int]] = {}
        for index, symbol in enumerate(self.symbols):
            where = symbol["st_shndx"]
            if symbol["st_info"]["type"] != "STT_FUNC":
                continue
            if not isinstance(where, int):
                externals.add(symbol.name)
                continue
            section = self.sections[where]
            inside.setdefault(section.name, {})[symbol.name] = symbol["st_value"]
            if section.name == f".text.{symbol.name}":
                group = kernels if self._other(index) & _STO_CUDA_ENTRY else functions
                group[symbol.name] = CubinKernel(symbol.name, index, section.data())
        image, starts = self._global_image()
        for kernel in (*kernels.values(), *functions.values()):
            self._read_kernel(kernel)
            kernel.relocations = self._relocations(kernel.name, kernel.name in kernels, starts)
            kernel.functions = inside[f".text.{kernel.name}"]
        self._read_info(kernels | functions)
        for kernel in (*kernels.values(), *functions.values()):
            self._check(kernel)
        return Cubin(self.arch, kernels, image, self._global_symbols(starts), functions, frozenset(externals))

    def _other(self, index: int) -> int:
        """The raw st_other byte; pyelftools splits it into fields that CUDA does not use."""
        return self.symbol_table[index * self.by_name[".symtab"]["sh_entsize"] + 5]

    def _read_kernel(self, kernel: CubinKernel) -> None:
        text = self.by_name[f".text.{kernel.name}"]
        # Up to version 7 of the ABI the section header has both; later files have the attributes below.
        kernel.registers = text["sh_info"] >> 24
        kernel.barriers = text["sh_flags"] >> 20 & 0x7F
        shared = self.by_name.get(f".nv.shared.{kernel.name}")
        # From Hopper on, the first 1 KiB of shared memory is the system's, and the section's size has it.
        kernel.shared_base = 0x400 if int(self.arch[3:]) >= 90 else 0
        kernel.static_shared_bytes = max(
            0, (shared["sh_size"] if shared is not None else 0) - kernel.shared_base
        )
        for section in self.sections:
            match = re.match(r"\.nv\.constant(\d+)(?:\.(.+))?$", section.name)
            if match and match[2] in (None, kernel.name) and section["sh_type"] == "SHT_PROGBITS":
                kernel.constant_banks[int(match[1])] = section.data()
        # A kernel without parameters has no PARAM_CBANK; its bank 0 ends where they would begin.
        kernel.parameter_base = len(kernel.constant_banks.get(0, b""))
        info = self.by_name.get(f".nv.info.{kernel.name}")
        parameters = []
        for code, payload in _attributes(info.data()) if info is not None else ():
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
                x, y, z = struct.unpack_from("<III", payload)
                kernel.max_threads = x * y * z
            elif code == _NUM_BARRIERS:
                kernel.barriers = payload[0]
            elif code == _CTA_PER_CLUSTER:
                kernel.cluster = struct.unpack_from("<III", payload)
        kernel.parameters = tuple(sorted(parameters, key=lambda parameter: parameter.index))

    def _check(self, kernel: CubinKernel) -> None:
        problem = problem_with(kernel)
        if problem is not None:
            raise NotACubin(self.path, f"kernel {kernel.name}: {problem}")

    def _read_info(self, kernels: dict[str, CubinKernel]) -> None:
        """Per-symbol attributes of the module: registers, and stack from the kernel's frame to its deepest
        callee.
        """
        by_index = {kernel.symbol_index: kernel for kernel in kernels.values()}
        info = self.by_name.get(".nv.info")
        for code, payload in _attributes(info.data()) if info is not None else ():
            if code not in (_REGCOUNT, _FRAME_SIZE, _MIN_STACK_SIZE):
                continue
            index, value = struct.unpack_from("<II", payload)
            kernel = by_index.get(index)
            if kernel is None:
                continue
            if code == _REGCOUNT:
                kernel.registers = value
            elif value != _RECURSION:
                kernel.local_bytes = max(kernel.local_bytes, value)

    def _global_image(self) -> tuple[bytes, dict[int, int]]:
        """Initialised data followed by zeroed data, and where each section starts in it."""
        image, starts = b"", {}
        for index, section in enumerate(self.sections):
            if section.name not in (".nv.global.init", ".nv.global"):
                continue
            alignment = max(section["sh_addralign"], 1)
            if len(image) + alignment + section["sh_size"] > MOST_GLOBAL_BYTES:
                words = f"{section.name} takes {section['sh_size']:,} bytes aligned to {alignment:,}"
                raise NotACubin(self.path, words)
            image += bytes(-len(image) % alignment)
            starts[index] = len(image)
            image += section.data() if section["sh_type"] == "SHT_PROGBITS" else bytes(section["sh_size"])
        return image, starts

    def _global_symbols(self, starts: dict[int, int]) -> tuple[GlobalSymbol, ...]:
        found = []
        for symbol in self.symbols:
            where = symbol["st_shndx"]
            kind = symbol["st_info"]["type"]
            if kind not in ("STT_OBJECT", "STT_SECTION") or not isinstance(where, int):
                continue
            section = self.sections[where]
            name, size = symbol.name, symbol["st_size"]
            if kind == "STT_SECTION":  # relocations may count from where a section starts
                name, size = section.name, section["sh_size"]
            bank = re.match(r"\.nv\.constant(\d+)$", section.name)
            if where in starts:
                found.append(GlobalSymbol(name, starts[where] + symbol["st_value"], size))
            elif bank:
                found.append(GlobalSymbol(name, symbol["st_value"], size, int(bank[1])))
        return tuple(found)

    def _relocations(self, name: str, shared: bool, starts: dict[int, int]) -> tuple[Relocation, ...]:
        """Relocations of one code section and its own constants, and of what the module's kernels share."""
        found = []
        for section in self.sections:
            match = re.match(
                r"\.rela?\.(?:nv\.(constant\d+)|(text)|nv\.(global)(?:\.init)?)(?:\.(.+))?$", section.name
            )
            if not match or match[4] not in (name, None if shared else name):
                continue
            shift = starts.get(section["sh_info"], 0)
            target = match[1] or match[2] or match[3]
            for entry in section.iter_relocations():
                symbol = self.symbols[entry["r_info_sym"]]
                whose = symbol.name
                if symbol["st_info"]["type"] == "STT_SECTION":
                    whose = self.sections[symbol["st_shndx"]].name
                addend = entry["r_addend"] if entry.is_RELA() else 0
                found.append(Relocation(target, entry["r_offset"] + shift, entry["r_info_type"], whose, addend))
        return tuple(found)
