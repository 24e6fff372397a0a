"""cuFFT as a C program calls it, through ctypes, compared with NumPy's transforms.

Imported by programs that `driver_program.run` starts, where the simulated driver is installed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from tests.gpusim.blas_program import check, p, to_device, to_host

fft = ctypes.CDLL("libcufft.so.12")
FORWARD, INVERSE = -1, 1
INVALID_PLAN, INVALID_TYPE, INVALID_VALUE, INVALID_SIZE, NOT_SUPPORTED = 1, 3, 4, 8, 16
q = ctypes.c_longlong
TYPES = {"C2C": 0x29, "R2C": 0x2A, "C2R": 0x2C, "Z2Z": 0x69, "D2Z": 0x6A, "Z2D": 0x6C}
RNG = np.random.default_rng(7)


def some(shape: Sequence[int], kind: str) -> np.ndarray:
    """What a transform of a kind takes; of real numbers' transforms, only what such have."""
    real, whole = RNG.standard_normal((2, *shape))
    if kind in ("C2C", "Z2Z"):
        return real.astype("c16" if kind == "Z2Z" else "c8") + 1j * whole.astype("f8" if kind == "Z2Z" else "f4")
    if kind in ("R2C", "D2Z"):
        return real.astype("f8" if kind == "D2Z" else "f4")
    return real


def plan_many(n: Sequence[int], kind: str, batch: int, before: tuple | None = None, after: tuple | None = None) -> int:
    """before, after: extents, step and distance."""
    handle = ctypes.c_int()
    sizes = (ctypes.c_int * len(n))(*n)
    layouts = []
    for each in (before, after):
        extents = (ctypes.c_int * len(n))(*each[0]) if each else None
        layouts += [extents, *(each[1:] if each else (1, 1))]
    check(fft.cufftPlanMany(ctypes.byref(handle), len(n), sizes, *layouts, TYPES[kind], batch))
    return handle.value


def execute(handle: int, kind: str, source: int, target: int, direction: int = FORWARD) -> None:
    more = (direction,) if kind in ("C2C", "Z2Z") else ()
    check(getattr(fft, f"cufftExec{kind}")(handle, p(source), p(target), *more))


def assert_near(found: np.ndarray, wanted: np.ndarray, n: Sequence[int], double: bool) -> None:
    """By the root of the mean square, as errors of transforms are; a convolution's are those of two longer ones."""
    convolved = any(prime > 13 for each in n for prime in range(2, each + 1) if each % prime == 0 and is_prime(prime))
    error = np.linalg.norm(found - wanted) / np.linalg.norm(wanted)
    limit = (2e-16 if double else 1e-7) * np.log2(max(np.prod(n), 2)) ** 0.5 * (4 if convolved else 1)
    assert error < limit, (found.shape, error, limit)


def is_prime(n: int) -> bool:
    return all(n % each for each in range(2, int(n**0.5) + 1))


def expected(kind: str, values: np.ndarray, rank: int, n: int, direction: int = FORWARD) -> np.ndarray:
    """The transform of the last dimensions, in double precision. n: extent of the last one."""
    axes = tuple(range(-rank, 0))
    shape = (*values.shape[-rank:-1], n)
    if kind in ("C2C", "Z2Z"):
        return (
            np.fft.fftn(values, axes=axes) if direction == FORWARD else np.fft.ifftn(values, axes=axes, norm="forward")
        )
    if kind in ("R2C", "D2Z"):
        return np.fft.rfftn(values.astype("f8"), axes=axes)
    return np.fft.irfftn(values, shape, axes, norm="forward")


def transform(kind: str, n: Sequence[int], batch: int = 1, direction: int = FORWARD, in_place: bool = False) -> None:
    """Make a plan of arrays without gaps, transform, compare."""
    half, double = n[-1] // 2 + 1, kind in ("Z2Z", "D2Z", "Z2D")
    rank = len(n)
    if kind in ("C2R", "Z2D"):
        values = expected("D2Z", some((batch, *n), "D2Z"), rank, n[-1]).astype("c16" if double else "c8")
    else:
        values = some((batch, *n), kind)
    wanted = expected(kind, values.astype("c16") if np.iscomplexobj(values) else values, rank, n[-1], direction)
    result = wanted.astype({"c": "c16" if double else "c8", "f": "f8" if double else "f4"}[wanted.dtype.kind])
    handle = plan_many(n, kind, batch)
    if in_place and kind in ("R2C", "D2Z"):
        padded = np.zeros((*values.shape[:-1], 2 * half), values.dtype)
        padded[..., : n[-1]] = values
        place = to_device(padded)
        execute(handle, kind, place, place)
        found = to_host(place, result)
    elif in_place and kind in ("C2R", "Z2D"):
        place = to_device(values)
        execute(handle, kind, place, place)
        found = to_host(place, np.empty((*values.shape[:-1], 2 * half), result.dtype))[..., : n[-1]]
    elif in_place:
        place = to_device(values)
        execute(handle, kind, place, place, direction)
        found = to_host(place, result)
    else:
        source, target = to_device(values), to_device(np.full_like(result, np.nan))
        execute(handle, kind, source, target, direction)
        found = to_host(target, result)
        assert np.array_equal(to_host(source, values), values)
    assert_near(found, wanted, n, double)
    check(fft.cufftDestroy(handle))
