"""The pictures of `docs/figures.md`: which program each of them shows, and their descriptions in the document.

    python docs/site/gallery.py [PICTURE ...]     # by default all
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import gpusim  # noqa: E402
from gpusim import beside, plot  # noqa: E402
from gpusim.collectives import CollectiveResult  # noqa: E402
from gpusim.explore import Point, one_at_a_time, search  # noqa: E402
from gpusim.explore.space import read_sweep  # noqa: E402
from gpusim.explore.sweep import PointEvaluator  # noqa: E402
from gpusim.parallel import Layer, data_parallel, pipeline  # noqa: E402
from gpusim.result import Result  # noqa: E402
from programs import images, registry  # noqa: E402
from validate.scoring import accepted  # noqa: E402
from validate.scoring.documents import DOCS, DocumentError  # noqa: E402

DOCUMENT = "figures.md"
LADDER = tuple(name for name in registry.names() if name.startswith("reduction/"))


@cache
def simulated(name: str, size: int, trace: bool = False) -> Result:
    """A bundled program on the reference GPU, from its program image, so that no compiler's version matters."""
    variant = registry.get(name)
    launch = variant.make(size, 0)
    program = images.image(name)
    return gpusim.simulate(program, launch.grid, launch.block, launch.args, "h200", launch.shared_bytes, trace=trace)


def traced(name: str, size: int) -> Any:
    """Return a trace of SM 0 and of block 0."""
    return simulated(name, size, trace=True).trace


