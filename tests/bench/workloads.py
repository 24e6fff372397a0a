"""The workloads that `make bench-pair` measures.

A workload is prepared once and then run in rounds; a round tells how many units of work it did. Time is processor time,
children included: what other processes take of the machine is not in it. As a program, this file runs rounds of the
gpusim that PYTHONPATH names: workloads come by name on standard input, (seconds, units) go out as JSON.
"""

from __future__ import annotations

import gc
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from typing import Any

Round = Callable[[], float]


def cpu_seconds() -> float:
    """Processor time of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def detailed(name: str, size: int) -> Round:
    """A launch of a bundled program in detail, on one host thread; units: million warp instructions."""
    import gpusim
    from programs import registry

    variant = registry.get(name)

    def run() -> float:
        launch = variant.make(size, 0)
        arguments: dict[str, Any] = {"shared_bytes": launch.shared_bytes, "signature": launch.signature}
        result = gpusim.simulate(launch.kernel, launch.grid, launch.block, launch.args, threads=1, **arguments)
        return round(result.rate * result.record.host_seconds) / 1e6

    return run


def again(name: str, size: int, times: int) -> Round:
    """A launch so small that the time is what surrounds a simulation; units: launches."""
    once = detailed(name, size)
    return lambda: sum(once() > 0 for _ in range(times))


def command(*arguments: str) -> Round:
    """The command in a process of its own; units: calls."""

    def run() -> float:
        calling, nowhere = [sys.executable, "-m", "gpusim.cli", *arguments], subprocess.DEVNULL
        subprocess.run(calling, check=True, stdin=nowhere, stdout=nowhere)
        return 1

    return run


#: By the name of a workload the function that prepares it.
WORKLOADS: dict[str, Callable[[], Round]] = {
    "matmul/tiled": lambda: detailed("matmul/tiled", 256),
    "vector_add": lambda: detailed("vector_add", 1 << 20),
    "matmul_tensor": lambda: detailed("matmul_tensor/asynchronous", 512),
    "collatz": lambda: detailed("collatz/sorted", 32768),
    "atomics": lambda: detailed("atomics/shared_many", 262144),
    "launch again": lambda: again("vector_add", 256, 50),
    "gpusim --help": lambda: command("--help"),
    "gpusim run vector_add": lambda: command("run", "vector_add", "--threads", "1"),
}


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """(processor seconds, what it returned), with a clean heap at the start."""
    gc.collect()
    before = cpu_seconds()
    returned = run()
    return cpu_seconds() - before, returned


def answer(name: str, ready: dict[str, Round]) -> dict[str, Any]:
    """One round: {'seconds': for a unit of work}, or {'error': why there is none}. A workload's first is a warm-up."""
    try:
        if name not in ready:
            ready[name] = WORKLOADS[name]()
        seconds, units = timed(ready[name])
    except Exception as error:  # whatever a tree's code raises: it may lack what a workload asks for
        return {"error": f"{type(error).__name__}: {error}"}
    return {"seconds": seconds / units}


if __name__ == "__main__":
    prepared: dict[str, Round] = {}
    for line in sys.stdin:
        print(json.dumps(answer(line.strip(), prepared)), flush=True)
