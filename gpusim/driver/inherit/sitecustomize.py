"""Imported by Python at its start in programs under `gpusim exec`, whose PYTHONPATH begins with this folder: it has
modules of other packages changed that could not work otherwise (`gpusim.driver.when_imported`)."""

import atexit
import contextlib
import importlib.machinery
import importlib.util
import sys
import time
from pathlib import Path

_HERE = Path(__file__).resolve().parent


def _run_hidden() -> None:
    """Import the `sitecustomize` that this one hides, if there is one."""
    others = [entry for entry in sys.path if Path(entry or ".").resolve() != _HERE]
    found = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if found is not None and found.loader is not None:
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)


atexit.register(time.sleep, 0.02)  # the last: threads that wait for Python's lock get it before it ends (client.c)
_run_hidden()  # the machine's own settings come first
if importlib.util.find_spec("gpusim") is None:
    sys.path.append(str(_HERE.parents[2]))  # the last, so that it hides nothing
with contextlib.suppress(ImportError, SyntaxError):  # in a Python that is too old for this package
    from gpusim.driver import when_imported

    when_imported.watch()
