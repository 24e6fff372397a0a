"""Reduce: one GPU gets the sum of what all have, as a loss that is printed once."""

import numpy as np
from numba import cuda
from ranks import run


def main(comm):
    loss = cuda.to_device(np.array([0.5 * comm.rank], np.float32))
    total = cuda.to_device(np.zeros(1, np.float32))
    comm.reduce(loss, total, root=0)
    expected = sum(0.5 * rank for rank in range(comm.ranks)) if comm.rank == 0 else 0
    assert total.copy_to_host()[0] == expected


if __name__ == "__main__":
    run(main)
