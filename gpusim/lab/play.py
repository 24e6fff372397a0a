"""Play: small experiments whose every slider is an argument of one kernel, so that nothing is compiled between two
places of a slider. `experiments.toml` says which there are; `play.cu` holds the kernels, `play.cubin` their machine
code for Hopper, `recorded_h100.json` the cycles that an H100 took at a great many places.

Only the standard library and NumPy are imported here: the recording runs where the simulator does not.
"""

from __future__ import annotations

import gzip
import itertools
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
SOURCE, CUBIN, RECORDED = HERE / "play.cu", HERE / "play.cubin", HERE / "recorded_h100.json.gz"
ROUNDS = 32
IMAGE = (256, 64)
"""Width and height of the image of `pixels`."""

Place = Mapping[str, int]
"""Positions of an experiment's sliders, by their names."""


@dataclass(frozen=True)
class Slider:
    """name: of the kernel's argument. values: its places, in order; words: what the page shows for them, if not the
    values. start: the value at first. recorded: those at which an H100 was measured."""

    name: str
    label: str
    values: Sequence[int]
    start: int
    recorded: Sequence[int]
    words: Sequence[str] = ()


@dataclass(frozen=True)
class Experiment:
    """name, title; about: what to look for. code: the lines that make the effect, as the page shows them, with sliders'
    values in braces; here: which of them, from 0. unit: what the cycles are of; rounds: how many of it. counted: the
    metric beside them."""

    name: str
    title: str
    about: str
    code: Sequence[str]
    here: int
    unit: str
    sliders: tuple[Slider, ...]
    counted: tuple[str, str, int, str]
    rounds: int = 1

    def places(self) -> Iterator[dict[str, int]]:
        """Every recorded place, in the order of the recording. A block has 1,024 threads at most."""
        for values in itertools.product(*(each.recorded for each in self.sliders)):
            place = dict(zip((each.name for each in self.sliders), values, strict=True))
            if self.name != "pixels" or place["x"] * place["y"] <= 1024:
                yield place


TABLES = tomllib.loads((HERE / "experiments.toml").read_text("utf-8"))
EXPLORED = {name: TABLES[name] for name in ("program", "preset")}
"""What Explore offers: programs with sizes, most of which fill an H200, and changes of one."""


def _experiments() -> Iterator[Experiment]:
    for each in TABLES["experiment"]:
        sliders = ({"recorded": slider["values"]} | slider for slider in each.pop("sliders"))
        yield Experiment(**each, sliders=tuple(Slider(**slider) for slider in sliders))


EXPERIMENTS = {each.name: each for each in _experiments()}


@dataclass(frozen=True)
class PlayLaunch:
    """entry: of the kernel. arguments: an array's dtype and elements, all zero, or an integer; the first array gets
    what the kernel measured, but for `pixels`."""

    entry: str
    grid: tuple[int, int]
    block: tuple[int, int]
    arguments: tuple[tuple[str, int] | int, ...]


def launch_of(name: str, place: Place) -> PlayLaunch:
    """The launch of a place."""
    if name == "pixels":
        (width, height), x, y = IMAGE, place["x"], place["y"]
        pixels = ("float32", width * height)
        return PlayLaunch("pixels", (-(-width // x), -(-height // y)), (x, y), (pixels, pixels, width, height))
    warps = place.get("warps", 1)
    threads = 32 * warps
    times, block = ("int64", 2 * warps), (threads, 1)
    if name in ("steps", "ways"):
        numbers = [place[each.name] for each in EXPERIMENTS[name].sliders if each.name != "warps"]
        return PlayLaunch(name, (1, 1), block, (times, ("float32", threads), *numbers))
    if name == "banks":
        numbers = [place[each] for each in ("stride", "pad", "offset")]
        return PlayLaunch(f"banks{place['width']}", (1, 1), block, (times, *numbers))
    elements = (threads - 1) * place["stride"] + place["offset"] + 1
    array = ("uint8", elements * place["width"])
    return PlayLaunch(f"sectors{place['width']}", (1, 1), block, (times, array, place["stride"], place["offset"]))


def took(times: np.ndarray) -> int:
    """Cycles from the first warp's start to the last one's end by what a kernel wrote; of all its rounds."""
    began, ended = times.reshape(-1, 2).T
    return int(ended.max() - began.min())


@cache
def recorded() -> dict[str, Any]:
    """Return the recording of an H100: provenance, and the cycles of each experiment in the order of its places."""
    return json.loads(gzip.decompress(RECORDED.read_bytes()))


@cache
def measured(name: str) -> dict[tuple[int, ...], int]:
    """Cycles that an H100 took, of all rounds, by the place's values."""
    cycles = recorded()["experiments"].get(name, ())
    return {tuple(place.values()): each for place, each in zip(EXPERIMENTS[name].places(), cycles, strict=True)}
