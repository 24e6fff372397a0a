"""The fixture `gpusim_pin`, for tests of repositories that use gpusim: a kernel stays near what was measured.

It is there wherever gpusim is installed, since pytest finds it by itself; docs/diff.md shows how it is used. Nothing
heavy is imported until a test asks for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import gpusim


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gpusim-pages", default="gpusim-pins", metavar="DIR", help="pages of pins that fail")


@pytest.fixture
def gpusim_pin(request: pytest.FixtureRequest) -> Any:
    """Simulates a launch and fails the test unless its cycles and counters are near what was measured; see
    `gpusim.integrations.pin.Pin`, which is called with these arguments."""
    from gpusim.errors import SimulationError
    from gpusim.integrations.pin import Pin

    def pin(*args: Any, **options: Any) -> gpusim.Result:
        pages = request.config.rootpath / Path(request.config.getoption("--gpusim-pages"))
        try:
            return Pin(request.path.parent, pages, request.node.name)(*args, **options)
        except SimulationError as error:
            why = str(error)
        pytest.fail(f"gpusim_pin: {why}", pytrace=False)  # not while the error is handled: it would be told twice

    return pin
