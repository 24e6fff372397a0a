"""Persisting accesses of L2: kernels, an H200's counters of them, and their comparison with the simulator.

`kernels.cubin` is `kernels.cu` by nvcc 13.0 for sm_90 (the load in its kernel `descriptor` was moved by hand to the
word in front of the parameters). `compare.py` makes the launches that ncu counted on an H200 (`results/h200.json`) on a
simulated one. The file holds further experiments, which looked for lines in L2 by the time of loads; docs/streams.md
says what they found.
"""
