"""LDSM and STSM: 8x8 matrices of 16-bit elements between shared memory and rows, as tensor cores want them.

Lanes 8n..8n+7 give the addresses of the eight 16-byte rows of matrix n. Lane 4g + t holds elements 2t and 2t + 1 of
row g, or of column g in the transposed forms (PTX manual, ldmatrix). A matrix is one pass over the banks.
"""

import numpy as np
from numba.core import types

from gpusim.engine.rows import lanes as V
from gpusim.engine.rows.common import FULL_MASK, row_offset
from gpusim.engine.rows.tensor_lanes import scratch
from gpusim.engine.sm.cluster import own_offsets
from gpusim.engine.sm.coalescer import bank_degree
from gpusim.engine.sm.flight import release_at
from gpusim.engine.sm.shadow import watch_byte
from gpusim.engine.sm.shadow_clocks import CHECK_INIT, CHECK_RACE, READ, WRITE, epoch_of, record_of
from gpusim.engine.sm.space import access, check_shared, lane_addresses
from gpusim.engine.sm.stages import enter_queue, take_data_stage
from gpusim.engine.sm.tensor_memory import byte_matrices
from gpusim.engine.state import L, P, compiled, compiled_on_demand
from isa import microops as M

_ROW_BYTES = 16
_ROWS = 8
_room = scratch(32)


@compiled
def four_words(words, at):
    return words[at], words[at + 1], words[at + 2], words[at + 3]


@compiled
def put_line(words, at, line):
    """Four words, side by side."""
    words[at], words[at + 1], words[at + 2], words[at + 3] = line


@compiled
def halves_across(x, y):
    """The lower halves of two words as one, and the upper ones."""
    low, half = np.uint32(0xFFFF), np.uint32(16)
    return (x & low) | (y << half), (x >> half) | (y & ~low)


@compiled
def put_lines(words, at, k, x, y, across):
    """Lines k and k + 1 of eight, or (`across`) their halves as the words of lanes t, 4 + t and so on, a half of both
    in each."""
    if not across:
        put_line(words, at + 4 * k, x)
        put_line(words, at + 4 * k + 4, y)
        return
    for n in range(4):
        words[at + (k >> 1) + 8 * n], words[at + (k >> 1) + 8 * n + 4] = halves_across(x[n], y[n])


@compiled
def load_matrix(regs, rows, shared, address, base, matrix, transposed):
    """The words of one matrix for all lanes."""
    for k in range(0, _ROWS, 2):
        x = four_words(shared, (base + address[_ROWS * matrix + k]) >> 2)
        y = four_words(shared, (base + address[_ROWS * matrix + k + 1]) >> 2)
        put_lines(regs, rows, k, x, y, transposed)


@compiled
def store_matrix(regs, rows, shared, address, base, matrix, transposed):
    """Store the words of one matrix, the reverse of load_matrix; of rows with one address the last stays."""
    for k in range(0, _ROWS, 2):
        x_at = (base + address[_ROWS * matrix + k]) >> 2
        y_at = (base + address[_ROWS * matrix + k + 1]) >> 2
        for n in range(4):
            if transposed:
                at = rows + (k >> 1) + 8 * n
                x, y = halves_across(regs[at], regs[at + 4])
            else:
                x, y = regs[rows + 4 * k + n], regs[rows + 4 * k + 4 + n]
            shared[x_at + n] = x
            shared[y_at + n] = y


@compiled
def move_matrices(st, sm, i, wb, base, mask):
    """The words of all matrices, one row for each."""
    shared, place = st.shared32[sm], _room()
    address = st.address[sm]
    count = st.code[i, M.COL_AUX5] & 255
    transposed = st.code[i, M.COL_AUX5] >> 8 != 0
    load = st.code[i, M.COL_OP] == M.OP_LDSM
    rows = row_offset(st.code[i, M.COL_DST if load else M.COL_B], wb)
    for matrix in range(count):
        row = rows + 32 * matrix
        if load and mask == FULL_MASK:
            load_matrix(st.regs, row, shared, address, base, matrix, transposed)
            continue
        load_matrix(place, 0, shared, address, base, matrix, transposed)
        if load:
            V.store(st.regs, row, V.load(place, 0), mask)
        else:
            V.store(place, 0, V.load(st.regs, row), mask)
            store_matrix(place, 0, shared, address, base, matrix, transposed)


