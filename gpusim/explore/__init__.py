"""Many runs at once: points of a space of machines and programs, each evaluated into one row of a table.

Reading order: `point` (what one run is), `space` (which points there are, given here or in a file), `evaluate` (a point
to a row), `sweep` (points to rows, each once, and to a table) with `workers` (processes of this machine, or an
executor), `journal` (what is kept) and `interrupt` (Ctrl-C). Then `search` with `goals`, `sensitivity` with `keys`, and
`cost` with `technology` (what a machine costs).
"""

from gpusim.explore.cost import cost
from gpusim.explore.evaluate import evaluate
from gpusim.explore.point import Point
from gpusim.explore.search import search
from gpusim.explore.sensitivity import explain, one_at_a_time
from gpusim.explore.space import Axis, Space, read_sweep
from gpusim.explore.sweep import sweep

__all__ = [
    "Axis", "Point", "Space", "cost", "evaluate", "explain", "one_at_a_time", "read_sweep", "search", "sweep",
]  # fmt: skip
