"""CUDA C++ with host code: through nvcc, and what is said where no host compiler is there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import isa
from isa import CompileError, EntryError, cuda
from isa.errors import ProgramFileError, ToolchainMissing
from isa.toolchain import find_nvrtc, find_tool, host_compiler

PROGRAM = """#include <cuda_runtime.h>
#include <stdio.h>
#include <cstdint>
#include <string>
#include <vector>
#include "twice.h"

#ifndef SCALE
#error "SCALE is not set"
#endif
#define CHECK(call) do { if (call) { printf("{ %s\\n", #call); return 1; } } while (0)

struct Options {
  std::string name = "none";
  std::vector<std::string> tables;
  bool parse(int argc, char **argv) { return argc > 1 && name == argv[1]; }
};
struct Pair {
  float low, high;
  Pair() : low{0}, high(1) {}
  __host__ __device__ float width() const { return high - low; }
  std::string text() const { return std::to_string(low); }
};
static int calls = 0;
constexpr int square(int x) { return x * x; }
__constant__ float offsets[square(2)];

template <typename T, int N> __global__ void scale(T *x, T a) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  x[i] = twice(x[i]) * a * T(SCALE) + T(N);
}
namespace deep {
__global__ void shift(float *x, Pair pair, int32_t n) {
  if (threadIdx.x < n) x[threadIdx.x] += pair.width() + offsets[threadIdx.x % 4];
}
}

int main(int argc, char **argv) {
  Options options;
  if (options.parse(argc, argv)) return 1;
  std::vector<float> values(256, 1.0f);
  float *x;
  CHECK(cudaMalloc(&x, values.size() * sizeof(float)));
  scale<float, 4><<<2, 128>>>(x, 2.0f);
  deep::shift<<<1, 32>>>(x, Pair(), 5);
  calls += printf("done\\n");
}
"""
HEADER = """#pragma once
#include <string>
template <class T> __device__ T twice(T x) { return x + x; }
inline void report(const std::string &text) { puts(text.c_str()); }
"""
SCALED = ["-DSCALE=3"]
LOAD = sys.modules["isa.load"]  # whose name in the package is the function's
SHIFT = "_ZN4deep5shiftEPf4Pairi"


@pytest.fixture(scope="module", autouse=True)
def private_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One of this file's, and nvcc compiles the same once for all kernels of a file."""
    try:
        find_nvrtc(), find_tool("nvcc")
    except ToolchainMissing as error:
        pytest.skip(str(error))
    if host_compiler() is None:
        pytest.skip("there is no host compiler")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUSIM_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        once = cache(cuda.compile_source)
        patch.setattr(
            LOAD, "compile_source", lambda *words: once(*(tuple(w) if isinstance(w, list) else w for w in words))
        )
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program in a file that nobody changes."""
    return written(tmp_path_factory.mktemp("program"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path)


def written(folder: Path) -> Path:
    (folder / "twice.h").write_text(HEADER)
    (folder / "main.cu").write_text(PROGRAM)
    return folder / "main.cu"


def line_of(text: str, source: str = PROGRAM) -> int:
    return next(number for number, row in enumerate(source.splitlines(), 1) if text in row)


def test_a_program_as_it_is_written(whole: Path) -> None:
    scale = isa.load(whole, "scale", options=SCALED)
    stores = {(each.file, each.line) for each in scale.instructions if each.opcode.startswith("STG")}
    assert stores == {(str(whole), line_of("x[i] ="))}
    assert [each.opcode for each in scale.instructions].count("FADD") == 1  # twice
    assert isa.load(whole, "deep::shift(float*, Pair, int)", options=SCALED).symbol == SHIFT


def test_without_a_host_compiler(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVRTC takes what is for the GPU alone, and gives the same code; of other files the error says what is missing."""
    kernel = tmp_path / "kernel.cu"
    rows = PROGRAM.splitlines()[line_of("template") - 1 : line_of("namespace") - 1]
    kernel.write_text("\n".join([HEADER.splitlines()[2], *rows]))
    expected = code(whole, "scale")
    monkeypatch.delenv("NVCC_CCBIN", raising=False)
    monkeypatch.setenv("PATH", "")
    assert code(kernel, "scale<float, 4>") == expected
    with pytest.raises(CompileError, match=r"host code needs nvcc and a C\+\+ compiler, such as g\+\+"):
        isa.load(whole, "scale", options=(*SCALED, "-DOTHER"))


