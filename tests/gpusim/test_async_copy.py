"""Asynchronous copies, matrix loads and mbarriers in whole runs, against what the PTX manual says they do."""

import numpy as np
import pytest

import gpusim
from gpusim.errors import MemoryAccessError
from isa.compile import assemble
from isa.listing import program_from_cubin
from tests.gpusim.ptx import kernel

WORDS = 128
BYTES = 4 * WORDS


def source():
    return (np.arange(1, 513, dtype=np.uint64) * 2654435761 & 0xFFFFFFFF).astype(np.uint32)


def run(body, *scalars, grid=1, block=32, words=512, arch="sm_90"):
    """Runs a PTX body: %in and %out are 64-bit pointers, %t the thread, %s its 16 bytes of shared memory."""
    program = program_from_cubin(assemble(kernel(body, len(scalars), arch), arch), abi="c", path="k")
    data, result = source(), np.zeros(words, np.uint32)
    arguments = (data, result, *map(np.uint32, scalars))
    gpusim.simulate(program, grid, block, arguments, overrides=[f"gpu.arch={arch}"])
    return data, result


STORE_ROW = """ld.shared.v4.b32 {v0,v1,v2,v3},[%s]; st.global.v4.b32 [%mine],{v0,v1,v2,v3};"""
WAIT = "cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;"


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("copy", ["cp.async.cg.shared.global [%s],[%from],16;",
                                  "cp.async.ca.shared.global [%s],[%from],16;"])  # fmt: skip
def test_a_copy_arrives(copy, arch):
    data, result = run(copy + WAIT + STORE_ROW, arch=arch)
    np.testing.assert_array_equal(result[:WORDS], data[:WORDS])


def test_short_copies_fill_with_zeros():
    """Thread t copies t mod 17 of 16 bytes; the rest becomes zero (PTX manual, cp.async with src-size)."""
    body = "rem.u32 t6,%t,17; cp.async.ca.shared.global [%s],[%from],16,t6;"
    data, result = run(body + WAIT + STORE_ROW)
    expected = data[:WORDS].view(np.uint8).reshape(32, 16).copy()
    for thread in range(32):
        expected[thread, thread % 17 :] = 0
    np.testing.assert_array_equal(result[:WORDS].view(np.uint8).reshape(32, 16), expected)


def test_ignored_sources_are_zero():
    body = "setp.lt.u32 u,%t,9; cp.async.ca.shared.global [%s],[%from],16,u;"
    data, result = run(body + WAIT + STORE_ROW)
    assert not result[: 4 * 9].any()
    np.testing.assert_array_equal(result[4 * 9 : WORDS], data[4 * 9 : WORDS])


def test_what_becomes_zero_may_lie_outside():
    """The last thread's 16 bytes begin 8 before the end of the source; its copy reads these 8, or one more."""
    body = "setp.eq.u32 u,%t,31; selp.u32 t6,q0,16,u; cp.async.ca.shared.global [%s],[%from+1536],16,t6;"
    program = program_from_cubin(assemble(kernel(body + WAIT + STORE_ROW, 1), "sm_90"), abi="c", path="k")
    data, result = source()[:510], np.zeros(WORDS, np.uint32)
    gpusim.simulate(program, 1, 32, (data, result, np.uint32(8)))
    np.testing.assert_array_equal(result[:126], data[384:])
    assert not result[126:].any()
    with pytest.raises(MemoryAccessError, match="out of bounds: global read of 9 bytes") as caught:
        gpusim.simulate(program, 1, 32, (data, result, np.uint32(9)))
    assert caught.value.thread == (31, 0, 0)


@pytest.mark.parametrize(
    ("copy", "message", "thread"),
    [
        ("cg.shared.global [%s],[%from+1552],16;", "out of bounds: global read of 16 bytes", 31),
        ("ca.shared.global [%s],[%from+4096],16,8;", "out of bounds: global read of 8 bytes", 0),
        ("cg.shared.global [%s],[%from+8],16;", "misaligned: global read of 16 bytes", 0),
        ("cg.shared.global [%s+15904],[%from],16;", "out of bounds: shared write of 16 bytes at address 0x4400", 30),
        ("cg.shared.global [%s+8],[%from],16;", "misaligned: shared write of 16 bytes at address 0x408", 0),
        ("ca.shared.global [%s+2],[%from],4;", "misaligned: shared write of 4 bytes at address 0x402", 0),
    ],
)
def test_a_copy_out_of_bounds(copy, message, thread):
    """The source has 2,048 bytes, shared memory 1,024 of the system's, 16,384 of `room` and no mbarrier."""
    with pytest.raises(MemoryAccessError, match=message) as caught:
        run("cp.async." + copy + WAIT)
    assert caught.value.thread == (thread, 0, 0)


