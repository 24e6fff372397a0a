"""Kernels in Triton: `kernels` (their text), `cases` (what each is launched on, with a NumPy reference), and `build`,
which compiles them with the Triton wheel, without a GPU. `h200.json` is what an H200 counted.
"""
