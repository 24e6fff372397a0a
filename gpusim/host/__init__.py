"""The host's part of a run.

Read `options` (what may be said of a run), `session` (a GPU and what its launches share), `fitting` (the
program's rows, and how a launch fits), `launch_run` (one launch, from the call to its record), `fault` (a stopped
machine, in the user's words), `syscalls` (what a driver provides to kernels).
"""
