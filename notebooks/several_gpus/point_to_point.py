"""Point to point: every GPU sends to the next one and receives from the one before, all at once."""

import numpy as np
from numba import cuda
from ranks import run


def main(comm):
    after, before = (comm.rank + 1) % comm.ranks, (comm.rank - 1) % comm.ranks
    mine = cuda.to_device(np.full(1 << 18, comm.rank, np.float32))
    other = cuda.device_array_like(mine)
    with comm.group():
        comm.send(mine, after)
        comm.receive(other, before)
    assert (other.copy_to_host() == before).all()


if __name__ == "__main__":
    run(main)
