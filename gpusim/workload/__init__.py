"""From a name, a file or a script to something that can be simulated and checked.

Reading order: `request` (what is asked for, as plain values), `target` (how arguments are spelled, and the
kernel, out of a Python file too, with its arguments, ready to launch, and whether what it computed is right).
The command line, sweeps and validation all come here; nothing of it knows their options.
"""
