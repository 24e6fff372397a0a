"""What can be wrong with a training schedule."""

from gpusim.errors import SimulationError


class ParallelError(SimulationError):
    """A schedule that cannot be: stages without layers, counts below one, sizes that do not divide."""
