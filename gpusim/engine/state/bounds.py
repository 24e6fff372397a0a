"""Indices checked, for finding the accesses of the engine that miss their array: GPUSIM_BOUNDS_CHECK=1, see `jit`.

Numba's own check lets a negative index count from the end, as Python does, and does not say where it failed. Here a
negative index is out of range (`whole_program`), and the error names the line of the engine.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from numba.core import cgutils
from numba.core.lowering import BaseLower


def install() -> None:
    """Make Numba check so, in all that this process compiles with `boundscheck`."""
    cgutils.do_boundscheck = _check


def _check(context: Any, builder: Any, index: Any, length: Any, axis: int | None = None) -> None:
    zero = index.type(0)
    outside = builder.or_(builder.icmp_signed("<", index, zero), builder.icmp_signed(">=", index, length))
    message = f"{_line_in_work()}: index out of range for axis {axis or 0}"
    with cgutils.if_unlikely(builder, outside):
        cgutils.printf(builder, f"{message}: %lld of %lld\n", index, length)
        context.call_conv.return_user_exc(builder, IndexError, (message,))


def _line_in_work() -> str:
    """File and line that Numba is generating code for."""
    frame = sys._getframe()
    while frame is not None:
        lower = frame.f_locals.get("self")
        if isinstance(lower, BaseLower):
            return f"{Path(lower.loc.filename).name}:{lower.loc.line}"
        frame = frame.f_back  # type: ignore[assignment]
    return "?"
