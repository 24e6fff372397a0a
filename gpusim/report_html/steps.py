"""A trace in the document: for the warp stepper the issues of a few warps with their lanes' addresses (`make_steps`),
and each warp's state over cycles for the chart of warps (`make_warps`).

A trace may be far larger than a page should be, so the document holds at most `WARPS` warps, `STEPS` issues of each and
`PATTERNS` different patterns of addresses; `cut` says so in words that the page shows.

A warp's columns have one entry per step. Masks are indices into `masks`, since few differ. An access is
[space, store, bytes per lane, lowest address, pattern, wavefronts, ideal, sectors, lines]; a pattern holds each lane's
distance from the lowest address, -1 for a lane that has no part. Stalls before a step are [reason, cycles, ...].
`parted` are the steps whose branch parts the lanes. `values` are [step, register, lanes, ...] for each register that
has changed when the step is over, of the first `known` steps; lanes are an index into `lanes`, where a number is that
of all lanes (the first is 0, as registers begin), two are lane 0's and the distance from lane to lane, a string 32
words in base 64, and seven numbers are masks of predicates. At most `VALUES` characters are spent on them.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from itertools import count
from typing import Any

import numpy as np

from gpusim.engine.state import layout as L
from gpusim.engine.state.log import PREDICATES
from gpusim.tracing.perfetto import Trace

WARPS = 16
STEPS = 4_000
TOTAL = 16_000
PATTERNS = 6_000
VALUES = 150_000
_FAR = 1 << 50


_Numbers = defaultdict[Any, int]
"""Values with their numbers, each once: a new one gets the next."""


class _Values:
    """Values of registers of all warps, as many as there is room for."""

    def __init__(self) -> None:
        self.lanes = _Numbers(count(1).__next__, {0: 0})  # how all registers begin
        self._left = VALUES

    def of(self, trace: Trace, warp: int, cycles: np.ndarray) -> dict[str, Any]:
        """The columns of a warp whose steps are at `cycles`. A change is found when the next step issues."""
        if warp // trace.warps_per_block not in trace.options.blocks:
            return {"values": [], "known": 0}
        rows, lanes = trace.values_of(warp)
        steps = np.searchsorted(cycles, rows["cycle"]) - 1
        until = int(np.searchsorted(cycles, trace.values_until)) - (0 if trace.values_until >= trace.until else 1)
        found: list[int] = []
        for step, register, row in zip(steps.tolist(), rows["register"].tolist(), lanes, strict=True):
            if step >= until:
                break
            new = len(self.lanes)
            encoded = _encoded(row, register == len(trace.registers) - 1)
            number = self.lanes[encoded]
            self._left -= len(f"{step},{register},{number},") + (len(f"{encoded},") if number == new else 0)
            if self._left < 0:
                until = step
                break
            found += [step, register, number]
        while found and found[-3] >= until:
            del found[-3:]
        return {"values": found, "known": max(until, 0)}


def make_steps(trace: Trace | None) -> dict[str, Any] | None:
    """The document's `trace`: None if there is none, or nothing in it."""
    if trace is None or not len(trace.warps):
        return None
    wanted = trace.warps["warp"]
    chosen = np.isin(trace.warps["block"], list(trace.options.blocks))
    order = [*wanted[chosen].tolist(), *wanted[~chosen].tolist()]
    masks, patterns, values = _Numbers(count().__next__), _Numbers(count().__next__), _Values()
    warps: list[dict[str, Any]] = []
    left, shortened = TOTAL, False
    for warp in order[:WARPS]:
        rows = trace.of_warp(warp)
        kept = rows[: min(STEPS, left)]
        if not len(kept):
            continue
        left -= len(kept)
        shortened |= len(kept) < len(rows)
        warps.append(_warp(trace, warp, kept, len(rows), masks, patterns) | values.of(trace, warp, kept["cycle"]))
    if not warps:
        return None
    cut = []
    if len(order) > len(warps):
        cut.append(f"{len(warps)} of {len(order):,} traced warps")
    if shortened:
        cut.append(f"the first {STEPS:,} steps of a warp, {TOTAL:,} in all, at most")
    if len(patterns) >= PATTERNS:
        cut.append(f"lane addresses of the first {PATTERNS:,} different accesses")
    if any(warp["known"] < len(warp["pc"]) for warp in warps):
        cut.append("values of registers not of all steps")
    if not trace.complete:
        cut.append(f"the trace's limit was reached at cycle {trace.until:,}")
    return {
        "cut": f"To keep this file small it holds: {'; '.join(cut)}." if cut else "",
        "masks": list(masks),
        "patterns": [list(each) for each in patterns],
        "banks": trace.config.shared.banks,
        "bank_bytes": trace.config.shared.bank_bytes,
        "registers": list(trace.registers),
        "lanes": list(values.lanes),
        "warps": warps,
    }


