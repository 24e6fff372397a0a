"""In the place of `cupy.random._generator_api`: the class Generator of NumPy's newer interface, drawing from streams of
this package. Parameters, results and errors are those of `cupy.random.Generator`, where they are documented."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from cupy_backends.cuda.api import runtime

from gpusim.driver.libraries.cupy import random_streams

Array = Any
_STREAMS = ("Xorwow", "Mrg32k3a", "Philox")
"""By the number that a bit generator of CuPy's has."""


def init_curand(generator: int, state: int, seed: int, size: int) -> None:
    """Write the first states of so many subsequences to an address of the device."""
    made = random_streams.states(_STREAMS[generator], int(seed), size)
    runtime.memcpy(state, made.ctypes.data, made.nbytes, runtime.memcpyHostToDevice)


def random_raw(generator: Any, out: Array) -> None:
    """Fill an array with random bits."""
    _draw(generator, out, "bits(s)")


def _draw(generator: Any, out: Array, expression: str, *parameters: Array, **limits: int) -> Array:
    given = [cupy.ascontiguousarray(cupy.broadcast_to(each, out.shape), np.float64) for each in parameters]
    stream, state, count = _STREAMS[generator.generator], generator.state(), generator._state_size()
    random_streams.draw(stream, state, count, out, expression, *given, **limits)
    return out


def _given(name: str, value: Any, dtype: Any = np.float64, error: type[Exception] = TypeError) -> Array:
    """A parameter as an array."""
    if isinstance(value, cupy.ndarray):
        return value.astype(dtype, copy=False)
    if type(value) not in (float, int):
        raise error(f"{name} is required to be a cupy.ndarray or a scalar")
    return cupy.asarray(value, dtype)


def _shape(size: Any, *parameters: Any) -> tuple[int, ...]:
    """The result's shape: what was asked for, or that of the parameters together."""
    if size is None:
        return cupy.broadcast(*parameters).shape if parameters else ()
    return tuple(size) if isinstance(size, (tuple, list)) else (size,)


