"""Any executable on a simulated GPU: its CUDA libraries are ours, and their calls are served by a process beside it.

`libraries.py` builds the libraries that the program loads, of `client.c` and a stub for each function; `wire.py` is a
connection of a thread of the program; `server.py` serves one process of the program; `program.py` starts the program
and a server for each of its processes that calls CUDA, and collects what they say at the end.

Why a process beside the program and not an interpreter inside it: docs/scripts.md.
"""
