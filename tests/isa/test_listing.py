"""Decoding of disassembly: operand forms one by one, then whole listings of real kernels."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from isa.compile import compile_cuda
from isa.errors import DecodeError, SimulationError, ToolchainMissing
from isa.instruction import (
    PT,
    RZ,
    URZ,
    Instruction,
    Operand,
    decode_control,
    parse_instruction,
    parse_operand,
)
from isa.listing import disassemble, read_sections
from tests.corpus import decoded

# Kernels that between them use most operand forms: half and tensor operations, atomics in every space,
# constant, local and dynamic shared memory, calls, switches, textures, votes, barriers, doubles, bit operations.
KERNELS = r"""
#include <cuda_fp16.h>
#include <mma.h>
__constant__ float table[64];
__device__ int counter;
extern "C" __global__ void halves(const half2 *a, half2 *c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  half2 x = a[i], y = a[i + n];
  c[i] = h2exp(__hmax2(__hfma2(x, y, x), __hneg2(__habs2(y))));
  if (__hgt(__low2half(x), __high2half(y))) c[i + n] = __floats2half2_rn(__low2float(x), 2.5f);
}
extern "C" __global__ void tensor(const half *a, const half *b, float *c) {
  using namespace nvcuda;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.f);
  wmma::load_matrix_sync(fa, a, 128);
  wmma::load_matrix_sync(fb, b, 128);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
