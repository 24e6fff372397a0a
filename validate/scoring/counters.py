"""Errors of each modelled counter against the hardware, and the targets of the counters of caches and memory.

An error is relative to what was measured, but at least to a floor: below it a count is noise. Between two launches of
one kernel an H200 itself differs by up to 850 sectors in nine of ten of the programs that may be looked at, since the
profiler flushes caches and the driver writes its own data. A point where neither the hardware nor the simulator
counted anything says nothing and is not scored, or a counter that is mostly zero would look exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpusim.results.metrics import METRICS
from validate.replay import Comparison, Pair
from validate.score import Errors

FLOORS: Mapping[str, float] = {"sector": 1024, "byte": 32 * 1024, "request": 256, "": 1024, "%": 1.0, "warp": 0.1}
"""Least denominators by unit; '' are wavefronts. Percentages count in points, stall reasons in warps per issue. Cycles
and times have none."""


@dataclass(frozen=True)
class CounterGroup:
    """Counters that are scored together, as their sum, and how close they are to come: shares of the measured."""

    title: str
    names: tuple[str, ...]
    median: float = 0.01
    p90: float = 0.06

    def error(self, row: Comparison) -> float | None:
        """Signed error of the sum, as the function has it; None also where a counter was not recorded."""
        if not all(name in row.modelled for name in self.names):
            return None
        pairs = [row.modelled[name] for name in self.names]
        whole = Pair(sum(pair.measured for pair in pairs), sum(pair.predicted for pair in pairs))
        return error(whole, METRICS[self.names[0]].unit)

    def met_by(self, found: Errors) -> bool:
        """Return whether both targets are met."""
        return found.median <= self.median and found.p90 <= self.p90


GROUPS = (
    CounterGroup("L1 hits", ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",)),
    CounterGroup("L2 sectors", ("lts__t_sectors_srcunit_tex.sum",)),
    CounterGroup("L2 hits", ("lts__t_sectors_srcunit_tex_lookup_hit.sum",)),
    CounterGroup("fabric sectors", ("lts__t_sectors_srcunit_ltcfabric.sum",)),
    CounterGroup("DRAM bytes", ("dram__bytes_read.sum", "dram__bytes_write.sum")),
)
"""The counters of caches and memory that have targets."""


def error(pair: Pair, unit: str) -> float | None:
    """Signed error as a share of what was measured or of the floor; None where nothing was counted on either side."""
    if not pair.measured and not pair.predicted:
        return None
    scale = max(abs(pair.measured), FLOORS.get(unit, 0.0))
    return (pair.predicted - pair.measured) / scale if scale else None


def score(group: CounterGroup, rows: Sequence[Comparison]) -> Errors | None:
    """The score of a group; None where no point counted anything."""
    return Errors.of([(row.point, off) for row in rows if (off := group.error(row)) is not None])


def every(rows: Sequence[Comparison]) -> dict[str, Errors]:
    """A score for each modelled counter by itself."""
    names = dict.fromkeys(name for row in rows for name in row.modelled)
    return {name: found for name in names if (found := score(CounterGroup(name, (name,)), rows)) is not None}
