"""What all tests share: how Hypothesis runs, and a fixture for tests that compile kernels."""

from __future__ import annotations

import os
import sys

import pytest
from hypothesis import settings

from isa.errors import ToolchainMissing
from isa.toolchain import find_nvrtc, find_tool, numba_version

# The same examples in every run, and no limit on one example's time, most of which is compilation on a first run.
# HYPOTHESIS_PROFILE=default searches at random instead.
settings.register_profile("ci", derandomize=True, deadline=None)
# For runs without compilation, which take a hundred times as long: see tests/measure_branches.py.
settings.register_profile("interpreted", derandomize=True, deadline=None, max_examples=20)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def toolchain() -> None:
    """Skips a test where the vendor's compiler and disassembler are not installed.

    On a Linux machine that calls itself CI they have to be there: a run that skips them would prove nothing.
    """
    try:
        find_tool("ptxas")
        find_tool("nvdisasm")
        find_nvrtc()
        numba_version()
    except ToolchainMissing as missing:
        if sys.platform == "linux" and os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
