"""Spelling of a kernel's arguments; `gpusim/cli/help/arguments.txt` is the grammar."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from gpusim.errors import WorkloadError

_ARRAY = re.compile(r"(\w+)\[([\d\s,_]+)\](?:\s*=\s*(\S+))?$")
_TYPED = re.compile(r"(\w+)\(\s*(\S+?)\s*\)$")
_BOOLEANS = {"true": True, "false": False}
_MOST_DIGITS = 20
_MAX_BYTES = 1 << 34
"""Largest array: more is a slip of the pen, and would only end in the host's memory running out."""


def parse_arguments(text: str, seed: int = 0) -> tuple[Any, ...]:
    """Arrays and scalars of an --args text, such as "float32[1024]=random, int32(7)". Raises WorkloadError."""
    generator = np.random.default_rng(seed)
    parts = [part.strip() for part in re.split(r",(?![^\[(]*[\])])", text)] if text.strip() else []
    return tuple(_argument(part, generator) for part in parts)


def parse_dim3(text: str, option: str) -> tuple[int, ...]:
    """One to three positive integers, separated by commas or 'x'. Raises WorkloadError."""
    parts = [part.strip() for part in re.split(r"[,x]", text.strip(" ()"))]
    if not 1 <= len(parts) <= 3 or not all(re.fullmatch(r"[0-9]+", part) for part in parts):
        raise WorkloadError(f"{option} takes one to three integers such as 128 or 16,16, not {text!r}")
    if any(len(part) > _MOST_DIGITS for part in parts):
        raise WorkloadError(f"{option}: a number of more than {_MOST_DIGITS} digits")
    return tuple(int(part) for part in parts)


def _argument(text: str, generator: np.random.Generator) -> Any:
    if match := _ARRAY.fullmatch(text):
        return _array(text, match, generator)
    if match := _TYPED.fullmatch(text):
        dtype = _dtype(match[1], text)
        return dtype.type(_number(match[2], dtype, text))
    if text.lower() in _BOOLEANS:
        return _BOOLEANS[text.lower()]
    for kind in (lambda word: int(word, 0), float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise WorkloadError(f"--args: cannot read {text!r}; an argument is spelled float32[1024]=random, int32(7) or 2.5")


def _array(text: str, match: re.Match[str], generator: np.random.Generator) -> np.ndarray:
    dtype = _dtype(match[1], text)
    try:
        shape = tuple(int(extent) for extent in match[2].split(","))
    except ValueError:
        raise WorkloadError(f"--args: {text!r} has a shape that is not a list of integers") from None
    size = int(np.prod(shape, dtype=object))
    if size * dtype.itemsize > _MAX_BYTES:
        raise WorkloadError(f"--args: {text!r} has {size * dtype.itemsize:,} bytes, at most {_MAX_BYTES:,} are allowed")
    fill = match[3] or "zeros"
    if fill in ("zeros", "ones"):
        return np.full(shape, fill == "ones", dtype)
    if fill == "arange":
        return np.arange(size).astype(dtype).reshape(shape)
    if fill == "random":
        if dtype.kind in "iu":
            return generator.integers(0, 100, shape).astype(dtype)
        if dtype.kind == "b":
            return generator.integers(0, 2, shape).astype(dtype)
        return generator.random(shape).astype(dtype)
    return np.full(shape, _number(fill, dtype, text), dtype)


def _dtype(name: str, text: str) -> np.dtype:
    try:
        dtype = np.dtype(name)
    except (TypeError, ValueError, SyntaxError):  # NumPy evaluates parts of such a text
        dtype = np.dtype(object)
    if dtype.kind not in "biufc":
        raise WorkloadError(
            f"--args: {name!r} in {text!r} is not a NumPy number type, such as float32, int64, uint8 or bool"
        )
    return dtype


def _number(word: str, dtype: np.dtype, text: str) -> Any:
    """The number as the type holds it; a value that the type cannot hold is an error, not a wrapped one."""
    if dtype.kind == "b" and word.lower() in _BOOLEANS:
        return _BOOLEANS[word.lower()]
    try:
        value: Any = int(word, 0) if dtype.kind in "iub" else complex(word) if dtype.kind == "c" else float(word)
        if dtype.kind in "iu" and not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
            raise ValueError
    except ValueError:
        raise WorkloadError(f"--args: {word!r} in {text!r} is not a value of {dtype}") from None
    return value
