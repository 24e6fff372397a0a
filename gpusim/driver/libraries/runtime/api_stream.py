"""Runtime API: streams and events, where they differ from the driver's."""

from __future__ import annotations

from gpusim.driver.api import stream as api_stream
from gpusim.driver.registry import entries

entries(
    ("cudaStreamCreate", "*p", lambda driver: api_stream.create(driver, 0)),
    ("cudaEventCreate", "*p", lambda driver: api_stream.event_create(driver, 0)),
)
