"""All-gather: every GPU gets the pieces of all, as sharded parameters before a layer."""

import numpy as np
from numba import cuda
from ranks import run

PIECE = 1 << 16


def main(comm):
    piece = cuda.to_device(np.full(PIECE, comm.rank, np.float32))
    parameters = cuda.device_array(comm.ranks * PIECE, np.float32)
    comm.all_gather(piece, parameters)
    assert (parameters.copy_to_host() == np.repeat(np.arange(comm.ranks), PIECE)).all()


if __name__ == "__main__":
    run(main)