class Generator:
    """Numbers from NumPy's distributions. bit_generator: a `cupy.random.BitGenerator`, where the bits come from."""

    def __init__(self, bit_generator: Any):
        self.bit_generator = bit_generator

    def _check_output_array(self, dtype: Any, size: Any, out: Array, check_only_c_cont: bool = False) -> None:
        dtype = np.dtype(dtype)
        if out.dtype.char != dtype.char:
            raise TypeError(f"Supplied output array has the wrong type. Expected {dtype.name}, got {out.dtype.name}")
        if not out.flags.c_contiguous and (check_only_c_cont or not out.flags.f_contiguous):
            raise ValueError("Supplied output array is not contiguous, writable or aligned.")
        if size is not None and _shape(size) != out.shape:
            raise ValueError("size must match out.shape when used together")

    def _drawn(self, expression: str, dtype: Any, size: Any, *parameters: Array, **limits: int) -> Array:
        out = cupy.empty(_shape(size, *parameters), dtype)
        return _draw(self.bit_generator, out, expression, *parameters, **limits)

    def _uniform(self, size: Any, dtype: Any) -> Array:
        """Doubles for doubles, and floats for all others."""
        if np.dtype(dtype).char == "d":
            return self._drawn("uniform(s)", np.float64, size)
        return self._drawn("uniform_float(s)", np.float32, size)

    def random(self, size: Any = None, dtype: Any = np.float64, out: Array = None) -> Array:
        if out is None:
            return self._uniform(size, dtype).astype(dtype, copy=False)
        self._check_output_array(dtype, size, out)
        out[...] = self._uniform(out.shape if size is None else size, dtype)
        return out

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None, dtype: Any = np.float64) -> Array:
        low, high = cupy.asarray(low), cupy.asarray(high)
        return (low + (high - low) * self._uniform(_shape(size, low, high), dtype)).astype(dtype, copy=False)

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> Array:
        first, last = (0, int(low)) if high is None else (int(low), int(high))
        last -= not endpoint
        if first > last:
            raise ValueError("low >= high")
        for name, value in (("low", first), ("high", last)):
            if not cupy.iinfo(dtype).min <= value <= cupy.iinfo(dtype).max:
                raise ValueError(f"{name} is out of bounds for {np.dtype(dtype).name}")
        most = last - first
        limits = {"most": most, "mask": (1 << most.bit_length()) - 1}
        if most < 1 << 32:
            drawn = self._drawn("interval(s, most, mask)", np.uint32, size, **limits)
        else:
            drawn = self._drawn("wide_interval(s, most, mask)", np.uint64, size, **limits)
        return cupy.add(first, drawn, dtype=dtype)

    def beta(self, a: Any, b: Any, size: Any = None, dtype: Any = np.float64) -> Array:
        a, b = _given("a", a), _given("b", b)
        return self._drawn("beta(s, a[k], b[k])", np.float64, size, a, b).astype(dtype, copy=False)

    def chisquare(self, df: Any, size: Any = None) -> Array:
        df = _given("df", df)
        return 2 * self.standard_gamma(cupy.broadcast_to(df / 2, _shape(size, df)))

    def dirichlet(self, alpha: Any, size: Any = None) -> Array:
        alpha = _given("alpha", alpha)
        drawn = self.standard_gamma(alpha, (() if size is None else _shape(size)) + alpha.shape)
        return drawn / drawn.sum(axis=-1, keepdims=True)

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Array:
        return self.standard_exponential(size) * scale

    def f(self, dfnum: Any, dfden: Any, size: Any = None) -> Array:
        dfnum, dfden = _given("dfnum", dfnum), _given("dfden", dfden)
        size = _shape(size, dfnum, dfden)
        return (self.chisquare(dfnum, size) * dfden) / (self.chisquare(dfden, size) * dfnum)

    def geometric(self, p: Any, size: Any = None) -> Array:
        return self._drawn("geometric(s, a[k])", np.int64, size, _given("p", p))

    def hypergeometric(self, ngood: Any, nbad: Any, nsample: Any, size: Any = None) -> Array:
        named = {"ngood": ngood, "nbad": nbad, "nsample": nsample}
        for name, value in named.items():
            if type(value) in (float, int) and value < 0:
                raise ValueError(f"{name} < 0")
        counts = (_given(name, value, np.int64) for name, value in named.items())
        return self._drawn("hypergeometric(s, a[k], b[k], c[k])", np.int64, size, *counts)

    def logseries(self, p: Any, size: Any = None) -> Array:
        return self._drawn("logseries(s, a[k])", np.int64, size, _given("p", p))

    def standard_exponential(
        self, size: Any = None, dtype: Any = np.float64, method: str = "inv", out: Array = None
    ) -> Array:
        if method == "zig":
            raise NotImplementedError("Ziggurat method is not supported")
        if out is None:
            return self._drawn("exponential(s)", np.float64, size).astype(dtype, copy=False)
        self._check_output_array(dtype, size, out)
        out[...] = self._drawn("exponential(s)", np.float64, out.shape)
        return out

    def poisson(self, lam: Any = 1.0, size: Any = None) -> Array:
        return self._drawn("poisson(s, a[k])", np.int64, size, _given("lam", lam))

    def power(self, a: Any, size: Any = None) -> Array:
        a = _given("a", a)
        return (1 - cupy.exp(-self.standard_exponential(_shape(size, a)))) ** (1.0 / a)

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Array = None) -> Array:
        if out is not None:
            self._check_output_array(dtype, size, out)
        expressions = {"d": "normal(s)", "f": "normal_float(s)"}
        dtype = np.dtype(dtype)
        if dtype.char not in expressions:
            raise TypeError(f"Unsupported dtype {dtype.name} for standard_normal")
        out = cupy.empty(_shape(size), dtype) if out is None else out
        return _draw(self.bit_generator, out, expressions[dtype.char])

    def gamma(self, shape: Any, scale: Any = 1.0, size: Any = None) -> Array:
        return self.standard_gamma(shape, cupy.broadcast(shape, scale).shape if size is None else size) * scale

    def standard_gamma(self, shape: Any, size: Any = None, dtype: Any = np.float64, out: Array = None) -> Array:
        if shape is None:
            raise TypeError("shape must be real number, not NoneType")
        shape = _given("shape", shape, error=ValueError)
        if out is not None:
            self._check_output_array(dtype, size, out, True)
            size = out.shape
        if np.dtype(dtype).char not in "fd":
            raise TypeError(f"Unsupported dtype {np.dtype(dtype).name} for standard_gamma")
        drawn = self._drawn("gamma(s, a[k])", np.float64, size, shape)
        if out is None:
            return drawn.astype(dtype, copy=False)
        out[...] = drawn
        return out

    def binomial(self, n: Any, p: Any, size: Any = None) -> Array:
        if type(p) is int:
            raise TypeError("p is required to be a cupy.ndarray or a scalar")
        n, p = _given("n", n, np.int64), _given("p", p)
        return self._drawn("binomial(s, a[k], b[k])", np.int64, size, n, p)


class FeistelBijection:
    """A random permutation of the numbers below num_elements that needs no memory: rounds of a Feistel network with
    these keys on the bits of a number, again until it is below. The network is that of `cuda::shuffle_iterator`
    (libcudacxx)."""

    num_rounds = 24

    def __init__(self, num_elements: int, keys_array: Any):
        bits = max(8, (num_elements - 1).bit_length())
        self._count, self._left_bits, self._right_bits = num_elements, bits // 2, bits - bits // 2
        self._keys = np.asarray(keys_array, np.uint32)

    def __call__(self, size: int) -> Array:
        """Return where the first `size` numbers go."""
        keys, bits = cupy.asarray(self._keys), (np.uint32(self._left_bits), np.uint32(self._right_bits))
        return _shuffled()(keys, *bits, np.uint32(self.num_rounds), np.uint64(self._count), size=size)


@cache
def _shuffled() -> Any:
    return cupy.ElementwiseKernel(
        "raw uint32 keys, uint32 left_bits, uint32 right_bits, uint32 rounds, uint64 count", "int64 out",
        Path(__file__).with_name("shuffled.cu").read_text(), "shuffled",
    )  # fmt: skip
