"""Kernels by the thousand, to find what no hand-written test thinks of.

`tree.py` is a small language of kernels, `build.py` grows a program in it from random numbers, and `emit.py` writes it
as CUDA C++. `archive.py` reads what an H200 made of some 1,250 of them and of 32 ordinary kernels of the kind that
people write: outputs and counters, with the machine code, and compares; and ten thousand more, kept by their seeds.
"""
