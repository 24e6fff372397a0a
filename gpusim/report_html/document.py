"""Everything that the page shows, as one JSON document."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpusim.engine.state import layout as L
from gpusim.report_html.occupancy import make_occupancy
from gpusim.report_html.sections import SECTIONS, make_sections
from gpusim.report_html.steps import make_steps
from gpusim.report_html.warps import make_warps
from gpusim.results.analysis import Analysis
from gpusim.results.colours import stall_dye
from gpusim.results.metric_table import METRICS, STALL_MEANINGS

FIELDS = (
    "instructions", "thread_instructions", "thread_instructions_pred_on", "branches", "divergent_branches",
    "shared_wavefronts", "shared_wavefronts_excessive", "requests", "sectors", "sectors_ideal", "cycles", "energy_j",
)  # fmt: skip
"""What the document holds of each instruction's `gpusim.results.costs.InstructionCosts`, in order, before stalls."""


def make_document(
    result: Analysis,
    title: str | None = None,
    *,
    kernel: str | None = None,
    sections: Collection[str] = (),
    index: str | None = None,
) -> dict[str, Any]:
    """The document, of plain Python values. Numbers have the units of the attributes they stand for.

    kernel: its full name. sections: the only ones to show, by the names in `SECTIONS`; none for all. index: the page
    that lists this one.
    """
    record = result.record
    config = record.config
    shown = list(sections) or list(SECTIONS)
    coded = not {"source", "warps", "stepper"}.isdisjoint(shown)
    return {
        "title": title or result.kernel,
        "kernel": kernel or result.kernel,
        "index": index,
        "shown": shown,
        "gpu": {"name": config.gpu.name, "arch": config.gpu.arch, "clock_mhz": config.gpu.clock_mhz},
        "launch": {
            "grid": list(record.launch.grid),
            "block": list(record.launch.block),
            "registers": record.program.registers,
        },
        "cycles": result.cycles,
        "time_us": result.time_us,
        "energy_j": result.energy_j,
        "power_w": result.power_w,
        "interval": str(result.interval),
        "limiter": asdict(result.limiter),
        "advice": [asdict(each) for each in result.advice],
        "metrics": dict(result.metrics),
        "meanings": {name: [each.unit, each.meaning] for name, each in METRICS.items()},
        "sections": make_sections(result),
        "roofline": result.roofline.to_dict(),
        "occupancy": make_occupancy(result),
        "stalls": [[name, STALL_MEANINGS[name], *(stall_dye(name) or ())] for name in L.STALLS],
        "stall_reasons": {name: asdict(each) for name, each in result.stall_reasons.items()},
        "sm_active_cycles": record.sm_active_cycles.tolist(),
        "sm_blocks": record.sm_blocks.tolist(),
        "fields": list(FIELDS),
        **(_code(result) if coded else {"instructions": [], "source": []}),
        "warps": make_warps(result.trace) if "warps" in shown else None,
        "trace": make_steps(result.trace) if "stepper" in shown else None,
    }


def _code(result: Analysis) -> dict[str, Any]:
    """Instructions with their costs, and the source lines around them."""
    files: list[str] = []
    span: dict[str, tuple[int, int]] = {}
    rows = []
    for each in result.instructions:
        if each.file is not None and each.line is not None:
            if each.file not in span:
                files.append(each.file)
            first, last = span.get(each.file, (each.line, each.line))
            span[each.file] = min(first, each.line), max(last, each.line)
        where = -1 if each.file is None else files.index(each.file) if each.file in files else -1
        waits = [value for name, n in each.stalls.items() for value in (L.STALLS.index(name), n)]
        rows.append([each.address, each.text, where, each.line or 0, [getattr(each, f) for f in FIELDS], waits])
    source = []
    for file in files:
        text = result.record.program.source.get(file, [])
        first = span[file][0]
        last = span[file][1]
        source.append({"name": Path(file).name, "first": first, "lines": text[first - 1 : last]})
    return {"instructions": rows, "source": source}
