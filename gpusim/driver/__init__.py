"""A CUDA driver in Python: what `libcuda.so.1` does on a machine with a GPU, done by a simulated one.

How a call gets here: `elf.py` (a shared library without a compiler), `library.py` (each of its functions a callback,
errors turned into codes), `registry.py` (the API as a table of names and signatures), then `api/`, one file for each
chapter of the CUDA Driver API's documentation. What they work on: `codes.py`, `objects.py` (what handles stand
for), `state.py` (the driver), `attributes.py` and `images.py` (what the device says of itself, what modules are loaded
from), `log.py` (what ran). Users take `numba_cuda.py`.

`work/` is what streams do: `streams.py` (pieces of work, graphs of them), `queues.py` (how they go into streams of the
device), `passing.py` (time passes while a call waits).

`outputs/` is what launches tell: `outputs.py` (the options), then the observers: `pages.py`, `timeline.py`, and
`saving.py` with its file in `saved.py`, which `replay.py` runs again. `images.py` loads modules;
`libraries/` is what lies over the driver or stands in for a library.
"""
