"""Numbers as people read them: with a decimal prefix and a unit, and in columns that never run together."""

from __future__ import annotations

_BELOW = ((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"), (1e-12, "p"))


def scaled(value: float, digits: int = 1) -> str:
    """Number and decimal prefix, ready for a unit: '12.3 G'."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.{digits}f} {prefix}"
    return f"{value:.0f} "


def whole(text: str) -> int:
    """An integer as people spell one: '1000000', '1_000_000', '0x10' or '1e6'. Raises ValueError."""
    try:
        return int(text, 0)
    except ValueError:
        value = float(text)
        if not value.is_integer():
            raise
        return int(value)


def counted(number: int, noun: str, verb: str = "") -> str:
    """'1 line', '2 lines', '2 branches', '2 copies'; with a verb, '1 block occupies', '2 blocks occupy'."""
    one, other = noun + (verb and f" {_several(verb)}"), _several(noun) + (verb and f" {verb}")
    return f"{number:,} {one if number == 1 else other}"


def _several(word: str) -> str:
    return f"{word[:-1]}ies" if word.endswith("y") else word + plural(2, word)


def plural(number: float, noun: str) -> str:
    """The ending of a noun behind this number."""
    return "" if number == 1 else "es" if noun.endswith("ch") else "s"


def byte_text(value: float) -> str:
    """Bytes: '12.3 GB'."""
    return f"{scaled(value)}B"


def rate_text(value: float) -> str:
    """Bytes a second: '12.3 GB/s'."""
    return f"{scaled(value)}B/s"


def joule_text(value: float, micro: str = "u") -> str:
    """Joules to three digits: '2.31 mJ'. micro: the prefix of millionths, where it is not plain text."""
    if not value:
        return "0 J"
    factor, prefix = next((each for each in _BELOW if value >= each[0]), _BELOW[-1])
    number = value / factor
    return f"{number:,.{2 if number < 9.995 else 1 if number < 99.95 else 0}f} {prefix.replace('u', micro)}J"


def aligned(*cells: tuple[str, int]) -> str:
    """A row of a table: (text, width) of each cell, to the right of its width, or of a negative one to the left. What
    is too long for its cell moves the others, but a blank is always between two."""
    row = ""
    for text, width in cells:
        cell = text.ljust(-width) if width < 0 else text.rjust(width)
        row += f" {cell}" if row and not row.endswith(" ") and not cell.startswith(" ") else cell
    return row


def cut(text: str, width: int = 100) -> str:
    """A text, or what of it has room."""
    return text if len(text) <= width else text[: width - 3] + "..."
