"""Programs on the simulated driver. A driver library stays in a process for good, so each runs in one of its own."""

from __future__ import annotations

import os
import subprocess
import textwrap

from tests import forks

HEAD = """
import warnings
warnings.simplefilter("ignore")
import numpy as np
import gpusim.driver.numba_cuda
driver = gpusim.driver.numba_cuda.install("tiny", threads=1)
"""


def run(code: str, *, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a program behind HEAD; its exit status must be as expected."""
    done = forks.run("-c", HEAD + textwrap.dedent(code), env=os.environ | {"PYTHONPATH": str(forks.ROOT)})
    assert done.returncode == status, done.stdout + done.stderr
    return done
