"""Colours that pictures and pages share: Okabe and Ito's eight, and one for each stall reason.

The eight colours are of "Color Universal Design" (2008), which people with any colour vision tell apart. There are more
stall reasons than that; the other colours are those that lie furthest from these and from each other for people with
normal and with each kind of dichromatic vision. The tests hold them to it.
"""

from __future__ import annotations

from gpusim.engine.state.layout import STALLS

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILLION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip

STALL_COLOURS = {
    "selected": GREEN,
    "not_selected": "#90EC64",
    "wait": YELLOW,
    "long_scoreboard": VERMILLION,
    "short_scoreboard": BLUE,
    "barrier": PURPLE,
    "branch_resolving": "#1A1A1A",
    "no_instruction": "#666666",
    "imc_miss": "#C7C7C7",
    "math_pipe_throttle": "#512F03",
    "mio_throttle": SKY,
    "lg_throttle": ORANGE,
    "membar": "#340F40",
    "sleeping": "#CCEEFE",
    "drain": "#EDB882",
    "dispatch_stall": "#101365",
    "tex_throttle": "#99C2DE",
    "misc": "#FBEEE2",
}
"""Colour of each stall reason of `gpusim.engine.state.layout.STALLS`: issue and what could issue are green, global
memory is warm, shared memory blue, barriers and fences purple, the front end grey."""

ON_DARK = {
    "branch_resolving": "#FFFFFF",
    "math_pipe_throttle": "#B5763A",
    "membar": "#B46BD6",
    "dispatch_stall": "#8A8DFF",
    "no_instruction": "#838B95",
}
"""The reasons whose colour would not be seen on a dark page, with another."""


def stall_dye(reason: str) -> tuple[str, str] | None:
    """Colours of a stall reason on a light and on a dark page; None for what is none."""
    colour = STALL_COLOURS.get(reason)
    return None if colour is None else (colour, ON_DARK.get(reason, colour))


assert set(STALL_COLOURS) == set(STALLS) and set(ON_DARK) <= set(STALLS)
