"""`gpusim script`: a Python script, as it is, on a simulated GPU: `gpusim exec python FILE.py`.

Where there is no C compiler for the libraries of `gpusim exec`, the script runs in this process.
"""

from __future__ import annotations

import argparse
import atexit
import os
import runpy
import sys

from gpusim.cli.exec import execute_program
from gpusim.cli.launch_options import add_program_options, driver_options, print_table, telling_of
from gpusim.cli.options import add_command
from gpusim.cli.parser import EXIT_OK, EXIT_USER_ERROR, UserError
from gpusim.cli.run import check_limits

EXAMPLES = """\
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
At the end a table says which kernels were launched and how long they would have taken.
"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(commands, "script", "run a Numba CUDA script on a simulated GPU", EXAMPLES)
    parser.add_argument("file", metavar="FILE.py", help="the script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="the script's own arguments")
    add_program_options(parser)
    parser.set_defaults(command=execute)


def execute(options: argparse.Namespace) -> int:
    """Run the command. Returns the script's exit status, or that of a mistake if checks found one."""
    from gpusim.exec.libraries import NoCompiler

    try:
        return execute_program(python_command(options.file, options.arguments), options)
    except NoCompiler as why:
        print(f"gpusim: {why}; the script runs in this process", file=sys.stderr)
        return _in_this_process(options)


def python_command(file: str, arguments: list[str]) -> list[str]:
    """The command that runs a script under this interpreter. Raises UserError for a file that cannot be read."""
    try:
        os.close(os.open(file, os.O_RDONLY))
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from None
    return [sys.executable, file, *arguments]


def _in_this_process(options: argparse.Namespace) -> int:
    from gpusim.cli.progress import announce_compilation
    from gpusim.driver.numba_cuda import install

    check_limits(options)
    telling = telling_of(options)
    driver = install(options.gpu, **driver_options(options), telling=telling)
    announce_compilation()
    if not options.no_report:
        # Before the script registers anything, so that they are called after what it does at its end, the last first.
        atexit.register(print_table, driver.log, options.json, options.output)
        atexit.register(driver.finish)
    sys.argv = [options.file, *options.arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(options.file))
    runpy.run_path(options.file, run_name="__main__")
    driver.finish()
    return EXIT_USER_ERROR if telling.check and driver.log.wrong else EXIT_OK
