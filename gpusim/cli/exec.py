"""`gpusim exec`: any executable that uses CUDA, as it is, on a simulated GPU; `gpusim script`: a Python script;
`gpusim nvcc`: the vendor's compiler out of its wheels, for programs of `gpusim exec`.

`gpusim script FILE.py` is `gpusim exec python FILE.py`; where there is no C compiler for the libraries of that, the
script runs in this process.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import runpy
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim.cli.launch_options import add_program_options, driver_options, print_table, telling_of, write_table
from gpusim.cli.options import add_command
from gpusim.cli.parser import EXIT_OK, EXIT_USER_ERROR, UserError
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


SCRIPT_EXAMPLES = """\
examples:
  gpusim script saxpy.py
  gpusim script --gpu a100 --set sm.count=54 train.py --epochs 2
  gpusim script --functional train.py                      what it computes, not how long it takes
  gpusim script --json --output launches.json saxpy.py
  gpusim script --report pages --kernel saxpy saxpy.py     a page for each launch of it: docs/report.md
  gpusim script --check racecheck,initcheck train.py       data races, uninitialised reads: docs/errors.md
  gpusim script --trace all.perfetto-trace saxpy.py        launches and copies on one timeline: docs/traces.md
  gpusim script --save saxpy.launches saxpy.py             to be run again without the script: gpusim replay

Options of gpusim come before FILE.py; everything behind it is the script's. The script runs as under python: __main__,
sys.argv, sys.path and the exit status are its own. Python processes that it starts see a simulated GPU too.
At the end a table says which kernels were launched and how long they would have taken. SIGUSR1 to gpusim prints what
there is of it so far.
"""

NVCC_EXAMPLES = """\
examples:
  gpusim nvcc -arch=sm_90 -o saxpy saxpy.cu && gpusim exec ./saxpy
  gpusim nvcc -arch=sm_90 -std=c++20 -o product product.cu -lcublas
  CUDA_HOME=$(gpusim nvcc --home) gpusim script extension.py     builds PyTorch's extensions with it

All arguments are nvcc's. The runtime is linked as a shared library, as `gpusim exec` needs it, unless --cudart says
otherwise. No CUDA toolkit has to be installed; a C++ compiler has to be.
"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(commands, "script", "run a Numba CUDA script on a simulated GPU", SCRIPT_EXAMPLES)
    parser.add_argument("file", metavar="FILE.py", help="the script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="the script's own arguments")
    add_program_options(parser)
    parser.set_defaults(command=execute_script)
    parser = add_command(commands, "exec", "run any CUDA executable on a simulated GPU", EXAMPLES)
    parser.add_argument("executable", metavar="PROGRAM", help="the executable")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="the program's own arguments")
    add_program_options(parser)
    parser.set_defaults(command=execute)
    parser = add_command(commands, "nvcc", "compile CUDA C++ with the installed packages' nvcc", NVCC_EXAMPLES)
    parser.prefix_chars = "\0"  # what begins with a hyphen is nvcc's
    what = "nvcc's own; --home alone prints the folder of the toolkit"
    parser.add_argument("arguments", nargs="*", metavar="ARGS", help=what)
    parser.set_defaults(command=execute_nvcc)


def execute(options: argparse.Namespace) -> int:
    """Run the command. Returns the program's exit status, or that of a mistake if checks found one."""
    return execute_program([options.executable, *options.arguments], options)


def execute_script(options: argparse.Namespace) -> int:
    """Run a script as `execute` runs a program; without a C compiler, in this process. Returns its exit status."""
    from gpusim.exec.libraries import NoCompiler

    try:
        return execute_program(python_command(options.file, options.arguments), options)
    except NoCompiler as why:
        print(f"gpusim: {why}; the script runs in this process", file=sys.stderr)
        return _in_this_process(options)


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
    from gpusim.driver.state import Driver

    driver = Driver(options.gpu, **driver_options(options), telling=replace(telling, process=process))
    _tell_progress(driver, options)
    return driver


def _tell_progress(driver: Driver, options: argparse.Namespace) -> None:
    from gpusim.cli.progress import announce_compilation, is_shown
    from gpusim.driver.outputs.outputs import Status, tell_when_asked

    announce_compilation()
    tell_when_asked(driver.log)
    if is_shown(options.progress):
        driver.observers.append(Status(driver.log))


def _told(driver: Driver) -> tuple[str, dict[str, Any], int]:
    """Return the table of one process as text and as plain values, and how many launches went wrong."""
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


def python_command(file: str, arguments: list[str]) -> list[str]:
    """The command that runs a script under this interpreter. Raises UserError for a file that cannot be read."""
    try:
        os.close(os.open(file, os.O_RDONLY))
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from None
    return [sys.executable, file, *arguments]


def _in_this_process(options: argparse.Namespace) -> int:
    from gpusim.driver.numba_cuda import install

    check_limits(options)
    telling = telling_of(options)
    driver = install(options.gpu, **driver_options(options), telling=telling)
    _tell_progress(driver, options)
    if not options.no_report:
        # Before the script registers anything, so that they are called after what it does at its end, the last first.
        atexit.register(print_table, driver.log, options.json, options.output)
        atexit.register(driver.finish)
    sys.argv = [options.file, *options.arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(options.file))
    runpy.run_path(options.file, run_name="__main__")
    driver.finish()
    return EXIT_USER_ERROR if telling.check and driver.log.wrong else EXIT_OK


def execute_nvcc(options: argparse.Namespace) -> int:
    """Run nvcc. Returns its exit status."""
    from gpusim.exec.libraries import toolkit_folder

    if options.arguments == ["--home"]:
        print(toolkit_folder())
        return 0
    status = subprocess.run([toolkit_folder() / "bin" / "nvcc", *options.arguments], check=False).returncode
    return status if status >= 0 else 128 - status
