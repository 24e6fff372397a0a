"""Tensor memory and tcgen05 against the scalar meaning of each instruction (`tests.oracle.tensor_memory`).

Shared and tensor memory are filled with an image, so that a wrong place gives a wrong value; an instruction, which one
thread issues, is waited for through an mbarrier, and all 256 columns are read back.
"""

import re

import numpy as np
import pytest

import gpusim
from gpusim.errors import KernelError, MemoryAccessError, SynchronizationError
from isa.compile import assemble
from isa.listing import programs_from_cubin
from tests.gpusim.matrix_operands import mixed
from tests.oracle import tensor_memory as T

SHARED, COLUMNS = 32768, 256
WORDS = ("ad", "bd", "zm", "id", "ta", "tb", "tc", "td", "te", "enable", *(f"m{k}" for k in range(8)))
ADDRESSES = ("ta", "tb", "tc", "td", "te")


def moves(op, columns):
    """A load or store of all columns of a warp's lanes, from or to the array at x."""
    rows = []
    for c in range(0, columns, 32):
        regs = "{" + ",".join(f"r{k}" for k in range(32)) + "}"
        at = [f"[x+{4 * (c + k)}],r{k};" for k in range(32)]
        if op == "st":
            rows += [f"ld.global.u32 r{k},[x+{4 * (c + k)}];" for k in range(32)]
            rows.append(f"tcgen05.st.sync.aligned.32x32b.x32.b32 [la+{c}],{regs}; tcgen05.wait::st.sync.aligned;")
        else:
            rows.append(f"tcgen05.ld.sync.aligned.32x32b.x32.b32 {regs},[la+{c}]; tcgen05.wait::ld.sync.aligned;")
            rows += [f"st.global.u32 {each}" for each in at]
    return "\n".join(rows)


def kernel(name, body, everyone="", pair=False):
    """k(image, cells, out, words): `body` is what one thread does, `everyone` what all threads do instead. pair: of two
    blocks, of which the first one's thread does it, and each of which has its own part of all arrays."""
    text = one_kernel(name, body, everyone)
    if not pair:
        return text
    for word, size in (("pimage", SHARED), ("pcells", 512 * COLUMNS), ("pout", 512 * COLUMNS)):
        text = text.replace(f"ld.param.u64 x,[{word}];", f"ld.param.u64 x,[{word}]; mad.wide.u32 x,rank,{size},x;")
    both = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    commit = "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [o],set;"
    text = text.replace("pwords) {", "pwords) .explicitcluster .reqnctapercluster 2,1,1 {")
    text = text.replace(".reg .pred p,", ".reg .b32 rank; .reg .b16 set; .reg .pred p,")
    text = text.replace("mov.u32 t,%tid.x;", "mov.u32 t,%tid.x; mov.u32 rank,%cluster_ctarank; mov.u16 set,3;", 1)
    text = re.sub(r"tcgen05.commit\S+ \[o\];", commit, text).replace("cta_group::1", "cta_group::2")
    text = text.replace("@!one bra WAIT;", f"{both} setp.ne.or.u32 q,rank,0,!one; @q bra WAIT;")
    return text.replace("tcgen05.fence::before_thread_sync; bar.sync 0;\n@first", f"{both}\n@first")


