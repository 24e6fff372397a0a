"""Loads and stores of values: which byte of which memory a lane means, and whether it may.

Global memory is the arena of `gpusim.launch.memory.DeviceMemory`; every access is checked against its live allocations.
Local memory interleaves the lanes of a warp word by word, as the hardware does, so that a warp that indexes alike
touches whole lines. Generic addresses fall into the shared or the local window or are global.
"""

from typing import NamedTuple

import numpy as np

from gpusim.engine.rows import lanes as V
from gpusim.engine.rows.common import FULL_MASK, row_offset
from gpusim.engine.state import L, P, compiled, compiled_on_demand, lowest_bit
from gpusim.engine.state.log import log_addresses
from isa import microops as M


class Access(NamedTuple):
    """Issuer, lanes and time of an access. Its addresses and lines are those at hand in the SM: `State.address`,
    `State.touched`."""

    smsp: int
    warp: int
    pc: int
    base: int  # element of its warp's first register
    mask: int
    size: int  # bytes of a lane, 0 if the addresses are not at hand
    time: int
    policy: int  # for L2, see `memory.policy`; 0: none


@compiled
def access(smsp, warp, pc, base, mask, size, time, policy=0):
    """An Access of 64-bit numbers only, so that what takes one is compiled once."""
    return Access(
        np.int64(smsp), np.int64(warp), np.int64(pc), np.int64(base), np.int64(mask), np.int64(size), np.int64(time),
        np.int64(policy),
    )  # fmt: skip


#: Windows of the generic address space (high words of SR_SWINHI and SR_LWINHI); outside any device allocation.
SHARED_WINDOW = 0x7E00_0000_0000
LOCAL_WINDOW = 0x7E01_0000_0000
PARAMETER_WINDOW = 0x7E02_0000_0000  # constant bank 0, for tensor maps that are parameters
WINDOW_BYTES = 1 << 32


@compiled
def fail(st, sm, code, pc, w, lane, address, size):
    """Records the first error of an SM; the run stops at the end of the cycle."""
    if st.sm[sm, L.SM_ERROR] == 0:
        st.sm[sm, L.SM_ERROR] = code
        st.sm[sm, L.SM_ERROR_PC] = pc
        st.sm[sm, L.SM_ERROR_WARP] = w
        st.sm[sm, L.SM_ERROR_LANE] = lane
        st.sm[sm, L.SM_ERROR_ADDRESS] = address
        st.sm[sm, L.SM_ERROR_SIZE] = size


@compiled
def exhausted(st, sm, pool, w, taken, size):
    """Return whether one of `layout.POOLS` is used up: the run stops then rather than write elsewhere."""
    if taken >= size:
        fail(st, sm, L.ERROR_POOL, st.warp[w, L.WARP_PC], w, 0, pool, size)
    return taken >= size


@compiled
def addresses(st, i, wb, column, offset):
    """Byte addresses of the lanes, a 64-bit row: the scaled register of a column, the uniform base C, and an offset."""
    code = st.code
    regs = st.regs
    flags = code[i, M.COL_AUX3]
    base = row_offset(code[i, column], wb)
    shift = (flags >> M.MEM_SHIFT_BIT) & 15
    uniform = np.int64(0)
    if flags & M.MEM_UNIFORM_BASE:
        u = row_offset(code[i, M.COL_C], wb)
        uniform = np.int64(regs[u])
        if flags & M.MEM_UNIFORM_WIDE:
            uniform |= np.int64(regs[u + 32]) << 32
    row = V.zero_extend(V.load(regs, base))
    if flags & M.MEM_WIDE_ADDRESS != 0:
        row = V.join(V.load(regs, base), V.load(regs, base + 32))
    return (row << V.splat64(shift)) + V.splat64(uniform + np.int64(offset))


@compiled
def lane_addresses(st, sm, i, wb, mask):
    """Byte address of every lane in `mask` into st.address[sm]."""
    row = addresses(st, i, wb, M.COL_A, st.code[i, M.COL_AUX2])
    space = st.code[i, M.COL_AUX0]
    if space == M.SPACE_SHARED or space == M.SPACE_LOCAL or space == M.SPACE_CONST:
        row = row & V.splat64(0xFFFFFFFF)
    V.store64(st.address[sm], 0, row)
    if st.sm[sm, L.SM_LOG_ROW] != 0:
        log_addresses(st, sm, i, mask)


