"""Functions that a GPU's driver provides to kernels, served by the host: printf, malloc, free, assertions, and
conditions of graphs.

A call stops its warp (see `gpusim.engine.host_calls`). Its arguments lie where ptxas's calling convention puts them:
pointers and 64-bit numbers in even pairs of registers from R4 on, the result in R4 and R5. The calls of one lookahead
window are served in the order of cycle, SM, warp and lane, so the result does not depend on host threads.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from gpusim.engine.host_calls import sm_of
from gpusim.engine.sm.space import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from gpusim.engine.state import L, P
from gpusim.engine.state.arrays import State
from gpusim.errors import AssertionFailed, KernelError, MemoryAccessError, OutOfDeviceMemory
from gpusim.launch.memory import DeviceMemory
from isa import microops as M
from isa.link import SYSTEM_CALLS

HEAP_BYTES = 8 << 20
"""Device heap of malloc and new, cudaLimitMallocHeapSize by default (CUDA C++ Programming Guide)."""

_NAMES = {number: name for name, number in SYSTEM_CALLS.items()}
_STRING_LIMIT = 1 << 16
_HEAP_LABEL = "malloc in a kernel"


class SystemCalls:
    """State that kernels of one device share on the host: the device heap, and the destination of printf's text.

    memory: the device's memory. heap_bytes: what malloc can give at once, over all launches.
    write: takes the text of a launch when it ends; None for the standard output of that time. made: calls so far.
    """

    def __init__(self, memory: DeviceMemory, write: Callable[[str], Any] | None = None) -> None:
        self.memory, self.heap_bytes, self.write = memory, HEAP_BYTES, write
        self._heap_used = 0
        self.made: set[str] = set()
        self._text: list[str] = []

    def flush(self) -> None:
        """Write what kernels have printed, at the end of a launch."""
        text = "".join(self._text)
        self._text.clear()
        if text:
            write = self.write or sys.stdout.write
            write(text)
            if self.write is None:
                sys.stdout.flush()

    def serve(self, state: State, warps: np.ndarray, place: Callable[[int, int], dict[str, Any]]) -> None:
        """Serve the calls of warps, in the order given. `place` says where in the kernel a warp's lane is.

        Raises:
            AssertionFailed: a thread's assertion does not hold.
            MemoryAccessError: free of what malloc did not give, or a string that is not in memory.
        """
        version = self.memory.version
        self._heap_used = sum(each.nbytes for each in self.memory.allocations if each.label == _HEAP_LABEL)
        for w in warps:
            pc = int(state.warp[w, L.WARP_PC]) - 1
            name = _NAMES[int(state.code[pc, M.COL_AUX0])].strip("_")
            self.made.add(name)
            active = int(state.warp[w, L.WARP_ACTIVE])
            for lane in range(32):
                if active >> lane & 1:
                    try:
                        getattr(self, "_" + name)(Lane(state, self.memory, int(w), lane))
                    except KernelError as error:
                        KernelError.__init__(error, error.reason, **place(int(w), lane))  # which it did not know
                        raise
        if self.memory.version != version:
            tables = self.memory.tables()
            state.put("starts", tables.starts)
            state.put("ends", tables.ends)

    def _vprintf(self, lane: Lane) -> None:
        """int vprintf(const char *format, va_list arguments): the number of arguments, -1 without a format."""
        form, arguments = lane.pair(0), lane.pair(2)
        if form == 0:
            lane.give(0xFFFFFFFF)
            return
        text, count = printf(lane.string(form), lambda offset, size: lane.read(arguments + offset, size), lane.string)
        self._text.append(text)
        lane.give(count)

    def _malloc(self, lane: Lane) -> None:
        """void *malloc(size_t bytes): null when the device heap has no room."""
        nbytes = lane.pair(0)
        address = 0
        if nbytes and self._heap_used + nbytes <= self.heap_bytes:
            with suppress(OutOfDeviceMemory):
                address = self.memory.alloc(nbytes, _HEAP_LABEL)
                self._heap_used += nbytes
        lane.give(address & 0xFFFFFFFF, address >> 32)

    def _free(self, lane: Lane) -> None:
        """void free(void *address): a null pointer is left alone."""
        address = lane.pair(0)
        if address == 0:
            return
        block = self.memory.holding(address)
        if block is not None and block.address == address and block.label != _HEAP_LABEL:
            raise MemoryAccessError(
                "free of what malloc did not give", address=address, size=0, access="free",
                allocation=self.memory.describe(address),
            )  # fmt: skip
        self.memory.free(address)
        self._heap_used -= block.nbytes if block is not None else 0

    def _assertfail(self, lane: Lane) -> None:
        """void __assertfail(const char *message, const char *file, unsigned line, const char *function, size_t)."""
        message, file, function = (lane.string(lane.pair(k)) for k in (0, 2, 6))
        raise AssertionFailed(message, asserted_at=f"{file}:{lane.word(4)}", function=function)

    def _cuda_syscall_cp_async_bulk(self, lane: Lane) -> None:
        """Bulk copies to other blocks of a cluster, in code for compute capability 12.0."""
        raise KernelError("a bulk copy to another block of the cluster, done by the driver, is not modelled")


class Lane:
    """Registers and memory of one thread, as a function that it calls sees them."""

    def __init__(self, state: State, memory: DeviceMemory, warp: int, lane: int) -> None:
        self.state, self.memory, self.warp, self.lane = state, memory, warp, lane
        rows = int(state.par[P.CONST_ROWS]) + warp * int(state.par[P.ROWS_PER_WARP])
        self._first = 32 * (rows + 4) + lane

    def word(self, k: int) -> int:
        """Register R4 + k."""
        return int(self.state.regs[self._first + 32 * k])

    def pair(self, k: int) -> int:
        """The 64 bits in registers R4 + k and the next one."""
        return self.word(k) | self.word(k + 1) << 32

    def give(self, low: int, high: int | None = None) -> None:
        """Set the result: R4, and R5 where there are 64 bits."""
        self.state.regs[self._first] = low
        if high is not None:
            self.state.regs[self._first + 32] = high

    def read(self, address: int, nbytes: int) -> bytes:
        """Bytes at a generic address. Raises MemoryAccessError outside live memory."""
        par = self.state.par
        if LOCAL_WINDOW <= address < LOCAL_WINDOW + WINDOW_BYTES:
            offset, size = address - LOCAL_WINDOW, int(par[P.LOCAL_BYTES])
            mine = self.state.local8.reshape(-1, size // 4, 32, 4)[self.warp, :, self.lane].reshape(-1)
            return self._inside(mine, offset, nbytes, address, "local")
        if SHARED_WINDOW <= address < SHARED_WINDOW + WINDOW_BYTES:
            sm = sm_of(self.state, self.warp)
            first = int(self.state.warp[self.warp, L.WARP_BLOCK]) * int(par[P.SHARED_STRIDE])
            mine = self.state.shared8[sm, first : first + int(par[P.SHARED_BYTES])]
            return self._inside(mine, address - SHARED_WINDOW, nbytes, address, "shared")
        self.memory.check(address, nbytes, "read by a system call")
        return self.memory.view(address, nbytes).tobytes()

    @staticmethod
    def _inside(data: np.ndarray, offset: int, nbytes: int, address: int, space: str) -> bytes:
        if offset + nbytes > data.size:
            raise MemoryAccessError(
                "out of bounds", address=address, size=nbytes, access="read by a system call", space=space
            )
        return data[offset : offset + nbytes].tobytes()

    def string(self, address: int) -> str:
        """The text at an address, up to its zero byte."""
        found = bytearray()
        while len(found) < _STRING_LIMIT:
            byte = self.read(address + len(found), 1)
            if byte == b"\0":
                break
            found += byte
        return found.decode("utf-8", "replace")


# --- printf as a C library formats it ---------------------------------------------------------------------------------
# CUDA formats on the host: a kernel leaves the format and its packed arguments, each aligned to its size, and `float`
# as `double` (CUDA C++ Programming Guide, "Formatted Output"). What the conversions mean the host's C library knows.

_CONVERSION = re.compile(
    r"%(?P<how>[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d*))?)(?P<length>hh|h|ll|l|j|z|t|L)?(?P<type>[diouxXeEfFgGaAcsp%])"
)
_SHORT = {"hh", "h", None}
"""Lengths of integers that are passed as int."""
_snprintf = ctypes.CDLL(None).snprintf
_snprintf.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p)


def printf(form: str, read: Callable[[int, int], bytes], string: Callable[[int], str]) -> tuple[str, int]:
    """Format arguments.

    Args:
        form: the format.
        read: gives bytes of the packed arguments, by offset and count.
        string: gives the text that a pointer points to.

    Returns:
        The text, and how many arguments were taken, which is what a kernel's printf returns.
    """
    arguments = _Arguments(read)
    return _CONVERSION.sub(lambda match: _convert(match, arguments, string), form), arguments.count


class _Arguments:
    """Takes arguments one after the other out of their buffer."""

    def __init__(self, read: Callable[[int, int], bytes]) -> None:
        self.read, self.offset, self.count = read, 0, 0

    def take(self, size: int) -> int:
        start = -(-self.offset // size) * size
        self.offset = start + size
        self.count += 1
        return int.from_bytes(self.read(start, size), "little")


def _convert(match: re.Match[str], arguments: _Arguments, string: Callable[[int], str]) -> str:
    """The text of the next argument."""
    kind, length = match["type"], ""
    if kind == "%":
        return "%"
    given: list[Any] = [ctypes.c_int(arguments.take(4)) for _ in range(match["how"].count("*"))]
    if kind in "eEfFgGaA":
        given.append(ctypes.c_double.from_buffer_copy(arguments.take(8).to_bytes(8, "little")))
    elif kind == "s":
        address = arguments.take(8)
        given.append(string(address).encode() if address else b"(null)")
    elif kind == "p":
        given.append(ctypes.c_void_p(arguments.take(8)))
    elif kind == "c" or match["length"] in _SHORT:
        length = "" if kind == "c" else match["length"] or ""
        given.append(ctypes.c_int(arguments.take(4)))
    else:
        length = "ll"
        given.append(ctypes.c_longlong(arguments.take(8)))
    form = f"%{match['how']}{length}{kind}".encode()
    room = ctypes.create_string_buffer(_snprintf(None, 0, form, *given) + 1)
    _snprintf(room, len(room), form, *given)
    return room.raw[:-1].decode("utf-8", "replace")
