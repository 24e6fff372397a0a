"""Recorded copies of real GPUs beside the same calls on the simulated node."""

from __future__ import annotations

import statistics
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpusim.node import Event, Node, Stream, System, load_node
from validate.compared import Compared
from validate.gpu import read_json

Job = tuple[str, str]
"""Destination and source: gpu0 ..., pinned (page-locked host memory), pageable."""
RESULTS = Path(__file__).parent / "results"
LARGE_BYTES, LARGE_LIMIT, SMALL_LIMIT = 16 << 20, 0.05, 0.30
"""From 16 MB on bandwidth decides and the model is held to 5 %, below latency does and it is held to 30 %."""

PYTHON_US = 26.0
"""Time of torch's Python between two copies, in us, beside the driver's calls: peer_both_ways of 4 KB on two GPUs takes
71.6 of the host, less peer's 32.0 and the calls' own 13.8."""
_KNOWN = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
CALIBRATED = {tuple(each) for each in _KNOWN["calibrated"]}
GAPS = {(kind, nbytes): why for kind, nbytes, why in _KNOWN["gaps"]}


def recordings(what: str = "copies") -> list[Path]:
    """Paths of the stored recordings of one kind: copies, collectives or training. One is {"about": ..., "copies":
    [{"kind", "nbytes", "wall_us", "event_us"}]}; or of collectives {"about", "columns", "calls", "choice_columns",
    "choices"}."""
    return sorted(RESULTS.glob(f"{what}_*.json"))


def compare(paths: Sequence[Path] | None = None, node: str | Path | Node = "hgx_h200") -> list[Compared]:
    """Every recorded point (GPUs, kind, bytes) and what the simulated node makes of it: means over its copies of the
    time between their events. Copies within one GPU are a group of their own, since nothing of the node is in them."""
    rows = []
    for path in paths or recordings():
        recorded = read_json(path)
        world = recorded["about"]["gpus"]
        machine = load_node(node, world)
        for entry in recorded["copies"]:
            kind, nbytes = entry["kind"], entry["nbytes"]
            large = nbytes >= LARGE_BYTES
            rows.append(Compared(
                group=f"{_group(kind)}, {'16 MB and more' if large else 'less'}",
                case=f"{world} GPUs, {kind}, {nbytes:,} bytes", point=(world, kind, nbytes),
                measured=statistics.mean(entry["event_us"]),
                simulated=statistics.mean(simulate(machine, kind, nbytes, world)),
                limit=LARGE_LIMIT if large else SMALL_LIMIT, gap=GAPS.get((kind, nbytes)),
                calibrated=(world, kind, nbytes) in CALIBRATED,
            ))  # fmt: skip
    return sorted(rows, key=lambda row: row.group)


def _group(kind: str) -> str:
    if "pageable" in kind:
        return "host, pageable"
    return "within a GPU" if kind == "device" else "between GPUs" if "peer" in kind else "host, pinned"


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


def simulate(node: Node, kind: str, nbytes: int, world: int) -> list[float]:
    """Microseconds between the events of every copy."""
    system = System(node)
    defaults, marks = {gpu: system.stream(gpu) for gpu in node.gpus}, []
    for number, job in enumerate(jobs(kind, world)):
        if number:
            system.pause(PYTHON_US)
        marks.append(_copy(system, defaults, *job, nbytes))
    system.run()
    return [first.elapsed_ms(last) * 1e3 for first, last in marks]


def _copy(
    system: System, defaults: Mapping[str, Stream], destination: str, source: str, nbytes: int
) -> tuple[Event, Event]:
    """A copy as torch makes it: between two GPUs the default stream of the target takes part on both sides."""
    # What one thread of the host allocates lies in the memory of its socket, whichever GPU it is for.
    to, of = ("host0" if end in ("pinned", "pageable") else end for end in (destination, source))
    stream = system.stream(source if source.startswith("gpu") else destination)
    pinned, first = "pageable" not in (destination, source), system.event(stream)
    if "host0" in (to, of) or to == of:
        system.copy(to, of, nbytes, stream, pinned=pinned)
        last = system.event(stream)
    else:
        system.event(defaults[destination]).wait(stream)
        system.copy(to, of, nbytes, stream)
        system.event(stream).wait(defaults[destination])
        last = system.event(stream)
    return first, last
