"""The few statistics that all scores are made of."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that at least `share` of them do not exceed. Raises ValueError without values."""
    if not values:
        raise ValueError("no values")
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def log_correlation(measured: Sequence[float], predicted: Sequence[float]) -> float | None:
    """Pearson's correlation of the logarithms; None where there is none (fewer than two different values)."""
    pairs = [(math.log(a), math.log(b)) for a, b in zip(measured, predicted, strict=True) if a > 0 and b > 0]
    if len(pairs) < 2:
        return None
    try:
        return statistics.correlation([a for a, _ in pairs], [b for _, b in pairs])
    except statistics.StatisticsError:
        return None
