"""What is fuzzed: every reader of something that a user hands over, with inputs to start from and the errors it may
raise. Anything else, and anything that takes longer than its limit, is a finding.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace

from gpusim.config import load_config
from gpusim.config.load import shipped_names
from gpusim.errors import ConfigError, WorkloadError
from gpusim.results.profile import ProfileError, parse_profile
from gpusim.workload.target import parse_arguments, parse_dim3
from isa import microops as m
from isa.cubin import read_cubin
from isa.demangle import qualified_name
from isa.errors import DecodeError, NotACubin, ProgramFileError, SimulationError, UnknownInstruction
from isa.instruction import parse_instruction
from isa.listing import decode_sections, read_sections
from isa.lower import lower
from isa.opcodes import OPCODES
from isa.program import Program
from programs import images
from tests.fuzz import streams
from tests.fuzz.mutate import mutate_bytes, mutate_elf, mutate_text, mutate_tree
from validate.baseline import FOLDER, BaselineError, load, path_of

CORPUS = Path(__file__).parent / "corpus"
"""Inputs that once were findings, as TARGET-NAME; every run begins with them."""

_LARGEST = 200_000  # bytes of a configuration or table


@dataclass(frozen=True)
class Target:
    """One reader. `make` gives the next input, `run` reads it; errors of the classes in `allowed` are answers. seconds:
    in which it has to answer."""

    make: Callable[[random.Random], bytes]
    run: Callable[[bytes], object]
    allowed: tuple[type[Exception], ...]
    seconds: float = 5


@cache
def programs() -> tuple[Program, ...]:
    """The bundled programs' recorded images: they need no tool chain."""
    names = [entry["file"] for entry in images.index()["images"]]
    return tuple(Program.open(images.FOLDER / name) for name in names)


# --- cubins -----------------------------------------------------------------------------------------------------------
def _make_cubin(rng: random.Random) -> bytes:
    cubins = [program.cubin for program in programs()]
    return mutate_elf(rng, rng.choice(cubins), cubins)


def _run_cubin(data: bytes) -> None:
    cubin = read_cubin(data)
    for name in (*cubin.kernels, *cubin.functions):
        cubin.code(name)
        decode_sections(cubin, [name])


# --- listings and instructions ----------------------------------------------------------------------------------------
@cache
def _listing(number: int) -> str:
    """A listing as nvdisasm prints it, made from a program."""
    program = programs()[number]
    at = {address: name for name, address in program.labels.items()}
    rows = [f'\t.section\t.text.{program.symbol},"ax",@progbits']
    for each in program.instructions:
        if each.address in at:
            rows.append(f"{at[each.address]}:")
        rows.append(f'\t//## File "{each.file}", line {each.line}')
        low, high = each.encoding & (1 << 64) - 1, each.encoding >> 64
        rows.append(f"        /*{each.address:04x}*/                   {each.text} ;  /* 0x{low:016x} */")
        rows.append(f"                                                   /* 0x{high:016x} */")
    return "\n".join(rows)


def _make_listing(rng: random.Random) -> bytes:
    rows = _listing(rng.randrange(len(programs()))).split("\n")
    first = rng.randrange(len(rows))
    part = rows[: 1 + rng.randrange(8)] + rows[first : first + 12]
    at = rng.randrange(len(part))
    part[at] = mutate_text(rng, part[at], _words())
    if rng.random() < 0.3:
        rng.shuffle(part)
    return "\n".join(part).encode("utf-8", "replace")


def _run_listing(data: bytes) -> None:
    for section in read_sections(data.decode("utf-8", "replace")).values():
        for address, text, encoding, line, file in section.lines:
            parse_instruction(address, text, encoding, section.labels, line, file)


@cache
def _words() -> tuple[str, ...]:
    """Opcodes, modifiers, registers and punctuation of the machine language."""
    modifiers = sorted({name for row in OPCODES.values() for name in row.modifiers})
    registers = ["R0", "R7", "R254", "R255", "R300", "RZ", "UR4", "UR62", "UR63", "URZ", "P0", "P6", "P9", "PT"]
    registers += ["UP3", "UPT", "B0", "B15", "B16", "SB5", "SB9", *sorted(m.SPECIAL_REGISTERS)]
    marks = ["[", "]", "c[0x0][0x210]", "c[0x1f][0xfffc]", "cx[UR4][0x10]", "desc[UR4]", "-", "~", "|", "!"]
    marks.append("`(.L_x_0)")
    marks += ["{0,1}", "{77}", ".reuse", "@!P0 ", "@UP1 ", "(*", "*)", "-0x8", "+INF", "-QNAN", "1e999", "32@lo("]
    return (*sorted(OPCODES), *modifiers, *registers, *marks)


@cache
def _texts() -> tuple[tuple[str, int], ...]:
    found = {(each.text, each.encoding) for program in programs() for each in program.instructions}
    return tuple(sorted(found))


def _make_instruction(rng: random.Random) -> bytes:
    text, encoding = rng.choice(_texts())
    if rng.random() < 0.15:
        text = " ".join(rng.choice(_words()) for _ in range(rng.randrange(1, 6)))
    if rng.random() < 0.3:
        encoding ^= rng.getrandbits(128) & rng.getrandbits(128) & rng.getrandbits(128)
    return f"{encoding:032x} {mutate_text(rng, text, _words())}".encode("utf-8", "replace")


def _run_instruction(data: bytes) -> None:
    word, _, text = data.decode("utf-8", "replace").partition(" ")
    labels = {".L_x_0": 0, ".L_x_1": 16, ".L_x_2": 1 << 40}
    instruction = parse_instruction(16, text, int(word, 16), labels)
    lower(SimpleNamespace(name="k", registers=8, instructions=(instruction,)))


