"""A lock on an open file that ends with the process, however that ends."""

from __future__ import annotations

import sys

_BYTE = 1 << 40
"""Windows locks bytes and keeps others from reading them: one far behind the end of every journal."""


def lock(descriptor: int, wait: bool) -> bool:
    """Lock an open file against other processes. wait: until it is free. False if it is taken."""
    if sys.platform == "win32":
        import msvcrt
        import os

        os.lseek(descriptor, _BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True
