"""The experiments of `gpusim lab` on a GPU, and simulated.

`python -m validate.play OUT.json.gz` measures every recorded place of them, in a minute of a GPU. A launch is repeated,
and the median of its cycles counts. `pixels` is measured by ncu, with cold caches: so this program runs itself under it
(`--pixels`). `python -m validate play` compares some places with what an H100 took.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.lab import play
from gpusim.results.profile import parse_profile
from validate import gpu
from validate.compared import Compared, show
from validate.metrics import CYCLES

REPEATS, COUNTED = 5, 3


def launches(real: gpu.RealGpu, name: str, repeats: int) -> list[list[int]]:
    """Cycles of each launch of each place."""
    cubin, found = play.CUBIN.read_bytes(), []
    arrays: dict[Any, int] = {}
    for place in play.EXPERIMENTS[name].places():
        launch = play.launch_of(name, place)
        words: list[Any] = []
        for number, each in enumerate(launch.arguments):
            if isinstance(each, int):
                words.append(np.int32(each))
                continue
            if (number, each) not in arrays:
                nbytes = np.dtype(each[0]).itemsize * each[1]
                arrays[number, each] = real.alloc(nbytes)
                real.fill(arrays[number, each], 0, nbytes)
            words.append(np.uint64(arrays[number, each]))
        cycles = []
        for _ in range(repeats):
            real.launch(real.function(cubin, launch.entry), launch.grid, launch.block, words)
            real.synchronize()
            if name != "pixels":
                count, kind = 2 * place["warps"], np.int64
                cycles.append(play.took(real.get(int(words[0]), count, kind)))
        found.append(cycles)
    return found


def pixels() -> list[list[int]]:
    """Cycles of the launches of `pixels`, each profiled three times. Raises SystemExit if ncu counted others."""
    command = [sys.executable, "-m", "validate.play", "--pixels"]
    done = gpu.count(command, [CYCLES], timeout_s=300, options=["-k", "pixels"])
    values = [int(launch.metrics[CYCLES]) for launch in parse_profile(done.csv)]
    if len(values) != COUNTED * len(list(play.EXPERIMENTS["pixels"].places())):
        raise SystemExit(f"ncu counted {len(values)} launches: {done.csv[-500:]} {done.printed[-500:]}")
    return [values[k : k + COUNTED] for k in range(0, len(values), COUNTED)]


def main(path: Path) -> None:
    """Everything, into one file."""
    real = gpu.RealGpu()
    about = real.about() | {
        "date": time.strftime("%Y-%m-%d"),
        "measured": f"SM clock around the loop, median of {REPEATS} launches; pixels: {CYCLES} by ncu, cold caches, "
        f"median of {COUNTED}",
    }
    experiments = {}
    for name in play.EXPERIMENTS:
        found = pixels() if name == "pixels" else launches(real, name, REPEATS)
        experiments[name] = [int(statistics.median(each)) for each in found]
        print(f"{name:<10}{len(found):>7} places", flush=True)
    text = json.dumps({"about": about, "experiments": experiments}, separators=(",", ":"))
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def compare(count: int, seed: int) -> Iterator[Compared]:
    """So many places of each experiment, drawn by chance, in cycles."""
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


if __name__ == "__main__":
    if sys.argv[1] == "--pixels":
        launches(gpu.RealGpu(), "pixels", COUNTED)
    else:
        main(Path(sys.argv[1]))
