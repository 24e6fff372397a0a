"""Run recorded kernels on the simulator and compare with the hardware: outputs to the bit, counters to the last one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import gpusim
from gpusim.errors import SimulationError
from isa.errors import IsaError
from validate.generated import archive
from validate.generated.archive import Recorded


def replay(recorded: Recorded, gpu: Any = "h200") -> list[str]:
    """What differs from the hardware, in words; empty if nothing does."""
    program = recorded.program()
    if program.code_sha256 != recorded.code_sha256:
        return ["the archive's code is not what its digest says"]
    args = recorded.arguments()
    try:
        result = gpusim.simulate(program, recorded.grid, recorded.block, args, gpu, recorded.shared_bytes, threads=1)
    except (SimulationError, IsaError) as error:
        return [str(error)]
    found = counted_otherwise(result, recorded.counters)
    arrays = [value for value in args if isinstance(value, np.ndarray)]
    digests = [archive.digest(each) for each in arrays]
    wrong = [index for index, each in enumerate(digests) if each != recorded.outputs[index]]
    if wrong and not recorded.close:
        found.append(f"array arguments {wrong} differ")
    return found


def counted_otherwise(result: gpusim.Result, counters: Mapping[str, int]) -> list[str]:
    """The counters of a launch that are not the hardware's, in words."""
    return [
        f"{name} is {result.metrics[name]:g}, not {value}"
        for name, value in counters.items()
        if result.metrics[name] != value
    ]


def replay_all(
    kernels: Sequence[Recorded], gpu: Any = "h200", say: Callable[[str], None] = print
) -> dict[str, list[str]]:
    """What differs, by kernel; only kernels that differ are in it."""
    started, differing = time.monotonic(), {}
    for recorded in kernels:
        if found := replay(recorded, gpu):
            differing[recorded.name] = found
            say(f"{recorded.name}: {'; '.join(found)}")
    counted = [each for each in kernels if each.counters]
    equal = sum(each.name not in differing for each in counted)
    say(
        f"{len(kernels) - len(differing)} of {len(kernels)} kernels equal, {equal} of {len(counted)} with counters, "
        f"in {time.monotonic() - started:.0f} s"
    )
    return differing
