"""The runtime's libraries, and what they export."""

from gpusim.driver.exports import Library, provide
from gpusim.driver.libraries.runtime import (  # noqa: F401 - they declare the functions
    api_device,
    api_graph,
    api_launch,
    api_memory,
    api_stream,
)
from gpusim.driver.libraries.runtime.names import declare_same

for _version in (12, 13):
    declare_same(provide(Library(f"libcudart.so.{_version}", __package__, _version, versioned=True)))
