"""What can be wrong with a collective."""

from gpusim.errors import SimulationError


class CollectiveError(SimulationError):
    """A collective that no group of ranks can carry out: a wrong name, mismatched sizes, ranks that differ."""
