"""`gpusim exec`: any executable that uses CUDA, as it is, on a simulated GPU."""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim.cli.launch_options import add_program_options, driver_options, telling_of, write_table
from gpusim.cli.options import add_command
from gpusim.cli.parser import EXIT_USER_ERROR
from gpusim.cli.run import check_limits

if TYPE_CHECKING:
    from gpusim.driver.outputs.outputs import Telling
    from gpusim.driver.state import Driver

EXAMPLES = """\
examples:
  nvcc --cudart shared -o saxpy saxpy.cu && gpusim exec ./saxpy
  gpusim exec --gpu a100 --set sm.count=54 ./saxpy 1000000
  gpusim exec --functional ./saxpy                         what it computes, not how long it takes
  gpusim exec --json --output launches.json python3 train.py
  gpusim exec --report pages --kernel saxpy ./saxpy        a page for each launch of it: docs/report.md
  gpusim exec --save saxpy.launches ./saxpy                to be run again without the program: gpusim replay

Options of gpusim come before PROGRAM; everything behind it is the program's. Its input, output, signals and exit status
are its own, and so are those of the programs that it starts. It has to find CUDA in shared libraries, as programs of
`nvcc --cudart shared` do. At the end a table says which kernels were launched and how long they would have taken.
"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(commands, "exec", "run any CUDA executable on a simulated GPU", EXAMPLES)
    parser.add_argument("executable", metavar="PROGRAM", help="the executable")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="the program's own arguments")
    add_program_options(parser)
    parser.set_defaults(command=execute)


def execute(options: argparse.Namespace) -> int:
    """Run the command. Returns the program's exit status, or that of a mistake if checks found one."""
    return execute_program([options.executable, *options.arguments], options)


def execute_program(command: list[str], options: argparse.Namespace) -> int:
    """Run a program and print the table of its launches. Returns its exit status, or that of a mistake if checks found
    one. Raises SimulationError if it cannot be started."""
    from gpusim.config import load_config
    from gpusim.exec.program import run

    check_limits(options)
    telling = telling_of(options)
    load_config(options.gpu, options.overrides)  # a mistake is told before the program starts
    outcome = run(command, partial(_driver, options, telling), _told)
    if not options.no_report:
        _report(outcome.told, options.json, options.output)
    return EXIT_USER_ERROR if telling.check and any(wrong for *_, wrong in outcome.told) else outcome.status


def _driver(options: argparse.Namespace, telling: Telling, process: int) -> Driver:
    from gpusim.cli.progress import announce_compilation
    from gpusim.driver.state import Driver

    announce_compilation()
    return Driver(options.gpu, **driver_options(options), telling=telling.of_process(process))


def _told(driver: Driver) -> tuple[str, dict[str, Any], int]:
    """What is printed about one process: the table as text, and as plain values; and how many launches went wrong."""
    driver.close()
    return driver.log.render(), driver.log.to_dict(), driver.log.wrong


def _report(told: list[tuple[str, dict[str, Any], int]], as_json: bool, output: Path | None) -> None:
    if as_json:
        values = [value for _, value, _ in told]
        text = json.dumps(values[0] if len(values) == 1 else values, indent=2)
    else:
        nothing = "the program called no function of CUDA's shared libraries (nvcc --cudart shared links them)"
        text = "\n\n".join(table for table, *_ in told) or nothing
    write_table(text, as_json, output)
