"""mma.sync of 8, 6 and 4-bit floats (QMMA, OMMA) against a scalar meaning: the PTX ISA's fragments, block scales and
structured sparsity, and the sums of `tests.oracle.tensor_memory`."""

import numpy as np
import pytest

import gpusim
from isa.compile import assemble
from isa.listing import programs_from_cubin
from tests.oracle import tensor_memory as T
from tests.oracle.floats import F16, F32

WORDS = {"a": 4, "b": 4, "c": 4, "e": 1, "sa": 1, "sb": 1}


def kernel(name, instruction):
    """k(words in, words out): every thread has its own of each register of an operand, one after the other."""
    loads = [f"{each}{k}" for each, count in WORDS.items() for k in range(count)]
    text = "".join(f"ld.global.b32 {each},[x+{128 * k}];" for k, each in enumerate(loads))
    regs = ",".join(f"d{k}" for k in range(4)) + "," + ",".join(loads)
    stores = "".join(f"st.global.b32 [y+{128 * k}],d{k};" for k in range(4))
    zeros = "".join(f"mov.b32 d{k},0;" for k in range(4))
    return f""".visible .entry {name}(.param .u64 px,.param .u64 py) {{ .reg .b64 x,y; .reg .b32 t,{regs};
ld.param.u64 x,[px]; ld.param.u64 y,[py]; mov.u32 t,%tid.x; mad.wide.u32 x,t,4,x; mad.wide.u32 y,t,4,y;
{zeros}{text}{instruction}{stores} ret; }}""".replace(";", ";\n")


def run(instruction, words, arch="sm_120a"):
    text = f".version 9.0\n.target {arch}\n.address_size 64\n" + kernel("k", instruction)
    program = programs_from_cubin(assemble(text, arch), abi="c", path="k")["k"]
    out = np.zeros(128, np.uint32)
    gpusim.simulate(program, 1, 32, (words.reshape(-1), out), gpu="tiny", overrides=[f"gpu.arch={arch[:-1]}"])
    return out.reshape(4, 32)


