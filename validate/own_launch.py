"""The simulation of the launch that an export profiled: as `gpusim run` does it, with the export's grid and block."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from gpusim.cli import UserError
from gpusim.cli.run import simulate_target
from gpusim.cli.spec import parse_dim3
from gpusim.cli.target import find_target
from gpusim.config import load_config
from validate import export
from validate.export import Export

_DYNAMIC = "launch__shared_mem_per_block_dynamic"


def simulate(options: argparse.Namespace) -> tuple[Export, Mapping[str, float]]:
    """The chosen launches of `options.ncu` and the metrics of their simulation.

    Raises export.ExportError, gpusim.cli.UserError, gpusim.SimulationError, isa.errors.IsaError.
    """
    name, at, size = options.program, "", ""
    if not _is_file(name):
        name, at, size = name.partition("@")
    if at and not size.isdecimal():
        raise UserError(f"--program takes VARIANT@SIZE, and {size!r} is no size")
    wanted = argparse.Namespace(
        program=name,
        size=int(size) if at else None,
        seed=options.seed,
        args=options.args,
        signature=options.signature,
        entry=options.entry,
        abi=options.abi,
        gpu=options.gpu,
        overrides=options.set,
        threads=options.threads,
        max_cycles=None,
        check="",
        progress=None,
    )
    config = load_config(options.gpu, options.set)
    sizes = {each: getattr(options, each) for each in ("grid", "block")}
    if _is_file(name):
        given = {each: parse_dim3(text, f"--{each}") if text else None for each, text in sizes.items()}
        found = export.read(options.ncu, options.kernel, given["grid"], given["block"])
        wanted.grid, wanted.block = (",".join(map(str, each)) for each in (found.grid, found.block))
        wanted.shared_bytes = options.shared_bytes
        if wanted.shared_bytes is None and _DYNAMIC in found.counters:
            wanted.shared_bytes = round(found.counters[_DYNAMIC].median)
        target = find_target(wanted, config)
    else:
        # A bundled program brings its launch: find_target says so if another is asked for.
        wanted.grid, wanted.block, wanted.shared_bytes = sizes["grid"], sizes["block"], options.shared_bytes
        target = find_target(wanted, config)
        found = export.read(options.ncu, options.kernel, target.launch.grid, target.launch.block)
    return found, simulate_target(target, wanted).metrics


def _is_file(name: str) -> bool:
    return name.endswith((".cubin", ".ptx", ".cu", ".gpuprog", ".py")) or ".py:" in name
