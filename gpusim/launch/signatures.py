"""Numba types of arguments.

Numba is imported on first use only, and by name: numba-cuda puts its own `numba.cuda` in place at run time,
which type checkers cannot follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from gpusim.errors import ArgumentError
from gpusim.launch.device_array import DeviceArray


def infer_signature(args: Sequence[Any], kernel: str | None = None) -> tuple[Any, ...]:
    """Numba types of `args`, as a Numba launch finds them: arrays by dtype, dimensions and layout, NumPy
    scalars their own type, int int64, float float64, bool boolean. Raises ArgumentError for a value that no
    kernel can take."""
    found = []
    for i, value in enumerate(args):
        try:
            type_ = _typeof(value.host_view if isinstance(value, DeviceArray) else value)
        except (ValueError, TypeError, NotImplementedError) as error:
            raise _refused(value, kernel, i, str(error)) from None
        if not _passable(type_):
            raise _refused(value, kernel, i, "pass a NumPy array, a number or a tuple of these")
        found.append(type_)
    return tuple(found)


def _typeof(value: Any) -> Any:
    """The Numba type of a value. What is plain has the same one everywhere, and need not wait for `numba.cuda`."""
    dtype = getattr(value, "dtype", None)
    plain = type(value) in (bool, int, float) or type(value) is np.ndarray or isinstance(value, np.generic)
    if plain and (dtype is None or (dtype.kind in "biuf" and dtype.isnative and dtype.itemsize <= 8)):
        return import_module("numba").typeof(value)
    return import_module("numba.cuda.typing.typeof").typeof(value)


def parse_signature(signature: Any) -> tuple[Any, ...]:
    """Numba argument types of a signature: a string "void(float32[:], int32)", a Numba signature or a
    sequence of types. Raises ArgumentError for anything else and for a return type other than void."""
    normalize = import_module("numba.cuda.core.sigutils").normalize_signature
    try:
        arguments, result = normalize(tuple(signature) if isinstance(signature, list) else signature)
    except Exception as error:
        raise ArgumentError(f"not a signature: {signature!r} ({error})") from None
    if result is not None and str(result) != "none":
        raise ArgumentError(f"a kernel returns nothing, but the signature says {result}")
    return tuple(arguments)


def scalar_dtype(type_: Any) -> np.dtype | None:
    """NumPy's dtype of a Numba number, boolean, date or time span; None for any other type."""
    from numba.core import types
    from numba.np.numpy_support import as_dtype

    scalars = types.Number | types.Boolean | types.NPDatetime | types.NPTimedelta
    return as_dtype(type_) if isinstance(type_, scalars) else None


def kind_of(value: Any) -> str:
    """Type of `value`, in words for an error message."""
    if isinstance(value, (np.ndarray, DeviceArray)):
        return f"an array of {value.dtype} with {value.ndim} dimension{'' if value.ndim == 1 else 's'}"
    if isinstance(value, np.generic):
        return f"a value of {value.dtype}"
    return f"a value of type {type(value).__name__}"


def _passable(type_: Any) -> bool:
    """True if a kernel can take an argument of a Numba type."""
    from numba.core import types

    if isinstance(type_, types.BaseTuple):  # type: ignore[attr-defined]
        elements: Any = type_
        return all(_passable(element) for element in elements)
    if isinstance(type_, types.EnumMember | types.Array):
        return _passable(type_.dtype)
    scalars = (types.Number, types.Boolean, types.NPDatetime, types.NPTimedelta, types.Record)
    return isinstance(type_, scalars)


def _refused(value: Any, kernel: str | None, i: int, reason: str) -> ArgumentError:
    return ArgumentError(f"{kind_of(value)} cannot be passed to a kernel: {reason}", kernel=kernel, argument=i)
