"""Reduce-scatter: of the sum of what all have every GPU gets its piece, as gradients where parameters are sharded."""

import numpy as np
from numba import cuda
from ranks import run

PIECE = 1 << 16


def main(comm):
    gradients = cuda.to_device(np.repeat(np.arange(comm.ranks, dtype=np.float32), PIECE))
    piece = cuda.device_array(PIECE, np.float32)
    comm.reduce_scatter(gradients, piece)
    assert (piece.copy_to_host() == comm.ranks * comm.rank).all()


if __name__ == "__main__":
    run(main)
