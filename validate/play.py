"""Experiments of `gpusim lab` at some of their recorded places: cycles that an H100 took, beside the simulated ones.

An H100's are the median of five launches, by the SM clock around the loop; of `pixels` that of three under ncu, with
cold caches.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator

from gpusim.lab import play
from gpusim.lab.answers import predict
from validate.compared import Compared, show


def compare(count: int, seed: int) -> Iterator[Compared]:
    """Compare `count` randomly drawn places of each experiment, in cycles."""
    for name, experiment in play.EXPERIMENTS.items():
        places = list(experiment.places())
        for place in random.Random(seed).sample(places, min(count, len(places))):
            measured = play.measured(name)[tuple(place.values())]
            case = ", ".join(f"{key} {value}" for key, value in place.items())
            yield Compared(group=name, case=case, measured=measured, simulated=predict(name, place, "h100")["cycles"])


def command(options: argparse.Namespace) -> int:
    """`validate play`."""
    show(compare(options.places, options.seed))
    return 0