@compiled
def find_allocation(starts, ends, address):
    """Index of the live allocation that holds `address`, or -1."""
    low, high = 0, starts.size
    while low < high:
        middle = (low + high) >> 1
        low, high = (middle + 1, high) if starts[middle] <= address else (low, middle)
    return low - 1 if low > 0 and address < ends[low - 1] else -1


@compiled
def lies_within(address, mask, size, first, limit):
    """Return whether every lane's access is aligned and lies between `first` and `limit`."""
    row = V.load64(address, 0)
    wrong = (row - V.splat64(first)) | (V.splat64(limit - size) - row)  # negative, as the next one
    misaligned = V.splat64(0) - (row & V.splat64(size - 1))
    return V.less_s64(wrong | misaligned, V.splat64(0)) & np.uint32(mask) == 0


@compiled
def check_global(st, sm, i, w, mask, size):
    """True if every lane's access is aligned and inside one live allocation; else records the first that is not."""
    address = st.address[sm]
    k = st.sm[sm, L.SM_ALLOCATION]
    low = high = np.int64(0)
    if 0 <= k < st.starts.size:
        low, high = st.starts[k], st.ends[k]
    if lies_within(address, mask, size, low, high):
        return True
    for lane in range(32):
        if (mask >> lane) & 1 == 0:
            continue
        a = address[lane]
        if a & (size - 1) != 0:
            fail(st, sm, L.ERROR_MISALIGNED, i, w, lane, a, size)
            return False
        if a < low or a > high - size:  # not a + size, which wraps at the end of the address space
            k = find_allocation(st.starts, st.ends, a)
            if k < 0 or a > st.ends[k] - size:
                fail(st, sm, L.ERROR_BOUNDS, i, w, lane, a, size)
                return False
            low, high = st.starts[k], st.ends[k]
            st.sm[sm, L.SM_ALLOCATION] = k
    return True


@compiled
def check_window(st, sm, i, w, mask, size, first, limit, code):
    """Check addresses as check_global does, for a memory from `first` to `limit` (shared, local, constant)."""
    address = st.address[sm]
    if lies_within(address, mask, size, first, limit):
        return True
    for lane in range(32):
        a = address[lane]
        misaligned = a & (size - 1) != 0
        if (mask >> lane) & 1 and (misaligned or a < first or a > limit - size):
            fail(st, sm, L.ERROR_MISALIGNED if misaligned else code, i, w, lane, a, size)
            return False
    return True


@compiled
def check_shared(st, sm, i, w, mask, size):
    """`check_window` of the block's own shared memory."""
    return check_window(st, sm, i, w, mask, size, st.par[P.SHARED_FIRST], st.par[P.SHARED_BYTES], L.ERROR_SHARED_BOUNDS)


@compiled
def apart(address, first):
    """How far the address of each lane is from `first`."""
    return V.low(V.load64(address, 0)) - V.splat(first)


@compiled
def in_a_row(address):
    """Return whether each lane's address is that of the lane before and 4."""
    row = V.splat64(address[0]) + V.zero_extend(V.lane_numbers() << V.splat(2))
    return V.equal64(V.load64(address, 0), row) == np.uint32(FULL_MASK)


@compiled
def load_rows(words, bytes_, address, base, step, regs, dst, mask, size, signed):
    """Reads `size` bytes per lane at byte address[lane] - base into consecutive register rows from element dst on.

    Words of one lane lie `step` words apart: 1, or as many as there are lanes in interleaved local memory.
    """
    if size >= 4:
        if mask == FULL_MASK and size == 4 and in_a_row(address):
            V.store(regs, dst, V.load_words(words, (address[0] - base) >> 2), mask)
            return
        row = V.load64(address, 0)
        if mask == FULL_MASK and V.equal64(row, V.splat64(address[0])) == np.uint32(FULL_MASK):
            for k in range(size >> 2):
                V.store(regs, dst + 32 * k, V.splat(words[((address[0] - base) >> 2) + k * step]), mask)
            return
        places = V.select(mask, (row - V.splat64(base)) >> V.splat64(2), V.splat64(0))
        if size == 16 and step == 1:
            first, second, third, last = V.gather_4(words, places)
            V.store(regs, dst, first, mask)
            V.store(regs, dst + 32, second, mask)
            V.store(regs, dst + 64, third, mask)
            V.store(regs, dst + 96, last, mask)
            return
        for k in range(size >> 2):
            (word,) = V.gather_1(words, places)
            V.store(regs, dst + 32 * k, word, mask)
            places = places + V.splat64(step)
        return
    for lane in range(32):
        if (mask >> lane) & 1:
            at = address[lane] - base
            value = np.uint32(bytes_[at])
            if size == 2:
                value |= np.uint32(bytes_[at + 1]) << np.uint32(8)
                if signed and value & np.uint32(0x8000):
                    value |= np.uint32(0xFFFF0000)
            elif signed and value & np.uint32(0x80):
                value |= np.uint32(0xFFFFFF00)
            regs[dst + lane] = value


