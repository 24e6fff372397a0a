"""`gpusim export`: what a program does, for another simulator. See docs/traces.md."""

from __future__ import annotations

import argparse
import atexit
import sys
import time
from typing import TYPE_CHECKING

from gpusim.cli.exits import EXIT_OK, UserError
from gpusim.cli.options import (
    ARGUMENT_HELP,
    add_command,
    add_gpu_options,
    add_json_option,
    add_launch_options,
    add_limit_options,
    add_progress_option,
)
from gpusim.cli.outputs import print_json
from gpusim.cli.run import check_limits, target_of
from gpusim.cli.script import compiled_script, run_script
from gpusim.cli.tracing import number_list

if TYPE_CHECKING:
    from gpusim.tracing.accel_sim import AccelSimTraces

EXAMPLES = """\
examples:
  gpusim export accel-sim vector_add traces
  gpusim export accel-sim matmul/tiled traces --size 512 --blocks 0-15 --gpu a100
  gpusim export accel-sim reduction/shuffle traces --binary-version 80     for an Accel-Sim without Hopper's opcodes
  gpusim export accel-sim kernels.py:scale traces --grid 8 --block 128 --args "float32[1024]=random, float32(2.5)"
  gpusim export accel-sim --gpu a100 train.py traces -- --epochs 2         every launch and copy of a Numba CUDA script

No GPU is needed. accel-sim.out -trace traces/kernelslist.g -config ... reads it.

"""
_EVERY_S = 2.0


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands, "export", "write a program's instructions for another simulator", EXAMPLES + ARGUMENT_HELP
    )
    parser.add_argument("format", choices=("accel-sim",), help="Accel-Sim's kernel traces: docs/traces.md")
    known = "what gpusim run takes, or FILE.py: a script with all its launches, as gpusim script runs it"
    parser.add_argument("program", metavar="PROGRAM", help=known)
    parser.add_argument("folder", metavar="DIR", help="where the traces go; made if need be, and empty")
    own = "a script's own, behind --; options of gpusim come first then"
    parser.add_argument("arguments", nargs="*", metavar="ARGS", help=own)
    add_launch_options(parser)
    add_gpu_options(parser)
    add_limit_options(parser)
    parser.add_argument("--blocks", metavar="LIST", help="the only blocks to write, such as 0,4-7 (default: all)")
    parser.add_argument(
        "--binary-version",
        type=int,
        metavar="N",
        help="the machine code whose table of opcodes Accel-Sim is to use (default: the GPU's own, 90 for an H200)",
    )
    parser.add_argument("--compress", action="store_true", help="write .traceg.xz, much smaller, more slowly")
    add_progress_option(parser)
    add_json_option(parser)
    parser.set_defaults(command=execute)


def execute(options: argparse.Namespace) -> int:
    from gpusim.cli.progress import announce_compilation, show_progress
    from gpusim.host.options import DEFAULT_MAX_CYCLES

    check_limits(options)
    announce_compilation()
    if options.program.endswith(".py") and options.grid is None and options.block is None:
        return _script(options)
    if options.arguments:
        raise UserError(f"{options.arguments[0]}: only a script, FILE.py without a kernel, has arguments of its own")
    target = target_of(options)
    traces = _traces(options, target.launch.blocks)
    with show_progress(options.progress) as progress:
        target.simulate(
            options.gpu,
            overrides=options.overrides,
            max_cycles=options.max_cycles or DEFAULT_MAX_CYCLES,
            progress=progress,
            mode="functional",
            traces=traces,
        )
    _report(traces, options.json)
    return EXIT_OK


def _script(options: argparse.Namespace) -> int:
    """Run a script under the simulated driver."""
    from gpusim.driver.numba_cuda import install

    code = compiled_script(options.program)
    driver = install(
        options.gpu, overrides=options.overrides, max_cycles=options.max_cycles, mode="functional", inherit=True
    )
    driver.traces = _traces(options)
    # Before the script registers anything, so that it is called after what the script does at its end.
    atexit.register(_report, driver.traces, options.json)
    return run_script(code, options.program, options.arguments)


def _traces(options: argparse.Namespace, blocks: int | None = None) -> AccelSimTraces:
    """The folder that is written. blocks: of the grid, if there is one only."""
    from gpusim.tracing.accel_sim import AccelSimTraces

    chosen = None if options.blocks is None else number_list(options.blocks, "--blocks")
    if chosen == []:
        raise UserError("--blocks names no block")
    if chosen and blocks is not None and chosen[-1] >= blocks:
        raise UserError(f"--blocks: the grid's blocks are 0 to {blocks - 1:,}")
    shown = sys.stderr.isatty() if options.progress is None else options.progress
    told = {"told": _Told().told} if shown and blocks is None else {}
    return AccelSimTraces(
        options.folder, binary=options.binary_version, blocks=chosen, compress=options.compress, **told
    )


class _Told:
    """A line every few seconds about how far a script has come."""

    def __init__(self) -> None:
        self._due = time.monotonic() + _EVERY_S

    def told(self, number: int, instructions: int) -> None:
        if time.monotonic() > self._due:
            self._due = time.monotonic() + _EVERY_S
            print(f"gpusim: launch {number:,}, {instructions:,} warp instructions", file=sys.stderr, flush=True)


def _report(traces: AccelSimTraces, as_json: bool) -> None:
    """What was written, and how fast."""
    told = {name: getattr(traces, name) for name in ("kernels", "copies", "instructions", "nbytes", "seconds")}
    sys.stdout.flush()
    if as_json:
        print_json({"folder": str(traces.folder), **told})
        return
    each, rate = (traces.instructions / max(of, 1e-9) for of in (traces.nbytes, traces.seconds))
    print(
        f"{traces.folder}: {traces.kernels:,} launches, {traces.copies:,} copies to the device, "
        f"{traces.instructions:,} warp instructions, {traces.nbytes:,} bytes ({1 / max(each, 1e-9):.3g} each); "
        f"{rate / 1e6:.1f} million instructions/s"
    )
