"""A training step described in TOML: one kind, its options, and layers, each as often as `count` says.

    kind = "data_parallel"
    gpus = 8
    node = "hgx_h200"
    bucket_bytes = 67108864

    [[layers]]
    name = "block"
    count = 16
    forward_us = 180.0
    backward_us = 390.0
    parameter_bytes = 33554432
"""

from __future__ import annotations

import difflib
import inspect
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from gpusim.parallel.layer import Layer, ParallelError
from gpusim.parallel.pipeline import pipeline
from gpusim.parallel.replicas import data_parallel, fully_sharded, tensor_parallel
from gpusim.parallel.schedule import Schedule

KINDS: Mapping[str, Callable[..., Schedule]] = {
    each.__name__: each for each in (data_parallel, fully_sharded, tensor_parallel, pipeline)
}
_PRODUCT = ("rows", "inner", "columns", "gpu", "element_bytes", "share_of_roof", "tile")


def run_file(path: str | Path, changes: Mapping[str, Any] | None = None) -> Schedule:
    """The step that a file describes. changes: options in place of the file's.

    Raises ParallelError, naming the file, for keys and values that cannot be; OSError for a file that cannot be read.
    """
    try:
        tree = tomllib.loads(Path(path).read_text("utf-8"))
        return run_tree(tree | dict(changes or {}))
    except (ParallelError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ParallelError(f"{path}: {error}") from None


def run_tree(tree: Mapping[str, Any]) -> Schedule:
    """The same, of a file's contents."""
    options = dict(tree)
    kind = options.pop("kind", None)
    if kind not in KINDS:
        raise ParallelError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    rows = options.pop("layers", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ParallelError("layers must be tables, [[layers]]")
    layers = [layer for row in rows for layer in _layers(row)]
    known = [name for name in inspect.signature(KINDS[kind]).parameters if name not in ("layers", "communication")]
    _check_keys(options, known, kind)
    try:
        return KINDS[kind](layers, **options)
    except TypeError as error:
        raise ParallelError(f"{kind}: {error}") from None


def _layers(row: Mapping[str, Any]) -> list[Layer]:
    values = dict(row)
    count, name = values.pop("count", 1), str(values.pop("name", "layer"))
    product = values.pop("product", None)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ParallelError(f"layer {name!r}: count must be a whole number of 1 or more, got {count!r}")
    _check_keys(values, [each.name for each in fields(Layer)], f"layer {name!r}")
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    names = [name] if count == 1 else [f"{name} {k}" for k in range(count)]
    try:
        if product is None:
            return [Layer(each, **values) for each in names]
        _check_keys({**product}, _PRODUCT, f"product of layer {name!r}")
        product = {key: tuple(value) if isinstance(value, list) else value for key, value in product.items()}
        made = [Layer.product(each, **product) for each in names]
    except TypeError as error:
        raise ParallelError(f"layer {name!r}: {error}") from None
    return [Layer(**({f.name: getattr(each, f.name) for f in fields(Layer)} | values)) for each in made]


def _check_keys(given: Iterable[str], known: Iterable[str], where: str) -> None:
    known = list(known)
    for key in given:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            hint = f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(known)}"
            raise ParallelError(f"{where} has no {key!r}{hint}")
