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
driver = gpusim.driver.numba_cuda.install(GPU, threads=1)
def names():  # kernels that have run
    return {group.symbol for group in driver.log.groups.values()}
"""


def run(code: str, *, head: str = "", status: int = 0, gpu: str = "tiny") -> subprocess.CompletedProcess[str]:
    """Run a program behind HEAD and what its file has in front of all; its exit status must be as expected."""
    head, env = HEAD.replace("GPU", repr(gpu)) + head, os.environ | {"PYTHONPATH": str(forks.ROOT)}
    done = forks.run("-c", head + textwrap.dedent(code), env=env)
    assert done.returncode == status, done.stdout + done.stderr
    return done
