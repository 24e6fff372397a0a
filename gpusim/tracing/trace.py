"""A trace: every issue and stall of chosen SMs, addresses and registers of chosen blocks, the life of each.

`gpusim.simulate(..., trace=True)` or `trace=TraceOptions(...)` records it, `result.trace` holds it. Recording changes
no cycle and no counter. Cycles are SM clock cycles from the start of the launch, as `result.cycles` counts them, launch
overhead included. `gpusim.tracing.reconvergence` makes a divergence tree of a warp's issues, `gpusim.tracing.perfetto`
writes a file for a timeline viewer.
"""

from __future__ import annotations

from pathlib import Path

from gpusim.tracing.perfetto import perfetto_packets, write_packets
from gpusim.tracing.recording import BLOCK, ISSUE, SPACES, STALL, VALUE, WARP, Recording, TraceOptions

__all__ = ["BLOCK", "ISSUE", "SPACES", "STALL", "VALUE", "WARP", "Trace", "TraceOptions"]


class Trace(Recording):
    """The recording of one launch, which can be written for a timeline viewer."""

    def perfetto(self, path: str | Path) -> None:
        """Write a trace for https://ui.perfetto.dev: SMs, schedulers and warps as tracks. See `tracing.perfetto`."""
        write_packets(perfetto_packets(self), path)