@compiled
def store_rows(words, bytes_, address, base, step, regs, src, mask, size):
    """Store what load_rows loads. Lanes write in order: of several that name one address, the highest wins."""
    if size >= 4:
        if mask == FULL_MASK and size == 4 and in_a_row(address):
            V.store_words(words, (address[0] - base) >> 2, V.load(regs, src))
            return
        count = size >> 2
        for lane in range(32):
            if (mask >> lane) & 1:
                word = (address[lane] - base) >> 2
                for k in range(count):
                    words[word + k * step] = regs[src + 32 * k + lane]
        return
    for lane in range(32):
        if (mask >> lane) & 1:
            at = address[lane] - base
            value = regs[src + lane]
            bytes_[at] = np.uint8(value & np.uint32(0xFF))
            if size == 2:
                bytes_[at + 1] = np.uint8((value >> np.uint32(8)) & np.uint32(0xFF))


@compiled
def same_address(st, sm, lanes):
    """The lanes, of `lanes`, whose address in st.address is that of the lowest one."""
    same = V.equal64(V.load64(st.address[sm], 0), V.splat64(st.address[sm, lowest_bit(lanes)]))
    return np.int64(same) & lanes


@compiled
def in_window(st, sm, mask, window):
    """The lanes in `mask` whose generic addresses lie in a window."""
    offset = V.load64(st.address[sm], 0) - V.splat64(window)
    return np.int64(V.less_u64(offset, V.splat64(WINDOW_BYTES))) & np.int64(mask)


@compiled
def window_of(st, sm, mask):
    """(space, lanes) of a generic access: the lanes of `mask` that mean the same space as its first one.

    Their addresses become offsets within the space.
    """
    first = np.int64(1) << lowest_bit(mask)
    shared = in_window(st, sm, mask, SHARED_WINDOW)
    local = in_window(st, sm, mask, LOCAL_WINDOW)
    if first & (shared | local) == 0:
        return M.SPACE_GLOBAL, mask & ~(shared | local)
    lanes, window, space = shared, SHARED_WINDOW, M.SPACE_SHARED
    if first & local != 0:
        lanes, window, space = local, LOCAL_WINDOW, M.SPACE_LOCAL
    row = V.load64(st.address[sm], 0)
    V.store64(st.address[sm], 0, V.select(lanes, row - V.splat64(window), row))
    return space, lanes


@compiled
def move_rows(st, i, wb, words, bytes_, address, base, step, mask, size):
    """The values of a load or store between registers and a memory, see `load_rows`."""
    if size == 32:
        move_halves(st, i, wb, words, bytes_, address, base, mask)
    elif st.code[i, M.COL_OP] == M.OP_LOAD:
        dst, signed = row_offset(st.code[i, M.COL_DST], wb), st.code[i, M.COL_AUX1] & M.MEM_SIGNED
        load_rows(words, bytes_, address, base, step, st.regs, dst, mask, size, signed)
    else:
        src = row_offset(st.code[i, M.COL_B], wb)
        store_rows(words, bytes_, address, base, step, st.regs, src, mask, size)


@compiled_on_demand()
def move_halves(st, i, wb, words, bytes_, address, base, mask):
    """A load or store of 32 bytes a lane, of which each half has four registers of its own."""
    code = st.code
    for half in range(2):
        if code[i, M.COL_OP] == M.OP_LOAD:
            dst = row_offset(code[i, M.COL_AUX4 if half else M.COL_DST], wb)
            load_rows(words, bytes_, address, base - 16 * half, 1, st.regs, dst, mask, np.int64(16), 0)
        else:
            src = row_offset(code[i, M.COL_AUX4 if half else M.COL_B], wb)
            store_rows(words, bytes_, address, base - 16 * half, 1, st.regs, src, mask, np.int64(16))