def one_kernel(name, body, everyone):
    words = ""
    for k, word in enumerate(WORDS):
        words += f"ld.global.u{64 if k < 3 else 32} {word},[y+{8 * k}];"
    words += "".join(f"add.u32 {each},{each},tm;" for each in ADDRESSES)
    return f"""
.visible .entry {name}(.param .u64 pimage,.param .u64 pcells,.param .u64 pout,.param .u64 pwords) {{
.shared .align 1024 .b8 room[{SHARED}]; .shared .align 8 .b64 object; .shared .align 4 .b32 where;
.reg .b64 x,y,ad,bd,zm,start; .reg .b32 t,s,n,o,la,tm,wp,ta,tb,tc,td,te,id,enable; .reg .b32 m<8>,r<132>,v<4>;
.reg .pred p,q,first,one;
mov.u32 t,%tid.x; shr.u32 wp,t,5; setp.eq.u32 first,wp,0; setp.eq.u32 one,t,0; mov.u32 o,object;
ld.param.u64 x,[pimage]; mad.wide.u32 x,t,16,x; mov.u32 s,room; mad.lo.u32 s,t,16,s; mov.u32 n,0;
IN: ld.global.v4.b32 {{v0,v1,v2,v3}},[x]; st.shared.v4.b32 [s],{{v0,v1,v2,v3}};
add.u64 x,x,2048; add.u32 s,s,2048; add.u32 n,n,1; setp.lt.u32 q,n,{SHARED // 2048}; @q bra IN;
@one mbarrier.init.shared::cta.b64 [o],1;
mov.u32 s,where; @first tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s],{COLUMNS};
@first tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
bar.sync 0; ld.shared.u32 tm,[s]; shl.b32 la,wp,21; add.u32 la,la,tm;
ld.param.u64 x,[pcells]; mad.wide.u32 x,t,{4 * COLUMNS},x; {moves("st", COLUMNS)}
fence.proxy.async; tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
ld.param.u64 y,[pwords]; {words}
mov.u32 s,room; shr.u32 s,s,4; cvt.u64.u32 start,s; add.u64 ad,ad,start; add.u64 bd,bd,start;
setp.ne.u32 p,enable,0; ld.param.u64 x,[pout]; mad.wide.u32 x,t,{4 * COLUMNS},x;
{everyone}
@!one bra WAIT;
{body}
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [o];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 q,[o],0; @!q bra WAIT;
tcgen05.fence::after_thread_sync;
{moves("ld", COLUMNS)}
tcgen05.fence::before_thread_sync; bar.sync 0;
@first tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm,{COLUMNS};
ret; }}
"""


class Listed(dict):
    """Programs by the text of their bodies, assembled one by one when they are first asked for."""

    def __missing__(self, key):
        body, everyone, arch, pair = key
        text = f".version 9.0\n.target {arch}\n.address_size 64\n" + kernel("k", body, everyone, pair)
        self[key] = programs_from_cubin(assemble(text, arch), abi="c", path="k")["k"]
        return self[key]


PROGRAMS = Listed()


def run(body, image, cells, mode="functional", everyone="", arch="sm_100a", pair=False, **words):
    """Cells after an instruction: uint32 [128, COLUMNS], or of both blocks of a pair."""
    out = np.zeros(cells.shape, np.uint32)
    values = np.array([words.get(name, 0) for name in WORDS], np.uint64)
    operands = image, np.ascontiguousarray(cells).reshape(-1), out.reshape(-1), values
    gpusim.simulate(
        PROGRAMS[body, everyone, arch, pair], 2 if pair else 1, 128, operands, gpu="tiny", mode=mode,
        overrides=[f"gpu.arch={arch[:6]}"],
    )  # fmt: skip
    return out


