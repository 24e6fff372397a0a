"""Kernels in Triton, counted on an H200 and simulated.

`kernels` is their text, `cases` what each is launched on, with a NumPy reference. `work` has arrays, and a launch as it
was built, `worker` runs on a machine with a GPU, `command` compiles with the Triton wheel, without a GPU, and compares.
`h200.json` is what an H200 counted.
"""
