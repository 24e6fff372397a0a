"""Asynchronous copies and mbarriers in whole runs, against what the PTX manual says they do. What bytes a copy moves is
`tests/oracle/test_memory.py`'s, reductions of all types are `test_bulk_forms.py`'s."""

import numpy as np
import pytest

import gpusim
from gpusim.errors import MemoryAccessError
from tests.gpusim.ptx import Bodies

WORDS = 128
STORE_ROW = """ld.shared.v4.b32 {v0,v1,v2,v3},[%s]; st.global.v4.b32 [%mine],{v0,v1,v2,v3};"""
WAIT = "cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;"
# The second copy, of other lines, is not waited for; the time says so.
GROUPS = """mov.u32 t6,%clock; cp.async.cg.shared.global [%s],[%from],16; cp.async.commit_group;
cp.async.cg.shared.global [%s+512],[%from+512],16; cp.async.commit_group; cp.async.wait_group {n};
mov.u32 t7,%clock; sub.u32 t7,t7,t6; st.global.u32 [%mine],t7; cp.async.wait_group 0;"""
INIT = "setp.eq.u32 u,%t,0; @u mbarrier.init.shared::cta.b64 [bar],{n}; bar.sync 0;"
# One thread arrives twice at a barrier for two: the phase is over after the second, and the count as told.
PHASES = """@!u bra END;
mbarrier.arrive.shared::cta.b64 st,[bar]; mbarrier.pending_count.b64 t6,st; st.global.u32 [%mine],t6;
mbarrier.test_wait.shared::cta.b64 w,[bar],st; selp.u32 t6,1,0,w; st.global.u32 [%mine+4],t6;
mbarrier.arrive.shared::cta.b64 st,[bar]; mbarrier.pending_count.b64 t6,st; st.global.u32 [%mine+8],t6;
mbarrier.test_wait.shared::cta.b64 w,[bar],st; selp.u32 t6,1,0,w; st.global.u32 [%mine+12],t6;
mbarrier.test_wait.parity.shared::cta.b64 w,[bar],1; selp.u32 t6,1,0,w; st.global.u32 [%mine+16],t6;
mbarrier.arrive.expect_tx.shared::cta.b64 st,[bar],64; mbarrier.arrive.shared::cta.b64 st,[bar];
mbarrier.test_wait.parity.shared::cta.b64 w,[bar],1; selp.u32 t6,1,0,w; st.global.u32 [%mine+20],t6;
mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar],64;
mbarrier.test_wait.parity.shared::cta.b64 w,[bar],1; selp.u32 t6,1,0,w; st.global.u32 [%mine+24],t6;
mbarrier.arrive_drop.shared::cta.b64 st,[bar]; mbarrier.arrive.shared::cta.b64 st,[bar];
mbarrier.arrive.shared::cta.b64 st,[bar];
mbarrier.test_wait.parity.shared::cta.b64 w,[bar],1; selp.u32 t6,1,0,w; st.global.u32 [%mine+28],t6;
END:"""
INVALID = """@u mbarrier.inval.shared::cta.b64 [bar]; bar.sync 0;
@u st.shared.b64 [bar],0x123456789abcdef0; bar.sync 0; ld.shared.b64 st,[bar]; st.global.b64 [%mine],st;"""
TOLD = """cp.async.cg.shared.global [%s],[%from],16; cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar];
W: mbarrier.try_wait.parity.shared::cta.b64 w,[bar],0; @!w bra W;"""
COUNTED = TOLD.replace("noinc.", "").replace("W: ", "@u mbarrier.arrive.shared::cta.b64 st,[bar]; W: ")
SOME = "setp.gt.u32 u,%t,9; @u " + TOLD.replace("; cp.async.mb", "; @u cp.async.mb")
LATER = """mov.u32 t6,0; WAIT: add.u32 t6,t6,1; setp.lt.u32 w,t6,150; @w bra WAIT;
mov.u32 t6,%ctaid.x; mad.lo.u32 t6,t6,32,t0; mad.wide.u32 x5,t6,4,x1; mad.wide.u32 x4,t6,16,x0;
mbarrier.arrive.shared::cta.b64 st,[bar]; mbarrier.pending_count.b64 t6,st; st.global.u32 [%mine],t6;
cp.async.cg.shared.global [%s],[%from],16; cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar];"""
STAGED = "ld.global.v4.b32 {v0,v1,v2,v3},[%from]; st.shared.v4.b32 [%s],{v0,v1,v2,v3}; fence.proxy.async; bar.sync 0; "
BULK = STAGED + "setp.eq.u32 u,%t,0; @u cp.async.bulk.global.shared::cta.bulk_group "
DONE = " @u cp.async.bulk.commit_group; @u cp.async.bulk.wait_group 0;"
# The source has 2,048 bytes, shared memory 1,024 of the system's, 16,384 of `room` and no mbarrier.
OUT_OF_BOUNDS = {
    "cg.shared.global [%s],[%from+1552],16;": ("out of bounds: global read of 16 bytes", 31),
    "ca.shared.global [%s],[%from+4096],16,8;": ("out of bounds: global read of 8 bytes", 0),
    "cg.shared.global [%s],[%from+8],16;": ("misaligned: global read of 16 bytes", 0),
    "cg.shared.global [%s+15904],[%from],16;": ("out of bounds: shared write of 16 bytes at address 0x4400", 30),
    "cg.shared.global [%s+8],[%from],16;": ("misaligned: shared write of 16 bytes at address 0x408", 0),
    "ca.shared.global [%s+2],[%from],4;": ("misaligned: shared write of 4 bytes at address 0x402", 0),
}
BULK_OUT_OF_BOUNDS = {
    "[%out+8],[%s],512;": "misaligned",
    "[%out],[%s+8],512;": "misaligned",
    "[%out],[%s],4096;": "out of bounds: global",
    "[%out+1536],[%s+32256],512;": "out of bounds: shared",
}
PARTLY = "setp.eq.u32 u,%t,31; selp.u32 t6,q0,16,u; cp.async.ca.shared.global [%s],[%from+1536],16,t6;"
KERNELS = Bodies(
    {
        "partly": (PARTLY + WAIT + STORE_ROW, 1),
        "phases": INIT.replace("{n}", "2") + PHASES,
        "invalid": INIT.replace("{n}", "3") + INVALID,
        "told": INIT.replace("{n}", "32") + TOLD + STORE_ROW,
        "counted": INIT.replace("{n}", "1") + COUNTED + STORE_ROW,
        "some": INIT.replace("{n}", "22") + SOME + STORE_ROW,
        "later": INIT.replace("{n}", "1000") + LATER,
        "nothing": BULK + "[%out],[%s],0;" + DONE,
        **{f"groups{n}": GROUPS.replace("{n}", str(n)) for n in range(3)},
        **{copy: "cp.async." + copy + WAIT for copy in OUT_OF_BOUNDS},
        **{copy: BULK + copy + DONE for copy in BULK_OUT_OF_BOUNDS},
    }
)


