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
from gpusim.plot import style  # noqa: E402
from gpusim.plot.colours import LINE_COLOURS, MARKERS  # noqa: E402
from gpusim.result import Result  # noqa: E402
from gpusim.workload.target import load_model  # noqa: E402
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


def machine_cycles(name: str, size: int, model: Any = "simpy", *last: Any, **overrides: Any) -> int:
    """Cycles of a bundled program on a machine of SimPy processes. last: in place of its last arguments. Without
    refresh of memory: whom that meets is luck of a few hundred cycles, which each change of a machine draws anew."""
    launch = registry.get(name).make(size, 0)
    args = (*launch.args[: len(launch.args) - len(last)], *last)
    what = images.image(name), launch.grid, launch.block, args, "h200", launch.shared_bytes
    return gpusim.simulate(*what, model=model, overrides={"dram.refresh_cycles": 0} | overrides).cycles


def machine_of(name: str) -> Any:
    """A machine of docs/machines, as FILE.py:CLASS."""
    return load_model(f"{DOCS / 'machines' / name}")


@style.styled
def effect(
    title: str, curves: Mapping[str, Mapping[Any, float]], x: str, y: str = "SM clock cycles", **axes: Any
) -> Any:  # fmt: skip
    """Curves by their names, each as {x: y}. axes: what else is set of the axes."""
    ax, words = style.new_axes(None, 4.2), []
    for (name, points), colour, marker in zip(curves.items(), LINE_COLOURS, MARKERS, strict=False):
        ax.plot(list(points), list(points.values()), color=colour, marker=marker, markersize=5, label=name)
        least, most = (each(points, key=points.__getitem__) for each in (min, max))
        ends = [f"{points[at]:,.0f}" if points[at] > 100 else f"{points[at]:.3f}" for at in (least, most)]
        words.append(f"{name} from {ends[0]} at {least:,} to {ends[1]} at {most:,}")
    ax.set(**axes)
    ticks = list(next(iter(curves.values())))
    ax.set_xticks(ticks, [f"{each:,}" for each in ticks])
    ax.minorticks_off()
    if axes.get("ylim", (1, 1))[0] == 0:
        ax.yaxis.set_major_formatter("{x:,.0f}")
    text = f"{title}: {y} against {x}; {'; '.join(words)}."
    return style.finish(ax, title, text, x=x, y=y, grid="both", legend=style.named(ax.lines), columns=5)


def _hashed() -> Any:
    models = {"word w in bank w mod 32": "simpy", "hashed": machine_of("hashed_banks.py:HashedBanks")}
    curves = {
        label: {stride: machine_cycles("bank_conflict/1", 300, model, np.int32(stride)) for stride in range(1, 34)}
        for label, model in models.items()
    }
    title = "Hashed banks, two blocks that load shared memory in strides"
    return effect(title, curves, "words from lane to lane", ylim=(0, 13_000))


def _two_level() -> Any:
    model, one, curves = machine_of("two_level.py:TwoLevel"), {"sm.count": 1}, {}
    sizes = {
        **{"layernorm/registers": 64, "montecarlo/stored": 1 << 15, "reduction/shuffle": 1 << 14},
        **{"spmv/csr_vector": 128, "stencil/global_2d": 80},
    }
    for name, size in sizes.items():
        before, curves[name] = machine_cycles(name, size, **one), {}
        for count in (1, 2, 4, 8, 16):
            model.SM.Scheduler.most_active = count
            curves[name][count] = machine_cycles(name, size, model, **one) / before
    return effect(
        "Two-level scheduler, on one SM", curves, "warps of a sub-partition that take turns",
        "cycles, scheduler as it is = 1", xscale="log",
    )  # fmt: skip


def _victims() -> Any:
    def cycles(lines: int, model: Any = "simpy") -> int:
        return machine_cycles("spmv/csr_scalar", 192, model, **{"sm.count": 1, "l1.reserved_lines": 1792 - lines})

    model, whole, sizes = machine_of("victim_cache.py:VictimCache"), cycles(1748), (4, 8, 16, 32, 64, 128, 256)
    curves = {
        "L1 alone": {lines: cycles(lines) / whole for lines in sizes},
        "L1 and a victim cache of 64 lines": {lines: cycles(lines, model) / whole for lines in sizes},
        "L1 of 64 lines more": {lines: cycles(lines + 64) / whole for lines in sizes},
    }
    title = "Victim cache, spmv/csr_scalar with 192 rows on one SM"
    return effect(title, curves, "lines of L1, in sets of four", "cycles, L1 of 1,748 lines = 1", xscale="log")


def _compressed() -> Any:
    models = {"all bytes": "simpy", "two bytes in three": machine_of("compressed_memory.py:CompressedMemory")}
    rates = (50, 100, 200, 400, 800, 1600, 4800)
    curves = {
        label: {rate: machine_cycles("saxpy", 1 << 15, model, **{"dram.bandwidth_gb_s": float(rate)}) for rate in rates}
        for label, model in models.items()
    }
    title = "Compressed transfers, saxpy of 32,768 elements"
    return effect(title, curves, "dram.bandwidth_gb_s, GB/s", xscale="log", ylim=(0, 22_000))


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
    "hashed": _hashed,
    "two_level": _two_level,
    "victims": _victims,
    "compressed": _compressed,
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
