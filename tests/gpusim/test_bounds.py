"""The engine with its indices checked: that the check finds what it should, and with `make bounds` every program.

`make bounds` also runs the files of tests with the most kernels so: recorded corpora, checks, CUDA C++.
"""

import os
import subprocess
import sys

import pytest

from gpusim.engine.state.jit import BOUNDS_CHECK
from programs import registry
from tests.gpusim import bundled

MISSES = """
import numpy as np
from gpusim.engine.rows.lanes import load, store
from gpusim.engine.state.jit import compiled
from gpusim.engine.state.table import ArrayTable

class Table(ArrayTable):
    FIELDS = {"pool": (np.int64, 2), "regs": (np.uint32, 1)}

@compiled
def inlined(st, k):
    st.pool[1, k] = 1

@compiled
def called(st, k):
    row = st.pool[k]
    row[0] = 1

@compiled
def access(st, number, k):
    if number == 0:
        inlined(st, k)
    elif number == 1:
        called(st, k)
    else:
        store(st.regs, k, load(st.regs, k), 1)

regs = np.zeros(128, np.uint32)
st = Table(pool=np.zeros((2, 3), np.int64), regs=regs[-regs.ctypes.data // 4 % 16 :][:64])
for number, good, bad in ((0, (0, 2), (-1, 3)), (1, (0, 1), (-1, 2)), (2, (0, 32), (-32, 33, 64))):
    for k in good:
        access(st, number, k)
    for k in bad:
        try:
            access(st, number, k)
        except IndexError as error:
            print(error)
"""


def test_an_index_out_of_range_is_an_error_that_names_its_line(tmp_path):
    (tmp_path / "misses.py").write_text(MISSES)
    checked = {**os.environ, "GPUSIM_BOUNDS_CHECK": "1", "GPUSIM_CACHE_DIR": str(tmp_path)}
    ran = subprocess.run([sys.executable, "misses.py"], cwd=tmp_path, env=checked, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    places = (("misses.py:12", 1, "-1 of 3"), ("misses.py:12", 1, "3 of 3"), ("misses.py:16", 0, "-1 of 2"),
              ("misses.py:16", 0, "2 of 2"), ("misses.py:26", 0, "-32 of 64"), ("misses.py:26", 0, "64 of 64"),
              ("misses.py:26", 0, "64 of 64"))  # fmt: skip
    errors = [f"{line}: index out of range for axis {axis}" for line, axis, _ in places]
    values = [f"{error}: {value}" for error, (_, _, value) in zip(errors, places, strict=True)]
    assert sorted(ran.stdout.splitlines()) == sorted(errors + values)


@pytest.mark.skipif(not BOUNDS_CHECK, reason="without the check other tests run these: make bounds")
@pytest.mark.parametrize("name", registry.names())
def test_no_program_leaves_its_arrays(name):
    bundled.checked(name, "h200")
