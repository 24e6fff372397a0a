"""Gravity between all pairs of bodies: arithmetic on data that every thread shares.

`naive`: each thread adds up the pull of every body on its own one. All threads read the same body at the same time,
so a load is a broadcast, of four words (position and mass), that L1 serves; yet each costs an instruction and
an L1 request. `tiled` copies 128 bodies at a time to shared memory and reads them from there. In the report,
compare requests to L1 and where warps stall. Few bodies are few warps, one per scheduler: nothing hides the
latency of the chain load, squares, root, quotient, so the time is that chain's length times the number of bodies.

Tolerance: the terms have either sign, so the bound is absolute. A sum of n terms of size at most s is within
n * 2**-23 * n * s of the exact one at worst; with random signs of rounding errors the factor n is sqrt(n). Masses are
below 2 / n and the softened distance above 0.25, so a term is below 1 / 0.25**2 * 2 / n = 32 / n. The root
and the quotient round correctly; with the squares and products a term is within 12 * 2**-23, relative. Together
with 2**-23 * sqrt(n) for n up to 4096 that is at most 76 * 2**-23 * 32 < 3e-4; a typical error is below 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numba import cuda

from gpusim.launch import Launch
from programs.variant import Size, ladder, step

BLOCK = 128
SOFTENING = np.float32(0.0625)
"""Added to each squared distance, so that bodies do not meet; also removes the body's pull on itself."""
ATOL = 3e-4


def naive(bodies, pull):
    n = bodies.shape[0]
    i = cuda.grid(1)
    x = bodies[i, 0]
    y = bodies[i, 1]
    z = bodies[i, 2]
    ax = np.float32(0)
    ay = np.float32(0)
    az = np.float32(0)
    j = 0
    while j < n:
        dx = bodies[j, 0] - x
        dy = bodies[j, 1] - y
        dz = bodies[j, 2] - z
        inverse = np.float32(1) / math.sqrt(dx * dx + dy * dy + dz * dz + SOFTENING)
        weight = bodies[j, 3] * inverse * inverse * inverse
        ax += weight * dx
        ay += weight * dy
        az += weight * dz
        j += 1
    pull[i, 0] = ax
    pull[i, 1] = ay
    pull[i, 2] = az


def tiled(bodies, pull):
    tile = cuda.shared.array((BLOCK, 4), np.float32)
    n = bodies.shape[0]
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    x = bodies[i, 0]
    y = bodies[i, 1]
    z = bodies[i, 2]
    ax = np.float32(0)
    ay = np.float32(0)
    az = np.float32(0)
    first = 0
    while first < n:
        for k in range(4):
            tile[t, k] = bodies[first + t, k]
        cuda.syncthreads()
        j = 0
        while j < BLOCK:
            dx = tile[j, 0] - x
            dy = tile[j, 1] - y
            dz = tile[j, 2] - z
            inverse = np.float32(1) / math.sqrt(dx * dx + dy * dy + dz * dz + SOFTENING)
            weight = tile[j, 3] * inverse * inverse * inverse
            ax += weight * dx
            ay += weight * dy
            az += weight * dz
            j += 1
        # The next tile must not overwrite this one while a slower warp still reads it.
        cuda.syncthreads()
        first += BLOCK
    pull[i, 0] = ax
    pull[i, 1] = ay
    pull[i, 2] = az


def reference(launch: Launch) -> tuple[np.ndarray, ...]:
    bodies = launch.args[0].astype(np.float64)
    place, mass = bodies[:, :3], bodies[:, 3]
    pull = np.empty_like(place)
    for first in range(0, len(bodies), BLOCK):
        offset = place - place[first : first + BLOCK, None]
        weight = mass * ((offset**2).sum(axis=2) + float(SOFTENING)) ** -1.5
        pull[first : first + BLOCK] = np.einsum("ij,ijk->ik", weight, offset)
    return (pull.astype(np.float32),)


def make(kernel: Callable[..., None], n: int, rng: np.random.Generator) -> Launch:
    bodies = rng.random((n, 4), np.float32)
    bodies[:, 3] += np.float32(0.5)
    bodies[:, 3] /= np.float32(n)
    return Launch(kernel, n // BLOCK, BLOCK, (bodies, np.full((n, 3), np.nan, np.float32)))


VARIANTS = ladder(
    Size("bodies", (128, 1024), default=512, test=BLOCK, multiple=BLOCK, maximum=4096),
    step(naive, "Every pair of bodies costs a broadcast load from L1 besides its arithmetic."),
    step(tiled, "Bodies in shared memory are read by all threads of the block."),
    atol=ATOL,
)
