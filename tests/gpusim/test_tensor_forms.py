"""Tensor copies of compute capability 10.0 against NumPy: rows of their own coordinates (tile::gather4, tile::scatter4)
and mbarriers of the other block of a pair (cta_group::2)."""

import numpy as np
import pytest

import gpusim
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
