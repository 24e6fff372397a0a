"""cuBLAS: handles and what is set in them; versions and names."""

from __future__ import annotations

from functools import partial
from typing import Any

from gpusim.driver.api.copy import copy_of_bytes
from gpusim.driver.caller import constant_text, put_int
from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.libraries.blas.state import Handle, add, find, objects
from gpusim.driver.registry import entries, nothing
from gpusim.driver.state import Driver

_NAMES = {
    0: "SUCCESS",
    1: "NOT_INITIALIZED",
    3: "ALLOC_FAILED",
    7: "INVALID_VALUE",
    8: "ARCH_MISMATCH",
    11: "MAPPING_ERROR",
    13: "EXECUTION_FAILED",
    14: "INTERNAL_ERROR",
    15: "NOT_SUPPORTED",
    16: "LICENSE_ERROR",
}
_SETTINGS = {
    "PointerMode_v2": "pointer_mode",
    "MathMode": "math_mode",
    "AtomicsMode": "atomics",
    "SmCountTarget": "sm_count_target",
    "EmulationStrategy": "emulation",
}
"""Settings with a getter and a setter of an int, and the field that holds each."""


def _handle(driver: Driver, handle: int) -> Handle:
    return find(driver, handle, Handle, ResultCode.INVALID_HANDLE)


def _number(version: tuple[int, int, int], units: tuple[int, int, int], driver: Driver) -> int:
    return sum(part * unit for part, unit in zip(version, units, strict=True))


def _property(version: tuple[int, int, int], driver: Driver, kind: int, place: int) -> None:
    fail_if(kind not in range(3) or not place, ResultCode.INVALID_VALUE)
    put_int(place, version[kind])


def _name(driver: Driver, status: int) -> int:
    return constant_text(f"CUBLAS_STATUS_{_NAMES[status]}" if status in _NAMES else "<unknown>")


def _set_stream(driver: Driver, handle: int, stream: int) -> None:
    _handle(driver, handle).stream = driver.stream_of(stream).handle


def _destroy(driver: Driver, handle: int) -> None:
    _handle(driver, handle)
    del objects(driver)[handle]


def _put(attribute: str, driver: Driver, handle: int, value: int) -> None:
    setattr(_handle(driver, handle), attribute, value)


def _get(attribute: str, driver: Driver, handle: int) -> Any:
    return getattr(_handle(driver, handle), attribute)


def _copy(driver: Driver, rows: int, columns: int, size: int, source: int, leading: int, *to: int) -> None:
    """Columns between host and device."""
    target, target_leading = to
    wrong = min(rows, columns) < 0 or size < 1 or min(leading, target_leading) < max(1, rows)
    fail_if(wrong, ResultCode.INVALID_VALUE)
    what = target, source, rows * size, columns, target_leading * size, leading * size
    driver.do_now(copy_of_bytes(driver, (None, None), *what))


for _suffix, _version in (("", (13, 1, 1)), ("@12", (12, 9, 1))):
    entries(
        (f"cublasGetProperty{_suffix} cublasLtGetProperty{_suffix}", "i p", partial(_property, _version)),
        (f"cublasGetVersion_v2{_suffix}", "(p) *i", partial(_number, _version, (10000, 100, 1))),
        (f"cublasLtGetVersion{_suffix}", "=", partial(_number, _version, (10000, 100, 1))),
        (f"cublasLtGetCudartVersion{_suffix}", "=", partial(_number, _version, (1000, 10, 0))),
        anytime=True,
    )
entries(
    ("cublasGetStatusName cublasGetStatusString cublasLtGetStatusName cublasLtGetStatusString", "&i", _name),
    ("cublasDestroy_v2 cublasLtDestroy", "p", _destroy),
    ("cublasLoggerConfigure cublasSetLoggerCallback cublasLtLoggerSetLevel cublasLtLoggerSetMask", "", nothing),
    anytime=True,
)
entries(
    ("cublasCreate_v2 cublasLtCreate", "*p", lambda driver: add(driver, Handle())),
    ("cublasSetStream_v2", "p p", _set_stream),
    ("cublasGetStream_v2", "p *p", partial(_get, "stream")),
    ("cublasSetWorkspace_v2", "p", _handle),  # the kernels need none
    *((f"cublasSet{name}", "p i", partial(_put, attribute)) for name, attribute in _SETTINGS.items()),
    *((f"cublasGet{name}", "p *i", partial(_get, attribute)) for name, attribute in _SETTINGS.items()),
    ("cublasSetMatrix cublasGetMatrix", "i i i p i p i", _copy),
    ("cublasSetVector cublasGetVector", "i i p i p i", lambda driver, n, *rest: _copy(driver, 1, n, *rest)),
)