def image_of(seed, kind, scale=1.0):
    """32 KiB of elements near one."""
    rng = np.random.default_rng(seed)
    if kind in ("f16", "bf16", "tf32"):
        floats = rng.normal(0, 1, SHARED // 4).astype(np.float32)
        if kind == "tf32":
            return floats.view(np.uint8).copy()
        if kind == "f16":
            return rng.normal(0, 1, SHARED // 2).astype(np.float16).view(np.uint8).copy()
        return (rng.normal(0, 1, SHARED // 2).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    return (mixed(seed, SHARED // 8)).view(np.uint8).copy()


def cells_of(seed):
    rng = np.random.default_rng(seed)
    return rng.normal(0, 1, (128, COLUMNS)).astype(np.float32).view(np.uint32)


def descriptor(start, leading, stride, swizzle):
    """Of a matrix that begins so many bytes behind the room's start."""
    return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | swizzle << 61


def check(product, kind, body, image, cells, sample=150, mode="functional", arch="sm_100a", **words):
    """A product against its meaning at some places, and every other cell against what it was."""
    room = 1024  # where the kernel's shared memory begins
    out = run(body, image, cells, mode, arch=arch, id=product.descriptor(kind), enable=product.adds, **words)
    shared, rng = bytes(room) + image.tobytes(), np.random.default_rng(7)
    moved = {
        name: value + (room >> 4) for name, value in (("a", product.a), ("b", product.b)) if isinstance(value, int)
    }
    exact = T.Product(**{**vars(product), **moved})
    touched = np.zeros(out.shape, bool)
    for row in range(product.rows):
        for n in range(product.columns):
            lane, column = product.lane_and_column(row, n)
            touched[lane, product.d + column] = True
    before = cells.tolist()
    for row, n in zip(rng.integers(0, product.rows, sample), rng.integers(0, product.columns, sample), strict=True):
        lane, column = product.lane_and_column(int(row), int(n))
        expected = exact.cell(shared, before, int(row), int(n))
        assert hex(out[lane, product.d + column]) == hex(expected), (row, n)
    np.testing.assert_array_equal(out[~touched], cells[~touched])


K_MAJOR = {0: (128, 2048 + 128), 2: (0, 1024), 4: (0, 512), 6: (0, 256)}  # leading, stride
F16 = "tcgen05.mma.cta_group::1.kind::f16 [ta],ad,bd,id,p;"


@pytest.mark.parametrize("swizzle", [0, 2, 4, 6])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_halves_along_k(swizzle, kind):
    leading, stride = (2048, 128) if swizzle == 0 else K_MAJOR[swizzle]
    a, b = descriptor(0, leading, stride, swizzle), descriptor(16384, leading, stride, swizzle)
    product = T.Product(128, 32, kind, kind, "f32", a, b)
    check(product, "f16", F16, image_of(3, kind), cells_of(4), ad=a, bd=b)


def mma(kind, a="ad", more="", masks="", tail="", scales=""):
    """The text of a tcgen05.mma; more: what stands between its name and its CTA group."""
    return (
        f"tcgen05.mma{more}.cta_group::1.kind::{kind} [ta],{a},bd,{'[te],' * ('sp' in more)}id,{scales}{masks}p{tail};"
    )


#: (leading, stride) of an MN-major matrix of 128 rows, by swizzle: lines of 16 bytes behind each other in groups of
#: eight along K, or lines of rows.
def across(swizzle, size, start):
    line = T.LINES[swizzle]
    if swizzle == 0:
        return descriptor(start, 128 * size * 8, 128, swizzle)  # the next eight along K, the next 16 bytes of rows
    pieces = 128 * size // line
    return descriptor(start, 128 * (4 if swizzle == 1 else 8) * pieces // pieces * line // 128, 0, swizzle) | (
        (line * (4 if swizzle == 1 else 8) * pieces) >> 4 << 32
    )


@pytest.mark.parametrize("swizzle", [0, 2, 4, 6])
def test_halves_across(swizzle):
    a, b = across(swizzle, 2, 0), across(swizzle, 2, 16384)
    product = T.Product(128, 64, "f16", "f16", "f32", a, b, a_across=True, b_across=True, d=32, adds=False)
    check(product, "f16", F16, image_of(5, "f16"), cells_of(6), ad=a, bd=b, ta=32)


def test_tf32_across_takes_pieces_of_32_bytes():
    a, b = across(1, 4, 0), across(1, 4, 16384)
    product = T.Product(128, 16, "tf32", "tf32", "f32", a, b, a_across=True, b_across=True)
    check(product, "tf32", mma("tf32"), image_of(5, "tf32"), cells_of(6), ad=a, bd=b)


A, B = descriptor(0, 0, 1024, 2), descriptor(16384, 0, 1024, 2)
EIGHT_BITS = [("e4m3", "e5m2"), ("e5m2", "e2m3"), ("e2m3", "e3m2"), ("e3m2", "e2m1"), ("e2m1", "e4m3")]


@pytest.mark.parametrize(("a", "b"), EIGHT_BITS)
@pytest.mark.parametrize("result", ["f32", "f16"])
def test_bytes(a, b, result):
    """Any bits: infinities and NaNs among them."""
    product = T.Product(128, 24, a, b, result, A, B, adds=result == "f32", negative=a == "e2m3")
    check(product, "f8f6f4", mma("f8f6f4"), image_of(8, a), cells_of(9), ad=A, bd=B)


@pytest.mark.parametrize("kind", ["e4m3", "s8"])
def test_bytes_across(kind):
    a, b = across(2, 1, 0), across(4, 1, 16384)
    of = "f8f6f4" if kind == "e4m3" else "i8"
    product = T.Product(
        128, 64, kind, kind, "f32" if kind == "e4m3" else "s32", a, b, a_across=True, b_across=True, adds=False
    )
    check(product, of, mma(of), image_of(8, kind), cells_of(9), ad=a, bd=b)


@pytest.mark.parametrize(("a", "b", "saturate"), [("u8", "s8", False), ("s8", "u8", True), ("s8", "s8", True)])
def test_integers(a, b, saturate):
    cells = mixed(3, 128 * COLUMNS).reshape(128, COLUMNS).astype(np.uint32) | np.uint32(0x7FFFC000)
    product = T.Product(128, 32, a, b, "s32", A, B, saturate=saturate)
    check(product, "i8", mma("i8"), image_of(8, a), cells, ad=A, bd=B)


@pytest.mark.parametrize("lane", [0, 16])
def test_64_rows(lane):
    product = T.Product(64, 40, "f16", "f16", "f16", A, B, lane=lane, d=8)
    cells = cells_of(9) & np.uint32(0xBFFF3FFF)
    check(product, "f16", F16, image_of(8, "f16"), cells, ad=A, bd=B, ta=8 | lane << 16)


def test_what_is_there_counts_less():
    product = T.Product(128, 32, "bf16", "bf16", "f32", A, B, less=5)
    check(product, "f16", mma("f16", tail=",5"), image_of(8, "bf16"), cells_of(9), ad=A, bd=B)


@pytest.mark.parametrize("rows", [64, 128])
@pytest.mark.parametrize("kind", ["f16", "tf32", "e4m3", "e2m1", "u8"])
def test_a_in_tensor_memory(kind, rows):
    of = {"f16": "f16", "tf32": "tf32", "u8": "i8"}.get(kind, "f8f6f4")
    product = T.Product(rows, 32, kind, kind, "s32" if of == "i8" else "f32", (0, 64), B)
    cells = cells_of(9)
    if of != "tf32":
        cells[:, 64:72] = image_of(11, kind)[: 128 * 32].view(np.uint32).reshape(128, 8)
    check(product, of, mma(of, "[tb]"), image_of(8, kind), cells, ad=A, bd=B, tb=64)


def test_rows_of_a_are_shifted():
    product = T.Product(128, 16, "f16", "f16", "f32", (0, 64), B, ashift=True)
    cells = cells_of(9)
    cells[:, 64:72] = image_of(11, "f16")[: 128 * 32].view(np.uint32).reshape(128, 8)
    check(product, "f16", mma("f16.ashift", "[tb]"), image_of(8, "f16"), cells, bd=B, tb=64)


def test_lanes_that_stay():
    cells, masks = cells_of(9), (0x1, 0xFFFFFFFF, 0, 0x80000000)
    words = {f"m{k}": word for k, word in enumerate(masks)}
    out = run(mma("f16", masks="{m0,m1,m2,m3},"), image_of(8, "f16"), cells, ad=A, bd=B, enable=1,
              id=T.Product(128, 32, "f16", "f16", "f32", A, B).descriptor("f16"), **words)  # fmt: skip
    plain = run(F16, image_of(8, "f16"), cells, ad=A, bd=B, enable=1,
                id=T.Product(128, 32, "f16", "f16", "f32", A, B).descriptor("f16"))  # fmt: skip
    stay = [masks[lane // 32] >> lane % 32 & 1 == 1 for lane in range(128)]
    np.testing.assert_array_equal(out, np.where(np.array(stay)[:, None], cells, plain))


@pytest.mark.parametrize("rows", [32, 64, 128])
@pytest.mark.parametrize("mask", [None, 1 << 39 | 2 << 40 | 3 << 48 | 2 << 56 | 0x02010100 | 0b0011 << 32])
def test_weight_stationary(rows, mask):
    """With the mask of example 4 of the manual's zero-column mask."""
    product = T.Product(rows, 64, "f16", "f16", "f32", A, B, ws=True, zero_columns=mask)
    text = mma("f16", more=".ws", tail=",zm" * (mask is not None))
    check(product, "f16", text, image_of(8, "f16"), cells_of(9), ad=A, bd=B, zm=mask or 0)


def test_weight_stationary_with_a_in_tensor_memory():
    product = T.Product(32, 64, "f16", "f16", "f32", (0, 64), B, ws=True)
    cells = cells_of(9)
    cells[:, 64:72] = image_of(11, "f16")[: 128 * 32].view(np.uint32).reshape(128, 8)
    check(product, "f16", mma("f16", "[tb]", ".ws"), image_of(8, "f16"), cells, bd=B, tb=64)


def scaled_cells(seed, form):
    """Cells whose columns from 128 on hold scales near one, alike in all four parts."""
    cells, rng = cells_of(seed), np.random.default_rng(seed)
    low, high = (120, 134) if form == "ue8m0" else (0x28, 0x48)
    cells[:, 128:] = np.tile(rng.integers(low, high, (32, 128 * 4)).astype(np.uint8).view(np.uint32), (4, 1))
    return cells


@pytest.mark.parametrize(("a", "b"), [("e4m3", "e4m3"), ("e5m2", "e2m1"), ("e2m3", "e3m2")])
def test_scaled_bytes(a, b):
    product = T.Product(
        128, 48, a, b, "f32", A, B, scales=("ue8m0", 1), scale_a=(132, 2), scale_b=(140, 3), adds=a != "e5m2"
    )
    text = mma("mxf8f6f4.block_scale", scales="[tc],[td],")
    check(product, "mxf8f6f4", text, image_of(8, a), scaled_cells(9, "ue8m0"), ad=A, bd=B, tc=132, td=140)


@pytest.mark.parametrize(
    ("kind", "form", "count"), [("mxf4", "ue8m0", 2), ("mxf4nvf4", "ue8m0", 4), ("mxf4nvf4", "ue4m3", 4)]
)
@pytest.mark.parametrize("a", [A, (0, 64)])
def test_scaled_four_bits(kind, form, count, a):
    product = T.Product(
        128, 64, "e2m1", "e2m1", "f32", a, B, packed=True, scales=(form, count),
        scale_a=(132, 2 if count == 2 else 0), scale_b=(140, 0),
    )  # fmt: skip
    text = mma(f"{kind}.block_scale.scale_vec::{count}X", "ad" if a == A else "[tb]", scales="[tc],[td],")
    check(product, kind, text, image_of(8, "e2m1"), scaled_cells(9, form), ad=A, bd=B, tb=64, tc=132, td=140)


def sparse_cells(seed, kind):
    """Cells whose columns from 128 on hold metadata."""
    cells, rng = cells_of(seed), np.random.default_rng(seed)
    choices = np.array([0b1110, 0b0100] if kind == "tf32" else [4, 8, 12, 9, 13, 14], np.uint32)
    nibbles = choices[rng.integers(0, len(choices), (128, 128, 8))]
    cells[:, 128:] = np.bitwise_or.reduce(nibbles << np.arange(0, 32, 4, dtype=np.uint32), axis=2)
    return cells


SPARSE = [
    ("f16", "f16", 128, 1),
    ("f16", "bf16", 64, 0),
    ("tf32", "tf32", 128, 1),
    ("f8f6f4", "e4m3", 128, 0),
    ("i8", "s8", 128, 0),
]


@pytest.mark.parametrize(("of", "kind", "rows", "selector"), SPARSE)
def test_sparse(of, kind, rows, selector):
    """B's columns take 64 bytes along K."""
    product = T.Product(rows, 16, kind, kind, "s32" if of == "i8" else "f32", A, B, metadata=130, selector=selector)
    check(product, of, mma(of, more=".sp"), image_of(8, kind), sparse_cells(9, kind), ad=A, bd=B, te=130)


def test_sparse_and_scaled():
    cells = sparse_cells(9, "e2m1")
    cells[:, 128:140] = scaled_cells(3, "ue4m3")[:, 128:140]
    product = T.Product(
        128, 16, "e2m1", "e2m1", "f32", A, B, packed=True, scales=("ue4m3", 4), scale_a=(128, 0), scale_b=(132, 0),
        metadata=144,
    )  # fmt: skip
    text = mma("mxf4nvf4.block_scale.block16", more=".sp", scales="[tc],[td],")
    check(product, "mxf4nvf4", text, image_of(8, "e2m1"), cells, ad=A, bd=B, te=144, tc=128, td=132)


# --- pairs of blocks ------------------------------------------------------------------------------------------------
def check_pair(product, kind, body, seed, mode="functional", cells=None, **words):
    """As `check`, of a product of two blocks."""
    images = [image_of(seed + n, product.a_kind) for n in (0, 1)]
    before = np.stack([cells_of(seed + n) for n in (0, 1)]) if cells is None else cells
    out = run(body, np.concatenate(images), before, mode, pair=True, id=product.descriptor(kind), enable=1, **words)
    shared = [bytes(1024) + image.tobytes() for image in images]
    exact = T.Product(
        **{**vars(product), "b": product.b + 64, "a": product.a + 64 if isinstance(product.a, int) else product.a}
    )
    rng, old = np.random.default_rng(7), before.tolist()
    for _ in range(150):
        block, row, n = (int(rng.integers(0, most)) for most in (2, product.rows, product.columns))
        lane, column = product.lane_and_column(row, n)
        expected = exact.cell(shared[block], old[block], row, n, shared)
        assert hex(out[block, lane, product.d + column]) == hex(expected), (block, row, n)
    assert (out != before).sum() <= 2 * product.rows * product.columns


@pytest.mark.parametrize("mode", ["functional", "detailed"])
@pytest.mark.parametrize("rows", [64, 128])
def test_pairs(rows, mode):
    product = T.Product(rows, 64, "f16", "f16", "f32", A, B, pair=True)
    check_pair(product, "f16", F16.replace("::1", "::2"), 8, mode, ad=A, bd=B)


@pytest.mark.parametrize("rows", [64, 128])
def test_pairs_with_a_in_tensor_memory(rows):
    cells = np.stack([cells_of(n) for n in (3, 4)])
    cells[:, :, 64:72] = image_of(11, "f16")[: 2 * 128 * 32].view(np.uint32).reshape(2, 128, 8)
    product = T.Product(rows, 32, "f16", "f16", "f32", (0, 64), B, pair=True)
    check_pair(product, "f16", mma("f16", "[tb]").replace("::1", "::2"), 8, cells=cells, bd=B, tb=64)


@pytest.mark.parametrize("rows", [64, 128])
def test_sparse_pairs(rows):
    cells = np.stack([sparse_cells(n, "f16") for n in (3, 4)])
    product = T.Product(rows, 32, "f16", "f16", "f32", A, B, pair=True, metadata=130)
    check_pair(product, "f16", mma("f16", more=".sp").replace("::1", "::2"), 8, cells=cells, ad=A, bd=B, te=130)


def test_scaled_pairs():
    cells = np.stack([scaled_cells(n, "ue8m0") for n in (3, 4)])
    product = T.Product(
        128, 64, "e4m3", "e4m3", "f32", A, B, pair=True, scales=("ue8m0", 1), scale_a=(132, 0), scale_b=(140, 1)
    )
    text = mma("mxf8f6f4.block_scale", scales="[tc],[td],").replace("::1", "::2")
    check_pair(product, "mxf8f6f4", text, 8, cells=cells, ad=A, bd=B, tc=132, td=140)


def test_copies_and_shifts_of_pairs():
    image, cells = image_of(4, "u8"), np.stack([cells_of(5), cells_of(6)])
    both = np.concatenate([image, image[::-1]])
    text = "tcgen05.cp.cta_group::2.128x128b [ta],ad; tcgen05.shift.cta_group::2.down [tb];"
    out, expected = run(text, both, cells, pair=True, ad=A, ta=40, tb=8), cells.copy()
    for block, own in enumerate((image, image[::-1])):
        for row in range(128):
            values = [T.element(own.tobytes(), A, row, k, "u8", False, False) for k in range(16)]
            expected[block, row, 40:44] = np.array(values, np.uint8).view(np.uint32)
        expected[block, :31, 8:16] = cells[block, 1:32, 8:16]
    np.testing.assert_array_equal(out, expected)


# --- data movement --------------------------------------------------------------------------------------------------
SHAPES = [(shape, count, packed) for shape in T.WORDS for count, packed in ((1, 0), (2, 1), (4, 0))]


@pytest.mark.parametrize(("shape", "count", "packed"), SHAPES)
def test_registers(shape, count, packed):
    """A load of a shape, and a store of what it has loaded 64 columns further."""
    number = count * T.WORDS[shape]
    regs = "{" + ",".join(f"r{k}" for k in range(number)) + "}"
    split = ",8" * (shape == "16x32bx2")
    text = f"tcgen05.ld.sync.aligned.{shape}.x{count}{'.pack::16b' * packed}.b32 {regs},[la+32]{split};"
    text += f"tcgen05.wait::ld.sync.aligned; tcgen05.st.sync.aligned.{shape}.x{count}{'.unpack::16b' * packed}.b32"
    text += f" [la+96]{split},{regs}; tcgen05.wait::st.sync.aligned;"
    cells = cells_of(5)
    out, expected = run("", image_of(1, "f16"), cells, everyone=text), cells.copy()
    for thread in range(128):
        for register in range(number):
            lane, column = T.moved(shape, thread % 32, register, 8)
            lane += thread // 32 * 32
            if not packed:
                expected[lane, 96 + column] = cells[lane, 32 + column]
                continue
            column += column if split == "" or thread % 32 < 16 else column - 8  # the second half begins at 8
            for k in range(2):
                expected[lane, 96 + column + k] = cells[lane, 32 + column + k] & 0xFFFF
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("op", ["min.f32", "max.abs.NaN.f32", "max.abs.f32", "min.u32", "max.s32"])
def test_registers_and_their_extreme(op):
    cells = cells_of(5)
    cells[5, 33] = cells[7, 34] = 0x7FC00000
    regs = "{r0,r1,r2,r3}"
    text = f"tcgen05.ld.red.sync.aligned.32x32b.x4.{op} {regs},r4,[la+32]; tcgen05.wait::ld.sync.aligned;"
    text += "tcgen05.st.sync.aligned.32x32b.x1.b32 [la+96],{r4}; tcgen05.wait::st.sync.aligned;"
    out, four = run("", image_of(1, "f16"), cells, everyone=text, arch="sm_103a"), cells[:, 32:36]
    values = four.view(np.float32)
    with np.errstate(invalid="ignore"):
        expected = {
            "min.f32": lambda: np.fmin.reduce(values, 1).view(np.uint32),
            "max.abs.f32": lambda: np.fmax.reduce(abs(values), 1).view(np.uint32),
            "max.abs.NaN.f32": lambda: np.where(
                np.isnan(values).any(1), 0x7FFFFFFF, abs(values).max(1).view(np.uint32)
            ),
            "min.u32": lambda: four.min(1),
            "max.s32": lambda: four.view(np.int32).max(1).view(np.uint32),
        }[op]()
    np.testing.assert_array_equal(out[:, 96], expected)


def test_zeros_are_stored_from_no_register():
    zeros = ",".join(["r5"] * 64)
    text = f"mov.b32 r5,0; tcgen05.st.sync.aligned.32x32b.x64.b32 [la+32],{{{zeros}}}; tcgen05.wait::st.sync.aligned;"
    out, cells = run("", image_of(1, "f16"), cells_of(5), everyone=text), cells_of(5)
    cells[:, 32:96] = 0
    np.testing.assert_array_equal(out, cells)


COPIES = {
    "128x256b": (128, 8, lambda row: [row]),
    "4x256b": (4, 8, lambda row: [32 * row]),
    "128x128b": (128, 4, lambda row: [row]),
    "64x128b.warpx2::02_13": (64, 4, lambda row: [row, row + 64]),
    "64x128b.warpx2::01_23": (64, 4, lambda row: [64 * (row // 32) + row % 32 + n for n in (0, 32)]),
    "32x128b.warpx4": (32, 4, lambda row: [row, row + 32, row + 64, row + 96]),
}


@pytest.mark.parametrize("shape", COPIES)
@pytest.mark.parametrize("form", ["", ".b8x16.b6x16_p32", ".b8x16.b4x16_p64"])
def test_copies(shape, form):
    rows, columns, lanes = COPIES[shape]
    image, cells = image_of(4, "u8"), cells_of(5)
    out = run(f"tcgen05.cp.cta_group::1.{shape}{form} [ta+8],ad;", image, cells, ad=A, ta=32)
    expected, shared = cells.copy(), image.tobytes()
    kind = {"": "u8", ".b8x16.b6x16_p32": "e3m2", ".b8x16.b4x16_p64": "e2m1"}[form]
    for row in range(rows):
        values = [T.element(shared, A, row, k, kind, False, False) << 2 * (kind == "e2m1") for k in range(4 * columns)]
        for lane in lanes(row):
            expected[lane, 40 : 40 + columns] = np.array(values, np.uint8).view(np.uint32)
    np.testing.assert_array_equal(out, expected)


def test_shift():
    cells = cells_of(5)
    out, expected = (
        run("tcgen05.shift.cta_group::1.down [ta+4];", image_of(4, "u8"), cells, ta=4 | 64 << 16),
        cells.copy(),
    )
    expected[64:95, 8:16] = cells[65:96, 8:16]
    np.testing.assert_array_equal(out, expected)


# --- allocation -----------------------------------------------------------------------------------------------------
ALLOCATION = """
.visible .entry k(.param .u64 pout) {
.shared .align 4 .b32 where[2]; .reg .b64 x; .reg .b32 s,n,tm,more,v; .reg .pred p;
mov.u32 s,where; ld.param.u64 x,[pout]; mov.u32 n,%ctaid.x; mad.wide.u32 x,n,8,x;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s],FIRST; ld.shared.u32 tm,[s]; st.global.u32 [x],tm;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s],SECOND; ld.shared.u32 more,[s]; st.global.u32 [x+4],more;
BODY
tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
ret; }
"""
BOTH = """tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm,FIRST;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 more,SECOND;"""
HEAD = ".version 9.0\n.target sm_100a\n.address_size 64\n"


def allocate(first, second, body, blocks=1, mode="functional", **options):
    text = ALLOCATION.replace("BODY", body).replace("FIRST", str(first)).replace("SECOND", str(second))
    program = programs_from_cubin(assemble(HEAD + text, "sm_100a"), abi="c", path="k")["k"]
    out = np.zeros((blocks, 2), np.uint32)
    overrides = ["gpu.arch=sm_100", "sm.count=1", *options.pop("overrides", ())]
    gpusim.simulate(program, blocks, 32, (out.reshape(-1),), gpu="tiny", mode=mode, overrides=overrides, **options)
    return out.tolist()


@pytest.mark.parametrize("mode", ["functional", "detailed"])
def test_blocks_wait_for_columns(mode):
    """Two of 256 and 64 columns do not fit at once: whoever comes later gets the same after the first has ended."""
    assert allocate(256, 64, BOTH, 4, mode) == [[0, 256]] * 4


def test_what_is_allocated_has_to_be_freed():
    with pytest.raises(KernelError, match="ends with tensor memory allocated: units 0x2 of 32 columns"):
        allocate(32, 32, BOTH.splitlines()[0])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {v},[tm+64];", "1 columns of tensor memory from 0x40 on"),
        ("tcgen05.st.sync.aligned.32x32b.x1.b32 [tm+448],{v};", "1 columns of tensor memory from 0x1c0 on"),
        ("add.u32 tm,tm,0x200000; tcgen05.st.sync.aligned.32x32b.x1.b32 [tm],{v};", "lane 32 .* 32 from number 0 on"),
    ],
)
def test_accesses_to_what_the_block_has_not(text, reason):
    with pytest.raises(KernelError, match=reason):
        allocate(32, 32, f"mov.b32 v,1; {text} tcgen05.wait::ld.sync.aligned; st.global.u32 [x],v; {BOTH}")


def test_a_product_that_does_not_exist():
    wrong = T.Product(128, 32, "f16", "f16", "f32", A, B).descriptor("f16") | 3 << 7
    with pytest.raises(KernelError, match="UTCHMMA has no product of the instruction descriptor"):
        run(F16, image_of(1, "f16"), cells_of(1), ad=A, bd=B, id=wrong)
    with pytest.raises(MemoryAccessError, match="out of bounds: shared"):
        far = descriptor(0x30000, 0, 1024, 2)
        right = T.Product(128, 32, "f16", "f16", "f32", A, B).descriptor("f16")
        run(F16, image_of(1, "f16"), cells_of(1), ad=far, bd=B, id=right)


def test_in_time():
    """A product takes the tensor core's time, and its result is there when the mbarrier says so."""
    product = T.Product(128, 64, "f16", "f16", "f32", A, B)
    check(product, "f16", F16, image_of(3, "f16"), cells_of(4), mode="detailed", ad=A, bd=B)


# --- loads of products that nobody has waited for ---------------------------------------------------------------------
WAIT = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 q,[o],0; @!q bra WAIT;"
ONE_WAITS = f"WAIT: @!one bra MEET; {WAIT.replace('WAIT', 'LOOK')} MEET: bar.sync 0;"


AGAIN = f"{WAIT} @!one bra ON; {F16} ON: bar.sync 0;"


def checked(wait, mode):
    text = HEAD + kernel("k", F16, "", False).replace(WAIT, wait)
    program = programs_from_cubin(assemble(text, "sm_100a"), abi="c", path="k")["k"]
    a, b = descriptor(0, 0, 1024, 2), descriptor(16384, 0, 1024, 2)
    words = {"ad": a, "bd": b, "id": T.Product(128, 32, "f16", "f16", "f32", a, b).descriptor("f16")}
    values = np.array([words.get(name, 0) for name in WORDS], np.uint64)
    operands = image_of(3, "f16"), cells_of(4).reshape(-1), np.zeros(128 * COLUMNS, np.uint32), values
    gpusim.simulate(
        program, 1, 128, operands, gpu="tiny", mode=mode, overrides=["gpu.arch=sm_100"], check="racecheck"
    )


@pytest.mark.parametrize("mode", ["functional", "detailed"])
@pytest.mark.parametrize("wait", ["WAIT: bar.sync 0;", AGAIN])
def test_loads_before_anyone_has_waited_are_found(wait, mode):
    """For a product, or for the second of two."""
    with pytest.raises(SynchronizationError, match="product not waited for: column 0 of tensor memory") as error:
        checked(wait, mode)
    assert error.value.instruction.startswith("LDTM")


@pytest.mark.parametrize("mode", ["functional", "detailed"])
@pytest.mark.parametrize("wait", [WAIT, ONE_WAITS])
def test_loads_behind_one_that_has_waited_are_not(wait, mode):
    checked(wait, mode)
