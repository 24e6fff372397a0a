"""Tensor memory, what sm_100 and later of its kind have: 128 lanes of 512 columns of 32 bits in each SM (PTX: tcgen05).

Read `place` (where a cell lies, who has it, data movement), then `operand` (matrices in shared memory and their
elements), `product` (sums, and which lanes get them), and `execute`, which the engine calls by its name: nothing here
is compiled, or imported, for a program without these instructions.

There is no machine here to record. What an instruction does is the PTX ISA's word, with CUTLASS's layouts where that
has figures only (include/cute/atom/mma_traits_sm100_frag.hpp, copy_traits_sm100.hpp); how sums are rounded is that of
Xie et al., "MMA-Sim" (arXiv 2511.10909, 2025), who compared it with a B200 bit for bit. What neither says is marked
`assumed`.
"""
