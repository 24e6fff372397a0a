"""Kernels by the thousand, to find what no hand-written test thinks of.

`archive.py` reads what an H200 made of some 1,250 kernels that grew from random numbers, in Numba and as CUDA C++, and
of 32 ordinary kernels of the kind that people write: outputs and counters, with the machine code, and compares.
"""
