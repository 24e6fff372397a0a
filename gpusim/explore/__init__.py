"""Many runs at once: points of a space of machines and programs, each evaluated into one row of a table.

Reading order: `point` (what one run is), `axis` and `space` (which points there are, by design), `sweep_file` (the
same as a file), `evaluate` (a point to a row), `rows` (points to rows, each once) with `workers` and `worker`
(processes of this machine), `journal` (what is kept) and `interrupt` (Ctrl-C), `pool` (a sweep) and
`table` (what comes out). Then `search` with `goals`, `sensitivity` with `keys`, and `cost` with `technology` and `dies`
(what a machine costs).
"""

from gpusim.explore.axis import Axis
from gpusim.explore.cost import cost
from gpusim.explore.evaluate import evaluate
from gpusim.explore.point import Point
from gpusim.explore.pool import run
from gpusim.explore.search import search
from gpusim.explore.sensitivity import explain, one_at_a_time
from gpusim.explore.space import Space
from gpusim.explore.sweep_file import read_sweep

__all__ = [
    "Axis", "Point", "Space", "cost", "evaluate", "explain", "one_at_a_time", "read_sweep", "run", "search",
]  # fmt: skip
