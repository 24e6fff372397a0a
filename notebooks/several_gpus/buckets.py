"""Buckets: gradients are summed in a second stream, a bucket at a time, while the layers before them are computed."""

import numpy as np
from numba import cuda
from ranks import run


@cuda.jit
def backward(gradient, step):
    for k in range(cuda.grid(1), gradient.size, cuda.gridsize(1)):
        value = np.float32(step)
        for _ in range(200):
            value = value * np.float32(0.5) + np.float32(1)
        gradient[k] = value


def main(comm):
    compute, sums = cuda.stream(), cuda.stream()
    buckets = [cuda.device_array(1 << 18, np.float32, stream=compute) for _ in range(4)]
    for step, gradient in enumerate(buckets):
        backward[264, 256, compute](gradient, step)
        ready = cuda.event()
        ready.record(compute)
        ready.wait(sums)
        comm.all_reduce(gradient, gradient, stream=sums)
    sums.synchronize()
    assert all((each.copy_to_host() == 2 * comm.ranks).all() for each in buckets)


if __name__ == "__main__":
    run(main)
