"""Numbers as people read them: with a decimal prefix and a unit."""

from __future__ import annotations


def scaled(value: float, digits: int = 1) -> str:
    """Number and decimal prefix, ready for a unit: '12.3 G'."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.{digits}f} {prefix}"
    return f"{value:.0f} "


def byte_text(value: float) -> str:
    """Bytes: '12.3 GB'."""
    return f"{scaled(value)}B"


def rate_text(value: float) -> str:
    """Bytes a second: '12.3 GB/s'."""
    return f"{scaled(value)}B/s"
