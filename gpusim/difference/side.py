"""One side of a comparison in plain values, whatever it comes from: a result, its saved JSON, or a recording."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpusim.errors import SimulationError
from gpusim.result import Result
from gpusim.results import SCHEMA_VERSION
from gpusim.results.finding import Finding
from gpusim.results.quantities import shown
from gpusim.results.table import DIFF

STALL = re.compile(r"smsp__average_warps_issue_stalled_(.+)_per_issue_active\.ratio")
"""The metric of a stall reason: warp cycles per issued instruction."""


class NotAResult(SimulationError):
    """A file is neither a result saved by this version nor a recording; the message says why."""


@dataclass(frozen=True)
class LineCost:
    """Cost of one source line. cycles: warp cycles. conflicts: excessive wavefronts of shared memory. excess_sectors:
    sectors of global memory beyond the ideal. threads: active ones per instruction. energy_j: joules without static
    power."""

    file: str
    line: int
    text: str
    cycles: int
    instructions: int
    threads: float
    conflicts: int
    excess_sectors: int
    energy_j: float = 0.0


@dataclass(frozen=True)
class Run:
    """One run as it is compared.

    title: what was run. measured: on hardware, not simulated; then there is no advice and there are no lines.
    launch: how, by name. configuration: the simulated machine by dotted key, None where it is not known.
    numbers: of the launch, by the names of their rows in the table of quantities, None where one is not known, as
    energy of a measured run; spread: least and greatest of several measurements, of which `cycles` is the median.
    metrics: by Nsight Compute's names, without those of stall reasons. stalls: warp cycles per issued instruction
    by reason. energy_parts: joules by unit, None where they are not known.
    """

    title: str
    gpu: str
    measured: bool
    launch: dict[str, Any]
    configuration: dict[str, Any] | None
    numbers: dict[str, float | None]
    metrics: dict[str, float]
    stalls: dict[str, float]
    spread: tuple[float, float] | None = None
    findings: tuple[Finding, ...] = ()
    lines: tuple[LineCost, ...] = field(default=(), repr=False)
    energy_parts: dict[str, float] | None = None

    @property
    def cycles(self) -> float:
        """SM clock cycles of the launch."""
        return self.numbers["cycles"] or 0.0

    @property
    def time_us(self) -> float:
        """Duration of the launch in microseconds."""
        return self.numbers["time_us"] or 0.0

    @property
    def heading(self) -> str:
        """The title, the inputs, and where it ran."""
        spelled = (("size", ","), ("seed", ""))
        inputs = "".join(f", {key} {self.launch[key]:{form}}" for key, form in spelled if key in self.launch)
        return f"{self.title}{inputs}, {'measured' if self.measured else 'simulated'} on {self.gpu}"

    @property
    def latency(self) -> float:
        """Warp cycles per issued instruction, all stall reasons together."""
        return sum(self.stalls.values())


def as_run(source: Result | Mapping[str, Any] | Run, title: str | None = None) -> Run:
    """A run from a result or from what `Result.to_dict` gave. Raises NotAResult."""
    if isinstance(source, Run):
        return source
    document = source if isinstance(source, Mapping) else source.to_dict()
    try:
        return _from_document(document, title)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NotAResult(f"not a result of this version of gpusim: {type(error).__name__} at {error}") from None


def _from_document(document: Mapping[str, Any], title: str | None) -> Run:
    metrics = {name: value for name, value in document["metrics"].items() if not STALL.fullmatch(name)}
    names = ("program", "size", "seed", "kernel", "grid", "block")
    launch = {name: document[name] for name in names if document.get(name) is not None}
    launch["dynamic shared bytes"] = document["shared_bytes"]
    launch["static shared bytes"] = metrics["launch__shared_mem_per_block_static"]
    launch["registers per thread"] = metrics["launch__registers_per_thread"]
    launch["occupancy limited by"] = ", ".join(document["occupancy"]["limiters"])
    rows = [each for each in document["source_lines"] if each["line"] is not None and each["file"] is not None]
    return Run(
        title=title or document.get("program") or document["kernel"],
        gpu=document["gpu"],
        measured=False,
        launch=launch,
        configuration=document.get("configuration"),
        numbers={name: document[name] for name in ("cycles", "time_us")} | numbers_of(document),
        metrics=metrics,
        stalls={reason: each["cycles_per_instruction"] for reason, each in document["stall_reasons"].items()},
        findings=tuple(Finding(**each) for each in document["advice"]),
        lines=tuple(_line(each) for each in rows),
        energy_parts=document.get("energy_parts"),
    )


def numbers_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a launch that are compared beside metrics."""
    return {each.name: values.get(each.name) for each in shown(DIFF) if not each.metric}


def _line(row: Mapping[str, Any]) -> LineCost:
    return LineCost(
        file=row["file"],
        line=row["line"],
        text=row["text"],
        cycles=row["cycles"],
        instructions=row["instructions"],
        threads=row["threads_per_instruction"],
        conflicts=row["shared_wavefronts_excessive"],
        excess_sectors=max(row["sectors"] - row["sectors_ideal"], 0),
        energy_j=row.get("energy_j") or 0.0,
    )


def read_result(path: Path) -> dict[str, Any]:
    """Read what `gpusim run --json` printed into a file. Raises NotAResult, and OSError if it cannot be read."""
    try:
        document = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise NotAResult(f"{path} is no JSON: {error}") from None
    if not isinstance(document, dict) or not {"cycles", "metrics", "stall_reasons"} <= document.keys():
        raise NotAResult(f"{path} is not what gpusim run --json prints")
    if (version := document.get("schema_version", SCHEMA_VERSION)) != SCHEMA_VERSION:
        raise NotAResult(f"{path} has version {version} of the schema; this gpusim reads {SCHEMA_VERSION}")
    return document


def stall_reasons(metrics: Mapping[str, float]) -> dict[str, float]:
    """Warp cycles per issued instruction by stall reason, from the metrics of that family, the greatest first."""
    found = {reason[1]: value for name, value in metrics.items() if (reason := STALL.fullmatch(name))}
    return dict(sorted(found.items(), key=lambda item: -item[1]))
