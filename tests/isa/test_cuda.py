"""CUDA C++ with host code: through nvcc, and what is said where no host compiler is there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import isa
from isa import CompileError, EntryError, cuda
from isa.cubin import read_cubin
from isa.errors import ProgramFileError, ToolchainMissing
from isa.toolchain import find_nvrtc, find_tool, host_compiler

PROGRAM = """#include <cuda_runtime.h>
#include <stdio.h>
#include <cstdint>
#include <map>
#include <string>
#include <vector>
#include "twice.h"

#ifndef SCALE
#error "SCALE is not set"
#endif
#define CHECK(call) do { if (call) { printf("{ %s\\n", #call); return 1; } } while (0)

struct Options {
  std::string name = "none";
  std::map<int, std::vector<float>> tables;
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
#include <iostream>
template <class T> __device__ T twice(T x) { return x + x; }
inline void report(const std::string &text) { std::cout << text << std::endl; }
"""
SCALED = ["-DSCALE=3"]
SHIFT = "_ZN4deep5shiftEPf4Pairi"


@pytest.fixture(autouse=True)
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSIM_CACHE_DIR", str(tmp_path / "cache"))
    try:
        find_nvrtc(), find_tool("nvcc")
    except ToolchainMissing as error:
        pytest.skip(str(error))
    if host_compiler() is None:
        pytest.skip("there is no host compiler")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "twice.h").write_text(HEADER)
    (tmp_path / "main.cu").write_text(PROGRAM)
    return tmp_path / "main.cu"


def line_of(text: str, source: str = PROGRAM) -> int:
    return next(number for number, row in enumerate(source.splitlines(), 1) if text in row)


def test_a_program_as_it_is_written(file: Path) -> None:
    assert set(isa.kernels(file, options=SCALED)) == {"_Z5scaleIfLi4EEvPT_S0_", SHIFT}
    scale = isa.load(file, "scale", options=SCALED)
    stores = {(each.file, each.line) for each in scale.instructions if each.opcode.startswith("STG")}
    assert stores == {(str(file), line_of("x[i] ="))}
    assert [each.opcode for each in scale.instructions].count("FADD") == 1  # twice
    assert isa.load(file, "deep::shift(float*, Pair, int)", options=SCALED).symbol == SHIFT


def test_without_a_host_compiler(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVRTC takes what is for the GPU alone, and gives the same code; of other files the error says what is missing."""
    kernel = file.with_name("kernel.cu")
    rows = PROGRAM.splitlines()[line_of("template") - 1 : line_of("namespace") - 1]
    kernel.write_text("\n".join([HEADER.splitlines()[2], *rows]))
    expected = code(file, "scale")
    monkeypatch.delenv("NVCC_CCBIN", raising=False)
    monkeypatch.setenv("PATH", "")
    assert code(kernel, "scale<float, 4>") == expected
    with pytest.raises(CompileError, match=r"host code needs nvcc and a C\+\+ compiler, such as g\+\+"):
        isa.load(file, "scale", options=(*SCALED, "-DOTHER"))


def code(file: Path, entry: str) -> list[int]:
    return [each.encoding for each in isa.load(file, entry, options=SCALED).instructions]


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("T(SCALE)", "T(SCALE) * zz", 'identifier "zz" is undefined'),
        ("x[threadIdx.x] +=", "x[threadIdx.x].y +=", "must have class type"),
        ('#include "twice.h"', '#include "thrice.h"', "thrice.h"),
        ("if (threadIdx.x < n)", "if (threadIdx.x < n", 'expected a "\\)"'),
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
    first = isa.load(file, "scale", options=("-D", "SCALE=3", "-I", str(tmp_path / "far"), "-std=c++20"))
    again = isa.load(file, "scale", options=("-DSCALE=5", f"-I{tmp_path / 'far'}"))
    assert first.code_sha256 != again.code_sha256
    assert isa.load(file, "scale", arch="sm_80", options=("-DSCALE=5", f"-I{tmp_path / 'far'}")).arch == "sm_80"
    with pytest.raises(CompileError, match="--nonsense"):
        isa.load(file, "scale", options=(*SCALED, f"-I{tmp_path / 'far'}", "--nonsense"))
    (tmp_path / "kernel.ptx").write_text("")
    with pytest.raises(ProgramFileError, match=r"-DSCALE=3.* are for files of CUDA C\+\+"):
        isa.load(tmp_path / "kernel.ptx", options=SCALED)


def test_an_instance_that_the_host_does_not_ask_for(file: Path) -> None:
    program = isa.load(file, "scale<double, 7>", options=SCALED)
    assert program.symbol == "_Z5scaleIdLi7EEvPT_S0_"
    assert isa.load(file, "scale<int, 2>(int*, int)", options=SCALED).symbol == "_Z5scaleIiLi2EEvPT_S0_"
    problem = "no kernel 'scale<missing, 7>': identifier \"missing\" is undefined"
    with pytest.raises(EntryError, match=problem) as caught:
        isa.load(file, "scale<missing, 7>", options=SCALED)
    assert set(caught.value.available) == {"_Z5scaleIfLi4EEvPT_S0_", SHIFT}
    file.write_text("#include <stdio.h>\ntemplate <class T> __global__ void fill(T *x) { *x = T(); }\nint main() {}\n")
    for entry in (None, "fill"):
        with pytest.raises(EntryError, match=r"'fill<\.\.\.>'"):
            isa.load(file, entry)


def test_the_cache_sees_what_is_included(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers in the compiler's own search path, and options."""
    compiled = []
    compile_source = cuda.compile_source
    module = sys.modules["isa.load"]  # whose name in the package is the function's
    monkeypatch.setattr(module, "compile_source", lambda *args: compiled.append(args) or compile_source(*args))
    folder = file.with_name("system")
    folder.mkdir()
    monkeypatch.setenv("CPATH", str(folder))
    header = folder / "twice.h"
    file.with_name("twice.h").rename(header)
    file.write_text(PROGRAM.replace('#include "twice.h"', "#include <twice.h>"))
    found = []
    for factor in ("x + x", "x * x", "x + x"):
        header.write_text(HEADER.replace("x + x", factor))
        for _ in range(2):
            found.append(isa.load(file, "scale", options=SCALED).code_sha256)
    assert found[0] == found[1] == found[4] == found[5] != found[2] == found[3]
    assert len(compiled) == 2
    isa.load(file, "scale", options=["-DSCALE=4"])
    assert len(compiled) == 3


def test_separate_compilation(tmp_path: Path) -> None:
    """With -rdc=true the cubin is linked."""
    path = tmp_path / "k.cu"
    path.write_text("#include <cstdio>\n__global__ void k(int *x) { *x = 1; }\nint main() { k<<<1, 1>>>(nullptr); }\n")
    assert isa.load(path, "k", options=["-rdc=true"]).name == "k"
    assert read_cubin(isa.compile_cuda(path.read_text(), path="k.cu"), "k.cu").kernels
