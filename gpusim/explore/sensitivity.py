"""Which parameter of a machine moves the time of a program most.

`one_at_a_time` changes each key alone, down and up; `explain` says in a few lines what limits a program here, and what
would on another GPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gpusim.config import GPUConfig, load_config
from gpusim.errors import ConfigError
from gpusim.explore.keys import Key, changed, changes, find_keys, value_of
from gpusim.explore.point import Point
from gpusim.explore.sweep import PointEvaluator
from gpusim.explore.table import load_pandas

if TYPE_CHECKING:
    import pandas

MATTERS = 0.01
"""Share of the time from which a key is worth a word."""


class SensitivityError(ValueError):
    """There is no answer: the program does not run."""


@dataclass(frozen=True)
class KeyEffect:
    """What one key does. value: of the machine; low, high: what was tried (None: not below or above `value`);
    low_us, high_us: the program's time there.

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
    errors: of those that did not run."""

    program: str
    gpu: str
    time_us: float
    runs: int
    errors: tuple[str, ...] = ()
    effects: tuple[KeyEffect, ...] = ()

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
    base, config, chosen = _begin(point, keys, step)
    points, machines = [point], {}
    for key in chosen:
        for factor in (1 / step, step):
            machine = _machine(config, key, value_of(config, key.name) * factor)
            if machine is not None:
                machines[key.name, factor] = (value_of(machine, key.name), len(points))
                points.append(_at(point, base, machine))
    found, time_us, errors = _run(points, rows)
    effects = []
    for key in chosen:
        sides = [machines.get((key.name, factor)) for factor in (1 / step, step)]
        effects.append(_effect(key, value_of(config, key.name), time_us, sides, found))
    effects.sort(key=lambda effect: -abs(effect.elasticity))
    return Sensitivity(point.program, config.gpu.name, time_us, len(points), errors, effects=tuple(effects))


def explain(found: Sensitivity, following: Sensitivity | None = None) -> str:
    """What limits the program on this GPU, and what would on the next one, from what `one_at_a_time` found."""
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
    """What matters more and what less on the second machine."""
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


def _begin(point: Point, keys: Sequence[str] | None, step: float) -> tuple[GPUConfig, GPUConfig, list[Key]]:
    """The GPU that a point names, the point's machine, and the keys to move."""
    if not 1 < step <= 64:
        raise ConfigError(f"step must be above 1 and at most 64, got {step}")
    base = load_config(point.gpu)
    return base, load_config(base, dict(point.config)), find_keys(list(keys) if keys is not None else None)


def _run(points: Sequence[Point], rows: PointEvaluator | None) -> tuple[list[dict[str, Any]], float, tuple[str, ...]]:
    """The rows of points, the time of the first one, and the errors of the others."""
    run = rows or PointEvaluator()
    run.ask_for((), [Point(points[0].program, points[0].gpu)])
    found = run(points)
    if found[0]["error"]:
        raise SensitivityError(found[0]["error"])
    errors = tuple(f"{each}: {row['error']}" for each, row in zip(points, found, strict=True) if row["error"])
    return found, float(found[0]["time_us"]), errors


def _machine(config: GPUConfig, key: Key, value: float) -> GPUConfig | None:
    """The machine with a key near a value; None if there is no other than `config`."""
    try:
        machine = changed(config, {key: value})
    except ConfigError:
        return None
    return None if value_of(machine, key.name) == value_of(config, key.name) else machine


def _at(point: Point, base: GPUConfig, machine: GPUConfig) -> Point:
    return Point(point.program, point.gpu, changes(base, machine), point.parameters)


def _effect(
    key: Key, value: float, time_us: float, sides: list[tuple[float, int] | None], rows: list[dict[str, Any]]
) -> KeyEffect:
    tried: list[tuple[float, float] | None] = []
    for side in sides:
        ran = side is not None and not rows[side[1]]["error"]
        tried.append((side[0], float(rows[side[1]]["time_us"])) if side is not None and ran else None)
    low, high = tried
    first, last = low or (value, time_us), high or (value, time_us)
    elasticity = 0.0
    if first[0] != last[0] and min(first[0], last[0]) > 0:
        elasticity = math.log(last[1] / first[1]) / math.log(last[0] / first[0])
    better = high if key.better == "larger" else low
    gain = 0.0 if better is None else 1 - better[1] / time_us
    low_value, low_us = low or (None, None)
    high_value, high_us = high or (None, None)
    return KeyEffect(key.name, key.what, key.better, value, low_value, high_value, low_us, high_us, elasticity, gain)
