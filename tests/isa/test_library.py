"""One kernel out of a file of many: only its code is disassembled, and the program is that of the whole listing."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Collection
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

import isa
from isa import elf, listing
from isa.assemble import link_objects
from isa.cache import _cache_of
from isa.compile import assemble
from isa.cubin import Cubin, CubinKernel, _Reader, read_cubin
from isa.elf import Elf
from isa.errors import NotACubin
from isa.link import CodeSection
from isa.listing import program_from_cubin, programs_from_cubin
from isa.program import Program
from isa.templates import Templates, templates
from tests.gpusim import test_link
from tests.isa import test_cubin, test_listing, test_load

pytestmark = pytest.mark.usefixtures("toolchain")


# Beside what `test_link.SEPARATE` has: a function that no table names, and a kernel that calls nothing.
ALONE = r"""
__device__ __noinline__ int unused(int n) { return n ? 7 * unused(n - 1) : 7; }
extern "C" __global__ void three(int *out) { out[threadIdx.x] = unused(out[0]); }
extern "C" __global__ void four(int *out) { for (int i = 0; i < out[1]; ++i) out[i] += out[i + 1] / out[i + 2]; }
"""


@cache
def _separate() -> bytes:
    options = "-rdc=true", "-lineinfo"
    return link_objects([("a.cubin", isa.compile_cuda(test_link.SEPARATE + ALONE, options=options))], "sm_90")


CUBINS = {
    "functions": _separate,
    "variables": cache(lambda: isa.compile_cuda(test_cubin.SOURCE)),
    "templates": cache(lambda: isa.compile_cuda(test_load.SOURCE, path="kernels.cu")),
    "inlined lines": cache(lambda: isa.compile_cuda(test_listing.KERNELS, path="kernels.cu", options=("-lineinfo",))),
}


@pytest.fixture(autouse=True)
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSIM_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """The code sections that are listed, each time."""
    seen: list[set[str]] = []
    real = listing._listed

    def sections(parsed: Cubin, names: Collection[str]) -> dict[str, CodeSection]:
        seen.append(set(names))
        return real(parsed, names)

    monkeypatch.setattr(listing, "_listed", sections)
    return seen


def _counted(program: Program) -> Program:
    """The program with its labels counted anew as the code names them, as they are counted through a listing."""
    numbers: dict[str, str] = {}

    def renamed(match: re.Match[str]) -> str:
        return numbers.setdefault(match[0], f".L_{len(numbers)}")

    def text(words: str) -> str:
        return re.sub(r"\.L_x_\d+", renamed, words)

    instructions = tuple(replace(each, text=text(each.text)) for each in program.instructions)
    # A label that no instruction names, such as a section's end, is as good as any other at its place.
    known = {name: at for name, at in program.labels.items() if name in numbers or ".L_x_" not in name}
    labels = {numbers.get(name, name): at for name, at in known.items()}
    return replace(program, instructions=instructions, labels=labels, source={})


REACHED = {
    "one": {"one", "_Z7throughi", "_Z3sumi"},
    "three": {"three", "_Z6unusedi"},
    "four": {"four"},
}
TABLES = {"_Z7throughi", "_Z6squarei", "_Z3sumi"}
"""What the module's tables name, which is listed with each kernel, as is what it calls: its relocations have both."""