def _warp(trace: Trace, warp: int, rows: np.ndarray, total: int, masks: _Numbers, patterns: _Numbers) -> dict[str, Any]:
    return {
        "warp": warp,
        "label": trace.warp_label(warp),
        "total": total,
        "cycle": rows["cycle"].tolist(),
        "pc": rows["pc"].tolist(),
        "active": [masks[each] for each in rows["active"].tolist()],
        "executed": [masks[each] for each in rows["executed"].tolist()],
        "access": [_access(trace, row, patterns) for row in rows],
        "stalls": _stalls(trace.stalls_of(warp), rows["cycle"]),
        "parted": np.flatnonzero(rows["divergent"]).tolist(),
    }


def _encoded(lanes: np.ndarray, predicates: bool) -> int | str | tuple[int, ...]:
    """A row of `lanes` as short as it can be."""
    if predicates:
        return tuple(lanes[:PREDICATES].tolist())
    distance = np.diff(lanes)
    if (distance == distance[0]).all():
        step = int(distance[0])
        return (int(lanes[0]), step - (step >> 31 << 32)) if step else int(lanes[0])
    return base64.b64encode(lanes.astype("<u4").tobytes()).decode()


def _access(trace: Trace, row: np.void, patterns: _Numbers) -> list[int] | int:
    if not row["space"]:
        return 0
    access = int(row["access"])
    store, size, base, pattern = 0, 0, 0, -1
    if access >= 0:
        store, size = int(trace.stores[access]), int(trace.sizes[access])
        lanes = trace.addresses[access]
        base = int(np.where(lanes >= 0, lanes, _FAR).min()) if (lanes >= 0).any() else 0
        key = tuple(np.where(lanes >= 0, lanes - base, -1).tolist())
        if key in patterns or len(patterns) < PATTERNS:
            pattern = patterns[key]
    costs = [int(row[name]) for name in ("wavefronts", "ideal", "sectors", "lines")]
    return [int(row["space"]), store, size, base, pattern, *costs]


def _stalls(stalls: np.ndarray, cycles: np.ndarray) -> list[list[int]]:
    """[reason, cycles, ...] for what the warp waited for before each step."""
    found: list[dict[int, int]] = [{} for _ in cycles]
    stalls = stalls[stalls["start"] <= cycles[-1]]
    steps = np.searchsorted(cycles, stalls["start"])
    lengths = stalls["end"] - stalls["start"]
    for step, reason, length in zip(steps.tolist(), stalls["reason"].tolist(), lengths.tolist(), strict=True):
        found[step][reason] = found[step].get(reason, 0) + length
    return [[value for pair in each.items() for value in pair] for each in found]


SPANS = 16_000
_REASONS = 32

assert len(L.STALLS) <= _REASONS and L.STALL_SELECTED == 0


def make_warps(trace: Trace | None) -> dict[str, Any] | None:
    """The document's `warps`, what each warp of one SM does in every cycle; None without a trace of a whole SM that ran
    a warp. A row is a place for a warp at a scheduler, which several warps may have one after the other. A warp's spans
    follow each other without a gap from its start on: each is 32 times its cycles plus the stall reason, 0 for an
    issue; `pcs` are the instructions of its issues. At most `SPANS` are kept, which `cut` then says in words."""
    if trace is None or not trace.options.sms:
        return None
    sm = next((sm for sm in trace.options.sms if (trace.warps["sm"] == sm).any()), None)
    if sm is None:
        return None
    mine = np.sort(trace.warps[trace.warps["sm"] == sm], order=["scheduler", "slot", "start"])
    spans, until = _spans(trace, mine["warp"], int(mine["end"].max()))
    rows: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for warp in mine:
        own = spans[spans["warp"] == warp["warp"]]
        if len(own):
            numbers = _REASONS * (own["end"] - own["start"]) + own["reason"]
            rows.setdefault((int(warp["scheduler"]), int(warp["slot"])), []).append({
                "warp": int(warp["warp"]),
                "label": trace.warp_label(warp["warp"]),
                "start": int(own["start"][0]),
                "spans": numbers.tolist(),
                "pcs": own["pc"][own["reason"] == L.STALL_SELECTED].tolist(),
            })  # fmt: skip
    if not rows:
        return None
    end = int(mine["end"].max())
    return {
        "sm": int(sm), "begin": int(mine["start"].min()), "end": until,
        "cut": f"The page holds the cycles up to {until:,} of {end:,}." if until < end else "",
        "rows": [{"scheduler": each[0], "slot": each[1], "warps": warps} for each, warps in rows.items()],
    }  # fmt: skip


def _spans(trace: Trace, warps: np.ndarray, end: int) -> tuple[np.ndarray, int]:
    """Issues and stalls of some warps by (start, warp), and the cycle up to which all are there."""
    # Both are in order of time, and of neither can there be more than of both together.
    spans = trace.spans(warps, SPANS + 1)
    until = end if trace.complete else min(end, trace.until)
    if len(spans) > SPANS:
        until = min(until, int(spans["start"][SPANS]))
        spans = spans[spans["start"] < until]
    spans["end"] = np.minimum(spans["end"], until)
    return spans, until
