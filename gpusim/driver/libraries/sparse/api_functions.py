"""Declares the functions of `functions.txt`; does what is done with their objects."""

from __future__ import annotations

import re
import struct
from functools import partial
from pathlib import Path
from typing import Any

from gpusim.driver.caller import constant_text, read
from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.libraries.blas.product import C32, C64, F32, F64
from gpusim.driver.libraries.blas.state import Handle, add, find, objects
from gpusim.driver.libraries.sparse import routines
from gpusim.driver.libraries.sparse.state import SparseCall, SparseDescriptor
from gpusim.driver.registry import entry, nothing
from gpusim.driver.state import Driver

_VERSION, _FOLDER = (12, 6, 3, 12603), Path(__file__).parent


def make(call: SparseCall) -> int:
    given = {name: value for name, value in vars(call).items() if hasattr(SparseDescriptor, name)}
    made = SparseDescriptor(**given)
    wrong = made.block != made.block_columns
    fail_if(wrong, ResultCode.NOT_SUPPORTED, "the stand-in for cuSPARSE has square blocks only")
    return add(call.driver, made if given else Handle())


def destroy(call: SparseCall) -> None:
    del objects(call.driver)[call.first]


def tell(call: SparseCall) -> Any:
    found = [getattr(call.of, name) for name in call.told]
    return found[0] if len(found) == 1 else tuple(found)


def change(call: SparseCall) -> None:
    for name, value in vars(call).items():
        if hasattr(call.of, name):
            setattr(call.of, name, value)


def set_attribute(call: SparseCall) -> None:
    fail_if(call.attribute not in (0, 1) or call.size != 4, ResultCode.INVALID_VALUE)
    setattr(call.of, ("fill", "diagonal")[call.attribute], struct.unpack("<i", read(call.place, 4))[0])


def tell_version(call: SparseCall) -> int:
    fail_if(call.part not in range(-1, 3), ResultCode.INVALID_VALUE)
    return _VERSION[call.part]


def tell_status(call: SparseCall) -> int:
    rows = (line.split(maxsplit=2) for line in (_FOLDER / "statuses.txt").read_text("utf-8").splitlines())
    name, text = {int(number): row for number, *row in rows}.get(call.status, ("UNKNOWN", "unknown"))
    return constant_text(text if call.described else f"CUSPARSE_STATUS_{name}")


def _call(run: Any, constants: dict[str, Any], roles: dict[str, str], driver: Driver, *given: int) -> Any:
    found: dict[str, Any] = dict(zip(roles, given, strict=True))
    for name, role in roles.items():
        if role in "HSVDWLO":
            found[name] = find(driver, found[name], Handle if role == "H" else SparseDescriptor)
            fail_if(getattr(found[name], "role", "H") != role, ResultCode.INVALID_VALUE)
    return run(SparseCall(**constants | found, driver=driver, first=next(iter(given), 0)))


def _declare(symbol: str, run: Any, words: list[str], compute: int) -> None:
    """Declare a function. words: its arguments and constants, as the table has them."""
    pairs = [each.split(":") for each in words if ":" in each]
    constants: dict[str, Any] = {"told": [name for name, letter in pairs if letter[0] in "*="], "compute": compute}
    for name, value in (each.split("=") for each in words if ":" not in each):
        constants[name] = int(value) if value.lstrip("-").isdigit() else value
    roles = {name: letter for name, letter in pairs if name != "-" and letter[0] not in "*=&"}
    letters = (f"({letter})" if name == "-" else letter for name, letter in pairs)
    signature = re.sub("[HSVDWLO]", "p", "".join(sorted(letters, key=lambda letter: letter not in "=&")))
    anytime = "H" not in roles.values() or run is destroy
    entry(f"cusparse{symbol}", signature, anytime=anytime)(partial(_call, run, constants, roles))


_RUNS = vars(routines) | globals() | {"nothing": nothing}
for _line in (_FOLDER / "functions.txt").read_text("utf-8").splitlines():
    _symbols, _run, *_words = _line.split() or ["#", ""]
    for _symbol in _symbols.split(",") if _symbols != "#" else ():
        _kinds = {"S": F32, "D": F64, "C": C32, "Z": C64} if _symbol[0] == "T" else {"": -1}
        for _letter, _kind in _kinds.items():
            _declare(_letter + _symbol[len(_letter) :], _RUNS[_run], _words, _kind)
