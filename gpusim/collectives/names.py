"""Names as NCCL spells them, and the error that names what is none."""

from gpusim.errors import SimulationError

NAMES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "send_recv")
ALGORITHMS = ("tree", "ring")
PROTOCOLS = ("LL", "LL128", "Simple")


class CollectiveError(SimulationError):
    """A collective that no group of ranks can carry out: a wrong name, sizes that cannot be shared."""
