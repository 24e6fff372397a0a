"""What all tests share: how Hypothesis runs, what a process may hold, and a fixture for tests that compile kernels."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from isa.errors import ToolchainMissing
from isa.toolchain import find_nvrtc, find_tool, numba_version

# The same examples in every run, and no limit on one example's time, most of which is compilation on a first run.
# HYPOTHESIS_PROFILE=default searches at random instead, twice as long.
settings.register_profile("ci", derandomize=True, deadline=None, max_examples=50)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

os.environ["MPLBACKEND"] = "Agg"  # pictures go to files

# What a shell starts in the background ignores Ctrl-C, and so does what that starts: here it has to arrive.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


LONGEST = (
    *("test_notebooks", "gpusim/test_sweep_run", "gpusim/test_blas", "oracle/test_oracle", "gpusim/test_lab"),
    *("gpusim/test_overlap", "validate/test_microbench", "gpusim/test_exec", "gpusim/test_report_browser"),
    *("gpusim/test_accel_sim", "isa/test_corpus", "validate/test_replay"),
    *("validate/test_images", "validate/test_streams_compare", "gpusim/test_stream_order"),
    *("gpusim/test_launch_cost", "isa/test_cuda", "gpusim/test_script", "gpusim/test_numba_corpus"),
    *("gpusim/test_bound", "test_nodes_document", "gpusim/test_published", "gpusim/test_other_gpus"),
    *("gpusim/test_findings", "gpusim/test_plot", "programs/test_cuda_sources", "gpusim/test_replay"),
    *("gpusim/test_cli", "gpusim/test_parallel", "gpusim/test_parameters", "gpusim/test_telling"),
    *("gpusim/test_node_keys", "gpusim/test_bulk_forms", "gpusim/test_pools", "validate/test_generated"),
    *("gpusim/test_managed", "gpusim/test_cli_examples", "gpusim/test_memory_system", "isa/test_library"),
    *("gpusim/test_nvcc", "validate/test_managed", "gpusim/test_node_peer", "isa/test_compile"),
)
"""Files of which each process begins one first, so that none works alone on one in the end."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    order = {f"tests/{name}.py": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.nodeid.partition("::")[0], len(LONGEST)))


def pytest_collection_finish() -> None:
    """What is imported and collected stays: to walk through it at the end of each file takes a third of a second."""
    gc.collect()
    gc.freeze()


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


MOST_GB = 2.0
"""What a test may add to the memory that its process holds: two of them have to fit a small machine."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Notes what the process holds before a test."""
    item.stash[_HELD] = held_gb(), peak_gb()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Fails a test that has added too much, in this process or in one that it started and waited for.

    What the tests before it have left behind does not count, since their order is another each time.
    """
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")
    if (nextitem is None or nextitem.path != item.path) and held_gb() > 1:
        give_back()
    held, before = item.stash[_HELD]
    added = peak_gb() - held
    assert peak_gb() == before or added <= MOST_GB, f"the test has taken {added:.1f} GB, more than {MOST_GB}"


_HELD = pytest.StashKey[tuple[float, float]]()


def give_back() -> None:
    """Gives memory back that was freed: of what comes in small pieces, the C library keeps a gigabyte in an hour.

    What is left after a file are modules and caches, which later calls need not walk through.
    """
    gc.collect()
    gc.freeze()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def held_gb() -> float:
    """The memory that this process holds, in GB; 0 where nobody tells."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e9 if statm.exists() else 0.0


def peak_gb() -> float:
    """The most memory that this process or one of its children has held, in GB; 0 where nobody tells."""
    if sys.platform != "linux":
        return 0.0
    import resource

    return max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1e6
