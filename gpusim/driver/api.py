"""All functions of the driver API that exist: importing this module declares them."""

from gpusim.driver import (
    api_context,
    api_copy,
    api_device,
    api_entry,
    api_graph,
    api_kernel,
    api_launch,
    api_memory,
    api_module,
    api_pool,
    api_stream,
)

__all__ = [
    "api_context",
    "api_copy",
    "api_device",
    "api_entry",
    "api_graph",
    "api_kernel",
    "api_launch",
    "api_memory",
    "api_module",
    "api_pool",
    "api_stream",
]
