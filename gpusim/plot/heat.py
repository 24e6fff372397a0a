"""Heat map: a value over two axes of a sweep, a cell for each machine that was tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpusim.plot import style
from gpusim.plot.colours import LIGHT
from gpusim.plot.table import Rows, check_columns, check_single, label, missing, records, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Made for all kinds of colour vision: Nuñez, Anderton, Renslow, PLoS ONE 13(7), 2018.
_MAP = "cividis"
_MOST_CELLS = 180  # with their numbers in them


@style.styled
def heat_map(rows: Rows, x: str, y: str, value: str = "time_us", ax: Axes | None = None) -> Axes:
    """A column of a sweep's table over two others, as coloured cells with their numbers.

    rows: a DataFrame of `gpusim sweep`, or mappings with its columns; one row for each pair of x and y. A pair without
    a row, or whose row has an error, is a grey cell. The colours are on a logarithmic scale if the values span more
    than a factor of ten. `ax.images[0]` holds the values, [y, x], both ascending; masked where there is none.

    Raises ValueError for no rows, a column that is not there, or several rows for a cell.

    >>> from gpusim import plot
    >>> rows = [{"sm.count": n, "l2.bytes": m << 20, "time_us": 64 / n + m} for n in (2, 4) for m in (1, 2)]
    >>> plot.heat_map(rows, "sm.count", "l2.bytes").images[0].get_array().tolist()
    [[33.0, 17.0], [34.0, 18.0]]
    """
    from matplotlib.colors import LogNorm, Normalize

    found = records(rows)
    check_columns(found, x, y, value)
    check_single(found, x, y)
    found = [row for row in found if not (missing(row.get(x)) or missing(row.get(y)))]
    across, down = (sorted({row[name] for row in found}) for name in (x, y))
    cells = np.ma.masked_all((len(down), len(across)))
    for row in found:
        if not missing(row.get(value)):
            cells[down.index(row[y]), across.index(row[x])] = row[value]
    if cells.mask.all():
        raise ValueError(f"no row has a value of {value}")
    least, most = float(cells.min()), float(cells.max())
    norm = LogNorm(least, most) if least > 0 and most > 10 * least else Normalize(least, most)
    ax = style.new_axes(ax, min(max(0.5 * len(down) + 1.8, 3.2), 9))
    ax.set_facecolor(LIGHT)
    image = ax.imshow(cells, cmap=_MAP, norm=norm, aspect="auto", origin="lower", interpolation="nearest")
    ax.set_xticks(range(len(across)), [short(each) for each in across])
    ax.set_yticks(range(len(down)), [short(each) for each in down])
    ax.set_xlabel(label(x))
    ax.set_ylabel(label(y))
    if cells.size <= _MOST_CELLS:
        for (j, k), number in np.ndenumerate(cells):
            if not cells.mask[j, k]:
                red, green, blue, _ = image.cmap(norm(number))
                colour = f"#{round(255 * red):02X}{round(255 * green):02X}{round(255 * blue):02X}"
                ax.text(k, j, short(float(number)), ha="center", va="center", fontsize=9, color=style.text_on(colour))
    ax.figure.colorbar(image, ax=ax, label=label(value))
    names = sorted({str(row["program"]) for row in found if "program" in row})
    best = np.unravel_index(int(np.ma.argmin(cells)), cells.shape)
    where = f"{x} = {short(across[best[1]])}, {y} = {short(down[best[0]])}"
    title = f"{', '.join(names[:3]) or value}: least {short(least)} at {where}"
    ax.set_title(title)
    style.describe(
        ax,
        f"Heat map of {label(value)} of {', '.join(names) or 'a sweep'} over {len(across)} values of {x} from "
        f"{short(across[0])} to {short(across[-1])} and {len(down)} of {y} from {short(down[0])} to {short(down[-1])}: "
        f"from {short(least)} at {where} to {short(most)}; {int(cells.mask.sum())} cells without a value.",
    )
    return ax