def source():
    return (np.arange(1, 513, dtype=np.uint64) * 2654435761 & 0xFFFFFFFF).astype(np.uint32)


def run(name):
    data, result = source(), np.zeros(512, np.uint32)
    gpusim.simulate(KERNELS[name], 1, 32, (data, result))
    return data, result


def test_what_becomes_zero_may_lie_outside():
    """The last thread's 16 bytes begin 8 before the end of the source; its copy reads these 8, or one more."""
    data, result = source()[:510], np.zeros(WORDS, np.uint32)
    gpusim.simulate(KERNELS["partly"], 1, 32, (data, result, np.uint32(8)))
    np.testing.assert_array_equal(result[:126], data[384:])
    assert not result[126:].any()
    with pytest.raises(MemoryAccessError, match="out of bounds: global read of 9 bytes") as caught:
        gpusim.simulate(KERNELS["partly"], 1, 32, (data, result, np.uint32(9)))
    assert caught.value.thread == (31, 0, 0)


@pytest.mark.parametrize("copy", OUT_OF_BOUNDS)
def test_a_copy_out_of_bounds(copy):
    message, thread = OUT_OF_BOUNDS[copy]
    with pytest.raises(MemoryAccessError, match=message) as caught:
        run(copy)
    assert caught.value.thread == (thread, 0, 0)


def test_groups_are_waited_for_one_by_one():
    both, one, none = (run(f"groups{n}")[1][0] for n in range(3))
    assert none < one <= both
    assert one - none > 100  # a trip to memory


def test_phases_and_pending_counts_of_an_mbarrier():
    assert run("phases")[1][:8].tolist() == [2, 0, 1, 1, 0, 0, 1, 1]


def test_memory_of_an_mbarrier_that_is_no_longer_one():
    """After mbarrier.inval its eight bytes are for other uses."""
    _, result = run("invalid")
    assert (result[:WORDS].reshape(32, 4)[:, :2] == [0x9ABCDEF0, 0x12345678]).all()


@pytest.mark.parametrize(("name", "without"), [("told", 0), ("counted", 0), ("some", 10)])
def test_copies_arrive_at_an_mbarrier(name, without):
    """Each at one that counts lanes, all of them or 22, or at one that counts one arrival beside the copies. Lanes that
    did not copy find zeros, as shared memory of a new block has here."""
    data, result = run(name)
    assert not result[: 4 * without].any()
    np.testing.assert_array_equal(result[4 * without : WORDS], data[4 * without : WORDS])


def test_copies_tell_no_mbarrier_of_a_later_block():
    """Blocks end while their copies are on the way, and the next ones have their mbarriers at the same places."""
    blocks = 64
    result = np.zeros((blocks, 32), np.uint32)
    gpusim.simulate(KERNELS["later"], blocks, 32, (np.zeros(128 * blocks, np.uint32), result), gpu="tiny")
    # The state before each arrival: 1,000 threads are missing, then 999, ...
    assert (np.sort(result, axis=1) == np.arange(969, 1001)).all()


@pytest.mark.parametrize("copy", BULK_OUT_OF_BOUNDS)
def test_a_bulk_copy_out_of_bounds(copy):
    with pytest.raises(MemoryAccessError, match=BULK_OUT_OF_BOUNDS[copy]):
        run(copy)


def test_a_bulk_copy_of_nothing_does_nothing():
    assert not run("nothing")[1].any()
