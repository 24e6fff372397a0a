"""cuBLAS: handles and what is set in them; versions and names."""

from __future__ import annotations

from functools import partial
from typing import Any

from gpusim.driver.api.copy import copy_of_bytes
from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.libraries.blas.state import Handle, add, destroy, find, set_stream, status_text, tell_property
from gpusim.driver.registry import entries, nothing
from gpusim.driver.state import Driver

_NAMES = ("GetStatusName", "GetStatusString", "LtGetStatusName", "LtGetStatusString")
_SETTINGS = {
    "PointerMode_v2": "pointer_mode",
    "MathMode": "math_mode",
    "AtomicsMode": "atomics",
    "SmCountTarget": "sm_count_target",
    "EmulationStrategy": "emulation",
}
"""Settings with a getter and a setter of an int, and the field that holds each."""


def _number(version: tuple[int, int, int], units: tuple[int, int, int], driver: Driver) -> int:
    return sum(part * unit for part, unit in zip(version, units, strict=True))


def _put(attribute: str, driver: Driver, handle: int, value: int) -> None:
    setattr(find(driver, handle, Handle), attribute, value)


def _get(attribute: str, driver: Driver, handle: int) -> Any:
    return getattr(find(driver, handle, Handle), attribute)


def _copy(driver: Driver, rows: int, columns: int, size: int, source: int, leading: int, *to: int) -> None:
    """Columns between host and device."""
    target, target_leading = to
    wrong = min(rows, columns) < 0 or size < 1 or min(leading, target_leading) < max(1, rows)
    fail_if(wrong, ResultCode.INVALID_VALUE)
    what = target, source, rows * size, columns, target_leading * size, leading * size
    driver.do_now(copy_of_bytes(driver, (None, None), *what))


for _suffix, _version in (("", (13, 1, 1)), ("@12", (12, 9, 1))):
    entries(
        (f"cublasGetProperty{_suffix} cublasLtGetProperty{_suffix}", "i p", partial(tell_property, _version)),
        (f"cublasGetVersion_v2{_suffix}", "(p) *i", partial(_number, _version, (10000, 100, 1))),
        (f"cublasLtGetVersion{_suffix}", "=", partial(_number, _version, (10000, 100, 1))),
        (f"cublasLtGetCudartVersion{_suffix}", "=", partial(_number, _version, (1000, 10, 0))),
        anytime=True,
    )
entries(
    (" ".join(f"cublas{name}" for name in _NAMES), "&i", partial(status_text, "CUBLAS")),
    ("cublasDestroy_v2 cublasLtDestroy", "p", partial(destroy, Handle)),
    ("cublasLoggerConfigure cublasSetLoggerCallback cublasLtLoggerSetLevel cublasLtLoggerSetMask", "", nothing),
    anytime=True,
)
entries(
    ("cublasCreate_v2 cublasLtCreate", "*p", lambda driver: add(driver, Handle())),
    ("cublasSetStream_v2", "p p", set_stream),
    ("cublasGetStream_v2", "p *p", partial(_get, "stream")),
    ("cublasSetWorkspace_v2", "p", partial(_get, "stream")),  # the kernels need none
    *((f"cublasSet{name}", "p i", partial(_put, attribute)) for name, attribute in _SETTINGS.items()),
    *((f"cublasGet{name}", "p *i", partial(_get, attribute)) for name, attribute in _SETTINGS.items()),
    ("cublasSetMatrix cublasGetMatrix", "i i i p i p i", _copy),
    ("cublasSetVector cublasGetVector", "i i p i p i", lambda driver, n, *rest: _copy(driver, 1, n, *rest)),
)
