"""Several GPUs: what joins them, and what copying between them takes.

Reading order: `sections.py` (every key of a description and what it means), `hgx_h200.toml` (the reference node and
where each number comes from), `load.py`, `link.py` and `build.py` (from a description to links), `topology.py` (a node
and its paths), `system.py` (copies, streams and events as a program calls for them), `run.py` (the calls in simulated
time), `transfers.py` (what one copy takes), `flows.py` (how copies share links), `result.py` and `report.py`; `peer.py`
(arrays of kernels that live on another GPU).
"""

from gpusim.errors import NodeError
from gpusim.node.load import describe_node_keys, shipped_nodes
from gpusim.node.peer import Peer, on
from gpusim.node.result import Copy, LinkUse, NodeResult
from gpusim.node.system import Event, Stream, System
from gpusim.node.topology import Link, Node, load_node

__all__ = [
    "Copy",
    "Event",
    "Link",
    "LinkUse",
    "Node",
    "NodeError",
    "NodeResult",
    "Peer",
    "Stream",
    "System",
    "describe_node_keys",
    "load_node",
    "on",
    "shipped_nodes",
]
