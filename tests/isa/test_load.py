"""Loading kernels from files: every kind of file, the choice of a kernel, and the errors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import isa
from isa import CompileError, EntryError, NotACubin
from isa.assemble import link_objects
from isa.compile import assemble
from isa.demangle import demangle
from isa.errors import ProgramFileError, ToolchainMissing
from isa.listing import program_from_cubin, select_entry

SOURCE = """namespace ns { __global__ void fill(int *out, int value) { out[threadIdx.x] = value; } }
template <class T> __global__ void both(T *out) { out[0] = 1; }
template __global__ void both<float>(float *);
template __global__ void both<int>(int *);
extern "C" __global__ void plain(float *out) {
  out[threadIdx.x] *= 2;
}
"""
PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry fill(.param .u64 out, .param .u32 value)
{
  .reg .u64 %p;
  .reg .u32 %v;
  ld.param.u64 %p, [out];
  ld.param.u32 %v, [value];
  st.global.u32 [%p], %v;
  ret;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the same kernels as .cu and .cubin, and one as .ptx."""
    made = tmp_path_factory.mktemp("load")
    (made / "kernels.cu").write_text(SOURCE)
    (made / "fill.ptx").write_text(PTX)
    try:
        (made / "kernels.cubin").write_bytes(isa.compile_cuda(SOURCE, path=str(made / "kernels.cu")))
        isa.assemble(PTX)
    except ToolchainMissing as error:
        pytest.skip(str(error))
    return made


@pytest.fixture(scope="module", autouse=True)
def private_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUSIM_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def test_cu_and_cubin_give_the_same_program(folder: Path) -> None:
    from_source = isa.load(folder / "kernels.cu", "plain")
    from_cubin = isa.load(str(folder / "kernels.cubin"), "plain")
    assert from_source == from_cubin
    assert (from_cubin.name, from_cubin.abi, from_cubin.arch) == ("plain", "c", "sm_90")
    multiply = next(each for each in from_cubin.instructions if each.opcode in ("FADD", "FMUL"))
    assert (multiply.file, multiply.line) == (str(folder / "kernels.cu"), 6)
    assert from_cubin.source_line(multiply) == "  out[threadIdx.x] *= 2;"


@pytest.mark.parametrize("entry", ["fill", "ns::fill", "_ZN2ns4fillEPii"])
def test_entry_by_every_name(folder: Path, entry: str) -> None:
    program = isa.load(folder / "kernels.cubin", entry)
    assert (program.name, program.symbol) == ("fill", "_ZN2ns4fillEPii")
    assert [(each.offset, each.size) for each in program.parameters] == [(0, 8), (8, 4)]


@pytest.mark.parametrize("entry", ["both<int>", "both<float>"])
def test_kernels_of_one_line(folder: Path, entry: str) -> None:
    """A listing of both has no comment at the second, since its line is still that of the first."""
    program = isa.load(folder / "kernels.cubin", entry)
    assert {each.line for each in program.instructions} == {2}


def test_ptx_and_saved_image(folder: Path, tmp_path: Path) -> None:
    program = isa.load(folder / "fill.ptx")
    assert program.name == "fill"
    image = program.save(tmp_path / "fill.gpuprog")
    assert isa.load(image) == program
    assert isa.load(image, "fill", abi="c") == program
    with pytest.raises(EntryError, match="no kernel 'other'"):
        isa.load(image, "other")
    with pytest.raises(ProgramFileError, match="abi 'c'"):
        isa.load(image, abi="numba")


def test_abi_is_recorded(folder: Path) -> None:
    assert isa.load(folder / "kernels.cubin", "plain", abi="numba").abi == "numba"
    assert isa.load(folder / "kernels.cubin", "plain").abi == "c"
    with pytest.raises(ProgramFileError, match="'fortran'"):
        isa.load(folder / "kernels.cubin", "plain", abi="fortran")


def test_numba_abi_is_guessed_from_the_name() -> None:
    from isa.listing import _NUMBA_NAME

    numba_symbol = "_ZN8__main__5saxpyB2v1B106cw51cXTLSUwv1sDUaKthqaNgoKmjgMVuW1AiA8rAEg2Uj5ArrayIfLi1E1C"
    assert _NUMBA_NAME.match(numba_symbol)
    assert not _NUMBA_NAME.match("_ZN2ns4fillEPii")


def test_entry_errors_list_what_is_there(folder: Path) -> None:
    with pytest.raises(EntryError, match="several kernels") as caught:
        isa.load(folder / "kernels.cubin")
    assert set(caught.value.available) == {"_ZN2ns4fillEPii", "_Z4bothIfEvPT_", "_Z4bothIiEvPT_", "plain"}
    assert all(demangle(name) in str(caught.value) for name in caught.value.available)
    with pytest.raises(EntryError, match="no kernel 'absent'"):
        isa.load(folder / "kernels.cubin", "absent")
    with pytest.raises(EntryError, match="choose one of void both<") as caught:
        isa.load(folder / "kernels.cubin", "both")
    assert set(caught.value.available) == {"_Z4bothIfEvPT_", "_Z4bothIiEvPT_"}
    with pytest.raises(EntryError, match="holds no kernel"):
        select_entry((), None, "empty.cubin")