@pytest.mark.parametrize("name", ["functions", "inlined lines"])
def test_a_chosen_kernel_is_that_of_the_whole_listing(
    name: str, listed: list[set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As nvdisasm lists all, whoever lists the chosen one."""
    cubin = CUBINS[name]()
    with monkeypatch.context() as only:
        only.setattr(listing, "decode_sections", lambda *_: None)
        whole = programs_from_cubin(cubin)
    assert len(whole) > 1
    for symbol in REACHED if name == "functions" else whole:
        expected, program = whole[symbol], program_from_cubin(cubin, symbol, abi="c")
        found = _counted(program)
        # A section that begins with the line of which the one before it has come gets no comment in a whole listing.
        unknown = [each.line is None for each in expected.instructions]
        lines = tuple(
            replace(each, line=None, file=None) if none else each
            for each, none in zip(found.instructions, unknown, strict=True)
        )
        assert replace(found, instructions=lines) == _counted(expected)
        assert symbol in listed[0]
        if name == "functions":
            assert listed == [REACHED[symbol] | TABLES]
            assert {"one", "two", "three", "four", "_Z6unusedi"} & program.labels.keys() == REACHED[symbol] - TABLES
        listed.clear()


def test_functions_that_only_the_text_names(listed: list[set[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without relocations of code, nvdisasm has to list again until there is everything that it names."""
    monkeypatch.setattr(listing, "decode_sections", lambda *_: None)
    cubin = _separate()
    parsed = read_cubin(cubin)
    for each in (*parsed.kernels.values(), *parsed.functions.values()):
        each.relocations = ()
    monkeypatch.setattr(listing, "read_cubin", lambda *_: parsed)
    program_from_cubin(cubin, "one", abi="c")
    assert listed == [{"one"}, {"one", "_Z7throughi"}, {"one", "_Z7throughi", "_Z3sumi"}]


def test_an_instruction_that_no_template_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """nvdisasm lists the kernel, and the program is the same."""
    cubin, asked, real = CUBINS["templates"](), list[Collection[int]](), listing.disassemble
    program = program_from_cubin(cubin, "plain")
    known, unknown, text = templates("sm_90"), program.instructions[3].encoding, Templates.text
    assert known is not None and known.text(unknown) == program.instructions[3].text
    monkeypatch.setattr(Templates, "text", lambda self, word: None if word == unknown else text(self, word))
    monkeypatch.setattr(listing, "disassemble", lambda *each: asked.append(each[1]) or real(*each))
    monkeypatch.setenv("GPUSIM_CACHE_DIR", os.environ["GPUSIM_CACHE_DIR"] + "2")
    assert _counted(program_from_cubin(cubin, "plain")) == _counted(program) and len(asked) == 1


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    body = "".join(f"mad.lo.u32 v, v, v, {k};\n" for k in range(40))
    kernels = "".join(
        f".visible .entry kernel_{k}(.param .u64 out) {{ .reg .u64 p; .reg .u32 v; ld.param.u64 p, [out];"
        f"ld.global.u32 v, [p+{4 * k}];\n{body}st.global.u32 [p], v; ret; }}\n"
        for k in range(100)
    )
    path = tmp_path_factory.mktemp("library") / "library.cubin"
    path.write_bytes(assemble(f".version 8.0\n.target sm_90\n.address_size 64\n{kernels}", "sm_90"))
    return path


def test_one_of_many_kernels(library: Path, listed: list[set[str]], tmp_path: Path) -> None:
    program = isa.load(library, "kernel_77")
    assert listed == [{"kernel_77"}]
    load = next(each for each in program.instructions if each.opcode == "LDG")
    assert load.operands[1].offset == 4 * 77
    # From the disk, and without the library in every entry.
    _cache_of.cache_clear()
    assert isa.load(library, "kernel_77") == program and len(listed) == 1
    (entry,) = (tmp_path / "cache").rglob("*.gpuprog")
    assert entry.stat().st_size < library.stat().st_size / 10
    # An entry belongs to a file's content: another file's kernel of the same name is another program.
    other = tmp_path / "other.cubin"
    other.write_bytes(library.read_bytes() + b"\0")
    assert isa.load(other, "kernel_77").cubin == other.read_bytes() and len(listed) == 2


def test_a_kernel_is_read_when_it_is_asked_for(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And damage to what the file says about one is found then, and hurts no other."""
    content = library.read_bytes()
    read, real = list[str](), _Reader._read_code

    def read_code(self: _Reader, kernel: CubinKernel, text: elf.ElfSection) -> None:
        read.append(kernel.name)
        real(self, kernel, text)

    monkeypatch.setattr(_Reader, "_read_code", read_code)
    parsed = read_cubin(content)
    assert len(parsed.kernels) == 100 and parsed.code_bytes.keys() == parsed.kernels.keys() and not read
    assert parsed.kernels["kernel_3"].code == parsed.kernels["kernel_3"].code and read == ["kernel_3"]
    section = parsed.file.by_name[".nv.info.kernel_5"]
    damaged = bytearray(content)
    damaged[section.offset : section.offset + section.size] = bytes([4, 0x17, 1, 0]) * (section.size // 4)
    parsed = read_cubin(bytes(damaged))
    assert parsed.kernels["kernel_4"].registers > 0
    with pytest.raises(NotACubin, match="damaged"):
        parsed.kernels["kernel_5"]


def test_the_list_of_kernels(library: Path, listed: list[set[str]], tmp_path: Path) -> None:
    names = tuple(f"kernel_{k}" for k in range(100))
    with pytest.raises(isa.EntryError) as caught:
        isa.load(library)
    assert sorted(caught.value.available) == sorted(names)
    (tmp_path / "kernels.cu").write_text(test_load.SOURCE)
    with pytest.raises(isa.EntryError, match=r"\n  void both<float>\(float\*\)") as caught:
        isa.load(tmp_path / "kernels.cu")
    assert set(caught.value.available) == {"_ZN2ns4fillEPii", "_Z4bothIfEvPT_", "_Z4bothIiEvPT_", "plain"}
    assert not listed


@pytest.mark.parametrize("name", CUBINS)
def test_sections_symbols_and_relocations(name: str) -> None:
    """As pyelftools reads them."""
    cubin = CUBINS[name]()
    file, other = Elf(cubin, name), ELFFile(io.BytesIO(cubin))
    sections = list(other.iter_sections())
    assert [each.name for each in file.sections] == [each.name for each in sections]
    for ours, theirs in zip(file.sections, sections, strict=True):
        header = theirs.header
        assert (ours.offset, ours.size, ours.link, ours.info) == (
            header.sh_offset, header.sh_size, header.sh_link, header.sh_info,
        )  # fmt: skip
        if header.sh_type in ("SHT_REL", "SHT_RELA"):
            names = list(other.get_section(header.sh_link).iter_symbols())
            assert [(at, kind, symbol.name, addend) for at, kind, symbol, addend in file.relocations(ours)] == [
                (each["r_offset"], each["r_info_type"], names[each["r_info_sym"]].name, each.entry.get("r_addend", 0))
                for each in theirs.iter_relocations()
            ]
        elif header.sh_type != "SHT_NOBITS":
            assert file.data(ours) == theirs.data()
    symbols = list(other.get_section_by_name(".symtab").iter_symbols())
    assert [(each.name, each.value, each.size) for each in file.symbols] == [
        (each.name, each["st_value"], each["st_size"]) for each in symbols
    ]
    assert [each.section and each.section.number for each in file.symbols] == [
        each["st_shndx"] if isinstance(each["st_shndx"], int) else None for each in symbols
    ]
