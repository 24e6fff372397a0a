"""What the host does around a run.

Read `options` (what may be said of a run), `lowering` (the program's rows), `runner` (from state to record), `fault` (a
stopped machine, in the user's words), `syscalls` and `printf` (what a driver provides to kernels).
"""
