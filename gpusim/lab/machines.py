"""Explore: a shipped machine with some parameters changed, what it costs, and how long a program takes on it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from gpusim.config import load_config
from gpusim.errors import SimulationError
from gpusim.explore.cost import cost
from gpusim.workload.request import Request
from gpusim.workload.target import find_target

PARAMETERS = {
    "sm.count": ("SMs", (0.25, 0.5, 0.75, 1, 1.25, 1.5, 2)),
    "gpu.clock_mhz": ("Clock of the SMs, MHz", (0.5, 0.75, 1, 1.25, 1.5)),
    "dram.bandwidth_gb_s": ("DRAM bandwidth, GB/s", (0.25, 0.5, 0.75, 1, 1.5, 2)),
    "l2.bytes": ("L2, bytes", (0.5, 1, 2)),
    "sm.max_warps": ("Places for warps of an SM", (0.25, 0.5, 0.75, 1)),
}
"""What can be changed: words for it, and the factors that it may be multiplied by."""
PROGRAMS = "vector_add", "matmul/tiled", "gemv", "reduction/shuffle", "histogram/shared_atomics", "double/series"
"""What it is tried with: limited by memory, by shared memory, by arithmetic."""


def parameters(gpu: str) -> list[dict[str, Any]]:
    """The sliders of a machine: key, words, and values."""
    known = dict(load_config(gpu).items())
    return [
        {"key": key, "label": label, "factors": factors, "values": [_scaled(known[key], each) for each in factors]}
        for key, (label, factors) in PARAMETERS.items()
    ]


def explore(gpu: str, changes: Mapping[str, float], program: str) -> dict[str, Any]:
    """A machine with parameters multiplied by factors: area, power, time and energy of a program. changes: factors by
    key.

    Raises SimulationError for a machine that cannot be, or a program or parameter that is not offered.
    """
    unknown = [key for key in changes if key not in PARAMETERS] + [program] * (program not in PROGRAMS)
    if unknown:
        raise SimulationError(f"not offered: {', '.join(unknown)}")
    return {"parameters": parameters(gpu), "is": _measured(gpu, tuple(sorted(changes.items())), program)}


@lru_cache(maxsize=256)
def _measured(gpu: str, changes: tuple[tuple[str, float], ...], program: str) -> dict[str, Any]:
    known = dict(load_config(gpu).items())
    config = load_config(gpu, {key: _scaled(known[key], factor) for key, factor in changes if factor != 1})
    result = find_target(Request(program), config).simulate(config)
    silicon = cost(config)
    return {
        "time_us": result.time_us, "cycles": result.cycles, "limiter": result.limiter.sentence,
        "energy_j": result.energy_j, "area_mm2": silicon.area_mm2, "power_w": silicon.power_w,
        "parts": {name: part.area_mm2 for name, part in silicon.parts.items()},
    }  # fmt: skip


def _scaled(value: Any, factor: float) -> Any:
    return round(value * factor) if isinstance(value, int) else value * factor
