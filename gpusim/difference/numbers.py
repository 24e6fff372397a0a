"""How the views of a difference spell numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpusim.difference.pairs import Change


def spelled(value: Any, unit: str = "") -> str:
    """A value for a person: thousands separated, fractions to two decimals, a dash where there is none."""
    if value is None:
        text = "-"
    elif isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        text = f"{int(value):,}"
    elif isinstance(value, float):
        text = f"{value / 1e9:,.2f} G" if abs(value) >= 1e9 else f"{value:,.2f}"
        if 0 < abs(value) < 0.005:
            text = f"{value:.1g}"
    elif isinstance(value, list | tuple):
        text = "(" + ", ".join(map(spelled, value)) + ")"
    else:
        text = str(value)
    return f"{text} {unit}" if unit and value is not None else text


def times(change: Change) -> str:
    """The ratio: '0.79x', '=' if nothing changed, 'gone' or 'new' at zero."""
    if change.equal:
        return "="
    if change.ratio is None:
        return "new" if isinstance(change.b, int | float) and not change.a else ""
    return "gone" if change.ratio == 0 else f"{change.ratio:.2f}x"


def signed(value: float, digits: int = 0) -> str:
    """A difference with its sign, none for zero."""
    text = f"{value:+,.{digits}f}"
    return text.lstrip("+-") if float(text.replace(",", "")) == 0 else text


def cells(change: Change, spell: Callable[[float], str]) -> list[str]:
    """Both sides, their ratio and their difference as `spell` writes a number; of what one side has, that alone."""
    both = ["-" if each is None else spell(each) for each in (change.a, change.b)]
    if "-" in both:
        return [*both, "", ""]
    size = spell(abs(change.difference))
    sign = "" if size == spell(0) else "-" if change.difference < 0 else "+"
    return [*both, times(change), sign + size]


def watts(value: float) -> str:
    """A power without its unit."""
    return f"{value:,.0f}"


def percent(share: float | None) -> str:
    """A share, a dash where there is none."""
    return "-" if share is None else f"{100 * share:.1f} %"
