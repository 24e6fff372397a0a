"""Result codes of the CUDA driver API: numbers, names and what they mean (CUDA Driver API, `CUresult`)."""

from __future__ import annotations

from enum import IntEnum


class Code(IntEnum):
    """The codes that this driver returns, by their names without `CUDA_ERROR_`."""

    SUCCESS = 0
    INVALID_VALUE = 1
    OUT_OF_MEMORY = 2
    NOT_INITIALIZED = 3
    DEINITIALIZED = 4
    NO_DEVICE = 100
    INVALID_DEVICE = 101
    INVALID_IMAGE = 200
    INVALID_CONTEXT = 201
    NO_BINARY_FOR_GPU = 209
    UNSUPPORTED_LIMIT = 215
    INVALID_PTX = 218
    FILE_NOT_FOUND = 301
    INVALID_HANDLE = 400
    ILLEGAL_STATE = 401
    NOT_FOUND = 500
    NOT_READY = 600
    ILLEGAL_ADDRESS = 700
    LAUNCH_OUT_OF_RESOURCES = 701
    LAUNCH_TIMEOUT = 702
    PRIMARY_CONTEXT_ACTIVE = 708
    CONTEXT_IS_DESTROYED = 709
    ASSERT = 710
    HOST_MEMORY_ALREADY_REGISTERED = 712
    HOST_MEMORY_NOT_REGISTERED = 713
    MISALIGNED_ADDRESS = 716
    LAUNCH_FAILED = 719
    COOPERATIVE_LAUNCH_TOO_LARGE = 720
    NOT_SUPPORTED = 801
    STREAM_CAPTURE_UNSUPPORTED = 900
    STREAM_CAPTURE_MERGE = 902
    STREAM_CAPTURE_UNMATCHED = 903
    STREAM_CAPTURE_UNJOINED = 904
    STREAM_CAPTURE_ISOLATION = 905
    STREAM_CAPTURE_IMPLICIT = 906
    CAPTURED_EVENT = 907
    GRAPH_EXEC_UPDATE_FAILURE = 910
    INVALID_CLUSTER_SIZE = 912
    UNKNOWN = 999

    @property
    def symbol(self) -> str:
        """The name in the header file."""
        return "CUDA_SUCCESS" if self is Code.SUCCESS else f"CUDA_ERROR_{self.name}"

    @property
    def meaning(self) -> str:
        """One line for people."""
        return _MEANINGS[self]


_MEANINGS = {
    Code.SUCCESS: "no error",
    Code.INVALID_VALUE: "invalid argument",
    Code.OUT_OF_MEMORY: "out of memory",
    Code.NOT_INITIALIZED: "initialization error",
    Code.DEINITIALIZED: "driver shutting down",
    Code.NO_DEVICE: "no CUDA-capable device is detected",
    Code.INVALID_DEVICE: "invalid device ordinal",
    Code.INVALID_IMAGE: "device kernel image is invalid",
    Code.INVALID_CONTEXT: "invalid device context",
    Code.NO_BINARY_FOR_GPU: "no kernel image is available for execution on the device",
    Code.UNSUPPORTED_LIMIT: "limit is not supported on this architecture",
    Code.INVALID_PTX: "a PTX JIT compilation failed",
    Code.FILE_NOT_FOUND: "file not found",
    Code.INVALID_HANDLE: "invalid resource handle",
    Code.ILLEGAL_STATE: "the operation cannot be performed in the present state",
    Code.NOT_FOUND: "named symbol not found",
    Code.NOT_READY: "device not ready",
    Code.ILLEGAL_ADDRESS: "an illegal memory access was encountered",
    Code.LAUNCH_OUT_OF_RESOURCES: "too many resources requested for launch",
    Code.LAUNCH_TIMEOUT: "the launch timed out and was terminated",
    Code.PRIMARY_CONTEXT_ACTIVE: "cannot set while device is active in this process",
    Code.CONTEXT_IS_DESTROYED: "context is destroyed",
    Code.ASSERT: "device-side assert triggered",
    Code.HOST_MEMORY_ALREADY_REGISTERED: "part or all of the requested memory range is already mapped",
    Code.HOST_MEMORY_NOT_REGISTERED: "pointer does not correspond to a registered memory region",
    Code.MISALIGNED_ADDRESS: "misaligned address",
    Code.LAUNCH_FAILED: "unspecified launch failure",
    Code.COOPERATIVE_LAUNCH_TOO_LARGE: "too many blocks in cooperative launch",
    Code.NOT_SUPPORTED: "operation not supported",
    Code.STREAM_CAPTURE_UNSUPPORTED: "operation not permitted when stream is capturing",
    Code.STREAM_CAPTURE_MERGE: "operation would result in a merge of separate capture sequences",
    Code.STREAM_CAPTURE_UNMATCHED: "capture was not ended in the same stream as it began",
    Code.STREAM_CAPTURE_UNJOINED: "capturing stream has unjoined work",
    Code.STREAM_CAPTURE_ISOLATION: "dependency created on uncaptured work in another stream",
    Code.STREAM_CAPTURE_IMPLICIT: "operation would make the legacy stream depend on a capturing blocking stream",
    Code.CAPTURED_EVENT: "operation not permitted on an event last recorded in a capturing stream",
    Code.GRAPH_EXEC_UPDATE_FAILURE: "the graph update was not performed because it included changes which violated "
    "constraints specific to instantiated graph update",
    Code.INVALID_CLUSTER_SIZE: "cluster misconfiguration",
    Code.UNKNOWN: "unknown error",
}


class DriverError(Exception):
    """A call that returns an error code."""

    def __init__(self, code: Code):
        self.code = code
        super().__init__(code.symbol)
