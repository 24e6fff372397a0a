"""What the host does around a run.

Read `runner` (from state to record), `fault` (a stopped machine, in the user's words), `syscalls` and `printf` (what a
driver provides to kernels).
"""
