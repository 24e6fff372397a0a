"""The stages that a memory instruction passes in its SM: each is a server with a cycle from which it is free."""

from gpusim.engine import layout as L
from gpusim.engine.jit import compiled

#: Cycles that a store keeps the way to L2 busy: for each line, and for each sector if that is more (H200: 2 cycles a
#: line of one sector, 4 a line of four, whatever the number of warps).
LINE_CYCLES = 2


@compiled
def enter_queue(st, q, time, slots):
    """Cycle at which the sub-partition hands the instruction to the SM's memory stages; `slots` it occupies there."""
    part = st.part[q]
    start = max(time + 2, part[L.Q_LSU_FREE])
    part[L.Q_LSU_FREE] = start + slots * st.par[L.P_LSU_INTERVAL]
    part[L.Q_LEAVES + part[L.Q_ENTERED] % L.QUEUE_MOST] = start
    part[L.Q_ENTERED] += 1
    return start


@compiled
def queue_room(part, depth):
    """Cycle from which the queue has room for one more instruction, if it holds `depth` at most."""
    return part[L.Q_LEAVES + (part[L.Q_ENTERED] - depth) % L.QUEUE_MOST]


@compiled
def leave_queue(part, time):
    """The instruction that entered last leaves the queue at `time`, if nothing keeps it longer."""
    k = L.Q_LEAVES + (part[L.Q_ENTERED] - 1) % L.QUEUE_MOST
    if time > part[k]:
        part[k] = time


@compiled
def take_data_stage(st, sm, q, start, wavefronts):
    """First cycle of `wavefronts` consecutive ones in the SM's data stage."""
    start = max(start, st.sm[sm, L.S_DATA_FREE])
    st.sm[sm, L.S_DATA_FREE] = start + wavefronts
    leave_queue(st.part[q], start + wavefronts)
    return start


@compiled
def store_cycles(sectors):
    """Cycles that a line with so many sectors keeps the way to L2 busy."""
    return max(sectors, LINE_CYCLES)


@compiled
def tag_cycles(par, lines):
    """Cycles that looking up so many lines keeps the tag stage busy."""
    return (lines + par[L.P_L1_TAGS_PER_CYCLE] - 1) // par[L.P_L1_TAGS_PER_CYCLE]
