"""printf as a C library formats it, for text that kernels print.

CUDA formats on the host: a kernel leaves the format and its packed arguments, each aligned to its size, and `float` as
`double` (CUDA C++ Programming Guide, "Formatted Output"). What the conversions mean is ISO C's fprintf.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable

_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d*))?"
    r"(?P<length>hh|h|ll|l|j|z|t|L)?(?P<type>[diouxXeEfFgGaAcsp%])"
)
_SIZES = {"hh": 1, "h": 2, None: 4, "l": 8, "ll": 8, "j": 8, "z": 8, "t": 8, "L": 8}
_MANTISSA_DIGITS = 13


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
    parts, position = [], 0
    for match in _CONVERSION.finditer(form):
        parts.append(form[position : match.start()])
        parts.append(_convert(match, arguments, string))
        position = match.end()
    return "".join((*parts, form[position:])), arguments.count


class _Arguments:
    """Takes arguments one after the other out of their buffer."""

    def __init__(self, read: Callable[[int, int], bytes]) -> None:
        self.read, self.offset, self.count = read, 0, 0

    def take(self, size: int) -> bytes:
        start = -(-self.offset // size) * size
        self.offset = start + size
        self.count += 1
        return self.read(start, size)

    def integer(self, size: int, signed: bool) -> int:
        """An integer of 1, 2, 4 or 8 bytes; those below 4 are passed as int."""
        return int.from_bytes(self.take(max(size, 4))[:size], "little", signed=signed)


def _convert(match: re.Match[str], arguments: _Arguments, string: Callable[[int], str]) -> str:
    kind, flags = match["type"], match["flags"]
    if kind == "%":
        return "%"
    width = arguments.integer(4, True) if match["width"] == "*" else int(match["width"] or 0)
    if width < 0:
        flags, width = flags + "-", -width
    precision: int | None = None
    if match["precision"] is not None:
        precision = arguments.integer(4, True) if match["precision"] == "*" else int(match["precision"] or 0)
        precision = None if precision < 0 else precision
    size = _SIZES[match["length"]]
    if kind in "di":
        value = arguments.integer(size, True)
        return _padded(
            _sign(value < 0, flags), _digits(str(abs(value)), precision), flags, width, precision is None
        )
    if kind in "uoxX":
        return _unsigned(arguments.integer(size, False), kind, flags, width, precision)
    if kind in "eEfFgGaA":
        return _floating(struct.unpack("<d", arguments.take(8))[0], kind, flags, width, precision)
    if kind == "p":
        value = arguments.integer(8, False)
        return _padded("", f"{value:#x}" if value else "(nil)", flags, width, False)
    if kind == "c":
        return _padded("", chr(arguments.integer(1, False)), flags, width, False)
    address = arguments.integer(8, False)
    text = string(address) if address else "(null)"
    return _padded("", text[:precision], flags, width, False)


def _unsigned(value: int, kind: str, flags: str, width: int, precision: int | None) -> str:
    digits = _digits(format(value, {"u": "d"}.get(kind, kind)), precision)
    prefix = ""
    if "#" in flags and kind in "xX" and value:
        prefix = "0" + kind
    elif "#" in flags and kind == "o" and not digits.startswith("0"):
        digits = "0" + digits
    return _padded(prefix, digits, flags, width, precision is None)


def _floating(value: float, kind: str, flags: str, width: int, precision: int | None) -> str:
    negative = math.copysign(1.0, value) < 0
    if math.isfinite(value):
        magnitude, prefix = abs(value), _sign(negative, flags)
        if kind in "aA":
            digits = _hexadecimal(magnitude, precision)
            prefix += "0x" if kind == "a" else "0X"
        else:
            form = f"%{'#' if '#' in flags else ''}.{6 if precision is None else precision}{kind}"
            digits = form % magnitude
        return _padded(prefix, digits.upper() if kind == "A" else digits, flags, width, True)
    word = "nan" if math.isnan(value) else "inf"
    return _padded(_sign(negative, flags), word.upper() if kind.isupper() else word, flags, width, False)


def _hexadecimal(value: float, precision: int | None) -> str:
    """%a without sign and 0x: one hexadecimal digit, the fraction, and the power of two."""
    mantissa, _, power = value.hex().removeprefix("0x").partition("p")
    bits = int(mantissa.replace(".", "").ljust(1 + _MANTISSA_DIGITS, "0"), 16)
    if precision is not None and precision < _MANTISSA_DIGITS:
        step = 16 ** (_MANTISSA_DIGITS - precision)
        whole, rest = divmod(bits, step)
        whole += rest * 2 > step or (rest * 2 == step and whole % 2)
        bits = whole * step
    digits = f"{bits:0{1 + _MANTISSA_DIGITS}x}"
    lead, fraction = digits[:-_MANTISSA_DIGITS], digits[-_MANTISSA_DIGITS:]
    fraction = fraction.rstrip("0") if precision is None else fraction.ljust(precision, "0")[:precision]
    return lead + ("." + fraction if fraction else "") + "p" + power


def _digits(digits: str, precision: int | None) -> str:
    """At least so many digits; none for zero with a precision of 0."""
    return "" if precision == 0 and digits == "0" else digits.rjust(precision or 1, "0")


def _sign(negative: bool, flags: str) -> str:
    return "-" if negative else "+" if "+" in flags else " " if " " in flags else ""


def _padded(prefix: str, digits: str, flags: str, width: int, zeros: bool) -> str:
    """To the width: spaces behind, zeros between prefix and digits, or spaces before."""
    if "-" in flags:
        return (prefix + digits).ljust(width)
    if "0" in flags and zeros:
        return prefix + digits.rjust(width - len(prefix), "0")
    return (prefix + digits).rjust(width)
