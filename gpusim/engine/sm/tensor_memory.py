"""What the engine calls of `gpusim.tensor_memory`, a room after it: by name, so that neither is compiled with the other
and a program without such instructions has no part of it."""

from gpusim.engine.state.jit import declared

_ROOM = "gpusim.tensor_memory.execute"


@declared("gpusim.tensor_memory.matrices")
def byte_matrices(st, sm, i, wb, base, mask):
    """Executes LDSM or STSM of bytes."""


@declared(_ROOM)
def tmem_access(st, sm, q, w, i, wb, time):
    """Executes an instruction on tensor memory."""


@declared(_ROOM)
def tmem_effect(st, sm, entry, time):
    """One that has had to wait for the end of its window takes effect."""


@declared(_ROOM)
def tmem_begin(st, sm, slot):
    """A block starts."""


@declared(_ROOM)
def tmem_end(st, sm, w):
    """The last warp of a block has ended."""
