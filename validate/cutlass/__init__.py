"""Products by CUTLASS: `cases` (which kernels, as template parameters, and what each is launched on), `*.cu` (our text
around its headers), and `build`, which compiles them and asks their host code for the launch, without a GPU.
`h200.json` is what an H200 counted.
"""
