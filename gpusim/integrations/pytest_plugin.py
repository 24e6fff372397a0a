"""Run a test suite that uses Numba CUDA on a simulated GPU.

The command: `pytest -p gpusim.integrations.pytest_plugin [--gpusim-gpu NAME]`.

The driver is installed before any test module or conftest.py is imported. What the tests launched, and how long it
would have taken, is printed at the end with `--gpusim-report`.
"""

from __future__ import annotations

from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("gpusim", "simulated GPU")
    group.addoption(
        "--gpusim-gpu", default="h200", metavar="NAME", help="shipped configuration or a TOML file (default: h200)"
    )
    group.addoption(
        "--gpusim-set", action="append", default=[], metavar="KEY=VALUE", help="change the configuration"
    )
    group.addoption("--gpusim-report", action="store_true", help="print what was launched at the end")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Install the driver first of all."""
    from gpusim.driver.numba_cuda import install

    options = early_config.known_args_namespace
    install(options.gpusim_gpu, overrides=options.gpusim_set)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the table of launches."""
    from gpusim.driver.numba_cuda import current

    driver = current()
    if driver is not None and terminalreporter.config.getoption("--gpusim-report"):
        driver.finish()
        terminalreporter.section("simulated GPU")
        terminalreporter.write_line(driver.log.render())
