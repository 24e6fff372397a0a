"""wgmma as an H200 computes it, bit for bit: descriptors, swizzles, transposed operands, types and signs.

Shared memory is filled with a random image, so a wrong address gives a wrong result; each kernel ran with the seven
pairs of descriptors of the recording. Here every kernel runs with one pair, and one kernel of each kind of address with
all.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import gpusim
from gpusim.errors import MemoryAccessError
from isa.compile import assemble
from isa.listing import programs_from_cubin
from tests.gpusim.kernels import Kernels
from tests.gpusim.matrix_operands import packed

DATA = Path(__file__).parent / "data" / "h200_matrix.npz"
_IMAGE_WORDS = 8192
_A_WORDS = 2048  # the part of the image that holds elements of A where the types differ


def groups():
    with np.load(DATA) as data:
        return json.loads(str(data["groups"]))


HEADER = ".version 8.5\n.target sm_90a\n.address_size 64\n"


def kernel(name, n, k, d, a, b, registers, across_a, across_b, sign_a, sign_b, post):
    """128 threads: shared memory from `image`, one wgmma, accumulators from `c` to `d`."""
    words = n // 4 if d == "f16" else n // 2
    kind = "f32" if d == "f32" else "b32"
    accumulators = "{" + ",".join(f"d{w}" for w in range(words)) + "}"
    tail = "p"
    if d != "s32":
        tail += f",{sign_a},{sign_b}"
    if a in ("f16", "bf16"):
        tail += f",{across_b}" if registers else f",{across_a},{across_b}"
    source = "{a0,a1,a2,a3}" if registers else "da"
    loads = "".join(f"ld.global.{kind} d{w},[x+{4 * w}];" for w in range(words))
    stores = "".join(f"st.global.{kind} [x+{4 * w}],d{w};" for w in range(words))
    return f"""
.visible .entry {name}(.param .u64 image,.param .u64 a,.param .u64 c,.param .u64 d,.param .u64 left,.param .u64 right,
.param .u32 adds) {{
.shared .align 1024 .b8 room[32768];
.reg .b64 x,y,da,db,start; .reg .b32 t,s,n; .reg .b32 a<4>,v<4>; .reg .{kind} d<{words}>; .reg .pred p,q;
mov.u32 t,%tid.x; ld.param.u64 x,[image]; mad.wide.u32 x,t,16,x; mov.u32 s,room; mad.lo.u32 s,t,16,s; mov.u32 n,0;
IN: ld.global.v4.b32 {{v0,v1,v2,v3}},[x]; st.shared.v4.b32 [s],{{v0,v1,v2,v3}};
add.u64 x,x,2048; add.u32 s,s,2048; add.u32 n,n,1; setp.lt.u32 q,n,16; @q bra IN;
ld.param.u64 x,[a]; mad.wide.u32 x,t,16,x; ld.global.v4.b32 {{a0,a1,a2,a3}},[x];
ld.param.u64 x,[c]; mad.wide.u32 x,t,{4 * words},x; {loads}
fence.proxy.async; bar.sync 0; mov.u32 s,room; shr.u32 s,s,4; cvt.u64.u32 start,s;
ld.param.u64 da,[left]; add.u64 da,da,start; ld.param.u64 db,[right]; add.u64 db,db,start;
ld.param.u32 n,[adds]; setp.ne.u32 p,n,0;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n{n}k{k}.{d}.{a}.{b}{post} {accumulators},{source},db,{tail};
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
ld.param.u64 x,[d]; mad.wide.u32 x,t,{4 * words},x; {stores}
ret;
}}
"""


def run(group, case, program, descriptors):
    index, _, n, _, d, a, b, *_ = group
    mode = "any" if case == 6 else ("near", "spread", "wide")[case % 3]
    seed = 100000 + 100 * index + 10 * case
    words = n // 4 if d == "f16" else n // 2
    image = packed(seed, _IMAGE_WORDS, a, mode)
    if a != b:
        image[_A_WORDS:] = packed(seed + 1, _IMAGE_WORDS, b, mode)[_A_WORDS:]
    result = np.zeros(128 * words, np.uint32)
    left, right, adds = descriptors[case]
    operands = (image, packed(seed + 2, 512, a, mode), packed(seed + 3, 128 * words, d, mode), result)
    gpusim.simulate(program, 1, 128, (*operands, left, right, np.uint32(adds)))
    return result


def plain():
    """A group of halves that are summed up in single precision, nothing of them transposed."""
    return next(each for each in groups() if each[4] == "f32" and each[5] == "f16" and not each[7] and not each[8])


@pytest.fixture(scope="module")
def kernels():
    """All of them in one cubin: most of the disassembler's time goes into its start."""
    text = "".join(kernel(f"k{group[0]}", *group[2:]) for group in groups())
    text += "".join(kernel(f"across{n}", *plain()[2:8], n, n, *plain()[10:]) for n in range(2))
    return programs_from_cubin(assemble(HEADER + text, "sm_90a"), abi="c", path="k")