def swept(names: Iterable[tuple[str, int]], machines: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of bundled programs (name, size) on machines that differ from an H200, as `gpusim sweep` makes them."""
    rows = []
    for name, size in names:
        for overrides in machines:
            config = gpusim.load_config("h200", overrides)
            launch = replace(registry.get(name).make(size, 0), kernel=images.image(name))
            least = gpusim.bound.bound(gpusim.bound.profile(launch, config), config)
            result = gpusim.simulate(launch.kernel, launch.grid, launch.block, launch.args, config, launch.shared_bytes)
            rows.append(
                {"program": name, **overrides, "cycles": result.cycles, "time_us": result.time_us}
                | {"bound_cycles": least.cycles}
            )
    return rows


def _heat() -> Any:
    machines = [
        {"sm.count": count, "dram.bandwidth_gb_s": bandwidth}
        for count in (16, 33, 66, 132)
        for bandwidth in (600, 1200, 2400, 4800)
    ]
    return plot.heat_map(swept([("vector_add", 1 << 20)], machines), "sm.count", "dram.bandwidth_gb_s")


def _scaling() -> Any:
    programs = [("matmul/tiled", 256), ("vector_add", 1 << 20), ("pointer_chase/dram", 8)]
    machines = [{"sm.count": count} for count in (8, 16, 32, 64, 128, 256)]
    return plot.scaling_curves(swept(programs, machines), "sm.count")


def _measured() -> Any:
    points = ((str(point), entry.measured, entry.predicted) for point, entry in accepted.load().items())
    return plot.predicted_against_measured(points)


def _beside() -> Any:
    """The picture of docs/beside.md: time of a matrix product by size, on an H200 and the machines beside it."""
    rows = []
    for n in (16, 32, 64, 128, 256, 512, 1024, 2048):
        steps = {64: "matmul_tensor/asynchronous", 256: "matmul_hopper/specialised", 1024: "matmul_hopper/cluster"}
        program = [name for least, name in steps.items() if least <= max(n, 64)][-1]
        rows.append({"machine": "H200", "n": n, "time_us": simulated(program, max(n, 64)).time_us})
        products = [beside.matrix_product(each, n, n, n) for each in beside.shipped_machines()]
        rows += [{"machine": each.machine, "n": n, "time_us": 1e6 * each.seconds} for each in products]
    return plot.latency_and_throughput(rows)


def _streams() -> Any:
    """The loop of docs/streams.md in four streams."""
    program, count = registry.get("saxpy").kernel, 4
    with gpusim.Device("h200") as device:
        x, y = (device.device_array(1 << 20, np.float32) for _ in range(2))
        host = device.pinned_array(1 << 20, np.float32)
        streams = [device.stream() for _ in range(count)]
        for k in range(2 * count):
            part, stream = slice(k << 17, (k + 1) << 17), streams[k % count]
            x[part].copy_to_device(host[part], stream)
            device.launch(program, 512, 256, (np.float32(2), x[part], y[part]), stream=stream)
            y[part].copy_to_host(host[part], stream)
        device.synchronize()
        return plot.streams_timeline(device.timeline())


def _layers(count: int) -> list[Layer]:
    """Square products of 4,096 in bf16, as `validate node training` has them."""
    turns = (512,), (512, 512)  # blocks of the kernels of each pass
    return [Layer(f"layer {k}", 185.0, 395.0, 32 << 20, 32 << 20, None, *turns) for k in range(count)]


@cache
def _all_reduce() -> CollectiveResult:
    return gpusim.collective("all_reduce", 8 << 20, 8, trace=True)


def _tornado() -> Any:
    with PointEvaluator(workers=None) as rows:
        return plot.tornado(one_at_a_time(Point("gemv", "h200", (), (("size", 2048),)), rows=rows))


def _pareto() -> Any:
    asked = read_sweep(DOCS / "space.toml")
    with PointEvaluator(workers=None) as rows:
        return plot.pareto(search(asked.space, rows=rows, **asked.search))


PICTURES: Mapping[str, Callable[[], Any]] = {
    "roofline": lambda: plot.roofline(simulated("matmul/tiled", 256)),
    "stalls": lambda: plot.stall_breakdown(simulated("matmul/tiled", 256)),
    "energy": lambda: plot.energy_breakdown(simulated("matmul/tiled", 256)),
    "ladder": lambda: plot.stall_breakdown({name: simulated(name, 1 << 18) for name in LADDER}),
    "measured": _measured,
    "occupancy": lambda: plot.occupancy_calculator(simulated("matmul_register/strided", 256)),
    "lanes": lambda: plot.lane_activity(traced("reduction/interleaved_divergent", 1024), 0, 30, 48),
    "divergence": lambda: plot.divergence_tree(traced("divergence/4", 1024), 0),
    "banks": lambda: plot.bank_wavefronts(traced("bank_conflict/8", 1024)),
    "coalescing": lambda: plot.coalescing(traced("access/strided", 1024)),
    "schedulers": lambda: plot.scheduler_timeline(traced("matmul/tiled", 512), start=12000),
    "heat": _heat,
    "scaling": _scaling,
    "residency": lambda: plot.sm_residency(traced("vector_add", 1 << 20)),
    "step": lambda: plot.training_timeline(data_parallel(_layers(8), 8, bucket_bytes=64 << 20)),
    "pipeline": lambda: plot.training_timeline(pipeline(_layers(8), 4, 8)),
    "streams": _streams,
    "links": lambda: plot.link_utilisation(_all_reduce()),
    "collective": lambda: plot.collective_steps(_all_reduce()),
    "tornado": _tornado,
    "beside": _beside,
    "pareto": _pareto,
}
"""Every picture by the name of its file."""


def write(docs: Path | None = None, only: Collection[str] = ()) -> list[Path]:
    """Draw the pictures (or those named) and renew their descriptions in the document; returns the files.

    Raises DocumentError for a name that is none, and if the document does not show one of them.
    """
    docs = docs or DOCS
    if unknown := set(only) - set(PICTURES):
        raise DocumentError(f"there is no picture {', '.join(sorted(unknown))}; there are {', '.join(PICTURES)}")
    written = []
    (docs / "figures").mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        if only and name not in only:
            continue
        drawn = draw()
        _describe(docs / DOCUMENT, name, plot.text_alternative(drawn))
        written.append(plot.save(drawn, docs / "figures" / f"{name}.png"))
    return written


def _describe(document: Path, name: str, text: str) -> None:
    """Put a text alternative where the document shows a picture."""
    alternative = re.sub(r"([\[\]])", r"\\\1", text)
    before = document.read_text("utf-8")
    pattern = rf"!\[(?:[^\]\\]|\\.)*\]\(figures/{name}\.png\)"
    after, count = re.subn(pattern, lambda _: f"![{alternative}](figures/{name}.png)", before)
    if count != 1:
        raise DocumentError(f"{document} shows figures/{name}.png {count} times, not once")
    document.write_text(after, "utf-8")


if __name__ == "__main__":
    for written in write(only=sys.argv[1:]):
        print(written, flush=True)
