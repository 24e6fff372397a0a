"""Disassemble a cubin and read the listing into instructions.

`nvdisasm -c -hex -gi` prints, per code section: labels, source-line comments (the innermost function first, then one
line for each caller it was inlined into), and each instruction with its 128-bit encoding in two lines.
"""

from __future__ import annotations

import linecache
import os
import re
import tempfile
from collections.abc import Collection, Mapping
from itertools import count
from pathlib import Path

from isa import device_library
from isa.cache import ProgramCache, default_cache
from isa.cubin import Cubin, read_cubin
from isa.demangle import demangle, qualified_name, squeeze
from isa.demangle import names as demangled
from isa.errors import DecodeError, EntryError, ToolchainFailed
from isa.instruction import INSTRUCTION_BYTES
from isa.link import CodeSection, merge, reachable
from isa.program import DECODER, IMAGE_FORMAT, Program
from isa.source_lines import of_tools
from isa.templates import templates
from isa.toolchain import find_tool, identity, run_tool

_SECTION = re.compile(r"\t\.section\t\.text\.(.+?),")
_LABEL = re.compile(r"([.$\w]\S*):$")
# Each object that is linked brings a copy of ptxas's own functions, such as divisions, which nvdisasm numbers.
_COPY = re.compile(r"(?<=`\()(__(?:cuda|internal)_\w+?)__\d+(?=\))")
_SOURCE = re.compile(r'\t//## File "(.+?)", line (\d{1,9})(?: inlined at "(.+?)", line (\d{1,9}))?')
UNNAMED = "UNNAMED"  # opcode of an encoding that nvdisasm prints without a name
_CODE = re.compile(r"\s+/\*([0-9a-f]{4,15})\*/\s(.*)/\* 0x([0-9a-f]{16}) \*/$")
_JUMP_TABLE = re.compile(r"\b(?:BRX|JMX)")
_UPPER = re.compile(r"\s+/\* 0x([0-9a-f]{16}) \*/$")
_LARGEST_SOURCE_BYTES = 64 << 20
# Numba puts ABI tags into a kernel's mangled name: a counter ("B2v1") and compilation flags ("B106cw51c...").
_NUMBA_NAME = re.compile(r"_ZN.*B\d+v\d+B\d+cw\d+c")

_DEVICE_RUNTIME = "_cuda_device_runtime_cu_"  # kernels of CUDA's device runtime, linked for grid-wide barriers


