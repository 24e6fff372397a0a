"""Kernels that others' compilers and templates make (Triton, CUTLASS): launched, counted, simulated and compared.

Ours in Triton are built when they are needed; CUTLASS's lie in a folder that somebody has built, with a manifest of
their launches. The repository holds the list of kernels and what an H200 counted. Read `launch` (a launch as plain
values, and the manifest), `worker` (runs on a machine with a GPU), `recording` (jobs for it, and what is kept of their
results), then `compare` and `command`.
"""
