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
    return _CONVERSION.sub(lambda match: _convert(match, arguments, string), form), arguments.count


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
    """The text of the next argument."""
    kind, flags = match["type"], match["flags"]
    if kind == "%":
        return "%"
    width = arguments.integer(4, True) if match["width"] == "*" else int(match["width"] or 0)
    precision: int | None = None
    if match["precision"] is not None:
        precision = arguments.integer(4, True) if match["precision"] == "*" else int(match["precision"] or 0)
        precision = None if precision < 0 else precision
    zeros, size = "0" in flags, _SIZES[match["length"]]
    if kind in "diouxX":
        value, base = arguments.integer(size, kind in "di"), kind if kind in "oxX" else "d"
        digits = "" if precision == value == 0 else format(abs(value), base).rjust(precision or 1, "0")
        prefix = _sign(value < 0, flags) if kind in "di" else ""
        if "#" in flags and kind == "o":
            digits = "0" + digits.removeprefix("0")
        elif "#" in flags and kind in "xX" and value:
            prefix = "0" + kind
        zeros = zeros and precision is None
    elif kind in "eEfFgGaA":
        number = struct.unpack("<d", arguments.take(8))[0]
        prefix, zeros = _sign(math.copysign(1.0, number) < 0, flags), zeros and math.isfinite(number)
        if kind in "aA" and math.isfinite(number):
            prefix, digits = prefix + "0x", _hexadecimal(abs(number), precision)
        else:
            form = f"%{'#' if '#' in flags else ''}.{6 if precision is None else precision}{kind}"
            digits = (form if math.isfinite(number) else "%g") % abs(number)
        prefix, digits = (prefix.upper(), digits.upper()) if kind.isupper() else (prefix, digits)
    else:
        zeros, prefix, value = False, "", arguments.integer(1 if kind == "c" else 8, False)
        if kind == "s":
            digits = (string(value) if value else "(null)")[:precision]
        else:
            digits = chr(value) if kind == "c" else f"{value:#x}" if value else "(nil)"
    if "-" in flags or width < 0:
        return (prefix + digits).ljust(abs(width))
    return (prefix + digits.rjust(width - len(prefix), "0")) if zeros else (prefix + digits).rjust(width)


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


def _sign(negative: bool, flags: str) -> str:
    return "-" if negative else "+" if "+" in flags else " " if " " in flags else ""
