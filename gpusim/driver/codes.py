"""Codes that calls return (`CUresult`, `cudaError_t`), their names, the user's messages beside them, and the error that
carries them."""

from __future__ import annotations

import sys
import tomllib
from enum import IntEnum
from functools import cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple, TypeVar

_Value = TypeVar("_Value")


class ResultCode(IntEnum):
    """The codes that this driver returns, by their names without `CUDA_ERROR_`; the runtime's own by theirs."""

    SUCCESS = 0
    INVALID_VALUE = 1
    OUT_OF_MEMORY = 2
    NOT_INITIALIZED = 3
    INVALID_CONFIGURATION = 9
    INVALID_PITCH_VALUE = 12
    INVALID_SYMBOL = 13
    INVALID_MEMCPY_DIRECTION = 21
    INVALID_DEVICE_FUNCTION = 98
    NO_DEVICE = 100
    INVALID_DEVICE = 101
    INVALID_IMAGE = 200
    INVALID_CONTEXT = 201
    NO_BINARY_FOR_GPU = 209
    UNSUPPORTED_LIMIT = 215
    PEER_ACCESS_UNSUPPORTED = 217
    INVALID_PTX = 218
    FILE_NOT_FOUND = 301
    INVALID_HANDLE = 400
    ILLEGAL_STATE = 401
    NOT_FOUND = 500
    NOT_READY = 600
    ILLEGAL_ADDRESS = 700
    LAUNCH_OUT_OF_RESOURCES = 701
    LAUNCH_TIMEOUT = 702
    PEER_ACCESS_ALREADY_ENABLED = 704
    PEER_ACCESS_NOT_ENABLED = 705
    ASSERT = 710
    HOST_MEMORY_ALREADY_REGISTERED = 712
    HOST_MEMORY_NOT_REGISTERED = 713
    ILLEGAL_INSTRUCTION = 715
    MISALIGNED_ADDRESS = 716
    LAUNCH_FAILED = 719
    COOPERATIVE_LAUNCH_TOO_LARGE = 720
    NOT_PERMITTED = 800
    NOT_SUPPORTED = 801
    STREAM_CAPTURE_UNSUPPORTED = 900
    STREAM_CAPTURE_INVALIDATED = 901
    STREAM_CAPTURE_MERGE = 902
    STREAM_CAPTURE_UNMATCHED = 903
    STREAM_CAPTURE_UNJOINED = 904
    STREAM_CAPTURE_ISOLATION = 905
    STREAM_CAPTURE_IMPLICIT = 906
    CAPTURED_EVENT = 907
    INVALID_CLUSTER_SIZE = 912
    UNKNOWN = 999

    def status(self, api: str) -> int:
        """What a library's call returns in its place: a row of `STATUSES`, or the code itself."""
        row = STATUSES.get(api, {})
        return row.get(self.name, row.get("OTHERS", self.value))


STATUSES: dict[str, dict[str, int]] = tomllib.loads(Path(__file__).with_name("statuses.toml").read_text("utf-8"))
"""Statuses of libraries by names of `ResultCode`; OTHERS: of those that have none."""


class ManagementCode(IntEnum):
    """Codes of the management library (nvmlReturn_t)."""

    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NOT_FOUND = 6
    INSUFFICIENT_SIZE = 7
    FUNCTION_NOT_FOUND = 13


class ProfilerCode(IntEnum):
    """Codes of CUPTI (CUptiResult)."""

    INVALID_PARAMETER = 1
    INVALID_OPERATION = 7
    MAX_LIMIT_REACHED = 12
    QUEUE_EMPTY = 18
    INVALID_STREAM = 20
    INVALID_KIND = 21
    NOT_SUPPORTED = 27


Code = ResultCode | ManagementCode | ProfilerCode


class _Text(NamedTuple):
    """A code's names in the driver's and in the runtime's header file, '-' for none, and its meaning in a line."""

    driver: str
    runtime: str
    meaning: str


@cache
def code_texts() -> dict[int, _Text]:
    """Every code that a driver or a runtime can return."""
    lines = resources.files("gpusim.driver").joinpath("codes.txt").read_text().splitlines()[1:]
    rows = (line.split(maxsplit=3) for line in lines)
    return {int(number): _Text(*names) for number, *names in rows}


class DriverError(Exception):
    """A call that returns an error code. message: what the user is told, where the code alone does not say it."""

    def __init__(self, code: Code, message: str = ""):
        self.code, self.message = code, message
        super().__init__(code, message)  # SimPy makes it again of these

    def __str__(self) -> str:
        return self.code.name


def fail_if(condition: object, code: Code, message: str = "") -> None:
    """Raise DriverError where a condition holds."""
    if condition:
        raise DriverError(code, message)


def known(value: _Value | None, code: Code = ResultCode.INVALID_HANDLE) -> _Value:
    """Return the object that was looked up. Raises DriverError if it is None."""
    if value is None:
        raise DriverError(code)
    return value


def say(message: str) -> None:
    """Tell the user what a code alone does not say."""
    print(f"gpusim: {message}", file=sys.stderr, flush=True)
