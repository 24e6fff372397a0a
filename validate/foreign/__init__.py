"""Kernels that others' compilers and templates make (Triton, CUTLASS): launched, counted, simulated and compared.

What is not ours is built when it is needed and never stored: the repository holds the list of kernels, how to build
them, and what an H200 counted. Read `launch` (a launch as plain values), `worker` (runs on a machine with a GPU, with
NumPy alone), `recording` (jobs for it, and what is kept of their results), then `compare`.
"""
