"""The recorded program image: a round trip without any tool chain, and damaged files."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import isa
from isa import Program
from isa.demangle import demangle, full_name, names, qualified_name, short_name
from isa.errors import ProgramFileError, ToolchainMissing
from isa.listing import program_from_cubin

SOURCE = """__device__ float table[3] = {1.f, 2.f, 3.f};
extern "C" __global__ void sample(float *out, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = out[i] * table[i & 1];
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    folder = tmp_path_factory.mktemp("program")
    path = folder / "sample.cu"
    path.write_text(SOURCE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUSIM_CACHE_DIR", str(folder / "cache"))
        try:
            return isa.load(path)
        except ToolchainMissing as error:
            pytest.skip(str(error))


def test_round_trip_keeps_everything(program: Program, tmp_path: Path) -> None:
    path = program.save(tmp_path / "deep" / "sample.gpuprog")
    copy = Program.open(path)
    assert copy == program
    assert hash(copy) == hash(program)
    assert copy.instructions == program.instructions
    assert copy.code_sha256 == program.code_sha256
    assert [each.name for each in path.parent.iterdir()] == ["sample.gpuprog"]  # no temporary file stays
    assert isa.load(path) == program


def test_image_opens_without_tool_chain_or_numba(program: Program, tmp_path: Path) -> None:
    path = program.save(tmp_path / "sample.gpuprog")
    script = (
        "import sys, isa; p = isa.Program.open(sys.argv[1]); print(p.name, len(p.instructions));"
        "print([m for m in ('numba', 'elftools', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True, text=True, check=True, env={"PYTHONPATH": str(Path(isa.__file__).parents[1])},
    )  # fmt: skip
    assert done.stdout.split("\n")[:2] == [f"sample {len(program.instructions)}", "[]"]


def test_contents(program: Program) -> None:
    assert (program.name, program.symbol, program.arch, program.abi) == ("sample", "sample", "sm_90", "c")
    assert program.opcode_histogram()["LDG.E"] >= 1
    assert sum(program.opcode_histogram(modifiers=False).values()) == len(program.instructions)
    load = next(each for each in program.instructions if each.mnemonic == "LDG.E")
    assert "out[i] * table" in (program.source_line(load) or "")
    assert program.instructions[0].encoding.to_bytes(16, "little") in program.cubin


def test_code_digest_depends_on_code_alone(program: Program, tmp_path: Path) -> None:
    def digest(text: str, name: str) -> str:
        return program_from_cubin(isa.compile_cuda(text, path=str(tmp_path / name))).code_sha256

    assert digest("\n\n" + SOURCE, "moved.cu") == program.code_sha256
    assert digest(SOURCE.replace("out[i] *", "out[i] +"), "other.cu") != program.code_sha256


def test_an_image_that_unpacks_to_more_than_any_can(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few bytes can stand for gigabytes: reading ends at a limit."""
    monkeypatch.setattr("isa.program._MOST_DOCUMENT_BYTES", 1000)
    with pytest.raises(ProgramFileError, match="it unpacks to more than 1,000 bytes"):
        Program.from_bytes(program.to_bytes(), "image")


@pytest.mark.parametrize("position", [0, 5, 20, -1])
def test_damaged_image_is_refused(program: Program, position: int, tmp_path: Path) -> None:
    data = bytearray(program.to_bytes())
    data[position] ^= 0xFF
    path = tmp_path / "damaged.gpuprog"
    path.write_bytes(bytes(data))
    with pytest.raises(ProgramFileError, match=r"damaged\.gpuprog"):
        Program.open(path)


def test_changed_image_is_refused(program: Program) -> None:
    head, body = (program.to_bytes()[:8], json.loads(zlib.decompress(program.to_bytes()[8:])))

    def pack(**changes: object) -> bytes:
        return head + zlib.compress(json.dumps({**body, **changes}).encode())

    assert Program.from_bytes(pack()) == program
    with pytest.raises(ProgramFileError, match="format 99"):
        Program.from_bytes(pack(format=99))
    with pytest.raises(ProgramFileError, match="digest"):
        Program.from_bytes(pack(sha256="0" * 64))
    with pytest.raises(ProgramFileError, match="damaged"):
        Program.from_bytes(pack(instructions=[["FADD R1, [", "0", None, None]]))
    with pytest.raises(ProgramFileError, match="damaged"):
        Program.from_bytes(pack(unexpected=1))


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("plain", "plain"),
        ("_Z4tilePfi", "tile"),
        ("_Z2tkIfEvPT_", "tk"),
        ("_ZN2ns6kernelEif", "ns::kernel"),
        ("_ZN8__main__5outer12_3clocals_3e4kernB2v1B106cw51cXT", "__main__::outer::_3clocals_3e::kern"),
    ],
)
def test_qualified_name(symbol: str, name: str) -> None:
    assert qualified_name(symbol) == name


FLAGS = "cw51cXTLSUwv1sDUaKthqaNgoKmjgOR3W3Cw6igA9duC0hkwnNGiHEkYkrqQBFBTDEwCyQe21eqwcFW3UoDGjzpQEsgzrtUEAA_3d_3d"
"""Of Numba's compiler, in its names."""
FILL = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_"


@pytest.mark.skipif(demangle("_Z1kv") == "k", reason="no C++ runtime that reads names")
@pytest.mark.parametrize(
    ("symbol", "short", "full"),
    [
        ("plain", "plain", "plain"),
        ("_Z4tilePfi", "tile", "tile(float*, int)"),
        ("_ZN2ns2tkIdLi4EEEvPT_", "ns::tk<double, 4>", "ns::tk<double, 4>(double*)"),
        (
            "_ZN32_GLOBAL__N__8fbca1a2_4_k_cu_main5applyIZ4mainEUlfE_EEvPfT_",
            "apply<main::{lambda(float)#1}>",
            "(anonymous namespace)::apply<main::{lambda(float)#1}>(float*, main::{lambda(float)#1})",
        ),
        (
            FILL,
            "at::native::vectorized_elementwise_kernel<4, at::native:...>",
            "at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul>>"
            "(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)",
        ),
        (
            f"_ZN5numba4cuda7cudadrv11devicearray14_assign_kernel12_3clocals_3e6kernelB2v1B104{FLAGS}E5ArrayIfLi1E1C7mutable7alignedE5ArrayIxLi1E1C7mutable7alignedE",
            "kernel",
            "numba::cuda::cudadrv::devicearray::_assign_kernel::<locals>::kernel"
            "(Array<float, 1, C, mutable, aligned>, Array<long long, 1, C, mutable, aligned>)",
        ),
    ],
)
def test_names_for_tables_and_in_full(symbol: str, short: str, full: str) -> None:
    assert (short_name(symbol), full_name(symbol)) == (short, full)


@pytest.mark.skipif(demangle("_Z1kv") == "k", reason="no C++ runtime that reads names")
def test_what_lies_deepest_is_left_out_first() -> None:
    kernel = "at::native::vectorized_elementwise_kernel"
    assert short_name(FILL, 95) == f"{kernel}<4, at::native::FillFunctor<...>, std::array<...>>"
    assert all(len(short_name(FILL, limit)) <= limit for limit in range(12, 120))
    assert len(short_name(f"_Z300{'k' * 300}v", 40)) == 40


@pytest.mark.parametrize("symbol", ["_Znonsense", "k)", "plain"])
def test_what_is_no_mangled_name_stays(symbol: str) -> None:
    assert names(symbol)[1] == qualified_name(symbol) == symbol
