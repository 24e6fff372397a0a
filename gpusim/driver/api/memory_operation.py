"""Driver API: operations of streams on single words of memory.

A stream that waits for a word goes on when a kernel, another stream or the host has written what it should hold.
Without a clock, it waits for the host, which cannot go on before the call returns: what does not hold at once would
never.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Any

from gpusim.driver.caller import caller, read
from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.registry import entry
from gpusim.driver.state import Driver
from gpusim.driver.work.streams import MEMORY_OPERATIONS, DriverStream, SimpleWork

if TYPE_CHECKING:
    from gpusim.driver.work.queues import WorkQueues

_WAIT_32, _WRITE_32, _FLUSH, _WAIT_64, _WRITE_64, _BARRIER = 1, 2, 3, 4, 5, 6  # CUstreamBatchMemOpType
_BYTES = {_WAIT_32: 4, _WRITE_32: 4, _WAIT_64: 8, _WRITE_64: 8}
_OPERATION = struct.Struct("<I4xQQI")
_OPERATION_BYTES = 48
_NODE = struct.Struct("<QI4xQI4x")


def _operations(driver: Driver, operations: bytes) -> SimpleWork:
    """Operations one after the other, of CUstreamBatchMemOpParams of each. Raises INVALID_VALUE for one on no memory of
    the device, NOT_SUPPORTED for another kind."""
    rows = [_OPERATION.unpack_from(operations, at) for at in range(0, len(operations), _OPERATION_BYTES)]
    fail_if({kind for kind, *_ in rows} - {*_BYTES, _FLUSH, _BARRIER}, ResultCode.NOT_SUPPORTED)
    rows = [row for row in rows if row[0] in _BYTES]
    for kind, address, *_ in rows:
        there = driver.device.memory.holding(address)
        fail_if(there is None or address % _BYTES[kind], ResultCode.INVALID_VALUE)

    def into(stream: DriverStream, queues: WorkQueues) -> None:
        for kind, address, value, flags in rows:
            nbytes = _BYTES[kind]
            if kind in (_WRITE_32, _WRITE_64):
                queues.write_word(stream, partial(_write, address, value, nbytes))
            else:
                queues.wait_word(stream, partial(_holds, address, value, nbytes, flags), f"the word at {address:#x}")

    return SimpleWork(into, MEMORY_OPERATIONS)


def _write(address: int, value: int, nbytes: int) -> None:
    caller().write(address, (value & (1 << 8 * nbytes) - 1).to_bytes(nbytes, "little"))


def _holds(address: int, value: int, nbytes: int, flags: int) -> bool:
    """Whether a word is what a stream waits for. flags: CUstreamWaitValue_flags."""
    value &= (1 << 8 * nbytes) - 1
    found = int.from_bytes(read(address, nbytes), "little")
    return (
        (found - value) & 1 << 8 * nbytes - 1 == 0,  # greater or equal, in a circle
        found == value,
        found & value != 0,
        ~(found | value) & (1 << 8 * nbytes) - 1 != 0,
    )[flags & 3]


def _one(kind: int, driver: Driver, stream: DriverStream, *what: Any) -> None:
    operation = _OPERATION.pack(kind, *what).ljust(_OPERATION_BYTES, b"\0")
    driver.enqueue(stream, _operations(driver, operation))


for _name, _letter, _kind in (
    ("Wait{}32", "u", _WAIT_32),
    ("Write{}32", "u", _WRITE_32),
    ("Wait{}64", "q", _WAIT_64),
    ("Write{}64", "q", _WRITE_64),
):
    entry(f"cuStream{_name.format('Value')}_v2", f"S p {_letter} u", since=11070)(partial(_one, _kind))


@entry("cuStreamBatchMemOp_v2", "S u p (u)", since=11070)
def batch(driver: Driver, stream: DriverStream, count: int, operations: int) -> None:
    driver.enqueue(stream, _operations(driver, read(operations, count * _OPERATION_BYTES)))


def read_operations(driver: Driver, address: int) -> SimpleWork:
    """Of CUDA_BATCH_MEM_OP_NODE_PARAMS: context, count, operations, flags."""
    _, count, operations, _ = _NODE.unpack(read(address, _NODE.size))
    return _operations(driver, read(operations, count * _OPERATION_BYTES))
