"""Tensor copies of compute capability 10.0 against NumPy: rows of their own coordinates (tile::gather4, tile::scatter4)
and mbarriers of the other block of a pair (cta_group::2)."""

import numpy as np
import pytest

import gpusim
from gpusim.errors import ArgumentError, KernelError
from gpusim.launch.tensor_map import encode_tiled
from isa.compile import assemble
from isa.listing import programs_from_cubin

HEAD = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128],.param .u64 px,.param .u64 py) {attributes} {{
.shared .align 1024 .b8 room[1024]; .shared .align 8 .b64 bar;
.reg .b64 x,y,m,st; .reg .b32 t,s,b,v,rank,far; .reg .b32 c<5>; .reg .b16 set; .reg .pred p,q;
mov.b64 m,map; cvta.param.u64 m,m; ld.param.u64 x,[px]; ld.param.u64 y,[py]; mov.u32 t,%tid.x;
mov.u32 s,room; mov.u32 b,bar; setp.ne.u32 q,t,0;
ld.global.b32 c0,[x]; ld.global.b32 c1,[x+4]; ld.global.b32 c2,[x+8]; ld.global.b32 c3,[x+12]; ld.global.b32 c4,[x+16];
"""
ROWS, COLUMNS, BOX = 40, 64, 32
WAIT = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 p,[b],0; @!p bra WAIT;"
OUT = "mad.lo.u32 v,t,4,s; mad.wide.u32 y,t,4,y; ld.shared.b32 v,[v]; st.global.b32 [y],v; ret; }"


def launch(body, tensor, corner, out, mode, box=(BOX, 1), blocks=1, swizzle="none"):
    attributes = f".explicitcluster .reqnctapercluster {blocks},1,1" if blocks > 1 else ""
    text = HEAD.format(attributes=attributes) + body
    program = programs_from_cubin(assemble(text, "sm_100a"), abi="c", path="k")["k"]
    threads = out.size // blocks
    with gpusim.Device("tiny", mode=mode, overrides=["gpu.arch=sm_100"]) as device:
        data, result = device.to_device(tensor), device.to_device(out)
        made = encode_tiled("uint32", data.address, [COLUMNS, ROWS], [4 * COLUMNS], list(box), swizzle=swizzle)
        device.launch(program, blocks, threads, (made, np.array(corner, np.int32), result))
        return data.copy_to_host(), result.copy_to_host()


@pytest.fixture
def tensor():
    return np.arange(ROWS * COLUMNS, dtype=np.uint32).reshape(ROWS, COLUMNS) + 1


@pytest.mark.parametrize("mode", ["functional", "detailed"])
@pytest.mark.parametrize("rows", [(3, 31, 0, 7), (5, -1, 40, 5)])
def test_four_rows_are_gathered(tensor, rows, mode):
    body = f"""@q bra READY; mbarrier.init.shared::cta.b64 [b],1; fence.proxy.async;
    mbarrier.arrive.expect_tx.shared::cta.b64 st,[b],{16 * BOX};
    cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes
    [s],[m,{{c0,c1,c2,c3,c4}}],[b];
    READY: bar.sync 0; {WAIT} {OUT}"""
    _, found = launch(body, tensor, (8, *rows), np.zeros((4, BOX), np.uint32), mode)
    inside = np.zeros((4, BOX), np.uint32)
    for k, row in enumerate(rows):
        if 0 <= row < ROWS:
            inside[k] = tensor[row, 8 : 8 + BOX]
    np.testing.assert_array_equal(found, inside)


@pytest.mark.parametrize("mode", ["functional", "detailed"])
def test_four_rows_are_scattered(tensor, mode):
    body = """mad.lo.u32 v,t,4,s; add.u32 rank,t,7000; st.shared.b32 [v],rank; fence.proxy.async;
    bar.sync 0; @q bra END;
    cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [m,{c0,c1,c2,c3,c4}],[s];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; END: ret; }"""
    found, _ = launch(body, tensor, (4, 9, 2, 39, 41), np.zeros((4, BOX), np.uint32), mode)
    expected, image = tensor.copy(), 7000 + np.arange(4 * BOX, dtype=np.uint32).reshape(4, BOX)
    for k, row in enumerate((9, 2, 39)):
        expected[row, 4 : 4 + BOX] = image[k]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("mode", ["functional", "detailed"])
@pytest.mark.parametrize("multicast", [False, True])
def test_the_first_block_of_a_pair_hears_of_both_blocks_bytes(tensor, multicast, mode):
    """Every mbarrier is the first block's: its waiting ends when both have their box, and then the second is told."""
    bytes_ = 2 * 8 * BOX * 4
    cast, many = (".multicast::cluster", ",set") if multicast else ("", "")
    issuer = "setp.ne.or.u32 p,rank,1,q;" if multicast else "mad.lo.u32 c1,rank,8,c1; mov.pred p,q;"
    both = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    body = f"""mov.u32 rank,%cluster_ctarank; mov.u16 set,3; setp.ne.or.u32 p,rank,0,q; @p bra READY;
    mbarrier.init.shared::cta.b64 [b],1; fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 st,[b],{bytes_};
    READY: {both} mapa.shared::cluster.u32 far,b,0; {issuer} @p bra ISSUED;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{cast}.cta_group::2
    [s],[m,{{c0,c1}}],[far]{many};
    ISSUED: setp.ne.u32 p,rank,0; @p bra TOLD; {WAIT}
    TOLD: {both} mad.lo.u32 c4,rank,{8 * BOX * 4},0; cvt.u64.u32 x,c4; add.u64 y,y,x; {OUT}"""
    _, found = launch(body, tensor, (16, 2, 0, 0, 0), np.zeros((2, 8, BOX), np.uint32), mode, (BOX, 8), 2)
    np.testing.assert_array_equal(found[0], tensor[2:10, 16 : 16 + BOX])
    first = 2 if multicast else 10
    np.testing.assert_array_equal(found[1], tensor[first : first + 8, 16 : 16 + BOX])


PAIR = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 ma[128],.param .align 64 .b8 mb[128],.param .u64 px)
.explicitcluster .reqnctapercluster 2,1,1 {
.shared .align 1024 .b8 rows[16384]; .shared .align 1024 .b8 columns[4096];
.shared .align 8 .b64 full; .shared .align 8 .b64 done; .shared .align 4 .b32 where;
.reg .b64 x,m,n,st,ad,bd,start; .reg .b32 t,a,b,f,d,far,rank,tm,la,v,id,c0,c1; .reg .b32 r<32>; .reg .b16 set;
.reg .pred p,one,first,lead,adds;
ld.param.u64 x,[px]; mov.b64 m,ma; cvta.param.u64 m,m; mov.b64 n,mb; cvta.param.u64 n,n;
mov.u32 t,%tid.x; mov.u32 rank,%cluster_ctarank; mov.u32 a,rows; mov.u32 b,columns; mov.u32 f,full; mov.u32 d,done;
setp.eq.u32 one,t,0; setp.lt.u32 first,t,32; setp.eq.and.u32 lead,rank,0,one; mov.u32 v,where; mov.u16 set,3;
@one mbarrier.init.shared::cta.b64 [f],1; @one mbarrier.init.shared::cta.b64 [d],1;
@one fence.mbarrier_init.release.cluster;
@first tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [v],64;
@first tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
tcgen05.fence::before_thread_sync; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
tcgen05.fence::after_thread_sync; ld.shared.u32 tm,[v]; mapa.shared::cluster.u32 far,f,0;
@lead mbarrier.arrive.expect_tx.shared::cta.b64 st,[f],40960;
mov.u32 c0,0; mul.lo.u32 c1,rank,128; @!one bra WAIT;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 [a],[m,{c0,c1}],[far];
mul.lo.u32 c1,rank,32;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 [b],[n,{c0,c1}],[far];
@!lead bra WAIT;
FULL: mbarrier.try_wait.parity.shared::cta.b64 p,[f],0; @!p bra FULL;
tcgen05.fence::after_thread_sync; mov.u32 id,IDESC; mov.b64 ad,DESC; mov.b64 bd,DESC;
shr.u32 v,a,4; cvt.u64.u32 start,v; or.b64 ad,ad,start; shr.u32 v,b,4; cvt.u64.u32 start,v; or.b64 bd,bd,start;
mov.u32 v,0;
NEXT: setp.ne.u32 adds,v,0; tcgen05.mma.cta_group::2.kind::f16 [tm],ad,bd,id,adds;
add.u64 ad,ad,2; add.u64 bd,bd,2; add.u32 v,v,1; setp.lt.u32 p,v,4; @p bra NEXT;
tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [d],set;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 p,[d],0; @!p bra WAIT;
tcgen05.fence::after_thread_sync; shr.u32 la,t,5; shl.b32 la,la,21; add.u32 la,la,tm;
mad.lo.u32 v,rank,128,t; mad.wide.u32 x,v,256,x;
LOADS
tcgen05.fence::before_thread_sync; bar.sync 0; @first tcgen05.dealloc.cta_group::2.sync.aligned.b32 tm,64;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret; }"""


@pytest.mark.parametrize("mode", ["functional", "detailed"])
def test_a_pair_multiplies_what_tensor_copies_bring(mode):
    """256 rows, 64 columns, 64 along K: half of both in each block, in swizzled lines; one thread of the first block
    waits for all of it, has both multiply, and tells both."""
    registers = ",".join(f"r{k}" for k in range(32))
    loads = ""
    for c in (0, 32):
        loads += f"add.u32 v,la,{c}; tcgen05.ld.sync.aligned.32x32b.x32.b32 {{{registers}}},[v];"
        loads += "tcgen05.wait::ld.sync.aligned;"
        loads += "".join(f"st.global.b32 [x+{4 * (c + k)}],r{k};" for k in range(32))
    text = PAIR.replace("IDESC", str(1 << 4 | 8 << 17 | 16 << 24)).replace("LOADS", loads)
    text = text.replace("DESC", str(1 << 16 | 64 << 32 | 1 << 46 | 2 << 61)).replace(";", ";\n")
    program = programs_from_cubin(assemble(text, "sm_100a"), abi="c", path="k")["k"]
    rng = np.random.default_rng(4)
    a, b = (rng.normal(0, 1, (rows, 64)).astype(np.float16) for rows in (256, 64))
    with gpusim.Device("tiny", mode=mode, overrides=["gpu.arch=sm_100"]) as device:
        there, out = [device.to_device(each) for each in (a, b)], device.to_device(np.zeros((256, 64), np.float32))
        maps = [
            encode_tiled("float16", each.address, [64, rows], [128], [64, box], swizzle="128B")
            for each, rows, box in zip(there, (256, 64), (128, 32), strict=True)
        ]
        device.launch(program, 2, 128, (*maps, out))
        found = out.copy_to_host()
    np.testing.assert_allclose(found, a.astype(np.float32) @ b.astype(np.float32).T, rtol=1e-5, atol=1e-4)


# --- elements of 4 and 6 bits, and swizzles of pieces of 32 bytes ---------------------------------------------------
PACKED = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128],.param .align 64 .b8 back[128],.param .u64 px,.param .u64 py) {
.shared .align 1024 .b8 room[4096]; .shared .align 8 .b64 bar;
.reg .b64 x,y,m,n,st; .reg .b32 t,s,b,v,c0,c1,bytes; .reg .pred p,q;
mov.b64 m,map; cvta.param.u64 m,m; mov.b64 n,back; cvta.param.u64 n,n; ld.param.u64 x,[px]; ld.param.u64 y,[py];
mov.u32 t,%tid.x; mov.u32 s,room; mov.u32 b,bar; setp.ne.u32 q,t,0;
ld.global.b32 c0,[x]; ld.global.b32 c1,[x+4]; ld.global.b32 bytes,[x+8];
mad.lo.u32 v,t,4,s; st.shared.b32 [v],-1; fence.proxy.async; bar.sync 0;
@q bra READY; mbarrier.init.shared::cta.b64 [b],1; fence.proxy.async;
mbarrier.arrive.expect_tx.shared::cta.b64 st,[b],bytes;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [s],[m,{c0,c1}],[b];
READY: bar.sync 0; WAIT: mbarrier.try_wait.parity.shared::cta.b64 p,[b],0; @!p bra WAIT;
@q bra LOADED; cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [n,{c0,c1}],[s];
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
LOADED: mad.wide.u32 y,t,4,y; ld.shared.b32 v,[v]; st.global.b32 [y],v; ret; }"""
MAPS = {  # by type: bytes of 16 elements in memory and in shared memory, and elements of a row of a box
    "uint4_align8": (8, 8, 64),
    "uint4_align16": (8, 16, 128),
    "uint6_align16": (12, 16, 128),
}


