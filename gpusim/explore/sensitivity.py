"""Sensitivity of a program's time to each parameter of a machine.

`one_at_a_time` changes each key alone, down and up; `explain` says in a few lines what limits a program here, and what
would on another GPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from gpusim.config import load_config
from gpusim.errors import ConfigError, SimulationError
from gpusim.explore.keys import Key, changes, find_keys, value_of
from gpusim.explore.point import Point
from gpusim.explore.sweep import PointEvaluator, load_pandas

if TYPE_CHECKING:
    import pandas

MATTERS = 0.01
"""Share of the time from which a key is worth a word."""


class SensitivityError(SimulationError, ValueError):
    """There is no answer: the program does not run."""


@dataclass(frozen=True)
class KeyEffect:
    """The effect of one key. value: of the machine; low, high: values tried (None: not below or above `value`); low_us,
    high_us: the program's time there.

    elasticity: change of the logarithm of the time per change of the logarithm of the value, from low to high: -1 is a
    time that halves when the value doubles. gain: share of the time that the better of the two values saves; negative
    where it is slower, 0 where nothing better was tried. A key whose worse value costs much and whose better one saves
    nothing is enough as it is.
    """

    key: str
    what: str
    better: str
    value: float
    low: float | None
    high: float | None
    low_us: float | None
    high_us: float | None
    elasticity: float
    gain: float


@dataclass(frozen=True)
class Sensitivity:
    """All keys of one program on one machine, the one that matters most first. runs: points that were asked for;
    errors: of those that did not run. blocks, waves: of the launch, how often it fills the machine."""

    program: str
    gpu: str
    time_us: float
    runs: int
    errors: tuple[str, ...] = ()
    effects: tuple[KeyEffect, ...] = ()
    blocks: int | None = None
    waves: float | None = None

    def frame(self) -> pandas.DataFrame:
        """The table; needs pandas."""
        return load_pandas().DataFrame([asdict(each) for each in self.effects])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def one_at_a_time(
    point: Point, keys: Sequence[str] | None = None, *, step: float = 2.0, rows: PointEvaluator | None = None
) -> Sensitivity:
    """Each key alone, divided and multiplied by `step`, or as near to that as the machine allows.

    point: program and machine. keys: names, by default those of `gpusim.explore.keys.KEYS`. rows: evaluates points,
    with its journal and workers; by default here and now.

    Raises ConfigError for unknown keys, SensitivityError where the program does not run on the machine itself.
    """
    if not 1 < step <= 64:
        raise ConfigError(f"step must be above 1 and at most 64, got {step}")
    base = load_config(point.gpu)
    config = load_config(base, dict(point.config))
    chosen = find_keys(list(keys) if keys is not None else None)
    points = [point]
    tried: dict[tuple[str, float], tuple[float, int]] = {}
    for key, factor in product(chosen, (1 / step, step)):
        value = value_of(config, key.name)
        try:
            machine = load_config(config, key.changes(config, value * factor))
        except ConfigError:
            continue
        if (near := value_of(machine, key.name)) != value:
            tried[key.name, factor] = near, len(points)
            points.append(Point(point.program, point.gpu, changes(base, machine), point.parameters))
    run = rows or PointEvaluator()
    run.ask_for((), [Point(point.program, point.gpu)])
    found = run(points)
    if found[0]["error"]:
        raise SensitivityError(found[0]["error"])
    errors = tuple(f"{each}: {row['error']}" for each, row in zip(points, found, strict=True) if row["error"])
    time_us = float(found[0]["time_us"])
    there = {place: (value, found[k]["time_us"]) for place, (value, k) in tried.items() if not found[k]["error"]}
    effects = [
        _effect(key, (value_of(config, key.name), time_us), *(there.get((key.name, each)) for each in (1 / step, step)))
        for key in chosen
    ]
    effects.sort(key=lambda effect: -abs(effect.elasticity))
    fill = found[0].get("blocks"), found[0].get("waves")
    return Sensitivity(point.program, config.gpu.name, time_us, len(points), errors, tuple(effects), *fill)


def explain(found: Sensitivity, following: Sensitivity | None = None) -> str:
    """Say what limits the program on this GPU, and what would on the next one, from what `one_at_a_time` found."""
    text = [f"{found.program} on {found.gpu} takes {found.time_us:.4g} us. {_limits(found)}"]
    if following is not None:
        ratio = found.time_us / following.time_us
        faster = f"{ratio:.2f} times as fast" if ratio >= 1 else f"{1 / ratio:.2f} times as slow"
        text.append(f"On {following.gpu} it takes {following.time_us:.4g} us, {faster}. {_limits(following)}")
        text.append(_moved(found, following))
    return " ".join(part for part in text if part)


def _limits(found: Sensitivity) -> str:
    # A faster clock makes everything faster but device memory: that is no limit of one part.
    parts = [each for each in found.effects if each.key != "gpu.clock_mhz"]
    good = sorted((each for each in parts if each.gain >= MATTERS), key=lambda each: -each.gain)
    if not good:
        return "No part of the machine, made better alone, makes it faster."
    first, *others = good
    better = first.high if first.better == "larger" else first.low
    text = f"What limits it most is {first.what}: {first.key} from {first.value:,g} to {better:,g} saves"
    text += f" {100 * first.gain:.1f} % of the time"
    if others:
        text += "; then " + ", ".join(f"{each.what} ({100 * each.gain:.1f} %)" for each in others[:3])
    bad = [each.what for each in parts if each.gain <= -5 * MATTERS]
    if bad:
        text += f". Better is slower for {', '.join(bad[:3])}"
    return text + "."


def _moved(a: Sensitivity, b: Sensitivity) -> str:
    """Say what matters more and what less on the second machine."""
    first = {each.key: each for each in a.effects if each.key != "gpu.clock_mhz"}
    pairs = [(first[each.key], each) for each in b.effects if each.key in first]
    more = max(pairs, key=lambda pair: pair[1].gain - pair[0].gain, default=None)
    less = max(pairs, key=lambda pair: pair[0].gain - pair[1].gain, default=None)
    parts = []
    for pair, word in ((more, "more"), (less, "less")):
        if pair is not None and abs(pair[1].gain - pair[0].gain) >= MATTERS:
            shares = f"{100 * pair[0].gain:.1f} % saved here, {100 * pair[1].gain:.1f} % there"
            parts.append(f"{pair[0].what} matters {word} ({shares})")
    if not parts:
        return "The same limits both."
    text = ", and ".join(parts) + "."
    return text[0].upper() + text[1:]


def _effect(
    key: Key, here: tuple[float, float], low: tuple[float, float] | None, high: tuple[float, float] | None
) -> KeyEffect:
    """Of values with the times there: the machine's own, and those that were tried."""
    (first, first_us), (last, last_us) = low or here, high or here
    elasticity = 0.0
    if first != last and min(first, last) > 0:
        elasticity = math.log(last_us / first_us) / math.log(last / first)
    better = high if key.better == "larger" else low
    gain = 0.0 if better is None else 1 - better[1] / here[1]
    (low_value, low_us), (high_value, high_us) = low or (None, None), high or (None, None)
    return KeyEffect(key.name, key.what, key.better, here[0], low_value, high_value, low_us, high_us, elasticity, gain)
