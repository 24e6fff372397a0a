"""Pipeline: each GPU has a layer. A micro-batch goes from one to the next while the one before works on another."""

import numpy as np
from numba import cuda
from ranks import run


@cuda.jit
def layer(batch):
    k = cuda.grid(1)
    batch[k] = 2 * batch[k] + 1


def main(comm):
    expected = np.arange(1 << 14, dtype=np.float32)
    for _rank in range(comm.ranks):
        expected = 2 * expected + 1
    for _batch in range(6):
        batch = cuda.to_device(np.arange(1 << 14, dtype=np.float32))
        if comm.rank > 0:
            comm.receive(batch, comm.rank - 1)
        layer[128, 128](batch)
        if comm.rank < comm.ranks - 1:
            comm.send(batch, comm.rank + 1)
        else:
            assert (batch.copy_to_host() == expected).all()


if __name__ == "__main__":
    run(main)
