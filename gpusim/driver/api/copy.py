"""Driver API: copies and fills. Those that are smaller than L2 leave there what it held."""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gpusim.driver.caller import caller, read
from gpusim.driver.codes import DriverError, ResultCode, fail_if
from gpusim.driver.registry import entry, same
from gpusim.driver.state import Driver
from gpusim.driver.work.launches import CopyCall
from gpusim.driver.work.streams import COPY, FILL, DriverStream, StreamWork
from gpusim.errors import MemoryAccessError

if TYPE_CHECKING:
    from gpusim.driver.work.queues import WorkQueues

HOST_SIDE, DEVICE_SIDE, _ARRAY, _UNIFIED = 1, 2, 3, 4  # CUmemorytype
NO_ARRAYS = "CUDA arrays, textures and surfaces are not simulated"


def _check_range(driver: Driver, address: int, nbytes: int, *, written: bool = False) -> None:
    """Raises INVALID_VALUE unless the bytes lie in one allocation of the device. written: they get contents now."""
    memory = driver.device.memory
    try:
        memory.view(address, nbytes) if written else memory.check(address, nbytes)
    except MemoryAccessError as error:
        if nbytes:
            raise DriverError(ResultCode.INVALID_VALUE, str(error)) from None


# --- copies -----------------------------------------------------------------------------------------------------------


class CopySide(ctypes.Structure):
    """One side of a copied box of bytes. It begins at position x, y, z; a row begins every `pitch` bytes, a slice every
    `rows` rows; 0 where there is one, or the box fills it."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("x", "y", "z", "level")),
        ("kind", ctypes.c_uint32),
        *((name, ctypes.c_uint64) for name in ("host", "device", "array", "reserved", "pitch", "rows")),
    )


class CopyBox(ctypes.Structure):
    """CUDA_MEMCPY3D, and CUDA_MEMCPY3D_PEER, whose contexts do not matter here."""

    _fields_ = (
        ("source", CopySide),
        ("target", CopySide),
        ("width", ctypes.c_uint64),
        ("height", ctypes.c_uint64),
        ("depth", ctypes.c_uint64),
    )
    source: CopySide
    target: CopySide


@dataclass(frozen=True, eq=False)
class MemoryCopy(StreamWork):
    """A copy of a box of bytes."""

    driver: Driver
    box: CopyBox
    kind = COPY

    def checked(self) -> MemoryCopy:
        """The copy. Raises INVALID_VALUE if it cannot be done, NOT_SUPPORTED for arrays."""
        box = self.box
        for side in (box.target, box.source):
            fail_if(side.kind == _ARRAY, ResultCode.NOT_SUPPORTED, NO_ARRAYS)
            fail_if(side.kind not in (HOST_SIDE, DEVICE_SIDE, _UNIFIED), ResultCode.INVALID_VALUE)
            fail_if(0 < side.pitch < side.x + box.width and box.height > 1, ResultCode.INVALID_VALUE)
            fail_if(0 < side.rows < side.y + box.height and box.depth > 1, ResultCode.INVALID_VALUE)
            self._place(side)
        return self

    def _place(self, side: CopySide, **how: bool) -> tuple[int, int, int]:
        """First address, bytes from a row and from a slice to the next, of what lies where it may (`_check_range`)."""
        box = self.box
        host, memory = side.kind == HOST_SIDE, self.driver.device.memory
        base, pitch = side.host if host else side.device, side.pitch or box.width
        layer = pitch * (side.rows or box.height)
        start = base + side.x + side.y * pitch + side.z * layer
        if box.width and box.height and box.depth:
            fail_if(not base, ResultCode.INVALID_VALUE)
            if side.kind == DEVICE_SIDE or (not host and memory.holding(base)):
                last = (box.depth - 1) * layer + (box.height - 1) * pitch
                _check_range(self.driver, start, last + box.width, **how)
        return start, pitch, layer

    def put(self, stream: DriverStream, queues: WorkQueues) -> None:
        """Queue the copy. Pageable memory is read now or, in a graph, at its turn. A launch takes over its module's
        constants when it is submitted, so a copy to variables is waited for."""
        driver, sides = self.driver, (self.box.target, self.box.source)
        there = self.driver.is_device_memory
        to, of = ("D" if it.kind == DEVICE_SIDE or (it.kind == _UNIFIED and there(it.device)) else "H" for it in sides)
        kind, (target, source) = f"{of}to{to}", (self._place(side)[0] for side in sides)
        if not self._nbytes:
            return
        host = {"HtoD": source, "DtoH": target}.get(kind)
        pinned = host is None or driver.buffer_at(host) is not None
        gpus = {of: driver.gpu_at(of).number for of in (source, target) if of != host}
        ends = gpus.get(source, gpus.get(target, 0)), gpus.get(target, gpus.get(source, 0))
        copy = CopyCall(kind, target, source, self._nbytes, stream.shown_handle, pinned, stream.correlation, *ends)
        if kind == "HtoH":
            queues.clear(stream)
            self._move()
            driver.copied(copy, driver.now_cycles)
            return
        effect = self._move
        if kind == "HtoD" and not (pinned or stream.branch or queues.reads_now(stream)):
            effect = partial(self._write, caller().read(self._rows(self.box.source)))
        variable = kind.endswith("D") and driver.buffer_at(target) is None
        queues.copy(stream, copy, effect, wait=variable)

    @property
    def _nbytes(self) -> int:
        return self.box.width * self.box.height * self.box.depth

    def _move(self) -> None:
        box = self.box
        target, target_pitch, target_layer = self._place(box.target, written=True)
        source, source_pitch, source_layer = self._place(box.source)
        for z in range(box.depth if self._nbytes else 0):
            at = target + z * target_layer, source + z * source_layer
            caller().move(*at, box.width, box.height, target_pitch, source_pitch)

    def _rows(self, side: CopySide, **how: bool) -> list[tuple[int, int]]:
        """Address and bytes of each row."""
        start, pitch, layer = self._place(side, **how)
        places = range(self.box.depth), range(self.box.height)
        return [(start + z * layer + y * pitch, self.box.width) for z, y in itertools.product(*places)]

    def _write(self, rows: list[bytes]) -> None:
        """Put rows into the device's memory."""
        places = self._rows(self.box.target, written=True)
        for place, row in zip(places, rows, strict=True):
            self.driver.device.memory.view(*place)[...] = np.frombuffer(row, np.uint8)


