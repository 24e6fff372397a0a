"""The microbenchmarks of energy: kernels that do one thing for as long as they are told, and what each is started with.

Every kernel has the parameters (data, out, rounds, a, b). It reads what its operands are from `data`, which holds
zeros or random values: what a circuit takes depends on how many of its wires change. `kernels.cubin.gz` is their
machine code; `python -m validate.energy.kernels` compiles it again.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

CUBIN = Path(__file__).with_name("kernels.cubin.gz")
SMS = 132
_ROUND = 64
"""Instructions of the measured kind in a round of a loop."""


@dataclass(frozen=True)
class LaneOp:
    """An arithmetic instruction. line: PTX, %0 the register that it writes and may read, %1 and %2 others. kind: what
    the registers hold. wide: type of %0 where it is another."""

    name: str
    line: str
    kind: str = "u32"
    wide: str = ""


OPS = (
    LaneOp("iadd3", "{.reg .u32 t; add.u32 t, %0, %1; add.u32 %0, t, %2;}"),
    LaneOp("lop3", "lop3.b32 %0, %0, %1, %2, 0x96;"),
    LaneOp("shf", "shf.l.wrap.b32 %0, %0, %1, %2;"),
    LaneOp("prmt", "prmt.b32 %0, %0, %1, 0x3175;"),
    LaneOp("setsel", "{.reg .pred q; setp.lt.u32 q, %0, %1; selp.b32 %0, %2, %1, q;}"),
    LaneOp("imad", "mad.lo.u32 %0, %0, %1, %2;"),
    LaneOp("imad_wide", "{.reg .u32 t; cvt.u32.u64 t, %0; mad.wide.u32 %0, t, %1, %0;}", "u32", "u64"),
    LaneOp("dp4a", "dp4a.u32.u32 %0, %0, %1, %2;"),
    LaneOp("popc", "{.reg .u32 t; popc.b32 t, %0; lop3.b32 %0, t, %1, %2, 0x96;}"),
    LaneOp("fadd", "sub.rn.f32 %0, %1, %0;", "f32"),
    LaneOp("ffma", "fma.rn.f32 %0, %0, %1, %2;", "f32"),
    LaneOp("fmnmx", "{.reg .f32 t; min.f32 t, %0, %1; sub.rn.f32 %0, t, %2;}", "f32"),
    LaneOp("hadd2", "sub.rn.f16x2 %0, %1, %0;", "f16"),
    LaneOp("hfma2", "fma.rn.f16x2 %0, %0, %1, %2;", "f16"),
    LaneOp("dadd", "sub.rn.f64 %0, %1, %0;", "f64"),
    LaneOp("dfma", "fma.rn.f64 %0, %0, %1, %2;", "f64"),
    LaneOp("ex2", "{.reg .f32 t; ex2.approx.ftz.f32 t, %0; sub.rn.f32 %0, %1, t;}", "f32"),
    LaneOp("i2f", "{.reg .f32 t; .reg .b32 s; cvt.rn.f32.s32 t, %0; mov.b32 s, t; lop3.b32 %0, s, %1, %2, 0x96;}"),
    LaneOp("f2i", "{.reg .f32 t; .reg .s32 s; mov.b32 t, %0; cvt.rzi.s32.f32 s, t; lop3.b32 %0, s, %1, %2, 0x96;}"),
    LaneOp("shfl", "shfl.sync.bfly.b32 %0, %0, 1, 31, 0xffffffff;"),
    LaneOp("vote", "{.reg .pred q; .reg .u32 t; setp.ne.u32 q, %0, %1; vote.sync.ballot.b32 t, q, 0xffffffff; "
       "lop3.b32 %0, %0, t, %2, 0x96;}"),
    LaneOp("clock", "{.reg .u32 t; mov.u32 t, %clock; lop3.b32 %0, %0, t, %1, 0x96;}"),
)
_LETTER = {"u32": "r", "f32": "f", "f16": "r", "f64": "d", "u64": "l"}
_TYPE = {"u32": "unsigned", "f32": "float", "f16": "unsigned", "f64": "double", "u64": "unsigned long long"}


@dataclass(frozen=True)
class NearAccess:
    """An access to shared memory, or to 4 KB of global memory for each block, which L1 holds. line: PTX, with `at` for
    the address. words: of 32 bits that a lane takes."""

    name: str
    line: str
    words: int = 1
    shared: bool = True


_FOUR = "{t0, t1, t2, t3}"
_ADD_FOUR = " ".join(f"xor.b32 %{k}, %{k}, t{k};" for k in range(4))
PLACES = (
    NearAccess("lds", "{.reg .u32 t; ld.volatile.shared.u32 t, [at]; xor.b32 %0, %0, t;}"),
    NearAccess("lds128", f"{{.reg .u32 t<4>; ld.volatile.shared.v4.u32 {_FOUR}, [at]; {_ADD_FOUR}}}", 4),
    NearAccess("sts", "st.shared.u32 [at], %5;"),
    NearAccess("sts128", "st.shared.v4.u32 [at], {%5, %5, %5, %5};", 4),
    NearAccess("reds", "red.shared.add.u32 [at], %5;"),
    NearAccess("l1", "{.reg .u32 t; ld.global.u32 t, [at]; xor.b32 %0, %0, t;}", shared=False),
    NearAccess("l1_128", f"{{.reg .u32 t<4>; ld.global.v4.u32 {_FOUR}, [at]; {_ADD_FOUR}}}", 4, shared=False),
)


def _place(place: NearAccess) -> str:
    letter = "r" if place.shared else "l"
    operands = f': "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "{letter}"(at), "r"(x)'
    texts = (place.line.replace("[at]", f"[%4+{k * 256}]") for k in range(_ROUND // 2))
    lines = "\n".join(f'        asm volatile("{text}" {operands});' for text in texts)
    room = """    __shared__ __align__(128) unsigned room[8192];
    FILL(room, 8192);
    __syncthreads();
    unsigned first = (unsigned)__cvta_generic_to_shared(room)"""
    if not place.shared:
        room = "    const char *first = (const char *)(data + 4096 * (blockIdx.x & 3))"
    kind = "unsigned" if place.shared else "const char *"
    return f"""
