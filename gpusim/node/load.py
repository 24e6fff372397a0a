"""Reading descriptions of nodes, as those of GPUs are read (`gpusim/config/load.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from gpusim.config.load import Kind, load
from gpusim.config.models import describe
from gpusim.node.sections import NodeConfig


@cache
def describe_node_keys() -> Mapping[str, str]:
    """Every dotted key of a node and what it means, in file order."""
    return dict(describe(NodeConfig))


NODE = Kind(NodeConfig, describe_node_keys, Path(__file__).parent, "node", "nvlink.links=12")


def shipped_nodes() -> tuple[str, ...]:
    """Names of the nodes that come with gpusim, sorted."""
    return NODE.names()


def load_node_config(
    node: str | Path | NodeConfig, overrides: Mapping[str, Any] | Iterable[str] | None = None
) -> NodeConfig:
    """The description of a shipped name or a TOML file, with overrides as `gpusim.load_config` takes them.

    Raises ConfigError, naming the dotted key and the nearest real one.
    """
    return load(NODE, node, overrides)
