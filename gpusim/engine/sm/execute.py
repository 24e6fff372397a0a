"""One instruction, executed: dispatch by class to the executors, and the cycle at which its result can be used."""

import numpy as np

from gpusim.engine.rows.common import row_offset, set_predicate
from gpusim.engine.rows.convert import exec_convert
from gpusim.engine.rows.cross import exec_cross
from gpusim.engine.rows.double import exec_double
from gpusim.engine.rows.float import exec_float
from gpusim.engine.rows.half import exec_half
from gpusim.engine.rows.int import exec_int
from gpusim.engine.rows.lanes import splat, store
from gpusim.engine.rows.predicate import exec_pred
from gpusim.engine.rows.tensor import exec_tensor
from gpusim.engine.sm.async_copy import async_access
from gpusim.engine.sm.barrier import barrier
from gpusim.engine.sm.cluster import cluster_barrier
from gpusim.engine.sm.control import control
from gpusim.engine.sm.flight import release_at
from gpusim.engine.sm.group_matrix import group_matrix
from gpusim.engine.sm.lsu import memory_access
from gpusim.engine.sm.readiness import loaded_constant
from gpusim.engine.sm.shadow_clocks import CHECK_RACE, meet_cluster
from gpusim.engine.sm.space import fail
from gpusim.engine.sm.special import read_special
from gpusim.engine.sm.stages import (
    differs_by_lane,
    enter_queue,
    take_address_port,
    take_data_stage,
    take_port,
    wait_for_constant,
)
from gpusim.engine.sm.tensor_memory import tmem_access
from gpusim.engine.state import L, P, compiled, lowest_bit
from isa import microops as M


@compiled
def compute(st, sm, w, i, wb, mask, cls):
    """Runs an arithmetic instruction on the lanes in `mask`."""
    pb = 16 * w
    if cls == M.CLS_INT:
        exec_int(st.code, i, st.regs, wb, st.preds, pb, mask)
    elif cls == M.CLS_FLOAT:
        exec_float(st.code, i, st.regs, wb, st.preds, pb, mask)
    elif cls == M.CLS_PRED:
        exec_pred(st.code, i, st.regs, wb, st.preds, pb, mask)
    elif cls == M.CLS_DOUBLE:
        exec_double(st.code, i, st.regs, wb, st.preds, pb, mask)
    elif cls == M.CLS_CONVERT:
        exec_convert(st.code, i, st.regs, wb, st.preds, pb, mask)
    elif cls == M.CLS_CROSS:
        exec_cross(st.code, i, st.regs, wb, st.preds, pb, mask)
    elif cls == M.CLS_HALF:
        exec_half(st.code, i, st.regs, wb, st.preds, pb, mask)
    elif cls == M.CLS_TENSOR:
        exec_tensor(st.code, i, st.regs, wb, st.preds, pb, mask)
    else:
        fail(st, sm, L.ERROR_UNSUPPORTED, i, w, 0, 0, 0)


@compiled
def further_values(st, sm, i, wb, lanes):
    """By how much the values that MATCH.ANY has found are more than one: each takes a pass."""
    found = row_offset(st.code[i, M.COL_DST], wb)
    more = np.int64(-1 if lanes != 0 else 0)
    for lane in range(32):
        more += 1 if (lanes >> lane) & 1 and lowest_bit(st.regs[found + lane]) == lane else 0
    st.counters[st.sm[sm, L.SM_CHUNK], i, L.COUNT_TURNS] += more
    return more


@compiled
def result_latency(code, par, i):
    """Cycles from an instruction of variable latency, which accesses no memory, to its result, without any queue."""
    op, cls = code[i, M.COL_OP], code[i, M.COL_CLASS]
    if op == M.OP_SHFL or op == M.OP_MOVM:
        return par[P.SHUFFLE_LATENCY]
    if cls == M.CLS_SPECIAL:
        return par[P.SPECIAL_LATENCY]
    if code[i, M.COL_CONST] >= 0:
        return par[P.CONST_LATENCY]
    if cls != M.CLS_CROSS:
        return par[P.UNIT_LATENCY + code[i, M.COL_UNIT]]
    return par[P.REDUX_LATENCY if op == M.OP_REDUX else P.MATCH_LATENCY]


