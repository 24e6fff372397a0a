"""What a point is held to: the cycles that were accepted last, and the known gaps."""

from __future__ import annotations

from validate.scoring.accepted import Entry

POINT_TOLERANCE = 0.02
"""By how much the cycles of one point may be further off than accepted, as a share of the measured."""
GAP = 0.20
"""A point that is further off is a known gap."""


def worse_point(now: Entry, then: Entry) -> str | None:
    """A sentence if a point's cycles are further off than was accepted, else None."""
    if abs(now.error) <= abs(then.error) + POINT_TOLERANCE:
        return None
    return f"{now.point}: {now.error:+.1%}, accepted {then.error:+.1%}; at most {POINT_TOLERANCE:.0%} worse is allowed"


def is_gap(entry: Entry) -> bool:
    """Whether a point is a known gap."""
    return abs(entry.error) > GAP


def closed_gap(now: Entry, then: Entry) -> str | None:
    """A sentence if a known gap has closed, else None."""
    if not is_gap(then) or is_gap(now):
        return None
    return (
        f"{now.point} was a known gap ({then.error:+.1%}) and is none any more ({now.error:+.1%}): renew the file "
        "with python -m validate score FILE --accept, and look whether docs/known_gaps.md still speaks of it"
    )
