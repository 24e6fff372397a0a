"""What the microbenchmarks of energy work on, and what a GPU's board took: the recording."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

_RESULTS = Path(__file__).parent / "results"


def words(fill: str, count: int) -> np.ndarray:
    """Random values of a kind, or zeros, as 32-bit words."""
    random = np.random.default_rng(7)
    if fill == "f32":
        return random.uniform(-1, 1, count).astype(np.float32).view(np.uint32)
    if fill == "f64":
        return random.uniform(-1, 1, count // 2).view(np.uint32)
    if fill == "f16":
        return random.uniform(-1, 1, 2 * count).astype(np.float16).view(np.uint32)
    if fill == "e4m3":
        sign, exponent, fraction = (random.integers(*of, 4 * count) for of in ((0, 2), (4, 9), (0, 8)))
        return (sign << 7 | exponent << 3 | fraction).astype(np.uint8).view(np.uint32)
    return random.integers(0, 1 << 32, count, np.uint32) if fill == "u32" else np.zeros(count, np.uint32)


@cache
def recording(gpu: str = "h100") -> dict[str, Any]:
    """'about': provenance. 'micro', 'programs': rows with watts, microseconds of a launch, clock, temperature and which
    board it was. Raises FileNotFoundError for a GPU of which there is none."""
    return json.loads(gzip.decompress((_RESULTS / f"{gpu}.json.gz").read_bytes()))
