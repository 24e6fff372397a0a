"""Names of the hardware counters that are recorded, and of those that a simulated run must equal exactly: the lists of
`metrics.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path

_LISTS: dict[str, list[str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
CYCLES = "gpc__cycles_elapsed.max"

EXACT = tuple(_LISTS["exact"])
"""Counters that follow from the machine code and the data alone, whatever the timing."""

ASKED_AGAIN = tuple(name for name in EXACT if "inst_executed" in name)
"""Exact counters that depend on timing in kernels whose warps poll (`Variant.polls`)."""

DIFFERENCES = {
    "derived__memory_l1_wavefronts_shared_excessive": (
        "memory_l1_wavefronts_shared",
        "memory_l1_wavefronts_shared_ideal",
    )
}
"""Counters that ncu shows in its sections but does not take as a name on its command line: the first recorded
counter less the second, which is the section's own formula."""

LAUNCH = tuple(_LISTS["launch"])
"""ncu's facts about the launch itself; they follow from machine code and launch, so they must be exact too."""

PIPES = tuple(_LISTS["pipes"])
"""Pipes whose `sm__inst_executed_pipe_*.sum` is recorded for kernels that are not ours."""

TIMED_PIPES = ("sm__inst_executed_pipe_fmaheavy.sum", "sm__inst_executed_pipe_adu.sum")
"""Counts that depend on timing: which half of the FMA pipe was free; what the ADU is asked again."""

RECORDED = tuple(_LISTS["recorded"])
"""Metrics requested from ncu; names unknown to its version are left out and listed in the recording."""

WARM = RECORDED[:4]
"""Cycles and time, requested of a launch after the same one. They take one pass: a second one would find caches as ncu
leaves them when it puts memory back."""


def with_differences(metrics: dict[str, float]) -> dict[str, float]:
    """Counters of a launch, and those of `DIFFERENCES` whose parts are among them."""
    both = {name: pair for name, pair in DIFFERENCES.items() if metrics.keys() >= {*pair}}
    return metrics | {name: metrics[whole] - metrics[part] for name, (whole, part) in both.items()}
