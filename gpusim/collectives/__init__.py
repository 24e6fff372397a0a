"""Collectives of several GPUs: NCCL's algorithms, protocols and choices, simulated on a node's links.

`collective` runs one. Reading order: `choice` (which algorithm, protocol and channels), `group` (rings and trees
through a node), `programs` (what each block does, slice by slice), `machine` (the compiled machine that times
them), `result`.
"""

from gpusim.collectives.machine import NAMES, CollectiveError
from gpusim.collectives.result import CollectiveResult, LinkUse, Step
from gpusim.collectives.run import collective

__all__ = ["NAMES", "CollectiveError", "CollectiveResult", "LinkUse", "Step", "collective"]