Sides = tuple[bool | None, bool | None]
"""(target, source): True for an address of the device, False for the host's, None to decide by the address."""


def copy_of_bytes(
    driver: Driver, sides: Sides, target: int, source: int, width: int, height: int = 1, *pitches: int
) -> MemoryCopy:
    """A copy of bytes, or of rows of them. pitches: of target and source."""
    box = CopyBox(width=width, height=height, depth=1)
    for side, device, address, pitch in zip(
        (box.target, box.source), sides, (target, source), pitches or (0, 0), strict=True
    ):
        side.kind = _UNIFIED if device is None else DEVICE_SIDE if device else HOST_SIDE
        side.host, side.device = (address, 0) if device is False else (0, address)
        side.pitch = pitch
    return MemoryCopy(driver, box)


def both(name: str, signature: str, make: Callable[..., StreamWork], suffixes: tuple[str, str] = ("", "")) -> None:
    """Declare a function that does work at once, and its other that does so in a stream. make: of a driver and the
    arguments."""

    def run(driver: Driver, *arguments: Any) -> None:
        driver.do_now(make(driver, *arguments))

    def run_later(driver: Driver, *arguments: Any) -> None:
        *what, stream = arguments
        driver.enqueue(stream, make(driver, *what))

    entry(f"{name}{suffixes[0]}", signature)(run)
    entry(f"{name}Async{suffixes[1]}", f"{signature} S")(run_later)


def _copy_1d(sides: Sides, driver: Driver, target: int, source: int, nbytes: int) -> MemoryCopy:
    return copy_of_bytes(driver, sides, target, source, nbytes)