# --- program images ---------------------------------------------------------------------------------------------------
def _make_image(rng: random.Random) -> bytes:
    data = _image(rng.randrange(len(programs())))
    kind = rng.random()
    if kind < 0.1:
        return data[:8] + zlib.compress(bytes(rng.choice((1 << 12, 1 << 12, 1 << 20))), 9)
    if kind < 0.25:
        return mutate_bytes(rng, data)
    document = json.loads(zlib.decompress(data[8:]))
    document["instructions"] = document["instructions"][: rng.randrange(1, 40)]
    for _ in range(rng.choice((1, 1, 2, 3))):
        document = mutate_tree(rng, document)
    return data[:8] + zlib.compress(json.dumps(document).encode("utf-8", "surrogatepass"), 1)


@cache
def _image(number: int) -> bytes:
    return programs()[number].to_bytes()


def _run_image(data: bytes) -> None:
    program = Program.from_bytes(data)
    lower(program)
    assert program.code_sha256 and qualified_name(program.symbol) is not None
    program.source_line(program.instructions[0])


# --- configurations, command lines, tables ----------------------------------------------------------------------------
@cache
def _configurations() -> tuple[str, ...]:
    folder = Path(load_config.__code__.co_filename).parent
    return tuple((folder / f"{name}.toml").read_text() for name in shipped_names())


def _make_config(rng: random.Random) -> bytes:
    rows = rng.choice(_configurations()).split("\n")
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(len(rows))
        words = ("value", "source", "=", "[", "]", "{", "}", '"', "nan", "inf", "true", "base")
        rows[at] = mutate_text(rng, rows[at], words)
    if rng.random() < 0.02:
        rows.insert(rng.randrange(len(rows)), "x = " + rng.choice("[{") * rng.choice((50, 3000, 60_000)))
    return "\n".join(rows).encode("utf-8", "surrogatepass")[:_LARGEST]


def _run_config(data: bytes) -> None:
    path = _scratch() / "fuzz.toml"
    path.write_bytes(data)
    load_config(path)


def _make_spec(rng: random.Random) -> bytes:
    words = ("float32", "int64", "bool", "complex64", "object", "[", "]", "(", ")", "=", ",", "random", "arange", "1_0")
    texts = ("float32[64]=random, int32(7), 2.5", "uint8[4,4]=arange, true", "16,16,1", "0x10", "float16[2]=1e9")
    return mutate_text(rng, rng.choice(texts), words).encode("utf-8", "replace")


def _run_spec(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    if len(text) < 400 and not any(len(word) > 5 for word in "".join(c if c.isdigit() else " " for c in text).split()):
        parse_arguments(text)
    parse_dim3(text, "--grid")


def _make_override(rng: random.Random) -> bytes:
    words = ("sm", "count", ".", "=", "-1", "1e400", "nan", "l2", "bytes", "gpu", "name", "'", '"')
    text = rng.choice(("sm.count=66", "l2.bytes=1048576", "issue.policy=gto", "dram.channels=4", "gpu.clock_mhz=1980"))
    return mutate_text(rng, text, words).encode("utf-8", "replace")


def _run_override(data: bytes) -> None:
    load_config("tiny", [data.decode("utf-8", "replace")])


_TABLE = (
    '==PROF== Connected\n"ID","Process ID","Kernel Name","Block Size","Grid Size","Device","CC","a.sum","b"\n'
    '"","","","","","","","ns",""\n"0","77","k(int)","(32, 1, 1)","(4, 1, 1)","0","9.0","12 (3; 9)","n/a"\n'
)


def _make_table(rng: random.Random) -> bytes:
    return mutate_text(rng, _TABLE, ('"', ",", "\n", "ID", "(", ")", ";", "\u00b2", "\x00")).encode("utf-8", "replace")


@cache
def _baseline() -> str:
    return sorted(FOLDER.glob("*/*/*.json"))[0].read_text("utf-8")


def _make_baseline(rng: random.Random) -> bytes:
    if rng.random() < 0.2:
        return mutate_bytes(rng, _baseline().encode()[:20_000])
    tree = json.loads(_baseline())
    for _ in range(rng.choice((1, 2, 4))):
        tree = mutate_tree(rng, tree)
    return json.dumps(tree).encode("utf-8", "surrogatepass")


def _run_baseline(data: bytes) -> None:
    folder = _scratch()
    path = path_of("fuzz", "gpu", folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    load.__wrapped__("fuzz", "gpu", folder)


@cache
def _scratch() -> Path:
    shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
    return Path(tempfile.mkdtemp(prefix="gpusim-fuzz-", dir=shared))


TARGETS = {
    "cubin": Target(_make_cubin, _run_cubin, (NotACubin,)),
    "listing": Target(_make_listing, _run_listing, (DecodeError,)),
    "instruction": Target(_make_instruction, _run_instruction, (DecodeError, UnknownInstruction)),
    "image": Target(_make_image, _run_image, (ProgramFileError, UnknownInstruction)),
    "config": Target(_make_config, _run_config, (ConfigError,)),
    "override": Target(_make_override, _run_override, (ConfigError,)),
    "spec": Target(_make_spec, _run_spec, (WorkloadError,)),
    "table": Target(_make_table, lambda data: parse_profile(data.decode("utf-8", "replace")), (ProfileError,)),
    "baseline": Target(_make_baseline, _run_baseline, (BaselineError,)),
    "stream": Target(streams.make, streams.run, (SimulationError,), seconds=60),
}