@compiled_on_demand(types.boolean)
def watch_matrices(st, sm, i, w, mask):
    """Check a load or store of matrices: each lane accesses the bytes of its own words. False if that is an error."""
    kind = np.int64(READ if st.code[i, M.COL_OP] == M.OP_LDSM else WRITE)
    a = access(0, w, i, 0, mask, 2, 0)
    for matrix in range(st.code[i, M.COL_AUX5] & 255):
        for lane in range(32):
            record = record_of(st, w, i, kind, lane, epoch_of(st, w))
            for byte in range(4 if (mask >> lane) & 1 else 0):
                row, column = lane >> 2, 2 * (lane & 3) + (byte >> 1)
                if st.code[i, M.COL_AUX5] >> 8 != 0:  # transposed
                    row, column = column, row
                at = st.address[sm, _ROWS * matrix + row] + 2 * column
                if not watch_byte(st, sm, a, lane, at, np.int64(byte & 1), kind, False, record):
                    return False
    return True


@compiled
def move_rows(st, sm, w, i, wb, mask, count):
    """The values of `count` matrices. Returns the wavefronts that their rows take, 0 after an error."""
    par = st.par
    lane_addresses(st, sm, i, wb, mask)
    own_offsets(st, sm, w)
    givers = (np.int64(1) << (_ROWS * count)) - 1
    if not check_shared(st, sm, i, w, givers, np.int64(_ROW_BYTES)):
        return np.int64(0)
    if par[P.CHECKS] & (CHECK_INIT | CHECK_RACE) and not watch_matrices(st, sm, np.int64(i), np.int64(w), mask):
        return np.int64(0)
    wavefronts = np.int64(0)
    for first in range(0, _ROWS * count, _ROWS):
        wavefronts += bank_degree(
            st.address[sm], st.touched[sm], givers, first, first + _ROWS, _ROW_BYTES >> par[P.BANK_SHIFT],
            par[P.BANKS], par[P.BANK_SHIFT],
        )  # fmt: skip
    base = np.int64(st.warp[w, L.WARP_BLOCK] * par[P.SHARED_STRIDE])
    if st.code[i, M.COL_AUX4] != 0:
        byte_matrices(st, sm, i, wb, base, mask)
    else:
        move_matrices(st, sm, i, wb, base, mask)
    return wavefronts


@compiled
def matrix_access(st, sm, q, w, i, wb, mask, time):
    """Executes LDSM or STSM and books its time: a matrix costs what a quarter of a warp with 16 bytes a lane does."""
    par = st.par
    count = np.int64(st.code[i, M.COL_AUX5] & 255)
    wavefronts = move_rows(st, sm, w, i, wb, mask, count)
    if wavefronts == 0:
        return
    counts = st.counters[st.sm[sm, L.SM_CHUNK], i]
    counts[L.COUNT_SHARED_WAVEFRONTS] += wavefronts
    counts[L.COUNT_SHARED_IDEAL] += count
    counts[L.COUNT_SHARED_DATA] += wavefronts
    counts[L.COUNT_SHARED_CONFLICTS] += wavefronts - count
    counts[L.COUNT_SHARED_REQUESTS] += 1
    start = enter_queue(st, q, time, 1)
    load = st.code[i, M.COL_OP] == M.OP_LDSM
    release = par[P.SHARED_LOAD_RELEASE]
    if not load:
        release = par[P.SHARED_STORE_RELEASE] + (count - 1) * par[P.REGISTER_RELEASE]
    release_at(st, w, st.code[i, M.COL_RBAR], start + release, L.STALL_SHORT)
    turns = max(wavefronts * par[P.SHARED_WAVEFRONT], par[P.DATA_INTERVAL])
    data = take_data_stage(st, sm, q, w, start, turns)
    if load:
        ways = (wavefronts - count) * par[P.SHARED_WAY_LATENCY] + par[P.LSU_INTERVAL] * (count - 1)
        release_at(st, w, st.code[i, M.COL_WBAR], data - par[P.ENTRY] + par[P.SHARED_LATENCY] + ways, L.STALL_SHORT)
