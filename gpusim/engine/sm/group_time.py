"""Times of products of four warps (wgmma), from begin to end, and groups of them that a warp waits for."""

import numpy as np

from gpusim.engine.sm.readiness import all_warps, block, charge, wake
from gpusim.engine.state import L, P, compiled
from isa import microops as M

_WARPS = 4
_ROW_BYTES, _A_ROWS = 32, 64  # what a product takes of a row of A or a column of B, and how many rows of A


@compiled
def book_group(st, sm, q, w, flags, columns, time):
    """Book a warp's part of a product: its tensor core takes the columns of one product after the other, and waits for
    what all four read out of shared memory, 32 bytes of each row of A and column of B, a line of the banks a cycle
    (H200, `group_*`: 64 x 16 by 16 x n from shared memory take 18, 24, 34, 48, 128 cycles for n = 8, 32, 64, 96, 256,
    and two groups of warps twice as long)."""
    par = st.par
    lines = par[P.BANKS] << par[P.BANK_SHIFT]
    rows = columns + (0 if flags & M.GMMA_REGISTERS != 0 else _A_ROWS)
    # In quarter cycles, as each of the four warps reads a quarter.
    read = max(st.sm[sm, L.SM_GROUP_SHARED], 4 * time) + (rows * _ROW_BYTES + lines - 1) // lines
    st.sm[sm, L.SM_GROUP_SHARED] = read
    busy = max(columns // par[P.GROUP_COLUMNS], par[P.GROUP_LEAST])
    done = max(max(st.smsp[q, L.SMSP_GROUP_FREE], time) + busy, (read + 3) // 4)
    st.smsp[q, L.SMSP_GROUP_FREE] = done
    st.warp[w, L.WARP_GROUP_DONE] = done + par[P.GROUP_LATENCY]
    st.warp[w, L.WARP_GROUP_BEGINS] = done - busy
    if flags & M.GMMA_COMMITS != 0:
        n = st.warp[w, L.WARP_GROUPS]
        st.warp[w, L.WARP_GROUP + n % L.GROUPS] = st.warp[w, L.WARP_GROUP_DONE]
        st.warp[w, L.WARP_GROUPS] = n + 1


@compiled
def wait_for_group(st, sm, w, left):
    """WARPGROUP.DEPBAR: all but the last `left` groups of products are waited for.

    Nsight Compute calls it a wait for a barrier, but of the first warp, which hands the products to the tensor cores,
    a wait for their queue until the last of them is taken (H200, group_f16_n256, and products of CUTLASS: mio_throttle
    is a third of barrier there).
    """
    n = st.warp[w, L.WARP_GROUPS] - 1 - left
    over = st.warp[w, L.WARP_GROUP + n % L.GROUPS] if n >= 0 and left < L.GROUPS else np.int64(0)
    if st.warp[w, L.WARP_INDEX] % _WARPS == 0:
        charge(st, sm, w, L.STALL_MIO, min(over, st.warp[w, L.WARP_GROUP_BEGINS]))
    charge(st, sm, w, L.STALL_BARRIER, over)


@compiled
def arrive_in_group(st, sm, q, slot, w, time):
    """WARPGROUP.ARRIVE: nobody goes on before all four warps have come (H200: if one of them is 3,000 cycles late, all
    products begin 13 cycles after its arrival). False if the warp has to wait."""
    b = st.block[sm, st.warp[w, L.WARP_BLOCK]]
    number = st.warp[w, L.WARP_INDEX] // _WARPS
    here = b[L.BLOCK_GROUP + number] + 1
    if here < min(_WARPS, st.par[P.WARPS] - _WARPS * number):
        b[L.BLOCK_GROUP + number] = here
        block(st, w, q, slot, L.WAIT_GROUP, L.STALL_BARRIER)
        return False
    b[L.BLOCK_GROUP + number] = 0
    for other in all_warps(st, sm):
        same = st.warp[other, L.WARP_BLOCK] == st.warp[w, L.WARP_BLOCK]
        same = same and st.warp[other, L.WARP_INDEX] // _WARPS == number
        if same and st.warp[other, L.WARP_STATE] == L.WAIT_GROUP:
            wake(st, sm, other, time + 1)
    return True
