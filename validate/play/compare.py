"""The experiments of the lab, simulated at places drawn by chance, beside what an H100 took there."""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Iterator
from typing import NamedTuple


class PlayRow(NamedTuple):
    """One place: cycles that an H100 took and that are predicted."""

    place: dict[str, int]
    measured: int
    predicted: int

    @property
    def error(self) -> float:
        """Signed, of the prediction."""
        return self.predicted / self.measured - 1


def compare(name: str, count: int, seed: int) -> Iterator[PlayRow]:
    """So many places of an experiment."""
    from gpusim.lab import play
    from gpusim.lab.answers import predict

    places = list(play.EXPERIMENTS[name].places())
    for place in random.Random(seed).sample(places, min(count, len(places))):
        measured = play.measured(name, place)
        assert measured is not None
        yield PlayRow(place, measured, predict(name, place, "h100")["cycles"])


def command(options: argparse.Namespace) -> int:
    """Print the mean and the worst error of each experiment."""
    from gpusim.lab import play

    print(f"{'experiment':<12}{'places':>8}{'mean':>9}{'worst':>9}  where")
    for name in play.EXPERIMENTS:
        rows = sorted(compare(name, options.places, options.seed), key=lambda row: abs(row.error))
        mean = statistics.mean(abs(row.error) for row in rows)
        where = ", ".join(f"{key} {value}" for key, value in rows[-1].place.items())
        print(f"{name:<12}{len(rows):>8}{mean:>9.1%}{rows[-1].error:>+9.1%}  {where}", flush=True)
    return 0
