"""The bytes behind device memory: a reservation that costs nothing until written, and a way back to what it held.

`keep` lays a private view over the bytes, in which the host's kernel copies each page when it is first written: a way
back costs what is written, however much memory is live. `accept` takes the written pages over, `undo` drops them.
Addresses do not change, so NumPy's views stay what they are. It takes Linux: a memory file, and /proc/self/pagemap to
tell written pages. A process that is forked shares the bytes with its parent, as it shares a real device's.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np

_PAGEMAP, _OVERCOMMIT = Path("/proc/self/pagemap"), Path("/proc/sys/vm/overcommit_memory")
#: Bits of a page's entry: in memory or swapped out; still a page of the file (Linux, admin-guide/mm/pagemap).
_THERE, _OF_FILE = np.uint64(3 << 62), np.uint64(1 << 61)
_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
_FIXED, _FIXED_NOREPLACE = 0x10, 0x100000  # Linux; the second fails rather than replace what lies there
_REMOVE, _POPULATE_WRITE = 9, 23  # of Linux's MADV_*; the second since 5.14
_SMALLEST = 64 << 20
_MOST_AT_ONCE = 1 << 30  # bytes of a write; Linux takes 2 GB at most

_library = ctypes.CDLL(None, use_errno=True)
_library.mmap.restype = ctypes.c_void_p
_library.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_ssize_t)
_library.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class Arena:
    """Zeroed memory of the host, less than asked for if it refuses so much.

    wanted: where it is to lie if nothing lies there; it then stays until the process ends, as pointers into it may, and
        `file`, where the host has such files, is memory that another process may map at the same place.
    undoable: `keep` may be asked for; `can_keep` says whether the host can.
    """

    def __init__(self, nbytes: int, wanted: int | None = None, undoable: bool = False):
        self.can_keep = undoable and _can_keep()
        self._kept = False
        self.file = -1
        if self.can_keep or (wanted is not None and hasattr(os, "memfd_create")):
            self.file = os.memfd_create("gpusim")
            weakref.finalize(self, os.close, self.file)
        size = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        while True:
            try:
                self.bytes = np.frombuffer(self._reserve(size, wanted), np.uint8)
                break
            except (OSError, OverflowError, ValueError):
                if size <= _SMALLEST:
                    raise
                size = max(_SMALLEST, size // 2 // mmap.PAGESIZE * mmap.PAGESIZE)
        self.address = self.bytes.ctypes.data

    def _reserve(self, nbytes: int, wanted: int | None) -> Any:
        if self.file < 0:
            return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
        os.ftruncate(self.file, nbytes)
        if wanted is not None and map_shared(wanted, nbytes, self.file):
            return (ctypes.c_uint8 * nbytes).from_address(wanted)
        return mmap.mmap(self.file, nbytes, flags=mmap.MAP_SHARED | _NORESERVE)

    def keep(self) -> None:
        """Remember the contents, until `accept` or `undo`."""
        self._remap(mmap.MAP_PRIVATE)
        self._kept = True

    def copy_ahead(self, start: int, nbytes: int) -> None:
        """Copy a range's pages at once, if the host can: each when it is written takes ten times as long."""
        first = start // mmap.PAGESIZE * mmap.PAGESIZE
        _library.madvise(self.address + first, start + nbytes - first, _POPULATE_WRITE)

    def accept(self, start: int, nbytes: int) -> int:
        """Make what was written to a range since `keep` last; returns the bytes that were copied. `undo` follows."""
        first, pages = start // mmap.PAGESIZE, -(-(start + nbytes) // mmap.PAGESIZE) - start // mmap.PAGESIZE
        with open(_PAGEMAP, "rb", buffering=0) as pagemap:
            pagemap.seek(8 * (self.address // mmap.PAGESIZE + first))
            entries = np.frombuffer(pagemap.read(8 * pages), np.uint64)
        written = np.flatnonzero((entries & _THERE != 0) & (entries & _OF_FILE == 0)) + first
        for run in np.split(written, np.flatnonzero(np.diff(written) > 1) + 1) if written.size else ():
            at, end = int(run[0]) * mmap.PAGESIZE, (int(run[-1]) + 1) * mmap.PAGESIZE
            while at < end:
                at += os.pwrite(self.file, self.bytes[at : min(end, at + _MOST_AT_ONCE)].data, at)
        return len(written) * mmap.PAGESIZE

    def undo(self) -> None:
        """Back to the contents at `keep`, but for what was accepted."""
        self._remap(mmap.MAP_SHARED)
        self._kept = False

    def _remap(self, how: int) -> None:
        if not _map(self.address, self.bytes.size, how | _FIXED | _NORESERVE, self.file):
            raise OSError(ctypes.get_errno(), "the host does not map device memory again")

    def next_written(self, start: int) -> int:
        """Offset of the first byte from `start` on that may be anything but zero, as far as the host tells by pages."""
        if self.file < 0 or self._kept:
            return start
        try:
            return max(start, os.lseek(self.file, start, os.SEEK_DATA))
        except OSError:  # nothing follows
            return self.bytes.size

    def discard(self, start: int, end: int) -> None:
        """Give whole pages inside a range back to the host; between `keep` and its end they stay."""
        first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
        last = end // mmap.PAGESIZE * mmap.PAGESIZE
        if last > first and not self._kept:
            advice = _REMOVE if self.file >= 0 else mmap.MADV_DONTNEED
            _library.madvise(self.address + first, last - first, advice)


def map_shared(address: int, nbytes: int, file: int) -> bool:
    """Map a file of memory at an address; False if something lies there."""
    return _map(address, nbytes, mmap.MAP_SHARED | _NORESERVE | _FIXED_NOREPLACE, file)


def _map(address: int, nbytes: int, flags: int, file: int) -> bool:
    """Map memory at an address; False if the host puts it elsewhere or not at all."""
    got = _library.mmap(address, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, flags, file, 0)
    return bool(got == address)


def _can_keep() -> bool:
    """True if the host tells written pages, and promises more memory than it has."""
    try:
        return hasattr(os, "memfd_create") and os.access(_PAGEMAP, os.R_OK) and _OVERCOMMIT.read_text().strip() != "2"
    except OSError:
        return False
