"""Imported by Python at its start where `gpusim.driver.numba_cuda.environment` has put this folder on the path."""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path


def _run_hidden() -> None:
    """Import the `sitecustomize` that this one hides, if there is one."""
    here = Path(__file__).resolve().parent
    others = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    found = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if found is not None and found.loader is not None:
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)


_run_hidden()

import gpusim.driver.numba_cuda  # noqa: E402 - the machine's own settings come first

gpusim.driver.numba_cuda.install_from_environment()
