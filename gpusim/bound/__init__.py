"""The least time that a launch can take on a machine, in milliseconds: a bound for screening, and a yardstick.

    profile = gpusim.bound.profile(launch, "h200")      # what the program does: once
    found = gpusim.bound.bound(profile, config)         # on each machine: below a millisecond
    found.cycles, found.by, found.terms

Reading order: `work` (demands of instructions on each unit), `footprint` (the memory that all blocks touch, and atomics
that meet), `walk` (the least time of one block), `profile` (running some blocks of a grid), `terms`. See docs/bound.md.
"""

from __future__ import annotations

from typing import Any

from gpusim.bound.profile import QUICK, NotSampled, Profile, profile
from gpusim.bound.terms import bound
from gpusim.bound.work import Amount
from gpusim.config import GPUConfig
from gpusim.errors import CyclesExceeded, SimulationError
from gpusim.results.record import Bound

__all__ = ["Bound", "Profile", "bound", "profile", "quick_bound", "quick_instructions"]


def quick_bound(target: Any, config: GPUConfig) -> tuple[Bound | None, str]:
    """The bound of a launch if a few blocks tell it within some hundredths of a second; else None, and why."""
    try:
        return bound(profile(target, config, effort=QUICK), config), ""
    except NotSampled as found:
        return None, f"{found.reason}, so only a run of all of them tells"
    except CyclesExceeded:
        return None, f"its blocks take more than {QUICK.cycles:,} cycles"
    except SimulationError as error:
        return None, str(error)


def quick_instructions(target: Any, config: GPUConfig) -> int:
    """About how many warp instructions a launch issues, if a few blocks tell it as quickly; else 0."""
    try:
        return int(profile(target, config, effort=QUICK).total[Amount.ISSUES])
    except NotSampled as found:
        return found.issues
    except SimulationError:
        return 0
