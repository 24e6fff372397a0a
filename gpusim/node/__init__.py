"""Several GPUs: what joins them, and what copying between them takes.

Reading order: `sections.py` (every key of a description and what it means), `hgx_h200.toml` (the reference node and
where each number comes from), `build.py` (from a description to links), `topology.py` (a node and its
paths), `streams.py` (streams and events, on a clock), `system.py` (copies between GPUs),
`transfers.py` (what one copy takes), `flows.py` (how copies share links), `result.py` (with its report); `peer.py`
(arrays of kernels that live on another GPU).
"""

from gpusim.errors import NodeError
from gpusim.node.build import Link
from gpusim.node.peer import Peer, on
from gpusim.node.result import Copy, LinkLoad, NodeResult
from gpusim.node.sections import describe_node_keys, shipped_nodes
from gpusim.node.streams import Event, Stream
from gpusim.node.system import System
from gpusim.node.topology import Node, load_node, node_with

__all__ = [
    "Copy", "Event", "Link", "LinkLoad", "Node", "NodeError", "NodeResult", "Peer", "Stream", "System",
    "describe_node_keys", "load_node", "node_with", "on", "shipped_nodes",
]  # fmt: skip
