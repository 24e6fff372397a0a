"""Pictures of a result: one function for each, which returns matplotlib's axes (a figure where it has several).

    result = gpusim.simulate(kernel, grid, block, args)
    gpusim.plot.roofline(result)

matplotlib is imported when the first picture is drawn. Every number in a picture equals that of `result.metrics`;
`text_alternative` says in words what a picture shows, `save` writes it. docs/figures.md shows them all.

Reading order: `colours` (what has which colour), `style` (how pictures look), `launches` and `scatter` (of results),
`timelines` (rows of bars over time), `lanes` and `accesses` (of traces), `sweeps` (of explorations), `everything` (all
that a result has something for).
"""

from gpusim.plot.accesses import bank_wavefronts, coalescing
from gpusim.plot.everything import write_all
from gpusim.plot.lanes import divergence_tree, lane_activity
from gpusim.plot.launches import energy_breakdown, occupancy_calculator, roofline, stall_breakdown
from gpusim.plot.scatter import latency_and_throughput, predicted_against_measured
from gpusim.plot.style import save, text_alternative
from gpusim.plot.sweeps import pareto, scaling_curves, tornado
from gpusim.plot.timelines import (
    collective_steps,
    link_utilisation,
    scheduler_timeline,
    sm_residency,
    streams_timeline,
    training_timeline,
)

FIGURES = (
    bank_wavefronts, coalescing, collective_steps, divergence_tree, energy_breakdown, lane_activity,
    latency_and_throughput, link_utilisation, occupancy_calculator, pareto, predicted_against_measured, roofline,
    scaling_curves, scheduler_timeline, sm_residency, stall_breakdown, streams_timeline, tornado, training_timeline,
    write_all,
)  # fmt: skip
"""The functions that draw."""
__all__ = ["save", "text_alternative", *(draw.__name__ for draw in FIGURES)]
