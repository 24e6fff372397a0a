"""How full each link of a node is over the time of a collective."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpusim.collectives.result import CollectiveResult
from gpusim.plot import style
from gpusim.plot.words import cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_ROWS = 48


@style.styled
def link_utilisation(result: CollectiveResult, ax: Axes | None = None) -> Axes:
    """A row for each direction of a link that carries data, the darker the fuller, from when the blocks start.

    result: of `gpusim.collective(..., trace=True)`. `ax.images[0]` holds the shares of bandwidth, 0 to 1, in the order
    of the labels: the links as the node names them. Of many, the busiest are shown.

    Raises ValueError for a result without a trace.

    >>> import gpusim
    >>> ax = gpusim.plot.link_utilisation(gpusim.collective("all_reduce", 1 << 20, 2, trace=True))
    >>> len(ax.get_yticklabels())
    4
    """
    use = result.utilisation
    if use is None or not use.size:
        raise ValueError("the collective was not traced: gpusim.collective(..., trace=True)")
    busy = [k for k in np.argsort(-use.sum(axis=1), kind="stable")[:_MOST_ROWS].tolist() if use[k].any()]
    rows = sorted(busy)
    shares = np.clip(use[rows], 0.0, 1.0)
    begin = result.launch_us + result.start_us
    end = begin + result.bin_us * shares.shape[1]
    ax = style.new_axes(ax, min(1.8 + 0.26 * max(len(rows), 4), 9.0))
    drawn = ax.imshow(
        shares, aspect="auto", interpolation="nearest", cmap="Blues", vmin=0, vmax=1,
        extent=(begin, end, len(rows) - 0.5, -0.5),
    )  # fmt: skip
    ax.set_yticks(range(len(rows)), [cut(result.link_names[k], 34) for k in rows], fontsize=8)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("microseconds since the call")
    bar = ax.figure.colorbar(drawn, ax=ax, pad=0.01, format=lambda value, _: f"{100 * value:.0f} %")
    bar.set_label("of the link's bandwidth")
    bar.outline.set_visible(False)
    what = f"{result.name} of {style.scaled(result.nbytes, 'B', 0)} on {result.ranks} GPUs of {result.node}"
    means = shares.mean(axis=1)
    ax.set_title(f"{what}: links {100 * means.mean():.0f} % full while data moves")
    top = rows[int(np.argmax(means))]
    style.describe(
        ax,
        f"Links over time, {what}, {result.algorithm} with {result.protocol}: {len(rows)} links carry data, "
        f"{100 * means.min():.0f} to {100 * means.max():.0f} % full between {begin:,.0f} and {end:,.0f} us; the "
        f"fullest is {result.link_names[top]}.",
    )
    return ax
