"""cuBLAS: handles and what is set in them; versions and names."""

from __future__ import annotations

from functools import partial
from typing import Any

from gpusim.driver.api.copy import copy_of_bytes
from gpusim.driver.caller import constant_text, put_int
from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.libraries.blas.state import Handle, add, find, objects
from gpusim.driver.registry import entries, entry
from gpusim.driver.state import Driver

_VERSIONS = {12: (12, 9, 1), 13: (13, 1, 1)}
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
"""What is set and got as an int, and where it is kept."""


def _handle(driver: Driver, handle: int) -> Handle:
    return find(driver, handle, Handle, ResultCode.INVALID_HANDLE)


def _number(version: tuple[int, int, int]) -> int:
    return version[0] * 10000 + version[1] * 100 + version[2]


for _major in (12, 13):
    _suffix = "@12" if _major == 12 else ""
    _found = _VERSIONS[_major]
    for _of in ("cublas", "cublasLt"):
        entry(f"{_of}GetProperty{_suffix}", "i p", anytime=True)(
            lambda driver, kind, place, found=_found: _property(kind, place, found)
        )
    entry(f"cublasGetVersion_v2{_suffix}", "(p) *i", anytime=True)(lambda driver, found=_found: _number(found))
    entry(f"cublasLtGetVersion{_suffix}", "=", anytime=True)(lambda driver, found=_found: _number(found))
    _runtime = 1000 * _found[0] + 10 * _found[1]
    entry(f"cublasLtGetCudartVersion{_suffix}", "=", anytime=True)(lambda driver, found=_runtime: found)
entries(
    ("cublasGetStatusName", "&i", lambda driver, status: constant_text(_name(status))),
    ("cublasGetStatusString", "&i", lambda driver, status: constant_text(_name(status))),
    ("cublasLtGetStatusName", "&i", lambda driver, status: constant_text(_name(status))),
    ("cublasLtGetStatusString", "&i", lambda driver, status: constant_text(_name(status))),
    anytime=True,
)


def _property(kind: int, place: int, version: tuple[int, int, int]) -> None:
    fail_if(kind not in range(3) or not place, ResultCode.INVALID_VALUE)
    put_int(place, version[kind])


def _name(status: int) -> str:
    return f"CUBLAS_STATUS_{_NAMES[status]}" if status in _NAMES else "<unknown>"


@entry("cublasCreate_v2", "*p")
@entry("cublasLtCreate", "*p")
def create(driver: Driver) -> int:
    return add(driver, Handle())


@entry("cublasDestroy_v2", "p", anytime=True)
@entry("cublasLtDestroy", "p", anytime=True)
def destroy(driver: Driver, handle: int) -> None:
    _handle(driver, handle)
    del objects(driver)[handle]


@entry("cublasSetStream_v2", "p p")
def set_stream(driver: Driver, handle: int, stream: int) -> None:
    _handle(driver, handle).stream = driver.stream_of(stream).handle


@entry("cublasGetStream_v2", "p *p")
def get_stream(driver: Driver, handle: int) -> int:
    return _handle(driver, handle).stream


@entry("cublasSetWorkspace_v2", "p (pq)")
def set_workspace(driver: Driver, handle: int) -> None:
    """The kernels need none."""
    _handle(driver, handle)


def _put(attribute: str, driver: Driver, handle: int, value: int) -> None:
    setattr(_handle(driver, handle), attribute, value)


def _get(attribute: str, driver: Driver, handle: int) -> Any:
    return getattr(_handle(driver, handle), attribute)


for _key, _attribute in _SETTINGS.items():
    entry(f"cublasSet{_key}", "p i")(partial(_put, _attribute))
    entry(f"cublasGet{_key}", "p *i")(partial(_get, _attribute))


@entry("cublasLoggerConfigure", "(iiip)", anytime=True)
@entry("cublasSetLoggerCallback", "(p)", anytime=True)
@entry("cublasLtLoggerSetLevel", "(i)", anytime=True)
@entry("cublasLtLoggerSetMask", "(i)", anytime=True)
def no_log(driver: Driver) -> None:
    """Nothing is logged."""


@entry("cublasSetVector", "i i p i p i")
@entry("cublasGetVector", "i i p i p i")
def copy_vector(driver: Driver, n: int, size: int, source: int, step: int, target: int, target_step: int) -> None:
    """Between host and device, elements apart."""
    fail_if(n < 0 or size < 1 or step < 1 or target_step < 1, ResultCode.INVALID_VALUE)
    pitches = target_step * size, step * size
    driver.do_now(copy_of_bytes(driver, (None, None), target, source, size, n, *pitches))


@entry("cublasSetMatrix", "i i i p i p i")
@entry("cublasGetMatrix", "i i i p i p i")
def copy_matrix(driver: Driver, *described: int) -> None:
    """Columns between host and device."""
    rows, columns, size, source, leading, target, target_leading = described
    wrong = min(rows, columns) < 0 or size < 1 or min(leading, target_leading) < max(1, rows)
    fail_if(wrong, ResultCode.INVALID_VALUE)
    what = target, source, rows * size, columns, target_leading * size, leading * size
    driver.do_now(copy_of_bytes(driver, (None, None), *what))