def test_groups_are_waited_for_one_by_one():
    """The second copy, of other lines, is not waited for; the time says so."""
    clock = "mov.u32 t6,%clock;"
    first = "cp.async.cg.shared.global [%s],[%from],16; cp.async.commit_group;"
    second = "cp.async.cg.shared.global [%s+512],[%from+512],16; cp.async.commit_group;"
    spend = clock + first + second + "cp.async.wait_group {n}; mov.u32 t7,%clock; sub.u32 t7,t7,t6;"
    body = spend + "st.global.u32 [%mine],t7; cp.async.wait_group 0;"
    _, one = run(body.replace("{n}", "1"))
    _, both = run(body.replace("{n}", "0"))
    _, none = run(body.replace("{n}", "2"))
    assert none[0] < one[0] <= both[0]
    assert one[0] - none[0] > 100  # a trip to memory


def halves(words):
    return words.view(np.uint16).reshape(-1, 8, 8)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrices_are_loaded(count, transposed):
    registers = "{" + ",".join(f"v{k}" for k in range(count)) + "}"
    trans = ".trans" if transposed else ""
    body = "ld.global.v4.b32 {v0,v1,v2,v3},[%from]; st.shared.v4.b32 [%s],{v0,v1,v2,v3}; bar.sync 0;"
    body += f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {registers},[%s];"
    body += "".join(f"st.global.u32 [%mine+{4 * k}],v{k};" for k in range(count))
    data, result = run(body)
    for k in range(count):
        matrix = halves(data[:WORDS])[k]
        expected = np.ascontiguousarray(matrix.T if transposed else matrix).view(np.uint32).ravel()
        np.testing.assert_array_equal(result[k:WORDS:4], expected)


@pytest.mark.parametrize("transposed", [False, True])
def test_matrices_are_stored(transposed):
    trans = ".trans" if transposed else ""
    body = "ld.global.v4.b32 {v0,v1,v2,v3},[%from];"
    body += f"stmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 [%s],{{v0,v1,v2,v3}}; bar.sync 0;" + STORE_ROW
    data, result = run(body)
    words = data[:WORDS].reshape(32, 4)
    for k in range(4):
        matrix = np.ascontiguousarray(words[:, k]).view(np.uint16).reshape(8, 8)
        expected = matrix.T if transposed else matrix
        np.testing.assert_array_equal(halves(result[:WORDS])[k], expected)


INIT = "setp.eq.u32 u,%t,0; @u mbarrier.init.shared::cta.b64 [bar],{n}; bar.sync 0;"


