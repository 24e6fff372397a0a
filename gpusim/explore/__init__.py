"""Many runs at once: points of a space of machines and programs, each evaluated into one row of a table.

Reading order: `point` (what one run is), `axis` and `space` (which points there are, by design), `sweep_file` (the
same as a file), `evaluate` (a point to a row), `pool` (all points to a table) with `workers` and `worker` (processes of
this machine) or `cluster` (Dask), `journal` (what is kept of an unfinished sweep), `table` (what comes out).
"""

from gpusim.explore.axis import Axis
from gpusim.explore.evaluate import evaluate
from gpusim.explore.point import Point
from gpusim.explore.pool import run
from gpusim.explore.space import Space

__all__ = ["Axis", "Point", "Space", "evaluate", "run"]
