"""`gpusim exec`: any executable that uses CUDA, as it is, on a simulated GPU; `gpusim script`: a Python script;
`gpusim nvcc`: the vendor's compiler out of its wheels, for programs of `gpusim exec`; `gpusim replay`: launches that
those have saved. With what they print and write: the table, pages, traces, saved launches.

`gpusim script FILE.py` is `gpusim exec python FILE.py`; where there is no C compiler for the libraries of that, the
script runs in this process.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim.cli.outputs import check_writable
from gpusim.cli.parser import EXIT_OK, EXIT_USER_ERROR, UserError, names_of
from gpusim.cli.run import check_limits
from gpusim.cli.tracing import ENDING
from isa.folders import replacing

if TYPE_CHECKING:
    from gpusim.driver.outputs.log import LaunchLog
    from gpusim.driver.outputs.outputs import Telling
    from gpusim.driver.state import Driver


def execute(options: argparse.Namespace) -> int:
    """Run the command. Returns the program's exit status, or that of a mistake if checks found one."""
    return execute_program([options.executable, *options.arguments], options)


def execute_script(options: argparse.Namespace) -> int:
    """Run a script as `execute` runs a program; without a C compiler, in this process. Returns its exit status."""
    from gpusim.exec.libraries import NoCompiler

    try:
        return execute_program(python_command(options.file, options.arguments), options)
    except NoCompiler as why:
        if options.host_time == "measured":
            raise
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
    os.environ |= {"CUPY_COMPILE_WITH_PTX": "1"} if telling.save else {}  # which a replay elsewhere compiles
    outcome = run(command, partial(_driver, options, telling), _told, shared=options.gpus > 1)
    if not options.no_report:
        print_tables(outcome.told, options.json, options.output)
    return EXIT_USER_ERROR if telling.check and any(wrong for *_, wrong in outcome.told) else outcome.status


def _driver(options: argparse.Namespace, telling: Telling, process: int) -> Driver:
    from gpusim.driver.state import Driver

    driver = Driver(options.gpu, **driver_options(options), telling=replace(telling, process=process))
    driver.time.host.measured = options.host_time == "measured"
    _tell_progress(driver, options)
    return driver


def _tell_progress(driver: Driver, options: argparse.Namespace) -> None:
    from gpusim.cli.progress import announce_compilation, is_shown
    from gpusim.driver.outputs.outputs import Status, tell_when_asked

    announce_compilation(driver.stop_if_interrupted)
    tell_when_asked(driver.log)
    if options.progress is not False:
        driver.observers.append(Status(driver.log, often=is_shown(options.progress)))


Told = tuple[str, dict[str, Any], int]
"""The table of one process as text and as plain values, and how many launches went wrong."""


def _told(driver: Driver) -> Told:
    driver.close()
    return _table(driver.log)


def _table(log: LaunchLog) -> Told:
    return log.render(), log.to_dict(), log.wrong


def print_tables(told: Sequence[Told], as_json: bool, output: Path | None) -> None:
    """Print the tables of a program's processes as text or JSON, or write them."""
    if as_json:
        values = [value for _, value, _ in told]
        text = json.dumps(values[0] if len(values) == 1 else values, indent=2)
    else:
        nothing = "the program called no function of CUDA's shared libraries, which nvcc --cudart shared links"
        text = "\n\n".join(table for table, *_ in told) or nothing
    if output is None:
        sys.stdout.flush()
        print(text if as_json else f"\n{text}", flush=True)
        return
    try:
        with replacing(output) as part:
            part.write_text(text + "\n")
    except OSError as error:
        print(f"gpusim: error: cannot write {output}: {error.strerror}", file=sys.stderr)


def python_command(file: str, arguments: list[str]) -> list[str]:
    """The command that runs a script under this interpreter. Raises OSError for a file that cannot be read."""
    os.close(os.open(file, os.O_RDONLY))
    return [sys.executable, file, *arguments]