extern "C" __global__ void {place.name}(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {{
{room} + ((LANE * a * 4 + (threadIdx.x >> 5) * {128 * place.words}) & 4095);
    unsigned x = data[threadIdx.x], v[4] = {{0, 0, 0, 0}};
    for (unsigned r = 0; r < rounds; r++) {{
        {kind} at = first + ((r & 7) << 7);
{lines}
    }}
    USE
}}"""


def _op(op: LaneOp) -> str:
    wide, kind = op.wide or op.kind, op.kind
    operands = f'"+{_LETTER[wide]}"(v[k & 7]) : "{_LETTER[kind]}"(x[k & 7]), "{_LETTER[kind]}"(y[(k + k / 8) & 7])'
    return f"""
extern "C" __global__ void op_{op.name}(
        const {_TYPE[kind]} *data, unsigned *out, unsigned rounds, unsigned lanes, unsigned b) {{
    if ((threadIdx.x & 31) >= lanes) return;
    {_TYPE[wide]} v[8];
    {_TYPE[kind]} x[8], y[8];
    for (int k = 0; k < 8; k++) {{
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
        v[k] = x[k];
    }}
    for (unsigned r = 0; r < rounds; r++) {{
#pragma unroll
        for (int k = 0; k < {_ROUND}; k++)
            asm volatile("{op.line}" : {operands});
    }}
    for (int k = 0; k < 8; k++) if (v[k] == 12345) out[k] = 1;
}}"""


# Loads and stores of 32 and 128 bits. `words` holds what is stored or read.
_MEMORY = """
#define LANE (threadIdx.x & 31)
#define USE if ((v[0] ^ v[1] ^ v[2] ^ v[3]) == 12345) out[0] = 1;
#define FILL(where, count) for (unsigned k = threadIdx.x; k < count; k += blockDim.x) where[k] = data[k & 16383]
@PLACES@

// a: bytes, less one, that are gone through again and again; another block takes a piece in each round. b: lanes go
// this many bytes apart.
#define STREAM(NAME, LINE, ...) \\
    extern "C" __global__ void NAME(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) { \\
        unsigned v[4] = {0, 0, 0, 0}, x = data[threadIdx.x], block = blockIdx.x; \\
        unsigned long long mask = ((unsigned long long)a << 12) | 4095; \\
        for (unsigned r = 0; r < rounds; r++) { \\
            block = block + 1 == gridDim.x ? 0 : block + 1; \\
            unsigned long long first = \\
                (((unsigned long long)r * gridDim.x + block) * 8 * blockDim.x + threadIdx.x) * b; \\
            _Pragma("unroll") for (int k = 0; k < 8; k++) { \\
                char *at = (char *)out + ((first + (unsigned long long)k * blockDim.x * b) & mask); \\
                asm volatile(LINE __VA_ARGS__); \\
            } \\
        } \\
        USE \\
    }
STREAM(read32, "{.reg .u32 t; ld.global.u32 t, [%1]; xor.b32 %0, %0, t;}", : "+r"(v[0]) : "l"(at))
STREAM(read128,
       "{.reg .u32 t<4>; ld.global.v4.u32 {t0, t1, t2, t3}, [%4]; xor.b32 %0, %0, t0; xor.b32 %1, %1, t1; "
       "xor.b32 %2, %2, t2; xor.b32 %3, %3, t3;}",
       : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) : "l"(at))
