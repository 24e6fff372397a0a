"""What L2 keeps when it is told to: kernels, what an H200 did with them, and the comparison.

`kernels.cubin` is `kernels.cu` by nvcc 13.0 for sm_90 (the load in its kernel `descriptor` was moved by hand to the
word in front of the parameters). Read `measure.py` (regions of memory of a GPU, real or simulated, and launches, which
it counts on a GPU), `compare.py`. `results/h200.json` holds further experiments, which looked for lines in L2 by the
time of loads; docs/streams.md says what they found.
"""
