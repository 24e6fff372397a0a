"""Warps over cycles: what each warp of one SM does in every cycle, as far as the page has room.

A row is a place for a warp at a scheduler, which several warps may have one after the other. A warp's spans follow each
other without a gap from its start on: each is 32 times its cycles plus the stall reason, 0 for an issue; `pcs` are the
instructions of its issues. At most `SPANS` are kept, which `cut` then says in words that the page shows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusim.engine.state import layout as L
from gpusim.tracing.trace import Trace

SPANS = 16_000
_REASONS = 32

assert len(L.STALLS) <= _REASONS and L.STALL_SELECTED == 0


def make_warps(trace: Trace | None) -> dict[str, Any] | None:
    """The document's `warps`: None without a trace of a whole SM that ran a warp."""
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
        "sm": int(sm),
        "begin": int(mine["start"].min()),
        "end": until,
        "cut": f"The page holds the cycles up to {until:,} of {end:,}." if until < end else "",
        "rows": [{"scheduler": each[0], "slot": each[1], "warps": warps} for each, warps in rows.items()],
    }


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
