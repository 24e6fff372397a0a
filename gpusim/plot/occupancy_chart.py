"""Occupancy calculator: resident warps over each of the three things that a kernel can change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpusim.config import GPUConfig
from gpusim.errors import LaunchError
from gpusim.launch.occupancy import Occupancy, occupancy
from gpusim.plot import style
from gpusim.plot.colours import BLUE, GREY, VERMILLION
from gpusim.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_KIB = 1024


@style.styled
def occupancy_calculator(
    of: Result | GPUConfig,
    threads_per_block: int | None = None,
    registers_per_thread: int | None = None,
    shared_bytes: int | None = None,
) -> Figure:
    """Warps that an SM holds, over threads per block, registers per thread and shared memory per block.

    of: a result, whose launch gives all numbers that are not given here; or a configuration, for 256 threads, 32
    registers and no shared memory unless said otherwise. In each of the three panels one of the numbers varies and the
    other two stay; the dot is the launch itself (`axes.lines[1]`; the curve is `axes.lines[0]`).

    Raises LaunchError if not even one block fits.

    >>> from gpusim import load_config, plot
    >>> figure = plot.occupancy_calculator(load_config("h200"), 256, 64)
    >>> [float(ax.lines[1].get_ydata()[0]) for ax in figure.axes]
    [32.0, 32.0, 32.0]
    """
    if isinstance(of, Result):
        config, program, launch = of.record.config, of.record.program, of.record.launch
        defaults = (launch.threads_per_block, program.registers, program.static_shared_bytes + launch.shared_bytes)
    else:
        config, defaults = of, (256, 32, 0)
    asked = (threads_per_block, registers_per_thread, shared_bytes)
    threads, registers, shared = (
        given if given is not None else default for given, default in zip(asked, defaults, strict=True)
    )
    here = occupancy(config, threads, registers, 0, shared)
    sm = config.sm
    figure = style.new_figure(3.9)
    panels = figure.subplots(1, 3, sharey=True)
    warp, unit = config.gpu.warp_size, sm.shared_unit_bytes
    sizes = range(warp, sm.max_threads_per_block + 1, warp)
    counts = range(16, sm.max_registers_per_thread + 1)
    amounts = range(0, sm.shared_bytes_per_block_max + 1, unit)
    by_threads = [_warps(config, each, registers, shared) for each in sizes]
    by_registers = [_warps(config, threads, each, shared) for each in counts]
    by_shared = [_warps(config, threads, registers, each) for each in amounts]
    _panel(panels[0], sizes, by_threads, threads, here, "threads per block")
    _panel(panels[1], counts, by_registers, registers, here, "registers per thread")
    label = "shared memory per block, KiB"
    _panel(panels[2], [each / _KIB for each in amounts], by_shared, shared / _KIB, here, label)
    panels[0].set_ylabel("resident warps per SM")
    panels[0].set_ylim(0, sm.max_warps * 1.06)
    panels[0].set_yticks(range(0, sm.max_warps + 1, max(sm.max_warps // 8, 1)))
    limiters = ", ".join(here.limiters)
    what = f"{threads:,} threads, {registers} registers, {shared / _KIB:g} KiB"
    found = f"{here.warps_per_sm} of {sm.max_warps} warps ({100 * here.theoretical:.0f} %), limited by {limiters}"
    figure.suptitle(f"{config.gpu.name}, {what}: {found}", fontsize=11, x=0.01, ha="left")
    style.describe(figure, f"Occupancy calculator of {config.gpu.name} for {what} per block: an SM holds {found}.")
    return figure


def _warps(config: GPUConfig, threads: int, registers: int, shared: int) -> int:
    """Warps per SM, 0 where not one block fits."""
    try:
        return occupancy(config, threads, registers, 0, shared).warps_per_sm
    except LaunchError:
        return 0


def _panel(ax: Axes, x: Sequence[float], warps: list[int], at: float, here: Occupancy, label: str) -> None:
    few = len(warps) <= 64
    (curve,) = ax.plot(x, warps, color=BLUE, linewidth=1.8)
    curve.set(drawstyle="default" if few else "steps-post", marker="o" if few else "None", markersize=3)
    (dot,) = ax.plot([at], [here.warps_per_sm], "o", markersize=9)
    dot.set(markerfacecolor="none", markeredgecolor=VERMILLION, markeredgewidth=2.2)
    ax.axvline(at, color=GREY, linewidth=0.8, linestyle=":")
    ax.set_xlabel(label)
    ax.grid(alpha=0.3, linewidth=0.5, color=GREY)