def test_file_errors(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ProgramFileError, match=r"absent\.cubin: No such file"):
        isa.load(tmp_path / "absent.cubin")
    with pytest.raises(ProgramFileError, match="is not a file of at most"):
        isa.load(tmp_path)
    (tmp_path / "kernel.txt").write_text("x")
    with pytest.raises(ProgramFileError, match=r"unknown suffix '\.txt'"):
        isa.load(tmp_path / "kernel.txt")
    (tmp_path / "text.cubin").write_text(SOURCE)
    with pytest.raises(NotACubin, match="magic"):
        isa.load(tmp_path / "text.cubin")
    (tmp_path / "text.gpuprog").write_text(SOURCE)
    with pytest.raises(ProgramFileError, match="not a program image"):
        isa.load(tmp_path / "text.gpuprog")


@pytest.mark.parametrize(
    ("name", "text", "line", "message"),
    [
        ("bad.cu", "__global__ void k(int *a) {\n  a[0] = zz;\n}\n", 2, "'zz' is not defined"),
        ("bad.ptx", PTX.replace("st.global.u32", "st.global.nope"), 10, "ptxas rejects"),
    ],
)
def test_source_errors_name_the_line(tmp_path: Path, name: str, text: str, line: int, message: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    try:
        with pytest.raises(CompileError, match=message) as caught:
            isa.load(path)
    except ToolchainMissing as error:
        pytest.skip(str(error))
    assert (caught.value.file, caught.value.line) == (str(path), line)
    assert str(caught.value).startswith(f"{path}:{line}: ")


def test_ptx_for_a_later_gpu_says_so(tmp_path: Path) -> None:
    (tmp_path / "later.ptx").write_text(PTX)
    try:
        with pytest.raises(CompileError, match=r"its \.target is a later architecture than sm_80"):
            isa.load(tmp_path / "later.ptx", arch="sm_80")
    except ToolchainMissing as error:
        pytest.skip(str(error))


def test_a_header_that_a_macro_names(tmp_path: Path) -> None:
    """What is included is not known without a preprocessor, so the file is compiled anew each time."""
    file = tmp_path / "macro.cu"
    file.write_text('#define NAME "header.h"\n#include NAME\nextern "C" __global__ void k(int *p) { *p = VALUE; }\n')
    codes = []
    for value in (0x1234, 0x4321, 0x1234):
        (tmp_path / "header.h").write_text(f"#define VALUE {value}\n")
        codes.append(isa.load(file).code_sha256)
    assert codes[0] == codes[2] != codes[1]


def test_objects_that_cannot_be_linked() -> None:
    with pytest.raises(CompileError, match="nvlink cannot link it"):
        link_objects([("damaged.ptx", b".version 8.0\n.target sm_90\nnonsense\n")], "sm_90")


def test_a_source_file_without_an_end() -> None:
    """The name of a source file comes from the cubin, and is not opened unless it is a file."""
    text = """
    .version 8.0
    .target sm_90
    .address_size 64
    .visible .entry k(.param .u64 p) { .reg .u64 x; .loc 1 3 0
    ld.param.u64 x, [p]; st.global.u32 [x], 1; ret; }
    .file 1 "/dev/zero"
    """
    program = program_from_cubin(assemble(text, "sm_90", path="k.ptx"))
    assert "/dev/zero" in {each.file for each in program.instructions}
    assert not program.source.get("/dev/zero")


def test_included_headers_and_options(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "scale.h").write_text("#define SCALE 5\n")
    (tmp_path / "k.cu").write_text(
        '#include <vector_types.h>\n#include "scale.h"\n__global__ void k(float4 *a) { a[1].x = a[0].y * SCALE; }\n'
    )
    program = isa.load(tmp_path / "k.cu", arch="sm_80", options=["--maxrregcount=16"])
    assert program.arch == "sm_80"
    assert program.registers <= 16
    assert program.opcode_histogram()["FMUL"] == 1


def test_another_kernel_of_a_file_is_not_compiled_again(tmp_path, monkeypatch, toolchain):
    compiled = []
    load = sys.modules["isa.load"]  # whose name in the package is the function's
    compile_source = load.compile_source
    monkeypatch.setattr(load, "compile_source", lambda *words: compiled.append(words) or compile_source(*words))
    monkeypatch.setenv("GPUSIM_CACHE_DIR", str(tmp_path))
    (tmp_path / "k.h").write_text("#define N 1\n")
    each = (("a", "N"), ("b", "2"))
    kernels = (f'extern "C" __global__ void {name}(int *p) {{ *p = {value}; }}' for name, value in each)
    (tmp_path / "k.cu").write_text("\n".join(['#include "k.h"', *kernels]))
    first, second = (isa.load(tmp_path / "k.cu", entry=entry) for entry in "ab")
    assert len(compiled) == 1 and first.code_sha256 != second.code_sha256
    (tmp_path / "k.h").write_text("#define N 3\n")
    assert isa.load(tmp_path / "k.cu", entry="a").code_sha256 != first.code_sha256 and len(compiled) == 2
