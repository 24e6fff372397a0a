"""Many runs at once: points of a space of machines and programs, each evaluated into one row of a table.

Reading order: `point` (what one run is), `axis` and `space` (which points there are, by design), `sweep_file` (the
same as a file), `evaluate` (a point to a row); `technology`, `cost` and `dies` (what a machine costs).
"""

from gpusim.explore.axis import Axis
from gpusim.explore.evaluate import evaluate
from gpusim.explore.point import Point
from gpusim.explore.space import Space

__all__ = ["Axis", "Point", "Space", "evaluate"]
