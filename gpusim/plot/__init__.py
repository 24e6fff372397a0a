"""Pictures of a result: one function for each, which returns matplotlib's axes (a figure where it has several).

    result = gpusim.simulate(kernel, grid, block, args)
    gpusim.plot.roofline(result)

matplotlib is imported when the first picture is drawn. Every number in a picture equals that of `result.metrics`;
`text_alternative` says in words what a picture shows, `save` writes it. docs/figures.md shows them all.

Reading order: `colours` (what has which colour), `style` (how pictures look), then one module for each picture.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpusim.plot.bank_map import bank_wavefronts
    from gpusim.plot.collective_chart import collective_steps
    from gpusim.plot.everything import write_all
    from gpusim.plot.heat import heat_map
    from gpusim.plot.lane_map import lane_activity
    from gpusim.plot.link_map import link_utilisation
    from gpusim.plot.memory_map import memory_load
    from gpusim.plot.occupancy_chart import occupancy_calculator
    from gpusim.plot.pareto_chart import pareto
    from gpusim.plot.residency_chart import sm_residency
    from gpusim.plot.roofs import roofline
    from gpusim.plot.scaling import scaling_curves
    from gpusim.plot.scatter import predicted_against_measured
    from gpusim.plot.screening_chart import morris
    from gpusim.plot.sector_map import coalescing
    from gpusim.plot.several_roofs import rooflines
    from gpusim.plot.stall_bars import stall_breakdown
    from gpusim.plot.step_chart import training_timeline
    from gpusim.plot.style import MatplotlibMissing, save, text_alternative
    from gpusim.plot.timeline import scheduler_timeline
    from gpusim.plot.tornado_chart import tornado
    from gpusim.plot.tree import divergence_tree

_HOME = {
    "MatplotlibMissing": "style",
    "bank_wavefronts": "bank_map",
    "coalescing": "sector_map",
    "collective_steps": "collective_chart",
    "divergence_tree": "tree",
    "heat_map": "heat",
    "lane_activity": "lane_map",
    "link_utilisation": "link_map",
    "memory_load": "memory_map",
    "morris": "screening_chart",
    "occupancy_calculator": "occupancy_chart",
    "pareto": "pareto_chart",
    "predicted_against_measured": "scatter",
    "roofline": "roofs",
    "rooflines": "several_roofs",
    "save": "style",
    "scaling_curves": "scaling",
    "scheduler_timeline": "timeline",
    "sm_residency": "residency_chart",
    "stall_breakdown": "stall_bars",
    "text_alternative": "style",
    "training_timeline": "step_chart",
    "tornado": "tornado_chart",
    "write_all": "everything",
}

__all__ = [
    "MatplotlibMissing",
    "bank_wavefronts",
    "coalescing",
    "collective_steps",
    "divergence_tree",
    "heat_map",
    "lane_activity",
    "link_utilisation",
    "memory_load",
    "morris",
    "occupancy_calculator",
    "pareto",
    "predicted_against_measured",
    "roofline",
    "rooflines",
    "save",
    "scaling_curves",
    "scheduler_timeline",
    "sm_residency",
    "stall_breakdown",
    "text_alternative",
    "tornado",
    "training_timeline",
    "write_all",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gpusim.plot' has no attribute {name!r}")
    value = getattr(import_module(f"gpusim.plot.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