def code(file: Path, entry: str) -> list[int]:
    return [each.encoding for each in isa.load(file, entry, options=SCALED).instructions]


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("T(SCALE)", "T(SCALE) * zz", "'zz' is not defined"),
        ('#include "twice.h"', '#include "thrice.h"', "thrice.h"),
    ],
)
def test_an_error_names_the_users_line(file: Path, right: str, wrong: str, message: str) -> None:
    text = PROGRAM.replace(right, wrong)
    file.write_text(text)
    with pytest.raises(CompileError, match=message) as caught:
        isa.load(file, SHIFT, options=SCALED)
    assert (caught.value.file, caught.value.line) == (str(file), line_of(wrong, text))


def test_an_error_in_a_header_of_the_systems_names_the_users_line(file: Path) -> None:
    text = PROGRAM.replace("  calls +=", "  struct Fixed { Fixed(const Fixed &) = delete; Fixed() {} } one;\n"
                           "  std::vector<Fixed>().push_back(one);\n  calls +=")  # fmt: skip
    file.write_text(text)
    with pytest.raises(CompileError, match="deleted function") as caught:
        isa.load(file, SHIFT, options=SCALED)
    assert (caught.value.file, caught.value.line) == (str(file), line_of("push_back", text))


def test_options_reach_the_compiler(file: Path, tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="SCALE is not set"):
        isa.load(file, SHIFT)
    (tmp_path / "far").mkdir()
    (tmp_path / "twice.h").rename(tmp_path / "far" / "twice.h")
    first = isa.load(file, "scale", arch="sm_80", options=("-D", "SCALE=3", "-I", str(tmp_path / "far"), "-std=c++20"))
    again = isa.load(file, "scale", arch="sm_80", options=("-DSCALE=5", f"-I{tmp_path / 'far'}"))
    assert first.arch == again.arch == "sm_80" and first.code_sha256 != again.code_sha256
    with pytest.raises(CompileError, match="--nonsense"):
        isa.load(file, "scale", options=(*SCALED, f"-I{tmp_path / 'far'}", "--nonsense"))
    (tmp_path / "kernel.ptx").write_text("")
    with pytest.raises(ProgramFileError, match=r"-DSCALE=3.* are for files of CUDA C\+\+"):
        isa.load(tmp_path / "kernel.ptx", options=SCALED)


def test_an_instance_that_the_host_does_not_ask_for(whole: Path, tmp_path: Path) -> None:
    program = isa.load(whole, "scale<double, 7>(double*, double)", options=SCALED)
    assert program.symbol == "_Z5scaleIdLi7EEvPT_S0_"
    problem = "no kernel 'scale<missing, 7>': identifier \"missing\" is undefined"
    with pytest.raises(EntryError, match=problem) as caught:
        isa.load(whole, "scale<missing, 7>", options=SCALED)
    assert set(caught.value.available) == {"_Z5scaleIfLi4EEvPT_S0_", SHIFT}
    file = tmp_path / "template.cu"
    file.write_text("template <class T> __global__ void fill(T *x) { *x = T(); }\n")
    for entry in (None, "fill"):
        with pytest.raises(EntryError, match=r"'fill<\.\.\.>'"):
            isa.load(file, entry)


def test_the_cache_sees_what_is_included(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers in the compiler's own search path."""
    compiled = []
    monkeypatch.setattr(LOAD, "compile_source", lambda *args: compiled.append(args) or cuda.compile_source(*args))
    folder = tmp_path / "system"
    folder.mkdir()
    monkeypatch.setenv("CPATH", str(folder))
    file = tmp_path / "k.cu"
    file.write_text(
        "#include <cstdio>\n#include <factor.h>\n__global__ void k(float *x) { *x *= FACTOR; }\nint main() {}\n"
    )
    found = []
    for factor in (3, 5, 3):
        (folder / "factor.h").write_text(f"#define FACTOR {factor}\n")
        for _ in range(2):
            found.append(isa.load(file).code_sha256)
    assert found[0] == found[1] == found[4] == found[5] != found[2] == found[3]
    assert len(compiled) == 2


def test_separate_compilation(tmp_path: Path) -> None:
    """With -rdc=true the cubin is linked."""
    path = tmp_path / "k.cu"
    path.write_text("#include <cstdio>\n__global__ void k(int *x) { *x = 1; }\nint main() { k<<<1, 1>>>(nullptr); }\n")
    assert isa.load(path, "k", options=["-rdc=true"]).name == "k"
