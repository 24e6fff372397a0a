"""Bundled programs on the simulator, with their recorded machine code."""

from __future__ import annotations

from typing import Any

import gpusim
from gpusim.launch import Launch
from gpusim.result import Result
from programs import images, registry


def simulate(launch: Launch, gpu: Any = "tiny", **options: Any) -> Result:
    """Run a launch of a bundled program, on a GPU of sm_100 if its code is for that; options are those of
    `gpusim.simulate`."""
    kernel = images.for_launch(launch) or launch.kernel
    if getattr(launch.kernel, "arch", None) == "sm_100a":
        options["overrides"] = [*options.get("overrides", ()), "gpu.arch=sm_100"]
    return gpusim.simulate(kernel, launch.grid, launch.block, launch.args, gpu, launch.shared_bytes, **options)


def checked(name: str, gpu: Any = "tiny", size: int | None = None, seed: int = 0, **options: Any) -> Result:
    """Run a program, at its test size if none is given, and compare its outputs with the reference."""
    variant = registry.get(name)
    launch = variant.make(size or variant.test_size, seed)
    expected = variant.reference(launch)
    result = simulate(launch, gpu, **options)
    assert variant.mismatch(expected, variant.results(launch)) is None
    return result