STREAM(write32, "st.global.u32 [%0], %1;", :: "l"(at), "r"(x))
STREAM(write128, "st.global.v4.u32 [%0], {%1, %1, %1, %1};", :: "l"(at), "r"(x))
STREAM(red32, "red.global.add.u32 [%0], %1;", :: "l"(at), "r"(x))
"""

_STATIC = """
// Every block stays for rounds * 1000 cycles. a: its warps ask for the time, 1, or sleep, 0.
extern "C" __global__ void stay(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    long long start = clock64();
    while (clock64() - start < (long long)rounds * 1000)
        if (!a) __nanosleep(5000);
}
// All warps but one wait at a barrier, which sleeps.
extern "C" __global__ void barrier(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    long long start = clock64();
    if (threadIdx.x < 32)
        while (clock64() - start < (long long)rounds * 1000) __nanosleep(5000);
    __syncthreads();
}
extern "C" __global__ void loop(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    unsigned v = data[threadIdx.x], x = data[threadIdx.x + 32];
    _Pragma("unroll 1") for (unsigned r = 0; r < rounds; r++)
        asm volatile("lop3.b32 %0, %0, %1, %1, 0x69;" : "+r"(v) : "r"(x));
    if (v == 12345) out[0] = 1;
}
// Lanes of a warp take a branch of their own, `a` of them together, in turns.
extern "C" __global__ void diverge(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    unsigned v = data[threadIdx.x], lane = LANE;
    for (unsigned r = 0; r < rounds; r++) {
        if (lane < a) asm volatile("lop3.b32 %0, %0, %0, %0, 0x96;" : "+r"(v));
        else asm volatile("lop3.b32 %0, %0, %0, %0, 0x69;" : "+r"(v));
    }
    if (v == 12345) out[0] = 1;
}
extern "C" __global__ void empty(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {}
__constant__ unsigned constants[4096];
extern "C" __global__ void ldc(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {
    unsigned v[4] = {0, 0, 0, 0};
    for (unsigned r = 0; r < rounds; r++) {
        unsigned long long at = a + (r & 3) * 512;
        _Pragma("unroll") for (int k = 0; k < 64; k++)
            asm volatile("{.reg .u64 c; .reg .u32 t; mov.u64 c, constants; add.u64 c, c, %1; ld.const.u32 t, [c]; "
                         "xor.b32 %0, %0, t;}" : "+r"(v[k & 3]) : "l"(at + k * 4));
    }
    USE
}
"""


@dataclass(frozen=True)
class WarpProduct:
    """`mma.sync`: shape and types of a product of one warp; registers of A, B and the sums."""

    name: str
    shape: str
    kinds: str
    a: int
    b: int
    c: int
    kind: str
    letter: str = "f"


MATRICES = (
    WarpProduct("mma_f16", "m16n8k16", "f32.f16.f16.f32", 4, 2, 4, "f16"),
    WarpProduct("mma_bf16", "m16n8k16", "f32.bf16.bf16.f32", 4, 2, 4, "f16"),
    WarpProduct("mma_tf32", "m16n8k8", "f32.tf32.tf32.f32", 4, 2, 4, "f32"),
    WarpProduct("mma_s8", "m16n8k32", "s32.s8.s8.s32", 4, 2, 4, "u32", "r"),
    WarpProduct("mma_f64", "m8n8k4", "f64.f64.f64.f64", 1, 1, 2, "f64", "d"),
)


def _matrix(op: WarpProduct) -> str:
    letter = "d" if op.letter == "d" else "r"
    numbers = iter(range(100))
    names = ["{" + ", ".join(f"%{next(numbers)}" for _ in range(count)) + "}" for count in (op.c, op.a, op.b)]
    line = f"mma.sync.aligned.{op.shape}.row.col.{op.kinds} {names[0]}, {names[1]}, {names[2]}, {names[0]};"
    sums = ", ".join(f'"+{op.letter}"(c[k & 3][{n}])' for n in range(op.c))
    a = ", ".join(f'"{letter}"(x[(k * {op.a} + {n}) & 7])' for n in range(op.a))
    b = ", ".join(f'"{letter}"(y[((k + k / 4) * {op.b} + {n}) & 7])' for n in range(op.b))
    kind = "double" if op.letter == "d" else "unsigned"
    total = {"f": "float", "r": "unsigned", "d": "double"}[op.letter]
    return f"""
extern "C" __global__ void {op.name}(const {kind} *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {{
    {kind} x[8], y[8];
    {total} c[4][{op.c}];
    for (int k = 0; k < 8; k++) {{
        x[k] = data[(threadIdx.x * 16 + k) & 16383];
        y[k] = data[(threadIdx.x * 16 + 8 + k) & 16383];
    }}
    for (int k = 0; k < 4; k++) for (int n = 0; n < {op.c}; n++) c[k][n] = 0;
    for (unsigned r = 0; r < rounds; r++)
        _Pragma("unroll") for (int k = 0; k < 16; k++) asm volatile("{line}" : {sums} : {a}, {b});
    for (int k = 0; k < 4; k++) for (int n = 0; n < {op.c}; n++) if (c[k][n] == 12345) out[k] = 1;
}}"""


@dataclass(frozen=True)
class GroupProduct:
    """`wgmma`: 64 x k by k x n of four warps, B and, but for `registers`, A in shared memory."""

    name: str
    kind: str
    k: int
    n: int
    fill: str
    sums: str = "f32"
    registers: bool = False


GROUP_MATRICES = (
    GroupProduct("wgmma_f16", "f16", 16, 256, "f16"),
    GroupProduct("wgmma_f16_n64", "f16", 16, 64, "f16"),
    GroupProduct("wgmma_f16_registers", "f16", 16, 256, "f16", registers=True),
    GroupProduct("wgmma_tf32", "tf32", 8, 256, "f32"),
    GroupProduct("wgmma_e4m3", "e4m3", 32, 256, "e4m3"),
    GroupProduct("wgmma_s8", "s8", 32, 256, "u32", "s32"),
)


def _group(op: GroupProduct) -> str:
    letter = "f" if op.sums == "f32" else "r"
    count = op.n // 2
    sums = ", ".join(f"%{k}" for k in range(count))
    tail = "1" if op.sums == "s32" else "1, 1, 1"
    if op.kind == "f16":
        tail += ", 0" if op.registers else ", 0, 0"
    left = "{" + ", ".join(f"%{count + 1 + k}" for k in range(4)) + "}" if op.registers else f"%{count + 1}"
    kinds = f"{op.sums}.{op.kind}.{op.kind}"
    line = f"wgmma.mma_async.sync.aligned.m64n{op.n}k{op.k}.{kinds} {{{sums}}}, {left}, %{count}, {tail};"
    outputs = ", ".join(f'"+{letter}"(c[{k}])' for k in range(count))
    inputs = '"l"(y), ' + (", ".join(f'"r"(x[{k}])' for k in range(4)) if op.registers else '"l"(y + 512)')
    kind = "float" if letter == "f" else "unsigned"
    return f"""
extern "C" __global__ void {op.name}(const unsigned *data, unsigned *out, unsigned rounds, unsigned a, unsigned b) {{
    extern __shared__ __align__(1024) unsigned dynamic[];
    FILL(dynamic, 16384);
    asm volatile("fence.proxy.async;");
    __syncthreads();
    unsigned x[4];
    {kind} c[{count}];
    for (int k = 0; k < 4; k++) x[k] = data[threadIdx.x * 4 + k];
    for (int k = 0; k < {count}; k++) c[k] = 0;
    // Rows of 128 bytes that are swizzled, eight of them 1,024 bytes apart (PTX ISA, "WarpProduct Descriptor").
    unsigned at = (unsigned)__cvta_generic_to_shared(dynamic);
    unsigned long long y = 1ull << 62 | 64ull << 32 | 1 << 16 | (at & 0x3ffff) >> 4;
    for (unsigned r = 0; r < rounds; r++) {{
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        _Pragma("unroll") for (int k = 0; k < 8; k++) asm volatile("{line}" : {outputs} : {inputs});
        asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }}
    for (int k = 0; k < {count}; k++) if (c[k] == 12345) out[k] = 1;
}}"""


def source(
    ops: Sequence[LaneOp] = OPS,
    matrices: Sequence[WarpProduct] = MATRICES,
    groups: Sequence[GroupProduct] = GROUP_MATRICES,
) -> str:
    """CUDA C++ of all kernels, or of some of those that the tables make."""
    memory = _MEMORY.replace("@PLACES@", "\n".join(map(_place, PLACES)))
    parts = map(_op, ops), map(_matrix, matrices), map(_group, groups)
    return "\n".join((memory, _STATIC, *(text for part in parts for text in part)))


@dataclass(frozen=True)
class EnergyExperiment:
    """A kernel and what it is started with. fill: of what it reads: a kind of random values, or zeros. lanes or a, b:
    its last parameters. span: bytes that `a` says. launches: in a graph, of kernels that do next to nothing. peer: the
    memory is another GPU's."""

    name: str
    entry: str
    fill: str = "zeros"
    grid: int = 2 * SMS
    block: int = 512
    a: int = 32
    b: int = 0
    shared_bytes: int = 0
    launches: int = 1
    peer: bool = False

    @property
    def span(self) -> int:
        """Bytes of memory that a stream goes through."""
        return (self.a + 1) << 12


_MB = 256  # pages of 4 KB
_STREAMS = (
    ("read128", 4, 16),
    ("read128", 16, 16),
    ("read128", 40, 16),
    ("read128", 2048, 16),
    ("read32", 16, 4),
    ("read32", 16, 32),
    ("read32", 16, 128),
    ("read32", 2048, 4),
    ("read32", 2048, 32),
    ("read32", 2048, 128),
    ("read32", 2048, 4096),
    ("write128", 16, 16),
    ("write128", 2048, 16),
    ("write32", 16, 4),
    ("write32", 16, 32),
    ("write32", 16, 128),
    ("write32", 2048, 32),
    ("red32", 16, 4),
    ("red32", 16, 32),
    ("red32", 16, 128),
)


def experiments() -> Iterator[EnergyExperiment]:
    """All of them."""
    for grid in (1, 33, 66, 132):
        yield EnergyExperiment(f"stay {grid} SMs", "stay", grid=grid, block=32, a=0)
    yield EnergyExperiment("stay 32 warps", "stay", grid=SMS, block=1024, a=0)
    yield EnergyExperiment("stay 64 warps", "stay", block=1024, a=0)
    yield EnergyExperiment("ask 1 warp", "stay", grid=SMS, block=32, a=1)
    yield EnergyExperiment("barrier 32 warps", "barrier", grid=SMS, block=1024)
    yield EnergyExperiment("empty 132 blocks", "empty", grid=SMS, block=32, launches=200)
    yield EnergyExperiment("empty 1056 blocks", "empty", grid=8 * SMS, block=256, launches=200)
    yield EnergyExperiment("empty 8448 blocks", "empty", grid=64 * SMS, block=256, launches=200)
    for op in OPS:
        for fill in (op.kind, "zeros"):
            yield EnergyExperiment(f"{op.name} {fill}", f"op_{op.name}", fill)
    for name, kind in (("ffma", "f32"), ("lop3", "u32"), ("imad", "u32"), ("dfma", "f64")):
        for lanes in (16, 1):
            yield EnergyExperiment(f"{name} {lanes} lanes", f"op_{name}", kind, a=lanes)
    for grid, block in ((SMS, 32), (SMS, 128), (SMS, 512), (66, 1024), (33, 1024)):
        yield EnergyExperiment(f"ffma {grid} x {block}", "op_ffma", "f32", grid, block)
    for fill in ("u32", "zeros"):
        yield EnergyExperiment(f"loop {fill}", "loop", fill)
        yield EnergyExperiment(f"ldc {fill}", "ldc", fill, a=0)
        for place in PLACES:
            yield EnergyExperiment(f"{place.name} {fill}", place.name, fill, a=place.words)
    yield EnergyExperiment("diverge", "diverge", "u32", a=16)
    for strides, name in (((0, 2, 4, 8, 32), "lds"), ((2, 32), "sts"), ((0, 32), "reds"), ((8, 32), "l1")):
        for stride in strides:
            yield EnergyExperiment(f"{name} stride {stride}", name, "u32", a=stride)
    for name, megabytes, apart in _STREAMS:
        for fill in ("u32", "zeros"):
            which = f"{name} {megabytes} MB by {apart} {fill}"
            yield EnergyExperiment(which, name, fill, a=megabytes * _MB - 1, b=apart)
    for name in ("read128", "write128"):
        for fill in ("u32", "zeros"):
            yield EnergyExperiment(f"peer {name} {fill}", name, fill, a=1024 * _MB - 1, b=16, peer=True)
    # Fewer blocks than SMs stay below the board's limit, so that the clock does too.
    for part in (33, 66, 99, SMS):
        for matrix in MATRICES:
            for fill in ("zeros", matrix.kind):
                yield EnergyExperiment(f"{matrix.name} {fill} {2 * part} blocks", matrix.name, fill, 2 * part, 256)
        for group in GROUP_MATRICES:
            for fill in ("zeros", group.fill):
                name = f"{group.name} {fill} {part} blocks"
                yield EnergyExperiment(name, group.name, fill, part, 256, shared_bytes=65536)
    yield EnergyExperiment("stay 132 SMs, warm", "stay", grid=SMS, block=32, a=0)


def compiled(text: str) -> bytes:
    """The machine code of such a source. Needs the tool chain."""
    from isa.compile import compile_cuda

    return compile_cuda(text, "sm_90a", path="kernels.cu")


if __name__ == "__main__":
    CUBIN.write_bytes(gzip.compress(compiled(source()), mtime=0))
