"""Matrices of bytes between shared memory and registers: LDSM and STSM since compute capability 10.0.

Lane 4g + t of a matrix that is not transposed has bytes 4t to 4t + 3 of row g. Transposed ones are columns in memory:
the lane has rows g and g + 8 of columns 2t and 2t + 1, of which a 16x16 matrix has every other two in one register
(CUTLASS, copy_traits_sm100, as the PTX ISA has it in figures only). Numbers of 6 and 4 bits lie at the beginning of
their 16 bytes and become bytes; those of 4 bits with two zeros on both sides, as mma takes them (assumed).
"""

import numpy as np

from gpusim.engine.rows.common import row_offset
from gpusim.engine.state import compiled, compiled_on_demand
from isa import microops as M


@compiled
def element(shared, at, column, bits):
    """The byte of an element of a row that begins at byte `at`."""
    if bits == 8:
        return np.uint32(shared[at + column])
    first = at + (column * bits >> 3)
    pair = np.int64(shared[first]) | np.int64(shared[first + 1]) << 8
    value = pair >> (column * bits & 7) & ((1 << bits) - 1)
    return np.uint32(value << 2 if bits == 4 else value)


@compiled_on_demand()
def byte_matrices(st, sm, i, wb, base, mask):
    """Executes LDSM or STSM of bytes, whose rows' addresses are at hand."""
    code, address, shared = st.code, st.address[sm], st.shared8[sm]
    count, across, bits = code[i, M.COL_AUX5] & 255, code[i, M.COL_AUX5] >> 8 != 0, np.int64(code[i, M.COL_AUX4])
    load = code[i, M.COL_OP] == M.OP_LDSM
    rows = row_offset(code[i, M.COL_DST if load else M.COL_B], wb)
    for matrix in range(count):
        for lane in range(32):
            if not (mask >> lane) & 1:
                continue
            word = np.uint32(0) if load else st.regs[rows + 32 * matrix + lane]
            for b in range(4):
                row, column = lane >> 2, 4 * (lane & 3) + b
                if across:
                    row, column = 2 * (lane & 3) + (b & 1), (lane >> 2) + 8 * (b >> 1)
                giver = 8 * matrix + row
                if across and load:
                    giver = 16 * (matrix >> 1) + 4 * (row >> 1) + 2 * (matrix & 1) + (row & 1)
                at = base + address[giver]
                if load:
                    word |= element(shared, at, column, bits) << np.uint32(8 * b)
                else:
                    shared[at + column] = np.uint8((word >> np.uint32(8 * b)) & np.uint32(255))
            if load:
                st.regs[rows + 32 * matrix + lane] = word
