"""Broadcast: every GPU gets what one has, as parameters at the start of training."""

import numpy as np
from numba import cuda
from ranks import run


def main(comm):
    parameters = cuda.to_device(np.full(1 << 18, comm.rank, np.float32))
    comm.broadcast(parameters, root=2 % comm.ranks)
    assert (parameters.copy_to_host() == 2 % comm.ranks).all()


if __name__ == "__main__":
    run(main)
