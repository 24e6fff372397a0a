"""Microbenchmarks: kernels that isolate one mechanism of the GPU each, measured on real ones and simulated.

Reading order: `bench.py` (what a benchmark is), `asm.py` (instructions that Numba has no word for), then by unit
`pipes.py`, `issue.py`, `registers.py`, `control.py`, `frontend.py`, `start.py`, `constants.py`, `queues.py`,
`pairs.py`, `shared.py`, `l1.py`, `chase.py` with `l2.py` and `dram.py`, `atomics.py`, `launch.py`, all listed in
`suite.py`.
`images.py` keeps their machine code, `measure.py` runs it on a GPU, `results.py` holds what came out, `simulate.py` and
`compare.py` set the simulator against it, `calibrate.py` makes values of the configuration of it. `command.py` has the
command lines.
"""
