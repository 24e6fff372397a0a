"""Launches that are on the GPU at the same time.

Each has a `State` of its own, with its code, parameters, registers and constants; what belongs to the SMs, such as the
rows of warps and blocks, the arrays of all of them share. So what is done for a warp, a block or an access is done on
the state of its launch, which is a pointer to another table of the same arrays. Whoever comes from the SM (its events,
its scheduler, the memory system's replies) takes the state that belongs to the warp first.
"""

from typing import Any

from numba.extending import intrinsic

from gpusim.engine.state import layout as L
from gpusim.engine.state.jit import compiled
from gpusim.engine.state.table import TableType


@intrinsic
def _table_at(_typing: Any, like: Any, address: Any) -> Any:
    """The table of the kind of `like` at an address."""
    if not isinstance(like, TableType):
        return None

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[1], context.get_value_type(like))

    return like(like, address), generate


@compiled
def of_seat(st, seat):
    """The state of the launch with this P.SEAT."""
    return _table_at(st, st.seats[seat])


@compiled
def of_warp(st, w):
    """The state of a warp's launch."""
    return _table_at(st, st.seats[st.warp[w, L.WARP_SEAT]])


@compiled
def of_block(st, sm, slot):
    """The state of a block's launch."""
    return _table_at(st, st.seats[st.block[sm, slot, L.BLOCK_SEAT]])