def there_and_back(dtype, tensor, elements, box, corner, nbytes, swizzle, mode):
    """(What lies in shared memory when a box of a matrix of bytes has come, the matrix that it was then stored to)."""
    program = programs_from_cubin(assemble(PACKED, "sm_100a"), abi="c", path="k")["k"]
    with gpusim.Device("tiny", mode=mode, overrides=["gpu.arch=sm_100"]) as device:
        data, copy = device.to_device(tensor), device.to_device(np.zeros_like(tensor))
        out = device.to_device(np.zeros(4096, np.uint8))
        maps = [
            encode_tiled(dtype, each.address, [elements, len(tensor)], [tensor.shape[1]], box, swizzle=swizzle)
            for each in (data, copy)
        ]
        device.launch(program, 1, 1024, (*maps, np.array([*corner, nbytes], np.int32), out))
        return out.copy_to_host(), copy.copy_to_host()


@pytest.mark.parametrize("mode", ["functional", "detailed"])
@pytest.mark.parametrize("dtype", MAPS)
def test_elements_of_four_and_six_bits(dtype, mode):
    """16 of them lie together, with padding behind them or without; rows out of bounds are zeros."""
    memory, shared, wide = MAPS[dtype]
    tensor = np.random.default_rng(3).integers(0, 256, (20, 512 * memory // 16), np.uint8)
    found, stored = there_and_back(dtype, tensor, 512, [wide, 8], (128, 14), 8 * wide * memory // 16, "none", mode)
    cells = found[: 8 * wide // 16 * shared].reshape(8, -1, shared)
    begin, size = 128 * memory // 16, wide * memory // 16
    exact = np.zeros((8, size), np.uint8)
    exact[:6] = tensor[14:, begin : begin + size]
    np.testing.assert_array_equal(cells[:, :, :memory].reshape(8, -1), exact)
    back = np.zeros_like(tensor)
    back[14:, begin : begin + size] = exact[:6]
    np.testing.assert_array_equal(stored, back)


@pytest.mark.parametrize("mode", ["functional", "detailed"])
@pytest.mark.parametrize("piece", [16, 32])
def test_what_a_swizzle_of_128_bytes_moves(piece, mode):
    """The pieces of line n of a pattern change places by the bits of n (CUDA driver API, CUtensorMapSwizzle)."""
    tensor = np.random.default_rng(4).integers(0, 256, (16, 128), np.uint8)
    swizzle = "128B" if piece == 16 else "128B_atom_32B"
    found, stored = there_and_back("uint8", tensor, 128, [128, 16], (0, 0), 2048, swizzle, mode)
    pieces = tensor.reshape(16, 128 // piece, piece)
    exact = np.empty_like(pieces)
    for line in range(16):
        for n in range(128 // piece):
            exact[line, n ^ line % (128 // piece)] = pieces[line, n]
    np.testing.assert_array_equal(found[:2048].reshape(exact.shape), exact)
    np.testing.assert_array_equal(stored, tensor)


@pytest.mark.parametrize(
    ("dtype", "shape", "box", "words"),
    [
        ("uint4_align16", 200, 128, "padded rows by 128 elements"),
        ("uint4_align8", 129, 64, "padded rows by 128 elements"),
        ("uint6_align16", 256, 64, "rows whole 16 bytes"),
        ("uint4_align8", 256, 16, "rows whole 16 bytes"),
    ],
)
def test_a_map_of_narrow_elements_is_refused(dtype, shape, box, words):
    with pytest.raises(ArgumentError, match=words):
        encode_tiled(dtype, 4096, [shape, 20], [256], [box, 8])


# --- copies of code for compute capability 12.0, which may have the driver do them -----------------------------------
TO_RANK = """.version 8.8
.target sm_120a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128],.param .u64 py,.param .u32 pt) .explicitcluster .reqnctapercluster 2 {
.shared .align 128 .b8 room[512]; .shared .align 8 .b64 bar;
.reg .b64 y,m,st; .reg .b32 t,s,b,v,rank,to; .reg .pred p,q;
mov.b64 m,map; cvta.param.u64 m,m; ld.param.u64 y,[py]; ld.param.u32 to,[pt]; mov.u32 t,%tid.x;
mov.u32 rank,%cluster_ctarank; add.u32 to,to,rank; and.b32 to,to,1; mov.u32 s,room; mov.u32 b,bar;
setp.ne.u32 q,t,0; @!q mbarrier.init.shared::cta.b64 [b],1; fence.proxy.async;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
@q bra READY; mbarrier.arrive.expect_tx.shared::cta.b64 st,[b],512;
mapa.shared::cluster.u32 v,s,to; mapa.shared::cluster.u32 b,b,to; mov.u32 t,0;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [v],[m,{t,rank}],[b];
mov.u32 b,bar; READY: WAIT: mbarrier.try_wait.parity.shared::cta.b64 p,[b],0; @!p bra WAIT;
mov.u32 t,%tid.x; mad.lo.u32 v,t,4,s; ld.shared.b32 v,[v]; mad.lo.u32 t,rank,128,t; mad.wide.u32 y,t,4,y;
st.global.b32 [y],v; ret; }"""


@pytest.mark.parametrize("mode", ["functional", "detailed"])
def test_a_copy_may_name_the_cluster(mode):
    """ptxas has such a copy done by the driver if its target is in another block."""
    program = programs_from_cubin(assemble(TO_RANK, "sm_120a"), abi="c", path="k")["k"]
    tensor, out = np.arange(512, dtype=np.uint32).reshape(4, 128), np.zeros((2, 128), np.uint32)
    with gpusim.Device("tiny", mode=mode, overrides=["gpu.arch=sm_120"]) as device:
        data, result = device.to_device(tensor), device.to_device(out)
        made = encode_tiled("uint32", data.address, [128, 4], [512], [128, 1])
        device.launch(program, 2, 128, (made, result, np.int32(0)))
        np.testing.assert_array_equal(result.copy_to_host(), tensor[:2])
        with pytest.raises(KernelError, match="a bulk copy to another block of the cluster, done by the driver"):
            device.launch(program, 2, 128, (made, result, np.int32(1)))
            device.synchronize()
