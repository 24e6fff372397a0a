"""Metrics of a launch under Nsight Compute's names; `metric_table.METRICS` says what each means."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping

from gpusim.results.counts import Counts
from gpusim.results.metric_table import METRICS, STALL_MEANINGS, Metric
from gpusim.results.record import LaunchRecord

__all__ = ["METRICS", "STALL_MEANINGS", "Metric", "MetricValues", "UnknownMetric"]


_TIMED = re.compile(
    "cycle|time|active|lookup|stalled|latency|lts__|dram__|nvl|fmaheavy|^sm__inst_executed_pipe_adu|lsu_wavefronts.sum"
)
"""What a metric's name holds that does not follow from instructions and addresses alone."""


class UnknownMetric(KeyError):
    """No metric has the name asked for. `nearest`: names that look like it, the likeliest first."""

    def __init__(self, name: object, mode: str = "detailed"):
        self.name = name
        self.nearest = [] if name in METRICS else difflib.get_close_matches(str(name), METRICS, n=3, cutoff=0.5)
        hint = f"; did you mean {', '.join(self.nearest)}?" if self.nearest else ""
        self.message = f"a {mode} run has no {name}" if name in METRICS else f"no metric named {name!r}{hint}"
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message  # KeyError would show its repr, in quotes


class MetricValues(Mapping[str, float]):
    """The metrics of one launch, each computed when asked for. Counts are ints, everything else floats.

    A functional run has those that follow from instructions and addresses alone. A name that is not there raises
    UnknownMetric, a KeyError that names the nearest ones.
    """

    def __init__(self, counts: Counts | LaunchRecord):
        self._counts = counts if isinstance(counts, Counts) else Counts(counts)
        self._known: dict[str, float] = {}
        timed = self._counts.record.timed
        self._names = METRICS if timed else {name: METRICS[name] for name in METRICS if not _TIMED.search(name)}

    def __getitem__(self, name: str) -> float:
        if name not in self._names:
            raise UnknownMetric(name, self._counts.record.mode)
        if name not in self._known:
            self._known[name] = METRICS[name].compute(self._counts)
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"MetricValues({dict(self)!r})"
