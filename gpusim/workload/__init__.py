"""From a name, a file or a script to something that can be simulated and checked.

Reading order: `request` (what is asked for, as plain values), `spec` (how arguments are spelled), `source` (a kernel
out of a Python file), `target` (the kernel with its arguments, ready to launch, and whether what it computed is right).
The command line, sweeps and validation all come here; nothing of it knows their options.
"""
