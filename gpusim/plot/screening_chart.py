"""Screening: how strongly each parameter of a machine acts, and how much that depends on the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpusim.plot import style
from gpusim.plot.colours import BLUE, GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gpusim.explore.sensitivity import Sensitivity

_NAMED = 12


@style.styled
def morris(found: Sensitivity, ax: Axes | None = None) -> Axes:
    """The keys of `gpusim.explore.morris` by the mean of their absolute effects (mu*) and the deviation of these
    (sigma), both on the logarithm of the time.

    Right: acts strongly. Below the dashed line sigma is less than half of mu*, so that the effect is much the same
    whatever the others are; above it the key interacts with others, or acts only in a part of its range. The strongest
    keys have their names. `ax.collections[0]` are the points.

    Raises ValueError for what `one_at_a_time` found.

    >>> from gpusim import explore, plot
    >>> point = explore.Point("vector_add", "tiny", (), (("size", 1024),))
    >>> found = explore.morris(point, ["launch.overhead_cycles", "dram.latency_cycles"], trajectories=2)
    >>> len(plot.morris(found).collections[0].get_offsets())
    2
    """
    effects = found.screenings
    if not effects:
        raise ValueError("this picture is drawn of a screening; plot.tornado draws one_at_a_time")
    ax = style.new_axes(ax, 5.4)
    strength = [effect.mean_absolute for effect in effects]
    spread = [effect.deviation for effect in effects]
    ax.scatter(strength, spread, s=36, color=BLUE, linewidths=0, zorder=3)
    reach = 1.3 * max(max(strength), 1e-9)
    top = 1.15 * max(max(spread), 1e-9)
    ax.plot([0, reach], [0, reach / 2], color=GREY, linewidth=1, linestyle="--", zorder=1)
    ax.set(xlim=(-0.02 * reach, reach), ylim=(-0.04 * top, top))
    named = effects[:_NAMED]
    taken: list[tuple[float, float]] = []
    for effect in named:
        x, y = effect.mean_absolute, effect.deviation
        if x < 0.01 or any(abs(x - a) < 0.12 * reach and abs(y - b) < 0.035 * top for a, b in taken):
            continue  # its name would lie on another one
        taken.append((x, y))
        ax.annotate(effect.key, (x, y), (6, 0), textcoords="offset points", va="center", fontsize=9)
    ax.set_xlabel("mean of absolute effects on log time (mu*)")
    ax.set_ylabel("deviation of effects (sigma)")
    ax.set_title(f"Screening of {found.program} on {found.gpu}: {found.runs} runs")
    ax.grid(alpha=0.3, linewidth=0.5, color=GREY)
    told = ", ".join(f"{effect.key} {effect.mean_absolute:.2f} +- {effect.deviation:.2f}" for effect in effects[:4])
    style.describe(
        ax,
        f"Morris screening of {found.program} on {found.gpu} over {len(effects)} parameters in {found.runs} runs; mu* "
        f"and sigma of the strongest: {told}.",
    )
    return ax
