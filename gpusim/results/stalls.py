"""Meanings and colours of the stall reasons. Pictures and pages share the colours: Okabe and Ito's eight, and one for
each reason.

The eight colours are of "Color Universal Design" (2008), which people with any colour vision tell apart. There are more
stall reasons than that; the other colours are those that lie furthest from these and from each other for people with
normal and with each kind of dichromatic vision. The tests hold them to it.
"""

from __future__ import annotations

from gpusim.engine.state.layout import STALLS

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILLION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip

_STALLS = {
    "selected": ("nothing, the instruction issues", GREEN),
    "not_selected": ("the scheduler, which took another warp", "#90EC64"),
    "wait": ("a fixed latency of the previous instruction", YELLOW),
    "long_scoreboard": ("the result of an access to global or local memory", VERMILLION),
    "short_scoreboard": ("the result of shared memory, a special function, a shuffle or the like", BLUE),
    "barrier": ("the other warps of the block at a barrier", PURPLE),
    "branch_resolving": ("the target of a branch", "#1A1A1A"),
    "no_instruction": ("instruction fetch", "#666666"),
    "imc_miss": ("a constant that is not in the immediate constant cache", "#C7C7C7"),
    "math_pipe_throttle": ("an execution pipe that is busy", "#512F03"),
    "mio_throttle": ("the queue of shared memory, special functions and the like, which is full", SKY),
    "lg_throttle": ("the queue of global and local memory, which is full", ORANGE),
    "membar": ("a memory fence", "#340F40"),
    "sleeping": ("the end of a nanosleep", "#CCEEFE"),
    "drain": ("the last stores of an exiting warp", "#EDB882"),
    "dispatch_stall": ("the dispatcher, which holds the instruction back", "#101365"),
    "tex_throttle": ("the queue of texture instructions, which is full", "#99C2DE"),
    "misc": ("something else", "#FBEEE2"),
}
STALL_MEANINGS = {reason: meaning for reason, (meaning, _) in _STALLS.items()}
"""Event or resource that a warp waits for, by stall reason."""
STALL_COLOURS = {reason: colour for reason, (_, colour) in _STALLS.items()}
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
