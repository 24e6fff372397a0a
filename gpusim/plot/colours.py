"""One colour for each thing, in every picture: stall reasons, execution units, levels of memory. No matplotlib here.

The eight colours are Okabe and Ito's ("Color Universal Design", 2008), which people with any colour vision tell apart.
There are more stall reasons than that, so reasons of one kind share a hue and differ in lightness, and pictures name
what they show in words besides.
"""

from __future__ import annotations

from gpusim.engine.layout import STALLS
from isa import microops as M

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILLION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip
INK, GREY, LIGHT, PALE = "#222222", "#666666", "#BDBDBD", "#EEEEEE"
"""Text, lines that guide the eye, and what is switched off."""

STALL_COLOURS = {
    "selected": GREEN,
    "not_selected": "#8FD1BC",
    "wait": YELLOW,
    "long_scoreboard": VERMILLION,
    "short_scoreboard": BLUE,
    "barrier": PURPLE,
    "branch_resolving": "#5A5A5A",
    "no_instruction": "#8C8C8C",
    "imc_miss": "#B5B5B5",
    "math_pipe_throttle": "#7A6A00",
    "mio_throttle": SKY,
    "lg_throttle": ORANGE,
    "membar": "#8A4B73",
    "sleeping": "#D9D9D9",
    "drain": "#F2B48C",
    "dispatch_stall": "#3D3D3D",
    "tex_throttle": "#B8DDF4",
    "misc": "#CFCFCF",
}
"""Colour of each stall reason of `gpusim.engine.layout.STALLS`. Memory is warm, what shares the data pipe of an SM is
blue, waiting for others is purple, the front end is grey."""

UNIT_COLOURS = {
    M.UNIT_FMA: BLUE,
    M.UNIT_FMAHEAVY: "#004C78",
    M.UNIT_ALU: SKY,
    M.UNIT_FP64: PURPLE,
    M.UNIT_HALF: "#8A4B73",
    M.UNIT_XU: YELLOW,
    M.UNIT_LSU: VERMILLION,
    M.UNIT_UNIFORM: "#8FD1BC",
    M.UNIT_CBU: "#5A5A5A",
    M.UNIT_TENSOR: GREEN,
    M.UNIT_ADU: "#A0A0A0",
    M.UNIT_TEX: ORANGE,
}
"""Colour of each execution pipe, by its number in the lowered program; names are in `gpusim.limiter.PIPES`."""

LEVEL_COLOURS = {"L1": GREEN, "L2": BLUE, "DRAM": VERMILLION}
"""Colour of each level of memory."""

IDEAL, EXCESSIVE, SHARED_WORD = BLUE, VERMILLION, GREEN
"""What an access needs at least, what it costs beyond that, and a word that several lanes share."""

assert set(STALL_COLOURS) == set(STALLS)
