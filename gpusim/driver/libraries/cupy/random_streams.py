"""Streams of random numbers on the device: the states that cuRAND's device interface begins with, made on the host, and
draws from them by kernels (`random.cu`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import count as numbers
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from cupy._core._scalar import get_typename
from numpy.typing import NDArray

_SOURCE = Path(__file__).with_name("random.cu")
_THREADS = 128
_WORD = 0xFFFFFFFF
Words = NDArray[np.uint32]


# --- first states: one of the seed, the others far behind it in the same sequence -------------------------------------


def states(generator: str, seed: int, count: int) -> Words:
    """The states of so many subsequences, a row each. generator: 'Xorwow', 'Mrg32k3a' or 'Philox'."""
    low, high = seed & _WORD, seed >> 32 & _WORD
    rows = _FIRST[generator](low, high, count)
    room = 16 if generator == "Philox" else 12  # words; behind the generator's own what Box-Muller keeps
    made = np.zeros((count, room), np.uint32)
    made[:, : rows.shape[1]] = rows
    return made


def _xorwow(low: int, high: int, count: int) -> Words:
    """Subsequences lie 2**67 numbers apart."""
    a, b = 1099087573 * (low ^ 0xAAD26B49), 2591861531 * (high ^ 0xF7DCEFDD)
    first = 123456789 + a, 362436069 ^ a & _WORD, 521288629 + b, 88675123 ^ b & _WORD, 5783321 + a
    rows = _doubled(np.array([[each & _WORD for each in first]], np.uint32), count, lambda k: _xorwow_jump(67 + k))
    return np.insert(rows, 0, (6615241 + a + b) & _WORD, axis=1)


def _mrg32k3a(low: int, high: int, count: int) -> Words:
    """Subsequences lie 2**76 numbers apart."""
    x, y = low ^ 0x55555555, high ^ 0xAAAAAAAA
    factors = ((x, y, x), (y, x, y)) if low or high else ((1, 1, 1), (1, 1, 1))
    halves = []
    for modulus, matrix, factor in zip(_MODULI, _MATRICES, factors, strict=True):
        first = np.array([[12345 * each % modulus for each in factor]], np.uint64)
        halves.append(_doubled(first, count, partial(_mrg_jump, modulus, matrix)))
    return np.concatenate(halves, axis=1).astype(np.uint32)


def _philox(low: int, high: int, count: int) -> Words:
    """Subsequences differ in the upper half of the counter. The first output is made here too."""
    counter: Any = np.zeros((4, count), np.uint64)
    counter[2] = np.arange(count) & _WORD
    counter[3] = np.arange(count) >> 32
    a, b, c, d = counter
    key = low, high
    for _ in range(10):
        x, y = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = y >> 32 ^ b ^ key[0], y & _WORD, x >> 32 ^ d ^ key[1], x & _WORD
        key = (key[0] + 0x9E3779B9) & _WORD, (key[1] + 0xBB67AE85) & _WORD
    keys = np.broadcast_to(np.array([[low], [high]], np.uint64), (2, count))
    return np.concatenate([counter, [a, b, c, d], keys]).T.astype(np.uint32)


_FIRST: dict[str, Callable[[int, int, int], Words]] = {"Xorwow": _xorwow, "Mrg32k3a": _mrg32k3a, "Philox": _philox}


def _doubled(rows: Any, count: int, jump: Callable[[int], Callable[[Any], Any]]) -> Any:
    """Rows of so many subsequences from that of the first. jump(k): goes on by 2**k subsequences."""
    for k in numbers():
        if len(rows) >= count:
            return rows[:count]
        rows = np.concatenate([rows, jump(k)(rows)])


@cache
def _xorwow_jump(power: int) -> Callable[[Words], Words]:
    """Goes on by 2**power steps. A step is linear in the state's bits: a table for each of its bytes, whose entries are
    added without carry."""
    if power:
        half = _xorwow_jump(power - 1)
        images = half(half(_basis()))
    else:
        v = _basis()
        t = v[:, 0] ^ v[:, 0] >> 2
        images = np.column_stack([v[:, 1:], v[:, 4] ^ v[:, 4] << 4 ^ t ^ t << 1])
    tables = np.zeros((20, 256, 5), np.uint32)
    for bit in range(160):
        table, value = tables[bit // 8], 1 << bit % 8
        table[value : 2 * value] = table[:value] ^ images[bit]

    def jump(rows: Words) -> Words:
        places = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), 20)
        return np.bitwise_xor.reduce([tables[k][places[:, k]] for k in range(20)])

    return jump


def _basis() -> Words:
    """The states with one bit each."""
    return np.packbits(np.eye(160, dtype=np.uint8), axis=1, bitorder="little").view(np.uint32)


_MODULI = 4294967087, 4294944443
_MATRICES = ((0, 1, 0), (0, 0, 1), (-810728, 1403580, 0)), ((0, 1, 0), (0, 0, 1), (-1370589, 0, 527612))


@cache
def _mrg_matrix(modulus: int, matrix: tuple[tuple[int, ...], ...], power: int) -> Any:
    """A matrix to the 2**power, modulo a prime."""
    if not power:
        return np.array(matrix, object) % modulus
    root = _mrg_matrix(modulus, matrix, power - 1)
    return root @ root % modulus


def _mrg_jump(modulus: int, matrix: tuple[tuple[int, ...], ...], doublings: int) -> Callable[[Any], Any]:
    factors, m = _mrg_matrix(modulus, matrix, 76 + doublings).astype(np.uint64), np.uint64(modulus)
    return lambda rows: sum(rows[:, None, k] * factors[None, :, k] % m for k in range(3)) % m


# --- draws ------------------------------------------------------------------------------------------------------------


def draw(
    generator: str, states: int, count: int, results: Any, expression: str, *parameters: Any, **limits: int
) -> None:
    """Fill an array of CuPy's. states, count: address and number of the states. expression: in CUDA C++, of the state s
    and the index k, which gives parameters a[k], b[k], c[k] of type double, contiguous, and limits `most` and
    `mask`. limits: beside these `begin`, the state of the first result."""
    if not results.size:
        return
    kernel = _kernel(generator, expression, get_typename(results.dtype))
    arrays = [*parameters, *(np.uint64(0),) * (3 - len(parameters))]
    given = (np.uint64(states), np.int64(count), results, np.int64(results.size), *arrays)
    more = (np.uint64(limits.get(each, 0)) for each in ("most", "mask", "begin"))
    # States that draw nothing stay as they are, and need no thread.
    kernel((-(-min(count, results.size) // _THREADS),), (_THREADS,), (*given, *more))


@cache
def _kernel(generator: str, expression: str, kind: str) -> Any:
    macros = {"STATE": generator, "DRAW": expression, "OUT": kind}
    options = ("-std=c++17", *(f"-D{name}={value}" for name, value in macros.items()))
    return cupy.RawKernel(_SOURCE.read_text(), "draw", options=options)
