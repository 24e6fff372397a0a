"""Does the simulator rank programs as the hardware does?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from validate.replay import Comparison

MARGIN = 0.03
"""Two programs are told apart if their measured cycles differ by more than this share, and no launch of the one
was among those of the other."""


def separated(rows: Sequence[Comparison], margin: float = MARGIN) -> list[tuple[Comparison, Comparison]]:
    """Pairs (faster, slower) that the hardware tells apart."""
    return [
        (a, b)
        for a, b in permutations(rows, 2)
        if b.spread.median > a.spread.median * (1 + margin) and b.spread.min > a.spread.max
    ]


def inversions(rows: Sequence[Comparison], margin: float = MARGIN) -> list[str]:
    """Pairs that the hardware tells apart and the simulator ranks otherwise, each as a sentence."""
    return [
        f"{a.point} is faster than {b.point} ({a.cycles.measured} and {b.cycles.measured} cycles), "
        f"predicted {a.cycles.predicted} and {b.cycles.predicted}"
        for a, b in separated(rows, margin)
        if a.cycles.predicted >= b.cycles.predicted
    ]
