"""Gluon kernels, and what makes `data/gluon.zip` of them: `python tests/gpusim/gluon_kernels.py`.

Gluon is Triton's language with explicit layouts: a kernel says itself what lies in shared and in tensor memory, which
barrier a copy or product completes on, and which warps do what. The archive is one as `triton_kernels.py` writes.
"""

import inspect
import sys
from pathlib import Path
from types import SimpleNamespace

from tests.gpusim import triton_kernels as T

try:
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.language.nvidia import blackwell as bw
    from triton.experimental.gluon.language.nvidia.ampere import async_copy, mma_v2
    from triton.experimental.gluon.language.nvidia.blackwell import mbarrier, tma
except ImportError:  # the tests need the sources alone
    gluon, gl = None, SimpleNamespace(constexpr=None)

ARCHIVE = Path(__file__).parent / "data/gluon.zip"


def kernel(function):
    return gluon.jit(function) if gluon else function


@kernel
def barrier(count: gl.constexpr):
    made = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(made, count=count)
    return made


@kernel
def barriers(many: gl.constexpr):
    made = gl.allocate_shared_memory(gl.int64, [many, 1], mbarrier.MBarrierLayout())
    for each in gl.static_range(many):
        mbarrier.init(made.index(each), count=1)
    return made


@kernel
def tiles(start, m, n, BM: gl.constexpr, BN: gl.constexpr, type: gl.constexpr):
    """A descriptor of a matrix by rows, whose tiles are swizzled as products want them."""
    layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BM, BN], type)
    return tma.make_tensor_descriptor(start, [m, n], [n, 1], [BM, BN], layout)


# --- one role: copies, products and results by the same warps --------------------------------------------------------
@kernel
def pipelined(
    c, a, b, m, n, k,
    BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, STAGES: gl.constexpr, TYPE: gl.constexpr,
):  # fmt: skip
    """Copies by TMA two stages ahead of products that complete on barriers; b by columns; the result by TMA."""
    of_a, of_b = tiles(a, m, k, BM, BK, TYPE), tiles(b, n, k, BN, BK, TYPE)
    of_c = tiles(c, m, n, BM, BN, gl.float32)
    row, column = gl.program_id(0) * BM, gl.program_id(1) * BN
    left = gl.allocate_shared_memory(TYPE, [STAGES, BM, BK], of_a.layout)
    right = gl.allocate_shared_memory(TYPE, [STAGES, BN, BK], of_b.layout)
    come, used = barriers(STAGES), barriers(STAGES)
    held: gl.constexpr = bw.TensorMemoryLayout([BM, BN], col_stride=1)
    total = bw.allocate_tensor_memory(gl.float32, [BM, BN], held)
    steps = gl.cdiv(k, BK)
    for first in gl.static_range(STAGES - 1):
        mbarrier.expect(come.index(first), of_a.block_type.nbytes + of_b.block_type.nbytes)
        tma.async_copy_global_to_shared(of_a, [row, first * BK], come.index(first), left.index(first))
        tma.async_copy_global_to_shared(of_b, [column, first * BK], come.index(first), right.index(first))
    for step in range(steps):
        ahead = step + STAGES - 1
        into = ahead % STAGES
        copies = ahead < steps
        mbarrier.wait(used.index(into), (ahead // STAGES + 1) & 1, pred=copies & (ahead >= STAGES))
        mbarrier.expect(come.index(into), of_a.block_type.nbytes + of_b.block_type.nbytes, pred=copies)
        tma.async_copy_global_to_shared(of_a, [row, ahead * BK], come.index(into), left.index(into), pred=copies)
        tma.async_copy_global_to_shared(of_b, [column, ahead * BK], come.index(into), right.index(into), pred=copies)
        at = step % STAGES
        mbarrier.wait(come.index(at), step // STAGES & 1)
        bw.tcgen05_mma(
            left.index(at), right.index(at).permute((1, 0)), total, use_acc=step > 0, mbarriers=[used.index(at)]
        )
    mbarrier.wait(used.index((steps - 1) % STAGES), (steps - 1) // STAGES & 1)
    sums = total.load(bw.get_tmem_reg_layout(gl.float32, [BM, BN], held, gl.num_warps()))
    out = gl.allocate_shared_memory(gl.float32, [BM, BN], of_c.layout, sums)
    bw.fence_async_shared()
    tma.async_copy_shared_to_global(of_c, [row, column], out)
    tma.store_wait(0)


@kernel
def chained(out, a, b, c, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    """(a b) as halves, then times c: the second product has its first factor in tensor memory."""
    by_rows: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [gl.num_warps(), 1], [1, 0])
    of_rows: gl.constexpr = gl.SliceLayout(1, by_rows)
    of_columns: gl.constexpr = gl.SliceLayout(0, by_rows)
    rows, inner, columns = gl.arange(0, BM, of_rows), gl.arange(0, BK, of_columns), gl.arange(0, BN, of_columns)
    down, across = gl.arange(0, BK, of_rows), gl.arange(0, BN, of_rows)
    layout_a: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BM, BK], gl.float16)
    layout_b: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BK, BN], gl.float16)
    layout_c: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BN, BN], gl.float16)
    left = gl.load(a + rows[:, None] * BK + inner[None, :])
    left = gl.allocate_shared_memory(gl.float16, [BM, BK], layout_a, left)
    right = gl.load(b + down[:, None] * BN + columns[None, :])
    right = gl.allocate_shared_memory(gl.float16, [BK, BN], layout_b, right)
    last = gl.load(c + across[:, None] * BN + columns[None, :])
    last = gl.allocate_shared_memory(gl.float16, [BN, BN], layout_c, last)
    bw.fence_async_shared()
    held: gl.constexpr = bw.TensorMemoryLayout([BM, BN], col_stride=1)
    total = bw.allocate_tensor_memory(gl.float32, [BM, BN], held)
    done = barrier(1)
    bw.tcgen05_mma(left, right, total, use_acc=False)
    bw.tcgen05_commit(done)
    mbarrier.wait(done, 0)
    sums = total.load(bw.get_tmem_reg_layout(gl.float32, [BM, BN], held, gl.num_warps()))
    halves = bw.allocate_tensor_memory(gl.float16, [BM, BN], held)
    in_halves: gl.constexpr = bw.get_tmem_reg_layout(gl.float16, [BM, BN], held, gl.num_warps())
    halves.store(gl.convert_layout(sums.to(gl.float16), in_halves))
    bw.tcgen05_mma(halves, last, total, use_acc=False)
    bw.tcgen05_commit(done)
    mbarrier.wait(done, 1)
    sums = total.load(bw.get_tmem_reg_layout(gl.float32, [BM, BN], held, gl.num_warps()))
    gl.store(out + rows[:, None] * BN + columns[None, :], gl.convert_layout(sums, by_rows))