def _in_this_process(options: argparse.Namespace) -> int:
    from gpusim.driver.numba_cuda import install

    check_limits(options)
    telling = telling_of(options)
    driver = install(options.gpu, **driver_options(options), telling=telling)
    _tell_progress(driver, options)
    if not options.no_report:
        # Before the script registers anything, so that they are called after what it does at its end, the last first.
        atexit.register(lambda: print_tables([_table(driver.log)], options.json, options.output))
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


_NUMBERS = re.compile(r"(\d+)(?:(-)(\d*))?")


def driver_options(options: argparse.Namespace) -> dict[str, Any]:
    """Arguments of a `gpusim.driver.state.Driver`, but for the GPU and what it tells."""
    return {name: getattr(options, name) for name in ("overrides", "threads", "max_cycles", "mode", "gpus", "node")}


def telling_of(options: argparse.Namespace) -> Telling:
    """Make the `Telling` that the options ask for. Raises UserError for what could only fail later."""
    from gpusim.driver.outputs.outputs import REPORT_LIMIT, Telling
    from gpusim.host.options import CHECKS

    first, last = _numbers(options.launch)
    try:
        re.compile(options.kernel)
    except re.error as error:
        raise UserError(f"--kernel {options.kernel}: no regular expression: {error}") from None
    if options.mode == "functional" and (options.report or options.trace):
        raise UserError("--report and --trace show times, which a functional run has none of")
    if options.trace is not None:
        check_writable(options.trace, "--trace", ENDING)
    if (save := getattr(options, "save", None)) is not None:
        check_writable(save, "--save")
    _check_report(options)
    names = names_of(options.check)
    limit = options.report_limit if options.report_limit is not None else REPORT_LIMIT
    return Telling(
        report=options.report,
        sections=tuple(options.sections),
        report_limit=limit,
        trace=options.trace,
        save=save,
        check=tuple(name for name in CHECKS if name != "memcheck") if names == ["all"] else tuple(names),
        kernel=options.kernel,
        first=first,
        last=last,
    )


def _check_report(options: argparse.Namespace) -> None:
    if options.report is None:
        for name, value in (("--section", options.sections), ("--report-limit", options.report_limit)):
            if value:
                raise UserError(f"{name} says what --report DIR writes, which is missing")
        return
    from gpusim.report_html.sections import NAMES

    if unknown := [name for name in options.sections if name not in NAMES]:
        raise UserError(f"--section {unknown[0]}: there are {', '.join(NAMES)}")
    if options.report_limit is not None and options.report_limit < 1:
        raise UserError(f"--report-limit must be positive, got {options.report_limit}")
    Path(options.report).mkdir(parents=True, exist_ok=True)


def _numbers(text: str | None) -> tuple[int, int | None]:
    """First and last number of '7', '7-12' or '7-'."""
    if text is None:
        return 1, None
    found = _NUMBERS.fullmatch(text)
    first = int(found[1]) if found else 0
    last = first if found and not found[2] else int(found[3]) if found and found[3] else None
    if first < 1 or (last is not None and last < first):
        raise UserError(f"--launch is a number, from 1, or two such as 7-12, not {text!r}")
    return first, last


def execute_replay(options: argparse.Namespace) -> int:
    """Run saved launches again. A kernel that fails, or in which checks find something, is a mistake."""
    from gpusim.cli.progress import announce_compilation
    from gpusim.config import load_config
    from gpusim.driver.outputs.replay import Replay
    from gpusim.driver.outputs.saved import SavedLaunches

    check_limits(options)
    telling = telling_of(options)
    with SavedLaunches(options.file) as saved:
        config = load_config(options.gpu or saved.config(), options.overrides)
        announce_compilation()
        limits = {"threads": options.threads, "max_cycles": options.max_cycles}
        with Replay(saved, config, telling, node=options.node, mode=options.mode, **limits) as replay:
            log = replay.run()
    if not options.no_report:
        print_tables([_table(log)], options.json, options.output)
    return EXIT_USER_ERROR if log.wrong else EXIT_OK
