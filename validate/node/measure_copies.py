"""Copies by the copy engines of real GPUs: between GPUs, from hosts and back, alone and against each other.

Run on the GPU machine, with torch and nothing of gpusim: `python measure_copies.py copies.json`. Kinds are named in
`jobs`, which the replay shares.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator

Job = tuple[str, str]
"""Destination and source: gpu0 ..., pinned (page-locked host memory), pageable."""

SIZES = tuple(4 << 10 << k for k in range(0, 19, 2))
LARGE = 256 << 20


def kinds(world: int) -> Iterator[tuple[str, int]]:
    """Every kind of measurement on so many GPUs and its size in bytes."""
    for nbytes in SIZES:
        for kind in ("device", "peer", "peer_both_ways"):
            yield kind, nbytes
        for memory in ("pinned", "pageable"):
            yield f"to_device_{memory}", nbytes
            yield f"to_host_{memory}", nbytes
    for kind in ("peer_twice", "to_device_and_back_pinned", "to_two_devices_pinned", "to_all_devices_pinned"):
        yield kind, LARGE
    yield from (("from_all_devices_pinned", LARGE), ("peer_ring", LARGE))
    if world > 2:
        for kind in ("peer_fan_out", "peer_fan_in", "peer_fan_out_2", "peer_fan_in_2"):
            yield kind, LARGE
    for gpu in range(1, world):
        yield f"peer_0_{gpu}", LARGE


def jobs(kind: str, world: int) -> list[Job]:
    """The copies of a kind, which start together, each on a stream of its source's GPU (from a host: its target's)."""
    gpus = [f"gpu{k}" for k in range(world)]
    fixed: dict[str, list[Job]] = {
        "device": [("gpu0", "gpu0")],
        "peer": [("gpu1", "gpu0")],
        "peer_both_ways": [("gpu1", "gpu0"), ("gpu0", "gpu1")],
        "peer_twice": [("gpu1", "gpu0")] * 2,
        "to_device_and_back_pinned": [("gpu0", "pinned"), ("pinned", "gpu0")],
        "to_two_devices_pinned": [(gpu, "pinned") for gpu in gpus[:2]],
        "to_all_devices_pinned": [(gpu, "pinned") for gpu in gpus],
        "from_all_devices_pinned": [("pinned", gpu) for gpu in gpus],
        "peer_ring": [(gpus[(k + 1) % world], gpus[k]) for k in range(world)],
        "peer_fan_out": [(gpu, "gpu0") for gpu in gpus[1:]],
        "peer_fan_in": [("gpu0", gpu) for gpu in gpus[1:]],
        "peer_fan_out_2": [(gpu, "gpu0") for gpu in gpus[1:3]],
        "peer_fan_in_2": [("gpu0", gpu) for gpu in gpus[1:3]],
    }
    if kind in fixed:
        return fixed[kind]
    if kind.startswith("peer_0_"):
        return [(f"gpu{kind.removeprefix('peer_0_')}", "gpu0")]
    direction, _, memory = kind.rpartition("_")
    return [("gpu0", memory)] if direction == "to_device" else [(memory, "gpu0")]


def measure(kind: str, nbytes: int, world: int, repeats: int = 20) -> dict[str, object]:
    """Medians: `event_us` of each copy, between two events around it in its stream; `wall_us` of the host, from before
    the first call until all GPUs are idle again."""
    import torch

    def memory(name: str) -> torch.Tensor:
        if name.startswith("gpu"):
            return torch.zeros(nbytes, dtype=torch.uint8, device=f"cuda:{name.removeprefix('gpu')}")
        it = torch.zeros(nbytes, dtype=torch.uint8)
        return it.pin_memory() if name == "pinned" else it

    pairs = [(memory(destination), memory(source)) for destination, source in jobs(kind, world)]
    streams = [
        torch.cuda.Stream(source.device if source.is_cuda else destination.device) for destination, source in pairs
    ]
    devices = sorted({stream.device_index for stream in streams})
    walls, events = [], []
    for _ in range(repeats + 3):
        for device in devices:
            torch.cuda.synchronize(device)
        marks = []
        start = time.perf_counter()
        for (destination, source), stream in zip(pairs, streams, strict=True):
            with torch.cuda.stream(stream):
                a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                a.record(stream)
                destination.copy_(source, non_blocking=True)
                b.record(stream)
                marks.append((a, b))
        for device in devices:
            torch.cuda.synchronize(device)
        walls.append((time.perf_counter() - start) * 1e6)
        events.append([a.elapsed_time(b) * 1e3 for a, b in marks])
    own = [round(statistics.median(each), 3) for each in zip(*events[3:], strict=True)]
    return {"kind": kind, "nbytes": nbytes, "wall_us": round(statistics.median(walls[3:]), 3), "event_us": own}


def main(path: str) -> None:
    """Measure every kind on all GPUs there are, and write it down with what it was measured on."""
    import torch

    world = torch.cuda.device_count()
    about = {
        "gpus": world,
        "gpu": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "date": time.strftime("%Y-%m-%d"),
        "timed": "medians of 20 after 3 (of 10 for host memory) on an idle machine: event_us between two events around "
        "each copy in its own stream, wall_us of the host from the first call until all GPUs are idle",
    }
    rows = [
        measure(kind, nbytes, world, 10 if "to_device" in kind or "to_host" in kind else 20)
        for kind, nbytes in kinds(world)
    ]
    with open(path, "w", encoding="utf-8") as file:
        lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
        file.write(f'{{"about": {json.dumps(about)},\n "copies": [\n{lines}\n ]}}\n')


if __name__ == "__main__":
    main(sys.argv[1])