@kernel
def exchanged(out, x, BM: gl.constexpr, BN: gl.constexpr, STORED: gl.constexpr, LOADED: gl.constexpr):
    """Into tensor memory by one shape, out by another; then half of the columns again, negated in place."""
    by_rows: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [gl.num_warps(), 1], [1, 0])
    rows, columns = gl.arange(0, BM, gl.SliceLayout(1, by_rows)), gl.arange(0, BN, gl.SliceLayout(0, by_rows))
    places = rows[:, None] * BN + columns[None, :]
    held: gl.constexpr = bw.TensorMemoryLayout([BM, BN], col_stride=1)
    memory = bw.allocate_tensor_memory(gl.float32, [BM, BN], held)
    one: gl.constexpr = bw.get_tmem_reg_layout(gl.float32, [BM, BN], held, gl.num_warps(), STORED)
    memory.store(gl.convert_layout(gl.load(x + places), one))
    part = memory.slice(BN // 2, BN // 2)
    half: gl.constexpr = bw.get_tmem_reg_layout(gl.float32, [BM, BN // 2], part.layout, gl.num_warps(), LOADED)
    part.store(-part.load(half))
    other: gl.constexpr = bw.get_tmem_reg_layout(gl.float32, [BM, BN], held, gl.num_warps(), LOADED)
    gl.store(out + places, gl.convert_layout(memory.load(other), by_rows))


@kernel
def scaled(
    c, a, b, scales_a, scales_b, m, n, k,
    BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr,
    FORM: gl.constexpr, IN_BYTE: gl.constexpr, SHARE: gl.constexpr, TYPE: gl.constexpr, NARROW_B: gl.constexpr,
):  # fmt: skip
    """Numbers with scales, which lie in memory as `tcgen05.cp` takes them: by 128 rows and four scales along K.
    NARROW_B: b has numbers of four bits beside an a of eight, and in shared memory a byte for each."""
    of_a = tiles(a, m, k // IN_BYTE, BM, BK // IN_BYTE, TYPE)
    B_IN_BYTE: gl.constexpr = 2 if NARROW_B else IN_BYTE
    if NARROW_B:
        padded: gl.constexpr = gl.NVMMASharedLayout(128, 8, fp4_padded=True)
        of_b = tma.make_tensor_descriptor(b, [n, k // 2], [k // 2, 1], [BN, BK // 2], padded)
    else:
        of_b = tiles(b, n, k // IN_BYTE, BN, BK // IN_BYTE, TYPE)
    row, column = gl.program_id(0) * BM, gl.program_id(1) * BN
    left = gl.allocate_shared_memory(TYPE, [BM, BK // IN_BYTE], of_a.layout)
    right = gl.allocate_shared_memory(of_b.dtype, [BN, BK // B_IN_BYTE], of_b.layout)
    groups: gl.constexpr = BK // SHARE
    part: gl.constexpr = BM * groups
    packed: gl.constexpr = gl.NVMMASharedLayout(0, 8, rank=1)
    from_a = tma.make_tensor_descriptor(scales_a, [m * k // SHARE], [1], [part], packed)
    from_b = tma.make_tensor_descriptor(scales_b, [n * k // SHARE], [1], [part], packed)
    flat_a = gl.allocate_shared_memory(gl.uint8, [part], packed)
    flat_b = gl.allocate_shared_memory(gl.uint8, [part], packed)
    scales: gl.constexpr = bw.TensorMemoryScalesLayout()
    of_left = bw.allocate_tensor_memory(gl.uint8, [BM, groups], scales)
    of_right = bw.allocate_tensor_memory(gl.uint8, [BN, groups], scales)
    held: gl.constexpr = bw.TensorMemoryLayout([BM, BN], col_stride=1)
    total = bw.allocate_tensor_memory(gl.float32, [BM, BN], held)
    come, done = barrier(1), barrier(1)
    steps = gl.cdiv(k, BK)
    for step in range(steps):
        mbarrier.expect(come, of_a.block_type.nbytes + of_b.block_type.nbytes + 2 * part)
        tma.async_copy_global_to_shared(of_a, [row, step * BK // IN_BYTE], come, left)
        # Of padded numbers the map counts each, of others a pair.
        tma.async_copy_global_to_shared(of_b, [column, step * BK // IN_BYTE], come, right)
        tma.async_copy_global_to_shared(from_a, [(row * k // BK + step * BM) * groups], come, flat_a)
        tma.async_copy_global_to_shared(from_b, [(column * k // BK + step * BN) * groups], come, flat_b)
        mbarrier.wait(come, step & 1)
        spread_a = flat_a.reshape([groups // 4, 32, 4, 4]).permute((2, 1, 0, 3)).reshape([BM, groups])
        spread_b = flat_b.reshape([groups // 4, 32, 4, 4]).permute((2, 1, 0, 3)).reshape([BN, groups])
        bw.tcgen05_copy(spread_a, of_left)
        bw.tcgen05_copy(spread_b, of_right)
        bw.tcgen05_mma_scaled(
            left,
            right.permute((1, 0)),
            total,
            of_left,
            of_right,
            FORM,
            "e2m1" if NARROW_B else FORM,
            use_acc=step > 0,
            mbarriers=[done],
        )
        mbarrier.wait(done, step & 1)
    sums = total.load(bw.get_tmem_reg_layout(gl.float32, [BM, BN], held, gl.num_warps()))
    by_rows: gl.constexpr = gl.BlockedLayout([1, 4], [1, 32], [gl.num_warps(), 1], [1, 0])
    rows, columns = gl.arange(0, BM, gl.SliceLayout(1, by_rows)), gl.arange(0, BN, gl.SliceLayout(0, by_rows))
    places = (row + rows)[:, None] * n + (column + columns)[None, :]
    gl.store(c + places, gl.convert_layout(sums, by_rows))


@kernel
def gathered(out, x, places, m, n, BM: gl.constexpr, BN: gl.constexpr):
    """Rows of x by number, and as many rows of `out` in the opposite order."""
    of_x, of_out = tiles(x, m, n, 1, BN, gl.float16), tiles(out, m, n, 1, BN, gl.float16)
    layout: gl.constexpr = gl.NVMMASharedLayout(128, 16)
    by_lanes: gl.constexpr = gl.SliceLayout(
        0, gl.BlockedLayout([1, 4], [32, 1], [1, gl.num_warps()], [1, 0])
    )  # each thread of a warp has all four rows of a copy
    held = gl.allocate_shared_memory(gl.float16, [BM, BN], layout)
    come = barrier(1)
    from_rows = gl.load(places + gl.arange(0, BM, by_lanes))
    mbarrier.expect(come, BM * BN * 2)
    tma.async_gather(of_x, from_rows, 0, come, held)
    mbarrier.wait(come, 0)
    tma.async_scatter(of_out, m - 1 - gl.arange(0, BM, by_lanes), 0, held)
    tma.store_wait(0)


# --- several roles: warps that copy, that multiply, that give results ------------------------------------------------
@kernel
def copies(of_a, of_b, left, right, come, used, row, column, steps, STAGES: gl.constexpr, BK: gl.constexpr):
    for step in range(steps):
        at = step % STAGES
        mbarrier.wait(used.index(at), step // STAGES + 1 & 1)
        mbarrier.expect(come.index(at), of_a.block_type.nbytes + of_b.block_type.nbytes)
        tma.async_copy_global_to_shared(of_a, [row, step * BK], come.index(at), left.index(at))
        tma.async_copy_global_to_shared(of_b, [column, step * BK], come.index(at), right.index(at))


@kernel
def products(left, right, come, used, total, whole, steps, STAGES: gl.constexpr):
    for step in range(steps):
        at = step % STAGES
        mbarrier.wait(come.index(at), step // STAGES & 1)
        bw.tcgen05_mma(
            left.index(at), right.index(at).permute((1, 0)), total, use_acc=step > 0, mbarriers=[used.index(at)]
        )
    bw.tcgen05_commit(whole)


@kernel
def results(of_c, total, whole, row, column, BM: gl.constexpr, BN: gl.constexpr):
    """By quarters of the columns, each through the same tile of shared memory."""
    mbarrier.wait(whole, 0)
    part: gl.constexpr = BN // 4
    held: gl.constexpr = bw.TensorMemoryLayout([BM, part], col_stride=1)
    in_registers: gl.constexpr = bw.get_tmem_reg_layout(gl.float32, [BM, part], held, gl.num_warps())
    tile = gl.allocate_shared_memory(gl.float16, [BM, part], of_c.layout)
    for quarter in gl.static_range(4):
        sums = total.slice(quarter * part, part).load(in_registers)
        tma.store_wait(0)
        tile.store(sums.to(gl.float16))
        bw.fence_async_shared()
        tma.async_copy_shared_to_global(of_c, [row, column + quarter * part], tile)
    tma.store_wait(0)


@kernel
def specialised(c, a, b, m, n, k, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, STAGES: gl.constexpr):
    of_a, of_b = tiles(a, m, k, BM, BK, gl.float16), tiles(b, n, k, BN, BK, gl.float16)
    of_c = tiles(c, m, n, BM, BN // 4, gl.float16)
    row, column = gl.program_id(0) * BM, gl.program_id(1) * BN
    left = gl.allocate_shared_memory(gl.float16, [STAGES, BM, BK], of_a.layout)
    right = gl.allocate_shared_memory(gl.float16, [STAGES, BN, BK], of_b.layout)
    come, used, whole = barriers(STAGES), barriers(STAGES), barrier(1)
    held: gl.constexpr = bw.TensorMemoryLayout([BM, BN], col_stride=1)
    total = bw.allocate_tensor_memory(gl.float32, [BM, BN], held)
    steps = gl.cdiv(k, BK)
    gl.warp_specialize(
        [
            (results, (of_c, total, whole, row, column, BM, BN)),
            (copies, (of_a, of_b, left, right, come, used, row, column, steps, STAGES, BK)),
            (products, (left, right, come, used, total, whole, steps, STAGES)),
        ],
        [1, 1],
        [24, 24],
    )


# --- a pair of blocks ------------------------------------------------------------------------------------------------
@kernel
def paired(
    c, a, b, by_rows: gl.constexpr, by_columns: gl.constexpr, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr
):
    """A product of two blocks, each of which has half of the rows of a and half of the columns of b."""
    rows, inner = gl.arange(0, BM, gl.SliceLayout(1, by_rows)), gl.arange(0, BK, gl.SliceLayout(0, by_rows))
    depth, columns = gl.arange(0, BK, gl.SliceLayout(1, by_columns)), gl.arange(0, BN, gl.SliceLayout(0, by_columns))
    layout_a: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BM, BK], gl.float16, cga_layout=[[1, 0]])
    layout_b: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BK, BN], gl.float16, cga_layout=[[0, 1]])
    left = gl.load(a + rows[:, None] * BK + inner[None, :])
    left = gl.allocate_shared_memory(gl.float16, [BM, BK], layout_a, left)
    right = gl.load(b + depth[:, None] * BN + columns[None, :])
    right = gl.allocate_shared_memory(gl.float16, [BK, BN], layout_b, right)
    held: gl.constexpr = bw.TensorMemoryLayout([128, BN], col_stride=1, cta_split_num=[2, 1], two_ctas=True)
    total = bw.allocate_tensor_memory(gl.float32, [BM, BN], held)
    done = barrier(1)
    bw.fence_async_shared()
    bw.tcgen05_mma(left, right, total, use_acc=False, mbarriers=[done])
    mbarrier.wait(done, 0)
    in_registers: gl.constexpr = bw.get_tmem_reg_layout(gl.float32, [BM, BN], held, 4, cga_layout=[[1, 0]])
    sums = gl.convert_layout(total.load(in_registers), by_rows)
    columns = gl.arange(0, BN, gl.SliceLayout(0, by_rows))
    gl.store(c + rows[:, None] * BN + columns[None, :], sums)


# --- products in registers, of any compute capability ---------------------------------------------------------------
@kernel
def in_registers(c, a, b, m, n, k, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, STAGES: gl.constexpr):
    """Copies past registers in groups, and products of fragments that come out of shared memory."""
    sums: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [2, 2], [16, 8])
    as_left: gl.constexpr = gl.DotOperandLayout(0, sums, 2)
    as_right: gl.constexpr = gl.DotOperandLayout(1, sums, 2)
    by_rows: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    turned: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 8, [1, 0])
    left = gl.allocate_shared_memory(gl.float16, [STAGES, BM, BK], turned)
    right = gl.allocate_shared_memory(gl.float16, [STAGES, BK, BN], turned)
    of_rows: gl.constexpr = gl.SliceLayout(1, by_rows)
    of_columns: gl.constexpr = gl.SliceLayout(0, by_rows)
    row, column = gl.program_id(0) * BM, gl.program_id(1) * BN
    from_a = a + (row + gl.arange(0, BM, of_rows))[:, None] * k + gl.arange(0, BK, of_columns)[None, :]
    from_b = b + gl.arange(0, BK, of_rows)[:, None] * n + (column + gl.arange(0, BN, of_columns))[None, :]
    for first in gl.static_range(STAGES - 1):
        async_copy.async_copy_global_to_shared(left.index(first), from_a + first * BK)
        async_copy.async_copy_global_to_shared(right.index(first), from_b + first * BK * n)
        async_copy.commit_group()
    total = gl.zeros([BM, BN], gl.float32, sums)
    for step in range(gl.cdiv(k, BK)):
        async_copy.wait_group(STAGES - 2)
        gl.thread_barrier()
        at = step % STAGES
        total = mma_v2(left.index(at).load(as_left), right.index(at).load(as_right), total)
        ahead = step + STAGES - 1
        there = (gl.full([BM, BK], 0, gl.int32, by_rows) + ahead) * BK < k
        async_copy.async_copy_global_to_shared(left.index(ahead % STAGES), from_a + ahead * BK, mask=there)
        there = (gl.full([BK, BN], 0, gl.int32, by_rows) + ahead) * BK < k
        async_copy.async_copy_global_to_shared(right.index(ahead % STAGES), from_b + ahead * BK * n, mask=there)
        async_copy.commit_group()
    rows, columns = gl.arange(0, BM, gl.SliceLayout(1, sums)), gl.arange(0, BN, gl.SliceLayout(0, sums))
    gl.store(c + (row + rows)[:, None] * n + (column + columns)[None, :], total)


@kernel
def by_tma(c, a, b, m, n, k, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    """The same with copies by TMA, which a barrier announces."""
    sums: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [2, 2], [16, 8])
    of_a, of_b = tiles(a, m, k, BM, BK, gl.float16), tiles(b, k, n, BK, BN, gl.float16)
    of_c = tiles(c, m, n, BM, BN, gl.float16)
    row, column = gl.program_id(0) * BM, gl.program_id(1) * BN
    left = gl.allocate_shared_memory(gl.float16, [BM, BK], of_a.layout)
    right = gl.allocate_shared_memory(gl.float16, [BK, BN], of_b.layout)
    come = barrier(1)
    total = gl.zeros([BM, BN], gl.float32, sums)
    for step in range(gl.cdiv(k, BK)):
        mbarrier.expect(come, of_a.block_type.nbytes + of_b.block_type.nbytes)
        tma.async_copy_global_to_shared(of_a, [row, step * BK], come, left)
        tma.async_copy_global_to_shared(of_b, [step * BK, column], come, right)
        mbarrier.wait(come, step & 1)
        total = mma_v2(left.load(gl.DotOperandLayout(0, sums, 2)), right.load(gl.DotOperandLayout(1, sums, 2)), total)
        gl.thread_barrier()
    out = gl.allocate_shared_memory(gl.float16, [BM, BN], of_c.layout, total.to(gl.float16))
    bw.fence_async_shared()
    tma.async_copy_shared_to_global(of_c, [row, column], out)
    tma.store_wait(0)


def _of(name):
    return gluon and {"h": gl.float16, "b": gl.bfloat16, "e4": gl.float8e4nv, "u": gl.uint8}[name]


def _of_pair(split):
    """How a matrix lies over the threads of two blocks that have parts of it along a dimension."""
    return gluon and gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], cga_layout=[split])


_TILE = {"BM": 128, "BN": 128, "BK": 64}
_DEEP = _TILE | {"BK": 256}
KERNELS = {
    "pipelined_f16_100": (pipelined, "f h h i i i", _TILE | {"STAGES": 3, "TYPE": _of("h")}, 4),
    "pipelined_e4m3_100": (
        pipelined, "f e4 e4 i i i", _TILE | {"BK": 128, "BN": 64, "STAGES": 2, "TYPE": _of("e4")}, 4
    ),
    "pipelined_bf16_100": (pipelined, "f b b i i i", _TILE | {"BM": 64, "STAGES": 3, "TYPE": _of("b")}, 4),
    "chained_100": (chained, "f h h h", _TILE, 4),
    "exchanged_100": (exchanged, "f f", {"BM": 128, "BN": 64, "STORED": "32x32b", "LOADED": "16x64b"}, 4),
    "exchanged_128b_100": (exchanged, "f f", {"BM": 128, "BN": 64, "STORED": "16x128b", "LOADED": "16x256b"}, 4),
    "exchanged_low_100": (exchanged, "f f", {"BM": 64, "BN": 128, "STORED": "32x32b_splitn", "LOADED": "16x128b"}, 4),
    "scaled_mxfp8_100": (
        scaled, "f e4 e4 u u i i i",
        _DEEP | {"FORM": "e4m3", "IN_BYTE": 1, "SHARE": 32, "TYPE": _of("e4"), "NARROW_B": False}, 4,
    ),
    "scaled_mxfp4_100": (
        scaled, "f u u u u i i i",
        _DEEP | {"FORM": "e2m1", "IN_BYTE": 2, "SHARE": 32, "TYPE": _of("u"), "NARROW_B": False}, 4,
    ),
    "scaled_mixed_100": (
        scaled, "f e4 u u u i i i",
        _DEEP | {"BK": 128, "FORM": "e4m3", "IN_BYTE": 1, "SHARE": 32, "TYPE": _of("e4"), "NARROW_B": True}, 4,
    ),
    "gathered_100": (gathered, "h h i* i i", {"BM": 32, "BN": 64}, 4),
    "specialised_100": (specialised, "h h h i i i", _TILE | {"STAGES": 3}, 4),
    "paired_100": (
        paired,
        "f h h",
        {"by_rows": _of_pair([1, 0]), "by_columns": _of_pair([0, 1]), "BM": 256, "BN": 128, "BK": 64},
        4, 2,
    ),
    "in_registers_120": (in_registers, "f h h i i i", {"BM": 64, "BN": 64, "BK": 64, "STAGES": 3}, 4),
    "by_tma_120": (by_tma, "h h h i i i", {"BM": 64, "BN": 64, "BK": 64}, 4),
}  # fmt: skip
"""As those of `triton_kernels`, with the blocks of a cluster; behind the last line of a name stands its capability."""


def source(row):
    """The kernel's text, and that of what it is made of."""
    used = row[0], barrier, barriers, tiles, *((copies, products, results) if row[0] is specialised else ())
    return "\n".join(inspect.getsource(getattr(each, "fn", each)) for each in used)


if __name__ == "__main__":
    names = sys.argv[1:] or KERNELS
    T.write(ARCHIVE, {name: (KERNELS[name], int(name.rpartition("_")[2])) for name in names}, source)
