"""One colour for each thing, in every picture: stall reasons, execution units, levels of memory. No matplotlib here.

The eight colours and those of stall reasons are `gpusim.results.stalls`, which pages have too; there are more
execution pipes than that, and their other colours are chosen like those. The tests hold them to it.
"""

from __future__ import annotations

from gpusim.results.limiter import PIPE_COLOURS as PIPE_COLOURS
from gpusim.results.stalls import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, YELLOW
from gpusim.results.stalls import STALL_COLOURS as STALL_COLOURS

INK, GREY, LIGHT, PALE = "#222222", "#666666", "#C4C4C4", "#F2F2F2"
"""Text, lines that guide the eye, and what is switched off."""

LEVEL_COLOURS = {"L1": GREEN, "L2": BLUE, "DRAM": VERMILLION}
"""Colour of each level of memory."""

WORK_COLOURS = {
    "forward": BLUE, "backward": ORANGE, "recompute": SKY, "reduce": VERMILLION, "gather": GREEN, "scatter": PURPLE,
    "send": YELLOW,
}  # fmt: skip
"""Colour of each kind of event of a training step: compute and communication."""

SPAN_COLOURS = {
    "kernel": BLUE, "copy": ORANGE, "prefetch": PURPLE, "host": GREEN, "fault": VERMILLION, "host's fault": SKY,
}  # fmt: skip
"""Colour of each kind of span of a stream."""
STEP_COLOURS = {"sends its own": ORANGE, "receives and sends on": BLUE, "receives": GREEN}
"""Colour of each kind of step of a collective."""

WAVE_COLOURS = (BLUE, ORANGE, SKY, GREEN, PURPLE)
"""Blocks of a place on an SM, one after the other."""

DEPTH_COLOURS = (BLUE, ORANGE, SKY, GREEN, PURPLE, YELLOW, VERMILLION)
"""Groups of lanes by how often they have parted, if none has more often; else they take the steps of a colour map."""

LINE_COLOURS, MARKERS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK), "os^DvPX"
"""Curves of one picture, one after the other."""

IDEAL, EXCESSIVE, SHARED_WORD = BLUE, VERMILLION, GREEN
"""The least cost of an access, its cost beyond that, and a word that several lanes share."""
