"""The experiments of the lab, simulated at places drawn by chance, beside the cycles that an H100 took there."""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator

from validate.compared import Compared, show


def compare(count: int, seed: int) -> Iterator[Compared]:
    """So many places of each experiment."""
    from gpusim.lab import play
    from gpusim.lab.answers import predict

    for name, experiment in play.EXPERIMENTS.items():
        places = list(experiment.places())
        for place in random.Random(seed).sample(places, min(count, len(places))):
            measured = play.measured(name, place)
            assert measured is not None
            case = ", ".join(f"{key} {value}" for key, value in place.items())
            yield Compared(group=name, case=case, measured=measured, simulated=predict(name, place, "h100")["cycles"])


def command(options: argparse.Namespace) -> int:
    """`validate play`."""
    show(compare(options.places, options.seed))
    return 0
