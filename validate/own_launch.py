"""The simulation of the launch that an export profiled: as `gpusim run` does it, with the export's grid and block."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace

from gpusim.config import load_config
from gpusim.workload.request import Request, WorkloadError
from gpusim.workload.spec import parse_dim3
from gpusim.workload.target import find_target
from validate import export
from validate.export import Export

_SHAPE = ("grid", "block")
_DYNAMIC = "launch__shared_mem_per_block_dynamic"


def simulate(options: argparse.Namespace) -> tuple[Export, Mapping[str, float]]:
    """The chosen launches of `options.ncu` and the metrics of their simulation.

    Raises export.ExportError, gpusim.SimulationError, isa.errors.IsaError.
    """
    name, at, size = options.program, "", ""
    if Request(name).file is None:
        name, at, size = name.partition("@")
    if at and not size.isdecimal():
        raise WorkloadError(f"--program takes VARIANT@SIZE, and {size!r} is no size")
    wanted = Request.of(vars(options) | {"program": name, "size": int(size) if at else None})
    config = load_config(options.gpu, options.set)
    if wanted.file is not None:
        given = {each: parse_dim3(text, f"--{each}") if (text := getattr(wanted, each)) else None for each in _SHAPE}
        found = export.read(options.ncu, options.kernel, given["grid"], given["block"])
        grid, block = (",".join(map(str, each)) for each in (found.grid, found.block))
        shared = wanted.shared_bytes
        if shared is None and _DYNAMIC in found.counters:
            shared = round(found.counters[_DYNAMIC].median)
        target = find_target(replace(wanted, grid=grid, block=block, shared_bytes=shared), config)
    else:
        # A bundled program brings its launch: find_target says so if another is asked for.
        target = find_target(wanted, config)
        found = export.read(options.ncu, options.kernel, target.launch.grid, target.launch.block)
    return found, target.simulate(config, threads=options.threads).metrics
