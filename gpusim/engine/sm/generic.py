"""Questions about generic addresses: the space that QSPC asks for, and whether an atomic can be done there."""

import numpy as np

from gpusim.engine.sm.cluster import RANK_SHIFT
from gpusim.engine.sm.flight import release_at
from gpusim.engine.sm.space import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from gpusim.engine.state import L, P, compiled
from isa import microops as M


@compiled
def query_space(st, sm, w, i, mask, time):
    """QSPC: whether each lane's generic address lies in a space; global is what no window holds."""
    space = st.code[i, M.COL_AUX4]
    own = st.block[sm, st.warp[w, L.W_BLOCK], L.B_RANK] if st.par[P.CLUSTER_BLOCKS] > 0 else np.int64(0)
    inside = np.uint32(0)
    for lane in range(32):
        address = st.address[sm, lane]
        shared = SHARED_WINDOW <= address < SHARED_WINDOW + WINDOW_BYTES
        found = LOCAL_WINDOW <= address < LOCAL_WINDOW + WINDOW_BYTES
        if space == M.SPACE_SHARED:
            # The shared memory of the whole cluster (AUX5), or of the block alone.
            found = shared and (st.code[i, M.COL_AUX5] != 0 or (address - SHARED_WINDOW) >> RANK_SHIFT == own)
        elif space == M.SPACE_GLOBAL:
            found = not (shared or found)
        if found and (mask >> lane) & 1:
            inside |= np.uint32(1) << np.uint32(lane)
    p = st.code[i, M.COL_PD0]
    if p < 7:
        st.preds[16 * w + p] = (st.preds[16 * w + p] & ~np.uint32(mask)) | inside
    release_at(st, w, st.code[i, M.COL_WBAR], time + st.par[P.SPECIAL_LATENCY], L.R_SHORT)


@compiled
def atomic_predicate(st, sm, w, i, mask, space, time):
    """The predicate of an atomic on a generic address: it was done, which in local memory the program has to do itself.

    It is there as soon as the sources are read (measured on an H200). Returns False if nothing is left to do. ATOMG,
    which has the predicate too, makes it false (measured as well); no compiler asks for it.
    """
    done = space != M.SPACE_LOCAL
    p = st.code[i, M.COL_PD0]
    if p < 7 and st.code[i, M.COL_AUX4] >> 8 != M.ATOMIC_CAST_SPIN:
        lanes = np.uint32(mask)
        holds = done and st.code[i, M.COL_AUX0] == M.SPACE_GENERIC
        st.preds[16 * w + p] = (st.preds[16 * w + p] & ~lanes) | (lanes if holds else np.uint32(0))
    if not done:
        release_at(st, w, st.code[i, M.COL_RBAR], time + st.par[P.SOURCE_RELEASE], L.R_SHORT)
        release_at(st, w, st.code[i, M.COL_WBAR], time + st.par[P.SOURCE_RELEASE], L.R_SHORT)
    return done
