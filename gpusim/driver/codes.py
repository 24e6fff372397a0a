"""What a call of the CUDA driver API returns, and what is said to the user beside it: numbers, names and meanings
(CUDA Driver API, `CUresult`), and the error that carries them."""

from __future__ import annotations

import sys
from enum import IntEnum
from typing import TypeVar

_Value = TypeVar("_Value")


class ResultCode(IntEnum):
    """The codes that this driver returns, by their names without `CUDA_ERROR_`. meaning: one line for people."""

    meaning: str

    def __new__(cls, number: int, meaning: str) -> ResultCode:
        code = int.__new__(cls, number)
        code._value_, code.meaning = number, meaning
        return code

    SUCCESS = 0, "no error"
    INVALID_VALUE = 1, "invalid argument"
    OUT_OF_MEMORY = 2, "out of memory"
    NOT_INITIALIZED = 3, "initialization error"
    DEINITIALIZED = 4, "driver shutting down"
    INVALID_CONFIGURATION = 9, "invalid configuration argument"
    INVALID_PITCH_VALUE = 12, "invalid pitch argument"
    INVALID_SYMBOL = 13, "invalid device symbol"
    INVALID_MEMCPY_DIRECTION = 21, "invalid copy direction for memcpy"
    INVALID_DEVICE_FUNCTION = 98, "invalid device function"
    NO_DEVICE = 100, "no CUDA-capable device is detected"
    INVALID_DEVICE = 101, "invalid device ordinal"
    INVALID_IMAGE = 200, "device kernel image is invalid"
    INVALID_CONTEXT = 201, "invalid device context"
    NO_BINARY_FOR_GPU = 209, "no kernel image is available for execution on the device"
    UNSUPPORTED_LIMIT = 215, "limit is not supported on this architecture"
    INVALID_PTX = 218, "a PTX JIT compilation failed"
    FILE_NOT_FOUND = 301, "file not found"
    INVALID_HANDLE = 400, "invalid resource handle"
    ILLEGAL_STATE = 401, "the operation cannot be performed in the present state"
    NOT_FOUND = 500, "named symbol not found"
    NOT_READY = 600, "device not ready"
    ILLEGAL_ADDRESS = 700, "an illegal memory access was encountered"
    LAUNCH_OUT_OF_RESOURCES = 701, "too many resources requested for launch"
    LAUNCH_TIMEOUT = 702, "the launch timed out and was terminated"
    PRIMARY_CONTEXT_ACTIVE = 708, "cannot set while device is active in this process"
    CONTEXT_IS_DESTROYED = 709, "context is destroyed"
    ASSERT = 710, "device-side assert triggered"
    HOST_MEMORY_ALREADY_REGISTERED = 712, "part or all of the requested memory range is already mapped"
    HOST_MEMORY_NOT_REGISTERED = 713, "pointer does not correspond to a registered memory region"
    MISALIGNED_ADDRESS = 716, "misaligned address"
    LAUNCH_FAILED = 719, "unspecified launch failure"
    COOPERATIVE_LAUNCH_TOO_LARGE = 720, "too many blocks in cooperative launch"
    NOT_SUPPORTED = 801, "operation not supported"
    STREAM_CAPTURE_UNSUPPORTED = 900, "operation not permitted when stream is capturing"
    STREAM_CAPTURE_MERGE = 902, "operation would result in a merge of separate capture sequences"
    STREAM_CAPTURE_UNMATCHED = 903, "capture was not ended in the same stream as it began"
    STREAM_CAPTURE_UNJOINED = 904, "capturing stream has unjoined work"
    STREAM_CAPTURE_ISOLATION = 905, "dependency created on uncaptured work in another stream"
    STREAM_CAPTURE_IMPLICIT = 906, "operation would make the legacy stream depend on a capturing blocking stream"
    CAPTURED_EVENT = 907, "operation not permitted on an event last recorded in a capturing stream"
    GRAPH_EXEC_UPDATE_FAILURE = (
        910,
        "the graph update was not performed because it included changes which violated "
        "constraints specific to instantiated graph update",
    )
    INVALID_CLUSTER_SIZE = 912, "cluster misconfiguration"
    UNKNOWN = 999, "unknown error"

    @property
    def symbol(self) -> str:
        """The name in the header file."""
        return "CUDA_SUCCESS" if self is ResultCode.SUCCESS else f"CUDA_ERROR_{self.name}"

    @property
    def runtime_symbol(self) -> str:
        """The name in the runtime's header file (driver_types.h)."""
        words = _RUNTIME_NAMES.get(self.name) or "".join(word.capitalize() for word in self.name.split("_"))
        return "cudaSuccess" if self is ResultCode.SUCCESS else f"cudaError{words}"


    @property
    def blas_status(self) -> int:
        """What cuBLAS returns in its place (cublas_api.h, cublasStatus_t)."""
        return _BLAS.get(self.name, _BLAS_EXECUTION_FAILED)


_BLAS_EXECUTION_FAILED = 13
_BLAS = {
    "SUCCESS": 0,
    "NOT_INITIALIZED": 1,
    "INVALID_HANDLE": 1,
    "INVALID_CONTEXT": 1,
    "OUT_OF_MEMORY": 3,
    "INVALID_VALUE": 7,
    "NO_BINARY_FOR_GPU": 8,
    "UNKNOWN": 14,
    "NOT_SUPPORTED": 15,
}
_RUNTIME_NAMES = {
    "OUT_OF_MEMORY": "MemoryAllocation",
    "NOT_INITIALIZED": "InitializationError",
    "DEINITIALIZED": "CudartUnloading",
    "INVALID_IMAGE": "InvalidKernelImage",
    "INVALID_CONTEXT": "DeviceUninitialized",
    "NO_BINARY_FOR_GPU": "NoKernelImageForDevice",
    "INVALID_HANDLE": "InvalidResourceHandle",
    "NOT_FOUND": "SymbolNotFound",
    "PRIMARY_CONTEXT_ACTIVE": "SetOnActiveProcess",
    "LAUNCH_FAILED": "LaunchFailure",
}
"""What the runtime calls a code where it is not the driver's word."""


class DriverError(Exception):
    """A call that returns an error code. message: what the user is told, where the code alone does not say it."""

    def __init__(self, code: ResultCode, message: str = ""):
        self.code, self.message = code, message
        super().__init__(code.symbol)


def fail_if(condition: object, code: ResultCode, message: str = "") -> None:
    """Raise DriverError where a condition holds."""
    if condition:
        raise DriverError(code, message)


def known(value: _Value | None, code: ResultCode = ResultCode.INVALID_HANDLE) -> _Value:
    """What was looked up. Raises DriverError where there is nothing."""
    if value is None:
        raise DriverError(code)
    return value


def say(message: str) -> None:
    """Tell the user what a code alone does not say."""
    print(f"gpusim: {message}", file=sys.stderr, flush=True)
