"""Every parameter matters, and none is without a row: `parameter_rows`. Those of the energy are in `test_energy.py`."""

import pytest

from gpusim.config import describe_keys
from tests.gpusim.parameter_rows import ROWS


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_change_has_its_effect(row):
    row.check()


def test_every_parameter_has_a_row():
    assert {row.key for row in ROWS} == {key for key in describe_keys() if not key.startswith("energy.")}
