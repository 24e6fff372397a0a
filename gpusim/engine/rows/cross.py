"""Executor of exchanges between lanes (class CLS_CROSS): SHFL, VOTE, MATCH, REDUX, R2UR.

They see the real mask of executing lanes even when the result is uniform; a uniform result (AUX5 = 1) is written to
all lanes of its row. A shuffle from a lane that does not execute is undefined in CUDA; it reads zero, as on an H200.
"""

import numpy as np

from gpusim.engine.rows import common
from gpusim.engine.rows import lanes as V
from gpusim.engine.rows.float import minimum_maximum
from gpusim.engine.state.bits import lowest_bit
from gpusim.engine.state.jit import compiled, compiled_on_demand
from isa import microops as m


@compiled
def shuffle_source(kind, b, c):
    """Row of source lanes and mask of the lanes whose source is in range (PTX manual, shfl.sync)."""
    lane = V.lane_numbers()
    segment = V.shr(c, V.splat(8)) & V.splat(31)
    outside = segment ^ V.splat(31)
    b = b & V.splat(31)
    last = (lane & segment) | (c & outside)
    if kind == m.SHFL_UP:
        found = lane - b
    elif kind == m.SHFL_DOWN:
        found = lane + b
    elif kind == m.SHFL_BFLY:
        found = lane ^ b
    else:
        found = (lane & segment) | (b & outside)
    valid = ~V.less_s(found, last) if kind == m.SHFL_UP else ~V.less_s(last, found)
    return V.select(valid, found, lane), valid


@compiled
def shuffle(code, i, regs, wb, preds, pb, mask):
    b = common.source(code, i, m.COL_B, regs, wb)
    c = common.source(code, i, m.COL_C, regs, wb)
    found, valid = shuffle_source(code[i, m.COL_AUX0], b, c)
    result = common.gather(regs, common.row_offset(code[i, m.COL_A], wb), found)
    executes = V.shr(V.splat(mask), found) & V.splat(1)
    common.set_predicate(preds, pb, code[i, m.COL_PD0], valid, mask)
    V.store(regs, common.destination(code, i, wb), result * executes, mask)


@compiled
def match_lanes(low_words, high_words, lane, mask):
    """Lanes of `mask` that hold the same value as `lane`."""
    same = V.equal(low_words, V.splat(V.get_u32(low_words, lane)))
    return int(same & V.equal(high_words, V.splat(V.get_u32(high_words, lane)))) & mask


@compiled
def match(code, i, regs, wb, preds, pb, mask):
    offset = common.row_offset(code[i, m.COL_A], wb)
    low_words = V.load(regs, offset)
    high_words = V.load(regs, offset + 32) if code[i, m.COL_AUX0] != 0 else V.splat(0)
    result = V.splat(0)
    if code[i, m.COL_OP] == m.OP_MATCH_ALL:
        same = match_lanes(low_words, high_words, lowest_bit(mask), mask) == mask
        if same:
            result = V.splat(mask)
        common.set_predicate(preds, pb, code[i, m.COL_PD0], common.FULL_MASK if same else 0, mask)
    else:
        for lane in range(V.LANES):
            if (mask >> lane) & 1:
                result = V.put_u32(result, lane, match_lanes(low_words, high_words, lane, mask))
    V.store(regs, common.destination(code, i, wb), result, mask)


@compiled
def reduce_step(kind, modes, total, word):
    """One step of REDUX on rows; floats as FMNMX."""
    if kind >= m.REDUX_MIN_F:
        return minimum_maximum(total, word, np.uint32(common.FULL_MASK if kind == m.REDUX_MIN_F else 0), modes)
    if kind == m.REDUX_SUM:
        return total + word
    if kind == m.REDUX_AND:
        return total & word
    if kind == m.REDUX_OR:
        return total | word
    if kind == m.REDUX_XOR:
        return total ^ word
    if kind == m.REDUX_MIN_U or kind == m.REDUX_MIN_S:
        return V.min_u(total, word) if kind == m.REDUX_MIN_U else V.min_s(total, word)
    return V.max_u(total, word) if kind == m.REDUX_MAX_U else V.max_s(total, word)


@compiled
def reduced(a, kind, modes, mask):
    """A row of what the executing lanes hold, reduced lane by lane."""
    first = lowest_bit(mask)
    total = V.splat(V.get_u32(a, first))
    if kind >= m.REDUX_MIN_F:
        total = reduce_step(kind, modes, total, total)  # a NaN is the one of all ones
    for lane in range(first + 1, V.LANES):
        if (mask >> lane) & 1:
            total = reduce_step(kind, modes, total, V.splat(V.get_u32(a, lane)))
    return total


@compiled_on_demand()
def exec_cross(code, i, regs, wb, preds, pb, mask):
    """Execute row `i` of `code` (class CLS_CROSS) for the lanes of `mask`; isa.microops has a row for each."""
    mask = int(mask) & common.FULL_MASK
    if mask == 0:
        return
    op = code[i, m.COL_OP]
    if op == m.OP_SHFL:
        shuffle(code, i, regs, wb, preds, pb, mask)
        return
    if op == m.OP_MATCH_ANY or op == m.OP_MATCH_ALL:
        match(code, i, regs, wb, preds, pb, mask)
        return
    written = common.FULL_MASK if code[i, m.COL_AUX5] != 0 else mask
    if op == m.OP_VOTE:
        ballot = int(common.predicate(code, i, m.COL_PS0, preds, pb)) & mask
        kind = code[i, m.COL_AUX0]
        holds = ballot != 0 if kind == m.VOTE_ANY else ballot == mask or (kind != m.VOTE_ALL and ballot == 0)
        common.set_predicate(preds, pb, code[i, m.COL_PD0], common.FULL_MASK if holds else 0, written)
        V.store(regs, common.destination(code, i, wb), V.splat(ballot), written)
        return
    a = common.source(code, i, m.COL_A, regs, wb)
    if op == m.OP_REDUX:
        result = reduced(a, code[i, m.COL_AUX0], code[i, m.COL_AUX1], mask)
        V.store(regs, common.destination(code, i, wb), result, written)
    else:
        chosen = V.splat(V.get_u32(a, lowest_bit(mask)))
        different = ~V.equal(a, chosen)
        if code[i, m.COL_AUX0] != 0:
            different |= np.uint32(preds[pb + code[i, m.COL_PD0]])
        common.set_predicate(preds, pb, code[i, m.COL_PD0], different, mask)
        V.store(regs, common.destination(code, i, wb), chosen, written)
