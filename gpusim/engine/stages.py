"""The stages that a memory instruction passes in its SM: each is a server with a cycle from which it is free."""

from gpusim.engine import layout as L
from gpusim.engine.jit import compiled


@compiled
def enter_queue(st, q, time, slots):
    """Cycle at which the sub-partition hands the instruction to the SM's memory stages; `slots` it occupies there."""
    start = max(time + 2, st.part[q, L.Q_LSU_FREE])
    st.part[q, L.Q_LSU_FREE] = start + slots * st.par[L.P_LSU_INTERVAL]
    return start


@compiled
def take_data_stage(st, sm, start, wavefronts):
    """First cycle of `wavefronts` consecutive ones in the SM's data stage."""
    start = max(start, st.sm[sm, L.S_DATA_FREE])
    st.sm[sm, L.S_DATA_FREE] = start + wavefronts
    return start


@compiled
def tag_cycles(par, lines):
    """Cycles that looking up so many lines keeps the tag stage busy."""
    return (lines + par[L.P_L1_TAGS_PER_CYCLE] - 1) // par[L.P_L1_TAGS_PER_CYCLE]
