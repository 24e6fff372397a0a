"""The runtime's libraries, and what they export."""

from gpusim.driver.exports import Library, provide
from gpusim.driver.runtime import api_device, api_launch, api_memory, api_stream, names  # noqa: F401 - they declare

names.declare_variants()

for _version in (12, 13):
    provide(Library(f"libcudart.so.{_version}", __package__, _version, versioned=True))
