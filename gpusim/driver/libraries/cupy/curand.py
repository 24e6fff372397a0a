"""In the place of `cupy_backends.cuda.libs.curand`: the pseudorandom generators of cuRAND's host interface, since the
vendor's library has the static runtime inside. Result n since the seed was set comes from subsequence n modulo 4096, as
cuRAND documents it of XORWOW in its legacy order.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from cupy_backends.cuda.api import runtime

from gpusim.driver.libraries.cupy import calling

globals().update(calling.constants("curand"))
_STREAMS = {100: "Xorwow", 101: "Xorwow", 121: "Mrg32k3a", 161: "Philox"}
_SUBSEQUENCES = 4096
STATUS = {number: f"CURAND_STATUS_{name}" for name, number in calling.constants("curand statuses").items()}


class CURANDError(RuntimeError):
    """An error code of cuRAND. status: curandStatus_t."""

    def __init__(self, status: int):
        self.status = status
        super().__init__(STATUS[status])

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return type(self), (self.status,)


class _Generator:
    """A generator. drawn: results since the seed was set. states: an array on the device, made for the first."""

    def __init__(self, kind: str):
        self.kind, self.seed, self.drawn = kind, 0, 0
        self.states: Any = None


_generators: dict[int, _Generator] = {}
_handles = itertools.count(1)


def createGenerator(rng_type: int) -> int:
    if rng_type not in _STREAMS:
        raise CURANDError(103)
    _generators[handle := next(_handles)] = _Generator(_STREAMS[rng_type])
    return handle


def destroyGenerator(generator: int) -> None:
    if _generators.pop(generator, None) is None:
        raise CURANDError(101)


def getVersion() -> int:
    return 100400


def setStream(generator: int, stream: int) -> None:
    """Work is done in CuPy's current stream."""
    if runtime.streamIsCapturing(stream):
        raise NotImplementedError("calling cuRAND API during stream capture is currently unsupported")


def setPseudoRandomGeneratorSeed(generator: int, seed: int) -> None:
    known = _known(generator)
    known.seed, known.drawn = seed, 0


def setGeneratorOffset(generator: int, offset: int) -> None:
    if offset:
        raise CURANDError(104)
    _known(generator).drawn = 0


def setGeneratorOrdering(generator: int, order: int) -> None:
    _known(generator)


def _known(handle: int) -> _Generator:
    if handle not in _generators:
        raise CURANDError(101)
    return _generators[handle]


def _fill(handle: int, address: int, count: int, dtype: Any, expression: str, *parameters: float) -> None:
    import cupy

    from gpusim.driver.libraries.cupy import random_streams

    generator = _known(handle)
    setStream(handle, cupy.cuda.get_current_stream().ptr)
    if not generator.drawn:
        generator.states = cupy.asarray(random_streams.states(generator.kind, generator.seed, _SUBSEQUENCES))
    memory = cupy.cuda.UnownedMemory(address, count * np.dtype(dtype).itemsize, None, 0)
    results = cupy.ndarray((count,), dtype, cupy.cuda.MemoryPointer(memory, 0))
    given = (cupy.asarray([each], np.float64) for each in parameters)
    where = generator.states.data.ptr, _SUBSEQUENCES
    random_streams.draw(generator.kind, *where, results, expression, *given, begin=generator.drawn)
    generator.drawn += count


def _declare(name: str, kind: Any, expression: str, pairs: bool = False) -> None:
    """Declare a function. expression: a draw. pairs: numbers come two at a time."""

    def generate(generator: int, outputPtr: int, n: int, *parameters: float) -> None:
        if pairs and n % 2:
            raise ValueError("normal numbers can be generated in even quantities only")
        _fill(generator, outputPtr, n, kind, expression, *parameters)

    globals()[f"generate{name}"] = generate


_declare("", np.uint32, "bits(s)")
_declare("LongLong", np.uint64, "wide_bits(s)")
_declare("Uniform", np.float32, "float_of<STATE>(s)")
_declare("UniformDouble", np.float64, "double_of<STATE>(s)")
_declare("Normal", np.float32, "float(a[0]) + float(b[0]) * normal_float(s)", pairs=True)
_declare("NormalDouble", np.float64, "a[0] + b[0] * normal(s)", pairs=True)
_declare("LogNormal", np.float32, "expf(float(a[0]) + float(b[0]) * normal_float(s))", pairs=True)
_declare("LogNormalDouble", np.float64, "exp(a[0] + b[0] * normal(s))", pairs=True)
_declare("Poisson", np.uint32, "poisson(s, a[0])")
