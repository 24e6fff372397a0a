"""One colour for each thing, in every picture: stall reasons, execution units, levels of memory. No matplotlib here.

The eight colours are Okabe and Ito's ("Color Universal Design", 2008), which people with any colour vision tell apart.
There are more stall reasons and execution pipes than that; the other colours are those that lie furthest from these and
from each other for people with normal and with each kind of dichromatic vision. The tests hold them to it.
"""

from __future__ import annotations

from gpusim.engine.state.layout import STALLS
from isa import microops as M

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILLION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip
INK, GREY, LIGHT, PALE = "#222222", "#666666", "#C4C4C4", "#F2F2F2"
"""Text, lines that guide the eye, and what is switched off."""

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

UNIT_COLOURS = {
    M.UNIT_FMA: BLUE,
    M.UNIT_FMAHEAVY: "#002D80",
    M.UNIT_ALU: SKY,
    M.UNIT_FP64: PURPLE,
    M.UNIT_HALF: "#66355F",
    M.UNIT_XU: YELLOW,
    M.UNIT_LSU: VERMILLION,
    M.UNIT_UNIFORM: "#B0F69E",
    M.UNIT_CBU: "#1A1A1A",
    M.UNIT_TENSOR: GREEN,
    M.UNIT_ADU: "#86391F",
    M.UNIT_TEX: ORANGE,
}
"""Colour of each execution pipe, by its number in the lowered program; names are in `gpusim.results.limiter.PIPES`."""

LEVEL_COLOURS = {"L1": GREEN, "L2": BLUE, "DRAM": VERMILLION}
"""Colour of each level of memory."""

WORK_COLOURS = {
    "forward": BLUE,
    "backward": ORANGE,
    "recompute": SKY,
    "reduce": VERMILLION,
    "gather": GREEN,
    "scatter": PURPLE,
    "send": YELLOW,
}
"""Colour of each kind of event of a training step: compute and communication."""

LINE_COLOURS, MARKERS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK), "os^DvPX"
"""Curves of one picture, one after the other."""

IDEAL, EXCESSIVE, SHARED_WORD = BLUE, VERMILLION, GREEN
"""What an access needs at least, what it costs beyond that, and a word that several lanes share."""

assert set(STALL_COLOURS) == set(STALLS)
