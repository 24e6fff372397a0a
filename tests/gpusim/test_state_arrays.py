"""The table of the state's arrays: a row is all that an array needs, and names of columns tell them apart."""

import numpy as np

from gpusim.engine import launch_state
from gpusim.engine.describe import describe
from gpusim.engine.grid import Seat
from gpusim.engine.state import layout as L
from gpusim.engine.state.arrays import ARRAYS, SMS, Array, Clear, Record, State, fields_of
from tests.gpusim.test_pools import idle_state


def test_a_row_is_all_that_an_array_needs(monkeypatch):
    """It is allocated, cleared for SMs that get a block (one of two here), shared by launches, and described."""
    probe = Array(
        "probe", np.int64, ("sms", 3, Record("MSHR_", L.MSHR_FIELDS)), SMS, "probes", (Clear(0), Clear(7, L.MSHR_LINE))
    )
    arrays = (*ARRAYS, probe)
    probed = type("Probed", (State,), {"ARRAYS": arrays, "FIELDS": fields_of(arrays)})
    monkeypatch.setattr(launch_state, "State", probed)
    spare = launch_state.Spare()
    monkeypatch.setattr(launch_state, "Spare", lambda: spare)
    first = idle_state()[0]
    first.probe[:] = 5
    again = idle_state()[0]
    assert again.probe.shape == (2, 3, L.MSHR_FIELDS)
    assert (again.probe[0, :, L.MSHR_LINE] == 7).all() and (again.probe[1] == 5).all()
    assert not np.delete(again.probe[0], L.MSHR_LINE, axis=1).any()
    again.probe[0, 1, L.MSHR_TOKEN + 2] = 9
    assert "\nprobes: 3\n  0: line 7\n  1: line 7, token[2] 9\n" in describe(again, 0)
    assert idle_state(Seat(1, again))[0].probe is again.probe


def test_every_column_has_a_name_of_its_own():
    records = [part for each in ARRAYS for part in each.shape if isinstance(part, Record)]
    for record in records:
        assert len(set(record.names)) == record.width, record.prefix


def test_columns_of_one_name_are_numbered():
    assert Record("WARP_", L.WARP_FIELDS).names[L.WARP_PENDING + 2] == "pending[2]"
    assert Record("MSHR_", L.MSHR_FIELDS).names[-1] == "token[9]"