def disassemble(cubin: bytes, functions: Collection[int] = ()) -> str:
    """The vendor's listing of a cubin. functions: symbol indices of those whose code sections are wanted; all if there
    are none. Raises ToolchainMissing (there is no nvdisasm), ToolchainFailed (nvdisasm rejects the file; the message is
    its own)."""
    tool = find_tool("nvdisasm")
    with tempfile.TemporaryDirectory(prefix="gpusim-") as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        chosen = ["-fun", ",".join(map(str, sorted(functions)))] if functions else []
        command = [tool, "-c", "-hex", "-gi", *chosen, str(path)]
        # Without the analysis of data flow, a third of its time: it finds the targets of jump tables, nothing else.
        done = run_tool([*command, "-ndf"])
        if _JUMP_TABLE.search(done.stdout):
            done = run_tool(command)
    if done.returncode:
        raise ToolchainFailed(f"nvdisasm failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def read_sections(listing: str) -> dict[str, CodeSection]:
    """Split a listing into its code sections by mangled kernel name.

    A source line holds until the next one. It may come as a chain of frames, innermost first; the instruction gets the
    innermost frame that is not in a header of the tool chain, or the innermost where all are.

    Raises DecodeError (an instruction's second half is missing or an address is out of sequence)."""
    sections: dict[str, CodeSection] = {}
    section: CodeSection | None = None
    frames: list[tuple[str, int]] = []
    pending: tuple[int, str, int] | None = None
    chain_ended = True
    for row in listing.splitlines():
        if pending is not None:
            upper = _UPPER.match(row)
            if not upper or section is None:
                raise DecodeError(f"no second half of the encoding after '{pending[1]}' at 0x{pending[0]:x}")
            address, text, lower = pending
            if address != INSTRUCTION_BYTES * len(section.lines):
                raise DecodeError(f"'{text}' at 0x{address:x} is out of sequence in section {section.name}")
            file, line = next((each for each in frames if not of_tools(each[0])), (*frames, (None, None))[0])
            section.lines.append((address, text, int(upper[1], 16) << 64 | lower, line, file))
            pending, chain_ended = None, True
        elif code := _CODE.match(row):
            text = _COPY.sub(r"\1", code[2].strip().removesuffix(";").rstrip())
            pending = int(code[1], 16), text, int(code[3], 16)
        elif section is not None and (unnamed := _UPPER.match(row)):
            # Only an encoding stands here: nvdisasm knows no instruction of this architecture by it.
            pending = INSTRUCTION_BYTES * len(section.lines), UNNAMED, int(unnamed[1], 16)
        elif source := _SOURCE.match(row):
            if chain_ended:
                frames, chain_ended = [], False
            frames.append((source[1], int(source[2])))
            if source[3]:
                frames.append((source[3], int(source[4])))
        elif start := _SECTION.match(row):
            section = sections.setdefault(start[1], CodeSection(start[1]))
            frames = []
        elif section is not None and (label := _LABEL.match(row)):
            section.labels[label[1]] = INSTRUCTION_BYTES * len(section.lines)
    return sections


def decode_sections(parsed: Cubin, names: Collection[str]) -> dict[str, CodeSection] | None:
    """Code sections from templates and the cubin's line table, as `read_sections` finds them in a listing of these;
    None where an instruction has no template, or an address that the loader writes. Raises NotACubin."""
    known = templates(parsed.arch)
    wanted = sorted((parsed.code(name) for name in names), key=lambda each: each.symbol_index)
    if known is None or any(entry.target == "text" for each in wanted for entry in each.relocations):
        return None
    sections, labels = dict[str, CodeSection](), count()
    for each in wanted:
        sections[each.name] = section = CodeSection(each.name, {f".text.{each.name}": 0})
        places = {at: name for name, at in each.functions.items()} | {0: each.name}
        lines = sorted(parsed.lines.get(each.name, ()), key=lambda row: row[0])
        rows = iter([*lines, (len(each.code), ("", 0))])
        (start, following), frame = next(rows), (None, None)
        for address in range(0, len(each.code), INSTRUCTION_BYTES):
            encoding = int.from_bytes(each.code[address : address + INSTRUCTION_BYTES], "little")
            text = known.text(encoding)
            if text is None:
                return None
            text, jumps, distance = text.partition("=>")
            if jumps:
                target = address + INSTRUCTION_BYTES + int(distance, 16)
                if not 0 <= target <= len(each.code):
                    return None
                if target not in places:
                    places[target] = f".L_x_{next(labels)}"
                    section.labels[places[target]] = target
                text = _COPY.sub(r"\1", f"{text}`({places[target]})")
            while start <= address:
                frame, (start, following) = following, next(rows)
            section.lines.append((address, text, encoding, frame[1], frame[0]))
    return sections


def program_from_cubin(
    cubin: bytes | Cubin, entry: str | None = None, *, abi: str | None = None, path: str = "<cubin>"
) -> Program:
    """Decode one kernel of a cubin; the result is cached by content.

    cubin: the file's content, or what `read_cubin` has made of it. entry: which kernel: its mangled name, or its C++
    name with or without namespace, template arguments and parameters ('ns::kernel<float, 4>(float*, int)'); None if
    there is only one. abi: 'numba' or 'c', how arguments are laid out; None guesses from the mangled name. path: the
    file's name, for messages. Raises NotACubin (the file is not a cubin), EntryError (no such kernel, or several fit),
    DecodeError (an instruction has an unknown form)."""
    parsed = cubin if isinstance(cubin, Cubin) else read_cubin(cubin, path)
    symbol = select_entry(tuple(parsed.kernels), entry, path)
    abi = abi or ("numba" if _NUMBA_NAME.match(symbol) else "c")
    key = ProgramCache.key(["cubin", f"{IMAGE_FORMAT}.{DECODER}", parsed.sha256, symbol, abi, identity("nvdisasm")])
    program = default_cache().get(key, parsed)
    if program is None:
        sections = _sections_of(parsed, symbol)
        if parsed.externals & device_library.NAMES:
            library, _ = device_library.device_library(parsed.arch)
            # Each listing counts its labels from 0, and here two of them come together.
            sections |= read_sections(disassemble(library).replace(".L_x_", ".L_x_900000"))
            parsed = device_library.added_to(parsed)
        program = _build(parsed, sections, symbol, abi)
        default_cache().put(key, program, with_cubin=False)
    return with_current_source(program)


def _sections_of(parsed: Cubin, symbol: str) -> dict[str, CodeSection]:
    """Disassembly of a kernel and of all that it can reach in the cubin: relocations say what that is, or its text,
    which is then listed once more with what was missing, since labels are counted through a listing."""
    sections = dict[str, CodeSection]()
    while missing := [each.name for each in reachable(parsed, sections, symbol)[0] if each.name not in sections]:
        listed = _listed(parsed, {*sections, *missing})
        if not listed.keys() >= set(missing):
            raise DecodeError(f"nvdisasm lists no code for {missing[0]}")
        sections = listed
    return sections


def _listed(parsed: Cubin, names: Collection[str]) -> dict[str, CodeSection]:
    """Some code sections, by templates, or by nvdisasm where these do not know an instruction."""
    sections = decode_sections(parsed, names)
    if sections is None:
        indices = [parsed.code(name).symbol_index for name in names]
        sections = read_sections(disassemble(parsed.file.content, indices))
    # nvdisasm finds no function by its number in some linked files.
    return sections if sections.keys() >= set(names) else read_sections(disassemble(parsed.file.content))


def programs_from_cubin(cubin: bytes, *, abi: str = "c", path: str = "<cubin>") -> dict[str, Program]:
    """Decode every kernel of a cubin with one disassembly, by mangled name; nothing is cached. Raises as above."""
    parsed = read_cubin(cubin, path)
    sections = decode_sections(parsed, [*parsed.kernels, *parsed.functions]) or read_sections(disassemble(cubin))
    return {name: _build(parsed, sections, name, abi) for name in parsed.kernels}


def select_entry(names: tuple[str, ...], entry: str | None, path: str) -> str:
    """The mangled name that `entry` means; raises EntryError with the kernels if none or several fit."""
    if entry is None:
        names = tuple(name for name in names if _DEVICE_RUNTIME not in name) or names
        if len(names) == 1:
            return names[0]
        reason = f"holds several kernels: choose one as {path}:KERNEL, or by entry=" if names else "holds no kernel"
        raise EntryError(f"{path} {reason}", names)
    if entry in names:
        return entry
    wanted = squeeze(entry)
    called = {name: demangled(name) for name in names}
    for exactness in range(len(next(iter(called.values()), ()))):
        fitting = tuple(name for name in names if called[name][exactness] == wanted)
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            meant = ", ".join(demangle(name) for name in fitting)
            raise EntryError(f"'{entry}' names several kernels of {path}, choose one of {meant}", fitting)
    raise EntryError(f"{path} has no kernel '{entry}'", names)


def _build(parsed: Cubin, sections: Mapping[str, CodeSection], symbol: str, abi: str) -> Program:
    kernel = parsed.kernels[symbol]
    instructions, labels, relocations, reached = merge(parsed, sections, symbol)
    for each in reached:
        encodings = (encoding for _, _, encoding, _, _ in sections[each.name].lines)
        if b"".join(encoding.to_bytes(INSTRUCTION_BYTES, "little") for encoding in encodings) != each.code:
            raise DecodeError(f"the listing of {each.name} does not match its code")
    facts = {name: value for name, value in vars(kernel).items() if name in Program.__dataclass_fields__}
    facts |= {
        "name": qualified_name(kernel.name).rpartition("::")[2],
        "registers": max(each.registers for each in reached),
        "relocations": relocations,
    }
    return Program(
        symbol=kernel.name,
        arch=parsed.arch,
        instructions=instructions,
        abi=abi,
        source={},
        cubin=parsed.file.content,
        sha256=parsed.sha256,
        labels=labels,
        global_image=parsed.global_image,
        global_symbols=parsed.global_symbols,
        **facts,
    )


def _lines_of(file: str) -> list[str]:
    """Lines of a source file that a program names; none if it cannot be one: the name comes from the cubin, and might
    be that of a device without an end."""
    try:
        if os.path.exists(file) and (not os.path.isfile(file) or os.path.getsize(file) > _LARGEST_SOURCE_BYTES):
            return []
    except (OSError, ValueError):
        return []
    linecache.checkcache(file)
    return linecache.getlines(file)


def with_current_source(program: Program) -> Program:
    """The program with its source files' text as it is now; a file that cannot be read keeps what it had.

    Line numbers are part of the program, so an edit that moves code makes another program, while an edited
    comment does not, and then the stored text would be old.
    """
    files = set(program.source) or {each.file for each in program.instructions if each.file}
    source = dict(program.source)
    for file in sorted(file for file in files if not of_tools(file)):
        if lines := _lines_of(file):
            source[file] = [line.rstrip("\r\n") for line in lines]
    return program if source == program.source else program.but(source=source)
