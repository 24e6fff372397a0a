"""Code that ptxas makes for sm_100 and sm_120 and for no earlier target, in whole runs."""

import re

import numpy as np

import gpusim
from isa.compile import assemble
from isa.listing import program_from_cubin
from tests.gpusim.ptx import kernel

WORDS = 128


def run(body, arch, opcodes):
    """Result of a body (see `tests.gpusim.ptx`) whose code has these instructions, for 32 threads."""
    text = re.sub(r"\.version \S+", ".version 8.8", kernel(body, arch=arch))
    program = program_from_cubin(assemble(text, arch), abi="c", path="k")
    assert opcodes <= program.opcode_histogram().keys()
    data, result = np.arange(1, WORDS + 1, dtype=np.uint32) * np.uint32(2654435761), np.zeros(WORDS, np.uint32)
    gpusim.simulate(program, 1, 32, (data, result), overrides=[f"gpu.arch={arch}"])
    return data, result


def test_mbarriers_that_plain_stores_have_made():
    """sm_100 initialises the mbarriers of all lanes with a store. Each lane arrives twice at its own one, which is for
    two and more: (pending before, phase over) after each."""
    arrive = """mbarrier.arrive.shared::cta.b64 st,[%s]; mbarrier.pending_count.b64 t6,st; st.global.u32 [%mine+{0}],t6;
    mbarrier.test_wait.parity.shared::cta.b64 w,[%s],0; selp.u32 t6,1,0,w; st.global.u32 [%mine+{1}],t6;"""
    body = "and.b32 t7,%t,1; add.u32 t7,t7,2; mbarrier.init.shared::cta.b64 [%s],t7;"
    _, result = run(body + arrive.format(0, 4) + arrive.format(8, 12), "sm_100", {"SYNCS.CCTL.IVALL"})
    assert result.reshape(32, 4)[::2].tolist() == [[2, 0, 1, 1]] * 16
    assert result.reshape(32, 4)[1::2].tolist() == [[3, 0, 2, 0]] * 16


def test_every_lane_copies_from_its_own_address():
    """Bulk copies take uniform registers: a loop elects a lane after the other, whose values all lanes then have."""
    body = """setp.eq.u32 u,%t,0; @u mbarrier.init.shared::cta.b64 [bar],1; bar.sync 0;
    @u mbarrier.arrive.expect_tx.shared::cta.b64 st,[bar],512; bar.sync 0;
    xor.b32 t6,%t,5; mad.wide.u32 x6,t6,16,%in;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s],[x6],16,[bar];
    again: mbarrier.try_wait.parity.shared::cta.b64 w,[bar],0; @!w bra again;
    ld.shared.v4.b32 {v0,v1,v2,v3},[%s]; st.global.v4.b32 [%mine],{v0,v1,v2,v3};"""
    data, result = run(body, "sm_100", {"R2UR.BROADCAST", "ELECT", "UBLKCP.S.G"})
    np.testing.assert_array_equal(result.reshape(32, 4), data.reshape(32, 4)[np.arange(32) ^ 5])


def test_least_of_three():
    """ptxas puts a register into Rpc meanwhile, and it comes back."""
    body = """mov.b64 x6,%from; ld.global.v4.b32 {v0,v1,v2,v3},[%from];
    and.b32 v0,v0,0xbfffffff; and.b32 v1,v1,0xbfffffff; and.b32 v2,v2,0xbfffffff;
    min.f32 v3,v0,v1,v2; st.global.b32 [%mine],v3; st.global.b64 [%mine+8],x6;"""
    data, result = run(body, "sm_120", {"RPCMOV.32"})
    values = (data.reshape(32, 4)[:, :3] & 0xBFFFFFFF).astype(np.uint32).view(np.float32)
    np.testing.assert_array_equal(result.reshape(32, 4)[:, 0].view(np.float32), values.min(axis=1))
    addresses = result.reshape(32, 4)[:, 2:].copy().view(np.uint64)[:, 0]
    assert (np.diff(addresses) == 16).all()


def test_prefetches_of_local_memory_change_nothing():
    body = """{ .local .b32 own[4]; .reg .b32 at; mov.u32 at,own; st.local.u32 [at],%t; prefetch.local.L1 [at];
    prefetch.local.L2 [at]; ld.local.u32 t6,[at]; st.global.u32 [%mine],t6; }"""
    _, result = run(body, "sm_90", {"CCTLL.PF1", "CCTLL.PF2"})
    assert (result[::4] == np.arange(32)).all()
