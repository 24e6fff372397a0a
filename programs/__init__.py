"""Small CUDA programs that each show one property of a GPU, written once, for Numba, and run everywhere.

Reading order: `vector_add` (the simplest program), `variant` (what a program consists of, and `ladder`, which makes
the variants of a family), `registry` (how programs are found), then any family: `reduction`, `transpose` and
`matmul` (with `matmul_register` and `matmul_tensor`) are ladders in which every step removes one cost, `divergence`
and `bank_conflict` turn a single knob, `softmax`, `attention`, `fusion` and `recompute` are what neural networks
are made of. `warp` has sums over the lanes of a warp for kernels to call, `ptx` the instructions that Numba has no
function for. What Numba cannot say at all is CUDA C++, in `cuda/`: `matmul_hopper`, `matmul_blackwell`, `matmul_fp4`,
`flash_attention`, the programs for clusters, and `layer`, which has the kernels of a model's layer for
`gpusim.parallel`; `matmul_library` launches those of `gpusim.driver.libraries.blas`.

To add a program, add one file here with functions `make` and `reference` and a tuple `VARIANTS`; `registry` finds it,
and with it the command line, the tests and the hardware validation. Nothing else in this folder imports the simulator:
only NumPy, `numba.cuda` and `gpusim.launch`.
"""