def element(regs, first, number, t, k, kind, packed):
    """Element k of a row or column whose lanes are 4 * number + t: its bits."""
    size = 4 if packed else 8
    per = 32 // size
    word = int(regs[first(k // (4 * per)), 4 * number + t(k // per % 4)]) >> size * (k % per)
    bits = T.bits_of(kind)
    return (word >> 2 if bits == 4 and not packed else word) & (1 << bits) - 1


def meaning(words, row, n, a_kind, b_kind, result, depth, sparse=False, scales=None, selectors=(0, 0, 0, 0)):
    """D[row, n]."""
    a, b, c, (e, sa, sb) = words[:4], words[4:8], words[8:12], words[12:]
    packed, (g, high) = scales is not None and scales[1] > 1, (row % 8, row // 8)
    where, pairs = [], 2 if packed else 1
    for k in range(depth // 2 if sparse else depth):
        index = k // pairs
        number = int(e[4 * g + index // 16 * 2 + high]) >> 2 * (index % 16) & 3
        where.append(4 * pairs * (index // 2) + pairs * number + k % pairs if sparse else k)
    factors = []
    for k, at in enumerate(where):
        x = element(a, lambda piece: 2 * piece + high, g, lambda t: t, k, a_kind, packed)
        y = element(b, lambda piece: piece, n, lambda t: t, at, b_kind, packed)
        factors.append((T.value(a_kind, x), T.value(b_kind, y), at))
    register = 2 * high + n % 2 if result == "f32" else high
    addend = int(c[register, 4 * g + n // 2])
    if result == "f16":
        addend = addend >> 16 * (n % 2) & 0xFFFF
    target = F32 if result == "f32" else F16
    if scales is None:
        return T.aligned_sum(target, [T.times(x, y) for x, y, _ in factors], addend, 0, 25)
    byte_a, thread_a, byte_b, thread_b = selectors
    word_a = int(sa[4 * g + 2 * thread_a + high]) >> 8 * byte_a
    word_b = int(sb[4 * n + thread_b]) >> 8 * byte_b

    def of(k):
        shift = 8 * (k * scales[1] // depth)
        return T.scale(scales[0], word_a >> shift & 255), T.scale(scales[0], word_b >> shift & 255)

    if not packed:
        return T.aligned_sum(target, [T.times(x, y, *of(0)) for x, y, _ in factors], addend, 0, 25)
    terms = []
    for first in range(0, depth, depth // 4):
        inside = sum(x * y for (x, _), (y, _), k in factors if k * 4 // depth == first * 4 // depth)
        both = T.times(*of(first))
        terms.append((T.times((inside, 0), both)[0], both[1]))
    return T.aligned_sum(target, terms, addend, 0, 35)


def operands(seed, result, scales=None):
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 1 << 32, (15, 32), dtype=np.uint32)
    if seed % 2:  # numbers near one, of which none is infinite or no number
        words[:8] &= np.uint32(0xBBBBBBBB)
    if result == "f32":
        words[8:12] = (rng.normal(0, 100, (4, 32))).astype(np.float32).view(np.uint32)
    else:
        words[8:12] &= np.uint32(0xBFFFBFFF)
    pairs = np.array((4, 8, 9, 12, 13, 14), np.uint32)  # ordered metadata
    words[12] = sum(rng.choice(pairs, 32).astype(np.uint32) << np.uint32(4 * k) for k in range(8))
    if scales == "ue8m0":
        words[13:] = sum(rng.integers(120, 134, (2, 32)).astype(np.uint32) << np.uint32(8 * k) for k in range(4))
    return words


def check(instruction, words, *args, **more):
    found = run(instruction, words)
    result = args[2]
    for row in range(16):
        for n in range(8):
            lane, high = 4 * (row % 8) + n // 2, row // 8
            word = int(found[2 * high + n % 2 if result == "f32" else high, lane])
            got = word if result == "f32" else word >> 16 * (n % 2) & 0xFFFF
            assert got == meaning(words, row, n, *args, **more), (row, n, hex(got))


def registers(sparse, result, depth=32, packed=False):
    d, c = (f"{{{each}0,{each}1,{each}2,{each}3}}" if result == "f32" else f"{{{each}0,{each}1}}" for each in "dc")
    b = "{b0,b1,b2,b3}" if sparse else "{b0,b1}"
    return f"{d},{{a0,a1,a2,a3}},{b},{c}" + (",e0,0" if sparse else "")


KINDS = [("e4m3", "e4m3"), ("e4m3", "e5m2"), ("e5m2", "e2m1"), ("e3m2", "e2m3"), ("e2m3", "e3m2"), ("e2m1", "e4m3")]


@pytest.mark.parametrize("result", ["f32", "f16"])
@pytest.mark.parametrize(("a", "b"), KINDS)
def test_a_product_without_scales_is_cut_and_rounded_once(a, b, result):
    for seed in range(2):
        text = f"mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.{result}.{a}.{b}.{result} {registers(False, result)};"
        check(text, operands(seed, result), a, b, result, 32)


def test_half_of_the_depth_has_half_of_the_registers():
    text = "mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e5m2.f32 {d0,d1,d2,d3},{a0,a1},{b0},{c0,c1,c2,c3};"
    check(text, operands(3, "f32"), "e4m3", "e5m2", "f32", 16)


@pytest.mark.parametrize(("a", "b"), KINDS[1:4])
def test_metadata_say_where_the_elements_of_a_sparse_matrix_belong(a, b):
    text = f"mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::f8f6f4.f32.{a}.{b}.f32"
    check(f"{text} {registers(True, 'f32')};", operands(5, "f32"), a, b, "f32", 64, sparse=True)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("selectors", [(0, 0, 0, 0), (1, 1, 2, 3), (3, 0, 1, 2)])
def test_scales_of_bytes_come_from_the_chosen_byte_and_threads(sparse, selectors):
    for k, (a, b) in enumerate(KINDS[:3]):
        shape, sp = ("m16n8k64", "mma.sp::ordered_metadata") if sparse else ("m16n8k32", "mma")
        chosen = "sa0,{{{},{}}},sb0,{{{},{}}}".format(*selectors)
        text = f"{sp}.sync.aligned.{shape}.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.{a}.{b}.f32.ue8m0"
        check(
            f"{text} {registers(sparse, 'f32')},{chosen};", operands(7 + k, "f32", "ue8m0"), a, b, "f32",
            64 if sparse else 32, sparse=sparse, scales=("ue8m0", 1), selectors=selectors,
        )  # fmt: skip


PACKED = [
    ("mxf4", "ue8m0", 2, (0, 0, 0, 0)),
    ("mxf4", "ue8m0", 2, (2, 1, 0, 3)),
    ("mxf4nvf4", "ue4m3", 4, (0, 1, 0, 2)),
]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("kind", "scale", "count", "selectors"), PACKED)
def test_packed_four_bit_numbers_have_a_scale_for_each_group(kind, scale, count, selectors, sparse):
    shape, sp = ("m16n8k128", "mma.sp::ordered_metadata") if sparse else ("m16n8k64", "mma")
    chosen = "sa0,{{{},{}}},sb0,{{{},{}}}".format(*selectors)
    text = f"{sp}.sync.aligned.{shape}.row.col.kind::{kind}.block_scale.scale_vec::{count}X.f32.e2m1.e2m1.f32.{scale}"
    for seed in range(2):
        check(
            f"{text} {registers(sparse, 'f32')},{chosen};", operands(seed, "f32", scale), "e2m1", "e2m1", "f32",
            128 if sparse else 64, sparse=sparse, scales=(scale, count), selectors=selectors,
        )  # fmt: skip