@pytest.mark.parametrize("group", groups(), ids=lambda group: group[1])
def test_products_equal_the_hardware(group, kernels):
    index = group[0]
    program = kernels[f"k{index}"]
    with np.load(DATA) as data:
        descriptors = data["descriptors"]
        plain = group[5] == "f16" and group[4] == "f32" and group[2] == 64 and group[10] == group[11] == 1
        for case in range(7) if plain else (index % 7,):
            result = run(group, case, program, descriptors)
            np.testing.assert_array_equal(result[::41], data[f"w{index}_{case}"], f"descriptors {case}")


@pytest.mark.parametrize("across", [0, 1])
@pytest.mark.parametrize("side", [0, 1])
def test_descriptors_that_point_past_shared_memory(side, across, kernels):
    """The first 14 bits of a descriptor are an address in units of 16 bytes: here the last of these."""
    index, _, n, *_ = plain()
    with np.load(DATA) as data:
        descriptors = [np.uint64(each) for each in data["descriptors"][index % 7][:2]]
    descriptors[side] |= np.uint64(0x3FFF - 0x40)  # the kernel adds where its shared memory starts
    operands = [np.zeros(words, np.uint32) for words in (_IMAGE_WORDS, 512, 64 * n, 64 * n)]
    with pytest.raises(MemoryAccessError, match="out of bounds: shared"):
        gpusim.simulate(kernels[f"across{across}"], 1, 128, (*operands, *descriptors, np.uint32(1)))


SPARSE = """
extern "C" __global__ void __launch_bounds__(128)
sparseTIMES(const uint4 *a, const uint4 *b, const unsigned *meta, float *out) {
  __shared__ __align__(1024) unsigned char room[4096];
  int t = threadIdx.x;
  for (int n = t; n < 128; n += 128) ((uint4 *)room)[n] = a[n];
  if (t < 32) ((uint4 *)(room + 2048))[t] = b[t];
  unsigned s = (unsigned)__cvta_generic_to_shared(room), m = meta[t];
  asm volatile("fence.proxy.async;" ::: "memory"); __syncthreads();
  unsigned long long da = (s >> 4) | 8ull << 16 | 16ull << 32, db = ((s + 2048) >> 4) | 8ull << 16 | 32ull << 32;
  float d[4] = {0, 0, 0, 0};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  #pragma unroll
  for (int n = 0; n < TIMES; ++n)
  asm volatile("wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%0,%1,%2,%3}, %4, %5, %6, 0,"
               " 1, 1, 1, 0, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(da), "l"(db), "r"(m) : "memory");
  asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int n = 0; n < 4; ++n) out[4 * t + n] = d[n];
}
"""
KERNELS = Kernels()
for _times in "13":
    KERNELS.add(SPARSE.replace("TIMES", _times))


def test_wavefronts_of_operands():
    """64 rows of A of 32 bytes and 8 columns of B of 64 are 16 and 4 wavefronts (an H200's ..._mem_shared_op_gmma)."""
    matrices = np.zeros(128 * 4, np.uint32), np.zeros(32 * 4, np.uint32), np.zeros(128, np.uint32)
    totals = []
    for times in (1, 3):
        result = gpusim.simulate(KERNELS[f"sparse{times}"], 1, 128, (*matrices, np.zeros(512, np.float32)))
        totals.append(result.metrics["l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"])
    assert totals[1] - totals[0] == 2 * (16 + 4)
