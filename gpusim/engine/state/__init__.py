"""State of the compiled core: `arrays` (the table of arrays, `table` in compiled code), `layout` (their columns),
`parameters`, `memory` (the memory system's own), `address_map`, `heap`, `bits`, and what launches share: `seats`. How
it is compiled: `jit`, `whole_program`, `stubs`, `code_cache`, `bounds`. What it writes down: `log`, `parts`.

Names that most of the engine uses are here under the short names by which it does.
"""

from gpusim.engine.state import layout as L
from gpusim.engine.state import memory as ms
from gpusim.engine.state import parameters as P
from gpusim.engine.state.bits import lowest_bit, popc, prefetch
from gpusim.engine.state.jit import compiled, compiled_on_demand
from gpusim.engine.state.seats import of_block, of_seat, of_warp

__all__ = [
    "L",
    "P",
    "compiled",
    "compiled_on_demand",
    "lowest_bit",
    "ms",
    "of_block",
    "of_seat",
    "of_warp",
    "popc",
    "prefetch",
]
