"""`gpusim export`: what a program does, for another simulator. See docs/traces.md."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim.cli.exec import python_command
from gpusim.cli.outputs import print_json, versioned
from gpusim.cli.parser import EXIT_OK, UserError
from gpusim.cli.run import check_limits, simulate_target, target_of
from gpusim.units import counted

if TYPE_CHECKING:
    from gpusim.tracing.accel_sim import AccelSimTraces


def execute(options: argparse.Namespace) -> int:
    from gpusim.cli.progress import announce_compilation

    check_limits(options)
    announce_compilation()
    if options.program.endswith(".py") and options.grid is None and options.block is None:
        return _program(python_command(options.program, options.arguments), options)
    if "/" in options.program and os.access(options.program, os.X_OK) and Path(options.program).is_file():
        return _program([options.program, *options.arguments], options)
    if options.arguments:
        raise UserError(f"{options.arguments[0]}: only a script or an executable has arguments of its own")
    target = target_of(options)
    traces = _traces(options)
    simulate_target(target, options, mode="functional", accel_sim=traces)
    _report([_said(traces)], options.json)
    return EXIT_OK


def _program(command: list[str], options: argparse.Namespace) -> int:
    """Run a script or an executable, as `gpusim exec` does. Its first process that uses CUDA has the folder, the second
    DIR-2."""
    from gpusim.cli.progress import is_shown
    from gpusim.config import load_config
    from gpusim.driver.outputs.outputs import AccelSimExport, Status
    from gpusim.driver.state import Driver
    from gpusim.exec.program import run
    from gpusim.tracing.accel_sim import empty_folder

    def new_driver(process: int) -> Driver:
        how: dict[str, Any] = {"overrides": options.overrides, "max_cycles": options.max_cycles}
        driver = Driver(options.gpu, mode="functional", **how)
        driver.observers.append(AccelSimExport(_traces(options, process)))
        if is_shown(options.progress):
            driver.observers.append(Status(driver.log))
        return driver

    def said(driver: Driver) -> dict[str, Any]:
        return _said(next(each.traces for each in driver.observers if isinstance(each, AccelSimExport)))

    load_config(options.gpu, options.overrides)  # a mistake is told before the program starts
    empty_folder(Path(options.folder))
    outcome = run(command, new_driver, said)
    _report(outcome.told, options.json)
    return outcome.status


def _traces(options: argparse.Namespace, process: int = 1) -> AccelSimTraces:
    """The folder that is written by a process of the program."""
    from gpusim.tracing.accel_sim import AccelSimTraces

    folder = options.folder if process == 1 else f"{options.folder}-{process}"
    return AccelSimTraces(folder, binary=options.binary_version)


def _said(traces: AccelSimTraces) -> dict[str, Any]:
    """Return a line that says what was written."""
    names = ("kernels", "copies", "instructions", "nbytes", "seconds")
    return versioned({"folder": str(traces.folder)} | {name: getattr(traces, name) for name in names})


def _report(written: list[dict[str, Any]], as_json: bool) -> None:
    """Print what was written for each process, and how fast."""
    sys.stdout.flush()
    if as_json:
        print_json(written[0] if len(written) == 1 else written)
    for each in () if as_json else written:
        count, nbytes = each["instructions"], each["nbytes"]
        print(
            f"{each['folder']}: {counted(each['kernels'], 'launch')}, {counted(each['copies'], 'copy')} to the device, "
            f"{count:,} warp instructions, {nbytes:,} bytes ({nbytes / max(count, 1):.3g} each); "
            f"{count / max(each['seconds'], 1e-9) / 1e6:.1f} million instructions/s",
            flush=True,
        )
    if not written:
        print("the program called no function of CUDA's shared libraries", file=sys.stderr)
