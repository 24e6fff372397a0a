"""All-reduce: every GPU gets the sum of what all have."""

import numpy as np
from numba import cuda
from ranks import run


def main(comm):
    mine = cuda.to_device(np.full(1 << 18, comm.rank + 1, np.float32))
    total = cuda.device_array_like(mine)
    comm.all_reduce(mine, total)
    assert (total.copy_to_host() == comm.ranks * (comm.ranks + 1) / 2).all()


if __name__ == "__main__":
    run(main)
