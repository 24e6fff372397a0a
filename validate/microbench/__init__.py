"""Microbenchmarks: kernels that isolate one mechanism of the GPU each, measured on real ones and simulated.

Reading order: `bench.py` (what a benchmark is, how a kernel becomes one, and all of them), `asm.py` (instructions that
Numba has no word for), then the units as `bench.py` lists them, from `pipes.py` on; `chase.py` has what those of the
memory system share.
`images.py` keeps their machine code, `measure.py` runs it on a GPU, `results.py` holds what came out, `compare.py` sets
the simulator against it, `calibrate.py` makes values of the configuration of it.
"""
