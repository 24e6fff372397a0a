"""Races are told by array and index, where a kernel's arrays lie is what the engine's addresses say."""

import numpy as np
import pytest
from numba import cuda, float32, int32

import gpusim
import isa
from gpusim.errors import DataRaceError
from gpusim.host.shared_arrays import shared_arrays, shared_element

pytestmark = pytest.mark.usefixtures("toolchain")
SIDE = 33
SOURCE = """
#define SIDE 33
const int ROWS = 4;
__global__ void k(float *x, int which) {
  __shared__ char c[39];
  __shared__ float tile[ROWS][SIDE];
  __shared__ double sum;
  __shared__ float4 wide[32];
  extern __shared__ float dynamic[];
  int t = threadIdx.x;
  c[t] = t; tile[2][t] = x[t]; dynamic[t] = 3; wide[t].z = t; if (t == 5) sum = x[t];
  if (which == 0) x[t] = tile[2][(t + 1) % 32];
  else if (which == 1) x[t] = dynamic[(t + 9) % 32];
  else if (which == 2) x[t] = sum;
  else if (which == 3) x[t] = wide[(t + 1) % 32].z;
  else x[t] = c[(t + 3) % 32];
}
__global__ void other(float *x) { __shared__ float more[64]; more[threadIdx.x] = x[0]; x[1] = more[3]; }
"""


def race(kernel, *args):
    with pytest.raises(DataRaceError) as found:
        gpusim.simulate(kernel, 1, 32, args, gpu="tiny", check="racecheck", shared_bytes=512)
    return found.value


def several(x, which):
    first = cuda.shared.array(5, int32)
    tile = cuda.shared.array((4, SIDE), float32)
    other = cuda.shared.array(shape=64, dtype=int32)
    dynamic = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    if t < 5:
        first[t] = t
    tile[2, t] = x[t]
    other[t] = t
    dynamic[t] = 3
    if which == 0:
        x[t] = tile[2, (t + 1) % 32]
    elif which == 1:
        x[t] = other[(t + 1) % 32]
    elif which == 2:
        x[t] = dynamic[(t + 1) % 32]


@pytest.mark.parametrize(("which", "array"), [(0, "tile[2, 1]"), (1, "other[1]"), (2, "dynamic[1]")])
def test_a_race_in_python_names_array_and_index(which, array):
    error = race(several, np.ones(32, np.float32), which)
    assert error.array == array and f"shared read of 4 bytes at {array}, address 0x" in str(error)
    assert error.thread == (0, 0, 0) and error.other_thread == (1, 0, 0)


@pytest.mark.parametrize(
    ("which", "array"), [(0, "tile[2, 1]"), (1, "dynamic[9]"), (2, "sum"), (3, "wide[1]"), (4, "c[3]")]
)
def test_a_race_in_cuda_names_array_and_index(tmp_path, which, array):
    (tmp_path / "k.cu").write_text(SOURCE)
    error = race(isa.load(tmp_path / "k.cu", entry="k"), np.ones(32, np.float32), np.int32(which))
    assert error.array == array and f" at {array}, address 0x" in str(error)


def test_places_are_those_that_the_machine_code_uses(tmp_path):
    """The kernel stores the address of each array itself."""
    (tmp_path / "at.cu").write_text(
        """
__global__ void at(unsigned *x, int n) {
  __shared__ short s[9]; __shared__ int i[2][3]; __shared__ double d[3]; __shared__ char c[5]; __shared__ float4 v[2];
  int t = threadIdx.x;
  s[t] = x[t]; i[0][t] = x[t]; d[t] = x[t]; c[t] = x[t]; v[t].x = x[t];
  __syncthreads();
  x[0] = (unsigned)__cvta_generic_to_shared(s) + s[n]; x[1] = (unsigned)__cvta_generic_to_shared(i) + i[0][n];
  x[2] = (unsigned)__cvta_generic_to_shared(d) + d[n]; x[3] = (unsigned)__cvta_generic_to_shared(c) + c[n];
  x[4] = (unsigned)__cvta_generic_to_shared(v) + v[n].x;
}
"""
    )
    program = isa.load(tmp_path / "at.cu", entry="at")
    x = np.zeros(8, np.uint32)
    gpusim.simulate(program, 1, 1, (x, np.int32(0)), gpu="tiny")
    arrays = shared_arrays(program)
    assert [array.name for array in arrays] == ["s", "i", "d", "c", "v"]
    assert [array.start + program.shared_base for array in arrays] == x[:5].tolist()
    assert [array.extents for array in arrays] == [(9,), (2, 3), (3,), (5,), (2,)]
    assert shared_element(program, int(x[1]) + 16, 4) == "i[1, 1]"
    assert shared_element(program, program.shared_base + 100_000, 4) is None


def test_a_program_without_its_text_names_no_array(tmp_path):
    (tmp_path / "k.cu").write_text(SOURCE)
    program = isa.load(tmp_path / "k.cu", entry="k")
    assert shared_element(program, program.shared_base, 1) == "c[0]"
    assert shared_element(program.but(cubin=b""), program.shared_base, 1) is None
    assert shared_element(program.but(static_shared_bytes=4096), program.shared_base, 1) is None, "it is another's text"
