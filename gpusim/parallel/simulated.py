"""Times of a layer's products, each simulated once: a part of it exactly, the rest by a rule that a test holds to.

One wave and two waves of tiles are simulated, of sums over at most 1,024 and 2,048: waves after the first one take
alike, and a wave grows evenly with the sum. What came out is kept on disk under a digest of all that it depends on:
machine code, machine, shape, and the simulator's own sources; a second step takes it from there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from functools import cache
from math import ceil
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gpusim.config import GPUConfig
from gpusim.launch.arguments import program_of
from gpusim.simulation import simulate
from isa.folders import cache_folder, put_file
from programs import layer

DEPTHS = 1024, 2048
"""Of longer sums, these are simulated."""
LAYOUTS = {"forward": layer.FORWARD, "weights": layer.WEIGHTS, "input": layer.INPUT}
"""The products of a layer: its output, the gradient of its weights, that of its input."""
_SOURCES = "gpusim/config", "gpusim/engine", "gpusim/host", "gpusim/launch", "gpusim/results", "isa"


class KernelTime(NamedTuple):
    """A kernel alone on a GPU. blocks: pieces of its work of which one fills an SM, such as tiles. traffic: bytes of
    memory."""

    time_us: float
    blocks: int
    traffic: float


def product_time(m: int, n: int, k: int, which: str, config: GPUConfig) -> KernelTime:
    """m x n sums over k, laid out as one of `LAYOUTS`."""
    sms = config.sm.count // 2 * 2
    tiles = 2 * ceil(m / (2 * layer.TILE[0])) * ceil(n / layer.TILE[1])
    waves, depth = ceil(tiles / sms), k if k <= DEPTHS[1] else DEPTHS[0]
    few = min(waves, 2)

    def run(waves: int, depth: int) -> np.ndarray:
        """Microseconds and bytes of memory of a part, from the last time if nothing has changed since."""
        count = min(waves * sms, tiles)
        path = cache_folder() / "layers" / f"{_key(config, (m, n, k, which, count, depth, sms))}.json"
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            found = json.loads(path.read_text("utf-8"))
            return np.array([found["time_us"], found["traffic"]], np.float64)
        launch = layer.product(m, n, k, LAYOUTS[which], sms, tiles=count, depth=depth)
        result = simulate(launch.kernel, launch.grid, launch.block, launch.args, config, launch.shared_bytes)
        found = {"time_us": result.time_us, "traffic": float(result.roofline.bytes["DRAM"])}
        with contextlib.suppress(OSError):
            put_file(path, json.dumps(found).encode())
        return np.array([*found.values()])

    found = run(few, depth)
    if waves > 2:
        first = run(1, depth)
        found = first + (found - first) * (waves - 1)
    if depth < k:
        found = found + (run(few, DEPTHS[1]) - run(few, depth)) * (waves / few * (k - depth) / (DEPTHS[1] - depth))
    return KernelTime(float(found[0]), tiles, float(found[1]))


@cache
def _key(config: GPUConfig, what: tuple[object, ...]) -> str:
    return hashlib.sha256(repr((what, config, _sources(), _programs(config.gpu.arch))).encode()).hexdigest()


@cache
def _programs(arch: str) -> tuple[str, ...]:
    """Digests of the kernels' machine code."""
    launches = [layer.product(256, 256, 64, across) for across in LAYOUTS.values()]
    return tuple(program_of(each, arch).sha256 for each in launches)


@cache
def _sources() -> str:
    """Digest of what runs a launch."""
    root, digest = Path(__file__).parents[2], hashlib.sha256()
    for file in sorted(file for each in _SOURCES for file in (root / each).rglob("*.*") if file.suffix != ".pyc"):
        digest.update(file.read_bytes())
    return digest.hexdigest()
