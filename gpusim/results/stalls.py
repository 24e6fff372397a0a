"""Meanings and colours of the stall reasons, out of `stalls.toml`. Pictures and pages share the colours: Okabe and
Ito's eight, and one for each reason.

The eight colours are of "Color Universal Design" (2008), which people with any colour vision tell apart. There are more
stall reasons than that; the other colours are those that lie furthest from these and from each other for people with
normal and with each kind of dichromatic vision. The tests hold them to it.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from gpusim.engine.state.layout import STALLS

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILLION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip

_STALLS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
STALL_MEANINGS = {reason: row["meaning"] for reason, row in _STALLS.items()}
"""Event or resource that a warp waits for, by stall reason."""
STALL_COLOURS = {reason: row["colour"] for reason, row in _STALLS.items()}
"""Colour of each stall reason of `gpusim.engine.state.layout.STALLS`."""
STALL_LIMITS = {reason: row["limits"] for reason, row in _STALLS.items() if "limits" in row}
"""What a launch is limited by whose main reason it is."""


def stall_dye(reason: str) -> tuple[str, str] | None:
    """Colours of a stall reason on a light and on a dark page; None for what is none."""
    row = _STALLS.get(reason)
    return None if row is None else (row["colour"], row.get("on_dark", row["colour"]))


assert set(_STALLS) == set(STALLS)