extern "C" __global__ void atomics(int *i, unsigned long long *l, float *f, double *d, int v) {
  __shared__ int s[64];
  __shared__ double sd[4];
  int t = threadIdx.x;
  s[t] = table[t & 63] + table[3];
  sd[t & 3] = 0;
  __syncthreads();
  atomicAdd(i, v); atomicMin(i + 1, v); atomicExch(i + 2, v); atomicAdd(f, 1.5f); atomicAdd(d, 2.5);
  i[t + 9] = atomicCAS(i + 3, v, 3) + atomicAdd(s + t % 7, v) + atomicCAS(s, 3, v);
  l[t] = atomicCAS(l + 3, 1ull, 2ull);
  atomicAdd(sd, 1.0);
  atomicAdd(&counter, 2);
  int *either = v ? s + t : i;
  atomicAdd(either, 3);
}
__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
extern "C" __global__ void control(int *o, float *f, int n) {
  int t = threadIdx.x, a[32];
  for (int k = 0; k < n; k++) a[(k * 7) & 31] = o[k];
  switch (o[t]) {
    case 0: o[t] = n * 3; break;
    case 1: o[t] = o[t + 1] / n; break;
    case 2: o[t] = __popc(n); break;
    case 3: f[t] = sinf(f[t]); break;
    case 4: o[t] ^= n; break;
    case 5: o[t] = fib(n); break;
    default: o[t] = a[n & 31];
  }
}
extern "C" __global__ void texture(cudaTextureObject_t tx, cudaSurfaceObject_t su, float *o, int n) {
  int t = threadIdx.x;
  float w;
  surf2Dread(&w, su, t * 4, n);
  surf2Dwrite(w + 1, su, t * 4, n + 1);
  o[t] = tex2D<float>(tx, t * .5f, n * .25f) + tex1Dfetch<float>(tx, t) + tex3D<float>(tx, t, 1, 2);
}
extern "C" __global__ void warps(int *o, unsigned m, double *d, unsigned long long x) {
  extern __shared__ float4 e[];
  int t = threadIdx.x, v = o[t], p;
  e[t] = ((float4 *)o)[t];
  o[0] = __shfl_sync(m, v, 3) + __shfl_down_sync(m, v, t, 8) + __all_sync(m, v) + __ballot_sync(~0u, v);
  o[1] = __match_any_sync(m, v) + __match_all_sync(m, v, &p) + __reduce_add_sync(m, v) + p;
  o[2] = __syncthreads_count(v) + clock() + __dp4a(v, t, v) + __brev(v) + __ffs(t) + __byte_perm(v, t, m);
  __threadfence(); __nanosleep(100); __syncwarp(m);
  asm volatile("bar.sync 3,128;");
  d[1] = d[0] / d[t] + sqrt(d[3]) + fmin(d[4], exp(d[5]));
  ((unsigned long long *)o)[4] = (x << v) / x + __umul64hi(x, v);
  o[9] = e[t ^ 1].y + ((short *)e)[t] + ((unsigned char *)e)[t * 5];
}
"""
HOPPER = r"""
extern "C" __global__ void __launch_bounds__(128) hopper(float *o, const float *g, int n) {
  __shared__ __align__(1024) float s[2048];
  __shared__ unsigned long long bar;
  int t = threadIdx.x;
  unsigned b = __cvta_generic_to_shared(&bar), d = __cvta_generic_to_shared(s);
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(b), "r"(n));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(d), "l"(g + t));
  asm volatile("cp.async.commit_group; cp.async.wait_group 0;");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(d), "l"(g), "r"(256), "r"(b));
  asm volatile("{.reg .pred p;\nW: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra W;\n}"
               ::"r"(b), "r"(0));
  unsigned long long m = ((d & 0x3ffff) >> 4) | (1ull << 62);
  float c[8] = {};
  asm volatile("wgmma.fence.sync.aligned;");
  asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 "
               "{%0,%1,%2,%3,%4,%5,%6,%7}, %8, %9, 1, 1, 1, 0, 1;"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]),
                 "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7])
               : "l"(m), "l"(m + 9));
  asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;");
  for (int k = 0; k < 8; k++) o[t * 8 + k] = c[k];
}
"""


@pytest.fixture(scope="module")
def kernels() -> dict[str, tuple[Instruction, ...]]:
    """Every test kernel decoded for sm_90."""
    try:
        cubins = [compile_cuda(KERNELS, path="kernels.cu"), compile_cuda(HOPPER, "sm_90a", path="hopper.cu")]
        listings = [disassemble(cubin) for cubin in cubins]
    except ToolchainMissing as error:
        pytest.skip(str(error))
    return {name: part for text in listings for name, part in decoded(text).items()}


def decode(text: str, **labels: int) -> Instruction:
    return parse_instruction(0x40, text, 0, {".L_x_1": 0x90, **labels})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("R2", Operand("reg", 2)),
        ("RZ", Operand("reg", RZ)),
        ("URZ", Operand("ureg", URZ)),
        ("!UPT", Operand("upred", PT, invert=True)),
        ("!P3", Operand("pred", 3, invert=True)),
        ("~R13", Operand("reg", 13, invert=True)),
        ("-|R6|.reuse", Operand("reg", 6, negate=True, absolute=True, reuse=True)),
        ("R13.reuse.H0_H0", Operand("reg", 13, reuse=True, suffixes=("H0_H0",))),
        ("-0x3", Operand("imm", value=-3)),
        ("5.9604644775390625e-08", Operand("fimm", value=5.9604644775390625e-08)),
        ("-1", Operand("fimm", value=-1.0)),
        ("+INF", Operand("fimm", value=math.inf)),
        ("-INF", Operand("fimm", value=-math.inf)),
        ("c[0x0][0x210]", Operand("const", bank=0, offset=0x210)),
        ("-c[0x3][R12+0x100]", Operand("const", bank=3, offset=0x100, base=Operand("reg", 12), negate=True)),
        ("cx[UR4][0x10]", Operand("const", desc=Operand("ureg", 4), offset=0x10)),
        ("[R21+-0x8]", Operand("mem", base=Operand("reg", 21), offset=-8)),
        ("[R0+UR4+0x9]", Operand("mem", base=Operand("reg", 0), ubase=Operand("ureg", 4), offset=9)),
        (
            "desc[UR12][R2.64+0x4]",
            Operand("mem", base=Operand("reg", 2, suffixes=("64",)), offset=4, desc=Operand("ureg", 12)),
        ),
        # nvdisasm prints constants as operands of halves with a space.
        ("-c[0x0] [0x258].H0_H0", Operand("const", bank=0, offset=0x258, negate=True, suffixes=("H0_H0",))),
        ("[R4.X4]", Operand("mem", base=Operand("reg", 4, suffixes=("X4",)))),
        ("gdesc[UR4].tnspB", Operand("other", value="gdesc", ubase=Operand("ureg", 4), suffixes=("tnspB",))),
        ("SR_TID.X", Operand("special", value="SR_TID.X")),
        ("B0", Operand("barrier", 0)),
        ("SB5", Operand("scoreboard", 5)),
        ("2D", Operand("other", value="2D")),
        ("{4,3}", Operand("other", value="{4,3}")),
    ],
)
def test_operand_forms(text: str, expected: Operand) -> None:
    assert parse_operand(text) == expected


def test_not_a_number_is_a_float() -> None:
    value = parse_operand("-QNAN").value
    assert isinstance(value, float) and math.isnan(value)


@pytest.mark.parametrize("text", ["R2+R3", "[R2", "c[0x0]", "--R1", "R1R2$", "", "[R1+R2+R3]", "!!P0", "UQ["])
def test_unknown_operand_is_named(text: str) -> None:
    with pytest.raises(DecodeError, match="unknown"):
        parse_operand(text)


def test_instruction_parts() -> None:
    each = decode("@!UP2 IADD3.X R1, P4, -R2, c[0x0][0x28], RZ, P1, !PT")
    assert (each.opcode, each.modifiers, each.mnemonic) == ("IADD3", ("X",), "IADD3.X")
    assert (each.guard, each.guard_negated, each.guard_uniform) == (2, True, True)
    assert [operand.kind for operand in each.operands] == [
        "reg",
        "pred",
        "reg",
        "const",
        "reg",
        "pred",
        "pred",
    ]


def test_branch_forms() -> None:
    assert decode("@P0 BRA P2, `(.L_x_1)").operands == (Operand("pred", 2), Operand("label", value=0x90))
    call = decode("CALL.REL.NOINC R8 `(kernel)", kernel=0)
    assert call.operands == (Operand("reg", 8), Operand("label", value=0))
    indirect = decode('BRX R4 -0x100      (*"BRANCH_TARGETS .L_x_1,.L_x_1"*)')
    assert indirect.operands == (Operand("reg", 4), Operand("imm", value=-0x100))
    assert indirect.targets == (0x90, 0x90)
    assert decode("MOV R20, 32@lo((kernel + .L_x_1@srel))").operands[1] == Operand("imm", value=0x90)
    assert decode("CALL.ABS.NOINC `(vprintf)").operands == (Operand("other", value="vprintf"),)


def test_error_names_instruction_and_label() -> None:
    with pytest.raises(DecodeError, match=r"'\[R1' in 'LDS R0, \[R1' at 0x40"):
        decode("LDS R0, [R1")
    with pytest.raises(DecodeError, match=r"\.L_x_7"):
        decode("BRA `(.L_x_7)")
    with pytest.raises(DecodeError, match="guard"):
        decode("@Q0 NOP")


def test_damaged_listing_is_an_error() -> None:
    head = '\t.section\t.text.k,"ax",@progbits\n'
    first = "        /*0000*/   NOP ;   /* 0x0000000000007918 */\n"
    second = "                           /* 0x000fc00000000000 */\n"
    assert len(read_sections(head + first + second)["k"].lines) == 1
    with pytest.raises(DecodeError, match="second half"):
        read_sections(head + first + first)
    with pytest.raises(DecodeError, match="sequence"):
        read_sections(head + first.replace("0000*/ ", "0020*/ ") + second)


def test_control_bits_of_a_known_instruction() -> None:
    # S2R R2, SR_TID.X as ptxas schedules it: stall 1, sets scoreboard 0, waits for none.
    control = decode_control(0x000E220000002100_0000000000027919)
    assert (control.stall, control.write_barrier, control.read_barrier) == (1, 0, 7)
    assert (control.wait_mask, control.reuse, control.yield_flag) == (0, 0, False)
    # LOP3.LUT R9, R10.reuse, UR4, RZ, 0xc0, !PT, waiting for scoreboard 1.
    control = decode_control(0x040FE4000F8EC0FF_000000040A097C12)
    assert (control.stall, control.reuse, control.wait_mask) == (2, 1, 0)


def test_yield_polarity_and_reuse_flags_agree_with_ptxas(kernels: dict[str, tuple[Instruction, ...]]) -> None:
    everything = [each for name in kernels for each in kernels[name]]
    kept = [each for each in everything if any(operand.reuse for operand in each.operands)]
    assert len(kept) > 20
    # A switch to another warp would void the reuse cache: an instruction that keeps an operand never yields.
    assert not any(each.control.yield_flag for each in kept)
    assert all(each.control.reuse for each in kept)
    assert not any(each.control.reuse for each in everything if each not in kept)
    assert all(each.control.yield_flag for each in everything if each.control.stall >= 12 and each.opcode != "BRA")


def test_varied_kernels_decode(kernels: dict[str, tuple[Instruction, ...]]) -> None:
    seen = {name: {each.opcode for each in code} for name, code in kernels.items()}
    assert {"HFMA2", "HADD2", "HSETP2", "MUFU"} <= seen["halves"]
    assert "HMMA" in seen["tensor"]
    assert {"ATOMG", "ATOMS", "ATOM", "REDG"} <= seen["atomics"]
    assert {"BRX", "CALL", "RET", "STL", "LDL", "BSSY", "BSYNC"} <= seen["control"]
    assert {"TEX", "SULD", "SUST"} <= seen["texture"]
    assert {"SHFL", "VOTE", "MATCH", "REDUX", "BAR", "MEMBAR", "NANOSLEEP", "DFMA"} <= seen["warps"]
    assert {"HGMMA", "LDGSTS", "UBLKCP", "SYNCS", "WARPGROUP"} <= seen["hopper"]
    for code in kernels.values():
        assert [each.address for each in code] == list(range(0, 16 * len(code), 16))


def test_branch_targets_are_instructions(kernels: dict[str, tuple[Instruction, ...]]) -> None:
    code = kernels["control"]
    ends = [operand.value for each in code for operand in each.operands if operand.kind == "label"]
    listed = [target for each in code for target in each.targets]  # of jump tables, which analysis alone finds
    assert listed
    ends += listed
    assert len(ends) > 10
    assert all(isinstance(end, int) and 0 <= end < 16 * len(code) and end % 16 == 0 for end in ends)
    # A direct branch's target also follows from its encoding: words from the next instruction, in bits 16..23
    # and, above those, 34..81.
    direct = [each for each in code if each.opcode == "BRA" and len(each.operands) == 1]
    assert len(direct) > 5
    for each in direct:
        upper = each.encoding >> 34 & (1 << 48) - 1
        words = (upper - (upper >> 47 << 48)) << 8 | each.encoding >> 16 & 0xFF
        assert each.operands[0].value == each.address + 16 + 4 * words, each.text


def test_lines_come_from_the_user_file(kernels: dict[str, tuple[Instruction, ...]]) -> None:
    lines = KERNELS.splitlines()
    for each in kernels["tensor"]:
        assert each.file is not None and Path(each.file).name == "kernels.cu", each.text
    multiply = [each for each in kernels["tensor"] if each.opcode == "HMMA"]
    assert multiply and all("mma_sync" in lines[(each.line or 0) - 1] for each in multiply)


@pytest.mark.parametrize("arch", ["sm_80", "sm_120"])
def test_other_targets_decode(arch: str) -> None:
    source = KERNELS[KERNELS.index("__constant__") :]
    keep = [f'extern "C" __global__ void {part}' for part in source.split('extern "C" __global__ void ')[3:]]
    text = source.partition('extern "C"')[0] + "".join(part for part in keep)
    try:
        sections = decoded(disassemble(compile_cuda(text, arch, path="other.cu")))
    except ToolchainMissing as error:
        pytest.skip(str(error))
    assert {"atomics", "control", "texture", "warps"} <= set(sections)
    assert all(sections.values())


def test_nvdisasm_error_is_one_sentence() -> None:
    try:
        disassemble(b"not a cubin")
    except ToolchainMissing as error:
        pytest.skip(str(error))
    except SimulationError as error:
        assert "nvdisasm failed" in str(error)
    else:
        pytest.fail("nvdisasm accepted a text file")
