"""What a run costs the host: `make bench` prints the tables of docs/performance.md.

    python -m tests.bench.performance [threads | products | processes | layers PYTHON] ...

Without arguments all but `layers`, which wants the Python of an environment with PyTorch. Times are also told in turns
of a fixed loop of the same process, which copies 1 KiB within the host's second cache: so tables of two hosts, or of
two days on a shared one, can be compared.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from matplotlib import pyplot

import gpusim
from gpusim.result import Result
from programs import images, registry
from tests.bench import parts

_THREADS = {"matmul/tiled": 1024, "vector_add": 16_000_000, "spmv/csr_vector": 262_144}
_PRODUCTS = {"matmul_tensor/asynchronous": "mma.sync", "matmul_hopper/wgmma": "wgmma"}
_SIZE = 1024
_LAYERS = 1, 2, 4, 8, 12
_GPT2 = Path(__file__).with_name("gpt2.py")


def turn_ns() -> float:
    """Nanoseconds of a turn of the fixed loop."""
    return 1024 / parts.copied_per_ns()


def best(name: str, size: int, mode: str, threads: int, rounds: int = 2) -> Result:
    """The fastest of some runs."""
    runs = []
    for _ in range(rounds):
        launch = registry.get(name).make(size, 0)
        what = images.image(name), launch.grid, launch.block, launch.args, "h200", launch.shared_bytes
        runs.append(gpusim.simulate(*what, threads=threads, mode=mode))
    return max(runs, key=lambda run: run.rate)


def threads() -> None:
    """How much faster so many host threads are than one, and whether all count the same cycles."""
    counts = [1 << k for k in range(8) if 1 << k <= len(os.sched_getaffinity(0))]
    print(f"| times faster on threads | {' | '.join(map(str, counts))} |\n|---|{'---|' * len(counts)}")
    for name, size in _THREADS.items():
        for mode in ("detailed", "functional"):
            runs = [best(name, size, mode, count) for count in counts]
            if mode == "detailed":
                assert len({run.cycles for run in runs}) == 1, "threads have changed a cycle"
            row = (f"{run.rate / runs[0].rate:.2f}" for run in runs)
            print(f"| {name} {size:,}, {mode} | {' | '.join(row)} |", flush=True)


def products() -> None:
    """Half-precision products on one thread."""
    print("| product of matrices, one thread | GFLOP/s | turns of the fixed loop for a MFLOP |\n|---|---|---|")
    for name, kind in _PRODUCTS.items():
        for mode in ("functional", "detailed"):
            ns = best(name, _SIZE, mode, 1).record.host_seconds * 1e9 / (2 * _SIZE**3)  # of an operation
            print(f"| {kind}, {mode} | {1 / ns:.1f} | {1e6 * ns / turn_ns():,.0f} |", flush=True)


def _process(arguments: list[str], **environment: str) -> tuple[float, float, float]:
    """(seconds, processor seconds, MiB of the largest process, this one included) of a command and what it starts."""
    started = time.perf_counter()
    running = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL, env=os.environ | environment)
    _, status, used = os.wait4(running.pid, 0)
    running.returncode = status
    assert status == 0, f"{arguments} has failed"
    return time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def processes() -> None:
    """The command: with nothing compiled, and again."""
    print("| process | processor seconds | million turns |\n|---|---|---|")
    run = ["-m", "gpusim.cli", "run", "vector_add"]
    with tempfile.TemporaryDirectory() as folder:
        for title in ("`gpusim run vector_add`, nothing compiled", "the same again"):
            _, used, _ = _process(
                run, GPUSIM_CACHE_DIR=folder, PYTHONPYCACHEPREFIX=folder, PYTHONDONTWRITEBYTECODE=""
            )
            print(f"| {title} | {used:.2f} | {1e3 * used / turn_ns():,.1f} |", flush=True)


def layers(python: str) -> None:
    """A training step of GPT-2 with more and more of its layers, and the picture of it, docs/pictures/gpt2.png."""
    print("| layers of GPT-2 | mode | seconds | million turns | GiB |\n|---|---|---|---|---|")
    took: dict[str, list[float]] = {"functional": [], "once": []}
    for mode, each in took.items():
        for count in _LAYERS:
            command = ["-m", "gpusim.cli", "exec", "--mode", mode, "--gpu", "h200", python, str(_GPT2), str(count)]
            seconds, _, size = _process(command)
            each.append(seconds)
            row = f"{seconds:.0f} | {1e3 * seconds / turn_ns():,.0f} | {size / 1024:.1f}"
            print(f"| {count} | {mode} | {row} |", flush=True)
    figure, axes = pyplot.subplots(figsize=(6, 3.4), layout="constrained")
    for mode, each in took.items():
        axes.plot(_LAYERS, each, marker="o", label=mode)
    axes.set(xlabel="layers of GPT-2", ylabel="seconds for a training step", ylim=(0, None), xticks=_LAYERS)
    axes.legend(frameon=False)
    figure.savefig("docs/pictures/gpt2.png", dpi=120)


PARTS: dict[str, Callable[[], None]] = {
    "parts": parts.main,
    "threads": threads,
    "products": products,
    "processes": processes,
}


def main(arguments: list[str]) -> None:
    print(f"A turn of the fixed loop: {turn_ns():.1f} ns; {len(os.sched_getaffinity(0))} cores.\n")
    if arguments[:1] == ["layers"]:
        layers(arguments[1])
        return
    for name in arguments or PARTS:
        PARTS[name]()
        print()


if __name__ == "__main__":
    main(sys.argv[1:])