_V2 = "_v2", "_v2"
both("cuMemcpyHtoD", "p p q", partial(_copy_1d, (True, False)), _V2)
both("cuMemcpyDtoH", "p p q", partial(_copy_1d, (False, True)), _V2)
both("cuMemcpyDtoD", "p p q", partial(_copy_1d, (True, True)), _V2)
both("cuMemcpy", "p p q", partial(_copy_1d, (None, None)))
both("cuMemcpyPeer", "p (p) p (p) q", partial(_copy_1d, (True, True)))


def _copy_2d(driver: Driver, address: int) -> MemoryCopy:
    """The copy that a CUDA_MEMCPY2D describes: source, target, width and height."""
    *sides, width, height = struct.unpack("<2QI4x4Q2QI4x4Q2Q", read(address, 8 * 16))
    box = CopyBox(width=width, height=height, depth=1)
    for side, words in ((box.source, sides[:7]), (box.target, sides[7:])):
        side.x, side.y, side.kind, side.host, side.device, side.array, side.pitch = words
    return MemoryCopy(driver, box).checked()


def copy_3d(driver: Driver, address: int) -> MemoryCopy:
    """The copy that a CUDA_MEMCPY3D describes."""
    return MemoryCopy(driver, CopyBox.from_buffer_copy(read(address, ctypes.sizeof(CopyBox)))).checked()


both("cuMemcpy2D", "p", _copy_2d, _V2)
same("cuMemcpy2DUnaligned_v2", "cuMemcpy2D_v2")
both("cuMemcpy3D", "p", copy_3d, _V2)


# --- fills ------------------------------------------------------------------------------------------------------------

_CELLS = {1: np.uint8, 2: np.uint16, 4: np.uint32}


@dataclass(frozen=True, eq=False)
class Fill(StreamWork):
    """A fill of rows (CUDA_MEMSET_NODE_PARAMS). size: bytes of an element; width: elements of a row."""

    driver: Driver
    address: int
    pitch: int
    value: int
    size: int
    width: int
    height: int
    kind = FILL

    def put(self, stream: DriverStream, queues: WorkQueues) -> None:
        self._check()
        if self._nbytes:
            variable = self.driver.buffer_at(self.address) is None
            what = "fill", self.address, self._value, self._nbytes, stream.shown_handle, True, stream.correlation
            gpu = self.driver.gpu_at(self.address).number
            queues.copy(stream, CopyCall(*what, gpu, gpu), self._fill, wait=variable)

    @property
    def _nbytes(self) -> int:
        return self.width * self.height * self.size

    @property
    def _value(self) -> int:
        return self.value & (1 << 8 * self.size) - 1

    def _rows(self) -> list[int]:
        """Return where each row begins."""
        return [self.address + row * self.pitch for row in range(self.height)]

    def _check(self) -> None:
        for address in self._rows():
            fail_if(address % self.size, ResultCode.INVALID_VALUE)
            _check_range(self.driver, address, self.width * self.size)

    def _fill(self) -> None:
        self._check()
        for address in self._rows() if self._nbytes else ():
            view = self.driver.device.memory.view(address, self.width * self.size)
            view.view(_CELLS[self.size])[...] = self._value

    def checked(self) -> Fill:
        """The fill. Raises INVALID_VALUE for one that a graph does not take."""
        wrong = self.size not in _CELLS or not self.width or not self.height
        fail_if(wrong or (self.height > 1 and self.pitch < self.width * self.size), ResultCode.INVALID_VALUE)
        nbytes = (self.height - 1) * self.pitch + self.width * self.size
        _check_range(self.driver, self.address, nbytes)
        return self


def fill_1d(size: int, driver: Driver, address: int, value: int, count: int) -> Fill:
    return Fill(driver, address, 0, value, size, count, 1)


def fill_2d(size: int, driver: Driver, address: int, pitch: int, value: int, width: int, height: int) -> Fill:
    return Fill(driver, address, pitch, value, size, width, height)


for _size, _letter in ((1, "b"), (2, "h"), (4, "u")):
    both(f"cuMemsetD{8 * _size}", f"p {_letter} q", partial(fill_1d, _size), ("_v2", ""))
    both(f"cuMemsetD2D{8 * _size}", f"p q {_letter} q q", partial(fill_2d, _size), ("_v2", ""))