def test_phases_and_pending_counts_of_an_mbarrier():
    """One thread arrives twice at a barrier for two: the phase is over after the second, and the count as told."""
    body = INIT.replace("{n}", "2") + """
    @!u bra END;
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
    _, result = run(body)
    assert result[:8].tolist() == [2, 0, 1, 1, 0, 0, 1, 1]


def test_memory_of_an_mbarrier_that_is_no_longer_one():
    """After mbarrier.inval its eight bytes are for other uses."""
    body = INIT.replace("{n}", "3") + """@u mbarrier.inval.shared::cta.b64 [bar]; bar.sync 0;
    @u st.shared.b64 [bar],0x123456789abcdef0; bar.sync 0; ld.shared.b64 st,[bar]; st.global.b64 [%mine],st;"""
    _, result = run(body)
    assert (result[:WORDS].reshape(32, 4)[:, :2] == [0x9ABCDEF0, 0x12345678]).all()


@pytest.mark.parametrize("form", ["noinc.", ""])
def test_copies_arrive_at_an_mbarrier(form):
    count = "32" if form else "1"
    body = INIT.replace("{n}", count) + f"""
    cp.async.cg.shared.global [%s],[%from],16; cp.async.mbarrier.arrive.{form}shared::cta.b64 [bar];
    {"" if form else "@u mbarrier.arrive.shared::cta.b64 st,[bar];"}
    W: mbarrier.try_wait.parity.shared::cta.b64 w,[bar],0; @!w bra W;""" + STORE_ROW
    data, result = run(body)
    np.testing.assert_array_equal(result[:WORDS], data[:WORDS])


def test_copies_of_some_lanes_arrive_for_them_alone():
    """The mbarrier counts 22 lanes; the ten that did not copy find zeros, as shared memory of a new block has here."""
    body = INIT.replace("{n}", "22") + """setp.gt.u32 u,%t,9;
    @u cp.async.cg.shared.global [%s],[%from],16; @u cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar];
    W: mbarrier.try_wait.parity.shared::cta.b64 w,[bar],0; @!w bra W;""" + STORE_ROW
    data, result = run(body)
    assert not result[:40].any()
    np.testing.assert_array_equal(result[40:WORDS], data[40:WORDS])


def test_copies_tell_no_mbarrier_of_a_later_block():
    """Blocks end while their copies are on the way, and the next ones have their mbarriers at the same places."""
    body = INIT.replace("{n}", "1000") + """
    mov.u32 t6,0; WAIT: add.u32 t6,t6,1; setp.lt.u32 w,t6,150; @w bra WAIT;
    mov.u32 t6,%ctaid.x; mad.lo.u32 t6,t6,32,t0; mad.wide.u32 x5,t6,4,x1; mad.wide.u32 x4,t6,16,x0;
    mbarrier.arrive.shared::cta.b64 st,[bar]; mbarrier.pending_count.b64 t6,st; st.global.u32 [%mine],t6;
    cp.async.cg.shared.global [%s],[%from],16; cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar];"""
    program = program_from_cubin(assemble(kernel(body), "sm_90"), abi="c", path="k")
    blocks = 64
    result = np.zeros((blocks, 32), np.uint32)
    gpusim.simulate(program, blocks, 32, (np.zeros(128 * blocks, np.uint32), result), gpu="tiny")
    # The state before each arrival: 1,000 threads are missing, then 999, ...
    assert (np.sort(result, axis=1) == np.arange(969, 1001)).all()


ONE = "setp.eq.u32 u,%t,0; "
STAGED = "ld.global.v4.b32 {v0,v1,v2,v3},[%from]; st.shared.v4.b32 [%s],{v0,v1,v2,v3}; fence.proxy.async; bar.sync 0; "
DONE = " @u cp.async.bulk.commit_group; @u cp.async.bulk.wait_group 0;"


def test_a_bulk_copy_arrives_with_its_mbarrier():
    body = (
        ONE
        + "@u mbarrier.init.shared.b64 [bar],1; bar.sync 0; @u mbarrier.arrive.expect_tx.shared.b64 st,[bar],512; "
        + "@u cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s],[%in],512,[bar]; "
        + "again: mbarrier.try_wait.parity.shared.b64 w,[bar],0; @!w bra again; "
    )
    data, result = run(body + STORE_ROW)
    np.testing.assert_array_equal(result[:WORDS], data[:WORDS])


def test_a_bulk_copy_leaves_shared_memory():
    data, result = run(STAGED + ONE + "@u cp.async.bulk.global.shared::cta.bulk_group [%out],[%s],512;" + DONE)
    np.testing.assert_array_equal(result[:WORDS], data[:WORDS])
    assert not result[WORDS:].any()


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("add.u32", lambda old, new: old + new),
        ("add.u64", lambda old, new: (old.view(np.uint64) + new.view(np.uint64)).view(np.uint32)),
        ("min.s32", lambda old, new: np.minimum(old.view(np.int32), new.view(np.int32)).view(np.uint32)),
        ("max.u32", lambda old, new: np.maximum(old, new)),
        ("max.s64", lambda old, new: np.maximum(old.view(np.int64), new.view(np.int64)).view(np.uint32)),
        ("and.b32", lambda old, new: old & new),
        ("or.b64", lambda old, new: old | new),
        ("xor.b32", lambda old, new: old ^ new),
        ("inc.u32", lambda old, new: np.where(old >= new, 0, old + 1).astype(np.uint32)),
    ],
)
def test_a_bulk_reduction(operation, expected):
    """The first 512 bytes of the input are what is there, the next what is added to them."""
    there = "ld.global.v4.b32 {v4,v5,v6,v7},[%from+512]; st.global.v4.b32 [%mine],{v4,v5,v6,v7}; "
    reduce = f"@u cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation} [%out],[%s],512;"
    data, result = run(there + STAGED + ONE + "membar.gl; " + reduce + DONE)
    np.testing.assert_array_equal(result[:WORDS], expected(data[WORDS : 2 * WORDS].copy(), data[:WORDS].copy()))


@pytest.mark.parametrize(
    ("copy", "message"),
    [
        ("[%out+8],[%s],512;", "misaligned"),
        ("[%out],[%s+8],512;", "misaligned"),
        ("[%out],[%s],4096;", "out of bounds: global"),
        ("[%out+1536],[%s+32256],512;", "out of bounds: shared"),
    ],
)
def test_a_bulk_copy_out_of_bounds(copy, message):
    with pytest.raises(MemoryAccessError, match=message):
        run(STAGED + ONE + "@u cp.async.bulk.global.shared::cta.bulk_group " + copy + DONE)


def test_a_bulk_copy_of_nothing_does_nothing():
    _, result = run(STAGED + ONE + "@u cp.async.bulk.global.shared::cta.bulk_group [%out],[%s],0;" + DONE)
    assert not result.any()
