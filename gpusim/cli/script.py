"""`gpusim script`: a Numba CUDA script, as it is, on a simulated GPU."""

from __future__ import annotations

import argparse
import atexit
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim.cli.launch_options import add_program_options, driver_options, print_table, telling_of
from gpusim.cli.options import add_command
from gpusim.cli.parser import EXIT_OK, EXIT_USER_ERROR, UserError
from gpusim.cli.run import check_limits

if TYPE_CHECKING:
    from gpusim.driver.state import Driver

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
sys.argv, sys.path and the exit status are its own. Python processes that it starts see the same simulated GPU.
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
    from gpusim.cli.progress import announce_compilation
    from gpusim.driver.numba_cuda import install

    check_limits(options)
    telling = telling_of(options)
    code = compiled_script(options.file)
    driver = install(options.gpu, **driver_options(options), inherit=True, telling=telling)
    announce_compilation()
    if not options.no_report:
        # Before the script registers anything, so that it is called after what the script does at its end.
        atexit.register(_tell, driver, options)
    status = run_script(code, options.file, options.arguments)
    driver.finish()
    return EXIT_USER_ERROR if telling.check and driver.log.wrong else status


def _tell(driver: Driver, options: argparse.Namespace) -> None:
    driver.finish()
    print_table(driver.log, options.json, options.output)


def compiled_script(file: str) -> types.CodeType:
    """The script's code; a syntax error is shown as Python shows it."""
    try:
        source = Path(file).read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from None
    try:
        return compile(source, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        sys.excepthook(type(error), error.with_traceback(None), None)
        raise UserError(f"{file} is not a Python script") from None


def run_script(code: types.CodeType, file: str, arguments: list[str]) -> int:
    """Execute a script as `python FILE.py ARGS` does, and return its exit status."""
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=file, __builtins__=__builtins__, __cached__=None)
    sys.modules["__main__"] = main  # stays: threads, pickles and what runs at the exit look into it
    sys.argv = [file, *arguments]
    sys.path[0] = str(Path(file).resolve().parent)
    try:
        exec(code, main.__dict__)
    except SystemExit as stop:
        return _status(stop.code)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # The frames of this file are no part of the script.
        own = error.__traceback__.tb_next if error.__traceback__ else None
        sys.excepthook(type(error), error.with_traceback(own), own)
        return 1
    return EXIT_OK


def _status(code: Any) -> int:
    """The exit status that Python makes of SystemExit's argument."""
    if code is None:
        return EXIT_OK
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1
