"""Functions that all executors share: fetching a source operand with its modifier, and predicates."""

import numpy as np

from gpusim.engine.rows.lanes import gather_1, join, load, splat, splat64, zero_extend
from gpusim.engine.state.jit import compiled
from isa.microops import COL_DST

# Without reference counts: no array is made here, and counting a shared array is an atomic operation in every call.
FULL_MASK = 0xFFFFFFFF
_PT, _UPT = 7, 15

# A modifier is (x & AND) ^ XOR) + ADD on a 32-bit row; the index is isa.microops.MOD_*.
_AND = np.array([0xFFFFFFFF, 0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF], np.uint32)
_XOR = np.array([0, 0x80000000, 0, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFF], np.uint32)
_ADD = np.array([0, 0, 0, 0, 1, 0], np.uint32)


@compiled
def row_offset(operand, wb):
    """Element offset of an operand code for the warp whose rows start at `wb`; without a branch, for speed."""
    constant = operand >> 31  # all ones for a constant row, else zero
    return ((operand ^ constant) << 5) + (wb & ~constant)


@compiled
def modified(row, modifier):
    """A 32-bit row under one of the MOD_* modifiers."""
    if modifier != 0:
        return ((row & splat(_AND[modifier])) ^ splat(_XOR[modifier])) + splat(_ADD[modifier])
    return row


@compiled
def source(code, i, column, regs, wb):
    """The source operand of `column` (COL_A, COL_B, COL_C) as a 32-bit row, its modifier (next column) applied."""
    return modified(load(regs, row_offset(code[i, column], wb)), code[i, column + 1])


@compiled
def source_pair(code, i, column, regs, wb):
    """A 64-bit source; a modifier acts on the high word, where the sign of a double is."""
    offset = row_offset(code[i, column], wb)
    return join(load(regs, offset), modified(load(regs, offset + 32), code[i, column + 1]))


@compiled
def gather(regs, offset, lanes):
    """The row whose lane k is `regs[offset + lanes[k]]`; `lanes` is a row of numbers."""
    (row,) = gather_1(regs, zero_extend(lanes) + splat64(offset))
    return row


@compiled
def destination(code, i, wb):
    """Element offset of the first destination row."""
    return (code[i, COL_DST] << 5) + wb


@compiled
def predicate(code, i, column, preds, pb):
    """Mask of a source predicate, negated if the next column says so."""
    value = preds[pb + code[i, column]]
    return ~value if code[i, column + 1] != 0 else value


@compiled
def set_predicate(preds, pb, index, value, mask):
    """Write the lanes of `mask`; PT and UPT are never written.

    Of two results in one predicate the first stays (measured on an H200): executors write the second one first.
    """
    if index != _PT and index != _UPT:
        mask = np.uint32(mask)
        preds[pb + index] = (preds[pb + index] & ~mask) | (value & mask)
