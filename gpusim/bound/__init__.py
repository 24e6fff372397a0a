"""The least time that a launch can take on a machine, in milliseconds: a bound for screening, and a yardstick.

    profile = gpusim.bound.profile(launch, "h200")      # what the program does: once
    found = gpusim.bound.bound(profile, config)         # on each machine: below a millisecond
    found.cycles, found.by, found.terms

Reading order: `work` (demands of instructions on each unit), `footprint` (the memory that all blocks touch, and atomics
that meet), `walk` (the least time of one block), `profile` (running some blocks of a grid), `terms`. See docs/bound.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any

from gpusim.bound.profile import QUICK, NotSampled, Profile, profile_of
from gpusim.bound.terms import bound as _bound
from gpusim.bound.work import Amount
from gpusim.config import GPUConfig, load_config
from gpusim.errors import CyclesExceeded, SimulationError
from gpusim.results.record import Bound

__all__ = ["Bound", "Profile", "bound", "profile", "quick_bound", "quick_instructions"]


def profile(
    target: Any, gpu: str | FilePath | GPUConfig = "h200", overrides: Mapping[str, Any] | Sequence[str] | None = None
) -> Profile:
    """The profile of a launch, the same for machines of any size and speed; from a cache if it is known.

    target: a `gpusim.Launch`, or anything with one as `launch`, or a function that makes one of these.
    gpu, overrides: a machine, as for `gpusim.simulate`, of which only what changes the program or its bank conflicts
    counts (`Profile.needs`); the profile then holds for all machines that agree in that. Program and contents of the
    arguments are what it is known by.

    Raises SimulationError, or one of its subclasses, for what is wrong with the launch or what the kernel does wrong.
    """
    return profile_of(target, load_config(gpu, overrides))


def quick_bound(target: Any, config: GPUConfig) -> tuple[Bound | None, str]:
    """The bound of a launch if a few blocks tell it within some hundredths of a second; else None, and why."""
    try:
        return _bound(profile_of(target, config, effort=QUICK), config), ""
    except NotSampled as found:
        return None, f"{found.reason}, so only a run of all of them tells"
    except CyclesExceeded:
        return None, f"its blocks take more than {QUICK.cycles:,} cycles"
    except SimulationError as error:
        return None, str(error)


def quick_instructions(target: Any, config: GPUConfig) -> int:
    """About how many warp instructions a launch issues, if a few blocks tell it as quickly; else 0."""
    try:
        return int(profile_of(target, config, effort=QUICK).total[Amount.ISSUES])
    except NotSampled as found:
        return found.issues
    except SimulationError:
        return 0


def bound(
    profile: Profile,
    gpu: str | FilePath | GPUConfig = "h200",
    overrides: Mapping[str, Any] | Sequence[str] | None = None,
) -> Bound:
    """The least time that a profiled launch takes on a machine; see `Bound`.

    Raises LaunchError if a block does not fit the machine, or the profile holds for other machines only.
    """
    return _bound(profile, load_config(gpu, overrides))
