"""Every parameter of an SM, of its caches of instructions and constants, and of launches matters: `parameter_rows`."""

import pytest

from tests.gpusim.parameter_rows import SM_ROWS


@pytest.mark.parametrize("row", SM_ROWS, ids=str)
def test_a_change_has_its_effect(row):
    row.check()