@compiled
def book_result(st, sm, q, w, i, cls, lanes, more, time):
    """Sets the scoreboards of an instruction of variable latency that is not a memory access. more: `further_values`.
    H200: all sub-partitions share the unit of MATCH and REDUX, in which each pass takes two cycles (`pipe_match_all`,
    `pipe_redux`, and `pipe_match_any`, 58.2 for 29 values). One warp's come further apart, others' between them.
    """
    par, code = st.par, st.code
    unit, op, operand = code[i, M.COL_UNIT], code[i, M.COL_OP], code[i, M.COL_CONST]
    start = time
    release_at(st, w, code[i, M.COL_RBAR], time + par[P.SOURCE_RELEASE], L.STALL_SHORT)
    if op == M.OP_SHFL or op == M.OP_MOVM:
        start = take_data_stage(st, sm, q, w, enter_queue(st, q, time, 1), 1) - par[P.ENTRY]
    elif cls == M.CLS_SPECIAL and differs_by_lane(code, i):
        # Through the memory queue: the profiler's data-pipe wavefronts count thread numbers that are read.
        start = take_port(st, sm, L.SM_SPECIAL_FREE, enter_queue(st, q, time, 2))
        start = take_data_stage(st, sm, q, w, start, 1) - par[P.ENTRY]
    elif cls == M.CLS_SPECIAL:
        start = take_address_port(st, sm, q, L.SM_CONSTANT_FREE, time)
    elif operand >= 0:
        asked = take_address_port(st, sm, q, L.SM_CONSTANT_FREE, time)
        start = max(asked, loaded_constant(st, sm, q, operand, asked) if lanes != 0 else 0)
        if start > asked:
            st.counters[st.sm[sm, L.SM_CHUNK], i, L.COUNT_TURNS] += 1
            wait_for_constant(st, sm, start)
        start -= par[P.ENTRY]
    elif cls == M.CLS_CROSS:
        passes = more * par[P.ADDRESS_INTERVAL]
        start = take_address_port(st, sm, q, L.SM_SPECIAL_FREE, time) - par[P.ENTRY] + passes
        st.sm[sm, L.SM_SPECIAL_FREE] += passes
        start = max(start, time + more * par[P.MATCH_VALUE])
    elif unit == M.UNIT_XU:  # before it is free again, later if the instruction waits for it
        start = st.smsp[q, L.SMSP_UNIT_FREE + unit] - par[P.UNIT_INTERVAL + unit]
    release_at(st, w, code[i, M.COL_WBAR], start + result_latency(code, par, i), L.STALL_SHORT)


@compiled
def execute(st, sm, q, slot, w, i, mask, time):
    """Executes instruction i for the lanes in `mask` and moves the program counter. False if no lane can run now."""
    cls = st.code[i, M.COL_CLASS]
    lanes = np.int64(mask)
    wb = 32 * (st.par[P.CONST_ROWS] + w * st.par[P.ROWS_PER_WARP])
    if cls == M.CLS_CONTROL:
        return control(st, sm, q, slot, w, i, wb, lanes, time)
    if st.code[i, M.COL_UNIFORM] != 0 and mask != 0:
        lanes = np.int64(0xFFFFFFFF)  # a uniform register has one value: later readers look at any lane of the row
    if cls == M.CLS_BARRIER:
        if mask == 0:
            st.warp[w, L.WARP_PC] = i + 1
            return True
        op = st.code[i, M.COL_OP]
        if op == M.OP_BAR:
            return barrier(st, sm, q, slot, w, i, wb, lanes, time)
        if op == M.OP_CLUSTER_ARRIVE or op == M.OP_CLUSTER_WAIT:
            if st.par[P.CHECKS] & CHECK_RACE:
                meet_cluster(st, sm, w, np.int64(i), lanes)
            return cluster_barrier(st, sm, q, slot, w, i, lanes, time)
        read_barrier_result(st, sm, w, i, wb, mask)
    elif cls == M.CLS_MEMORY:
        if st.code[i, M.COL_OP] < M.OP_LDGSTS or st.code[i, M.COL_OP] == M.OP_QSPC:
            memory_access(st, sm, q, w, i, wb, lanes, time)
        else:
            async_access(st, sm, q, slot, w, i, wb, lanes, time)
            if st.warp[w, L.WARP_STATE] != L.RUNNING:  # in a functional run, for the phase of an mbarrier
                st.warp[w, L.WARP_PC] = i + 1
                return False
    elif cls == M.CLS_SPECIAL:
        read_special(st, sm, w, i, wb, lanes, time)
    elif cls == M.CLS_TMEM:
        if mask != 0:
            tmem_access(st, sm, q, w, i, wb, time)
    elif st.code[i, M.COL_OP] == M.OP_GMMA:
        group_matrix(st, sm, q, w, i, wb, np.uint32(lanes), time)
    else:
        compute(st, sm, w, i, wb, np.uint32(lanes), cls)
    if st.code[i, M.COL_VARIABLE] != 0 and cls != M.CLS_MEMORY:
        more = further_values(st, sm, i, wb, lanes) if st.code[i, M.COL_OP] == M.OP_MATCH_ANY else np.int64(0)
        if st.par[P.MODE] & L.BOOKS != 0:
            book_result(st, sm, q, w, i, cls, lanes, more, time)
    st.warp[w, L.WARP_PC] = i + 1
    return True


@compiled
def read_barrier_result(st, sm, w, i, wb, mask):
    """B2R: what the threads of the block contributed to a reducing barrier."""
    code = st.code
    b = st.block[sm, st.warp[w, L.WARP_BLOCK]]
    result = b[L.BLOCK_RESULT + st.warp[w, L.WARP_BARRIER]]
    if code[i, M.COL_AUX0] == 0:
        store(st.regs, wb + 32 * code[i, M.COL_DST], splat(max(result, 0)), mask)
        return
    set_predicate(st.preds, 16 * w, code[i, M.COL_PD0], np.uint32(0xFFFFFFFF if result == 1 else 0), mask)
