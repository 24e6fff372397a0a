"""`gpusim pin`: the pins of a file without pytest."""

from __future__ import annotations

import argparse
import inspect
import traceback
from pathlib import Path

from gpusim.cli.parser import EXIT_MISMATCH, EXIT_OK, UserError


def execute(options: argparse.Namespace) -> int:
    from gpusim.cli.progress import announce_compilation
    from gpusim.errors import SimulationError
    from gpusim.integrations.pin import Pin
    from gpusim.workload.target import import_file

    found = {name: each for name, each in vars(import_file(options.file)).items() if name.startswith("test")}
    pins = {name: each for name, each in found.items() if [*inspect.signature(each).parameters] == ["gpusim_pin"]}
    if not pins:
        raise UserError(f"{options.file} has no function test_...(gpusim_pin)")
    announce_compilation()
    failed = 0
    for name, each in pins.items():
        try:
            each(Pin(Path(options.file).parent, options.pages, name))
            print(f"ok      {name}")
        except Exception as error:  # whatever a test raises
            failed += 1
            at = traceback.extract_tb(error.__traceback__)[1]  # in the test itself
            where = f" ({type(error).__name__} at line {at.lineno}: {at.line})"
            print(f"FAILED  {name}: {error}{'' if isinstance(error, SimulationError) else where}")
    return EXIT_MISMATCH if failed else EXIT_OK
