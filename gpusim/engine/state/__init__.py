"""What the engine's state is made of, and how code over it is compiled.

Read `layout` (the arrays of the SMs and their fields), `memory` (those of the memory system), `table` (how compiled
code reaches them), `jit` (how it is compiled and kept), then `bits`, `address_map` and `log`.
"""
