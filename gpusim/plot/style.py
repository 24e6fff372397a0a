"""The look of every picture, names in pictures of traces, and the one place that imports matplotlib: when the first
picture is drawn.

Pictures are 9 inches wide at 100 dots an inch, so that 10-point text is legible at 900 pixels. The fonts are those that
come with matplotlib, and nothing depends on time or chance: the same result gives the same bytes.
"""

from __future__ import annotations

import functools
import io
import math
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from gpusim.plot.colours import GREY
from gpusim.tracing.perfetto import Trace
from gpusim.units import cut
from isa.folders import replacing

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 9.0
"""Inches."""
DPI = 100

_OURS: weakref.WeakSet[Figure] = weakref.WeakSet()
_ALTERNATIVES: weakref.WeakKeyDictionary[Figure, str] = weakref.WeakKeyDictionary()
Draw = TypeVar("Draw", bound=Callable[..., Any])


@functools.cache
def _settings() -> Any:
    """The settings of `style.mplstyle`."""
    import matplotlib

    return matplotlib.rc_params_from_file(Path(__file__).with_suffix(".mplstyle"), use_default_template=False)


def styled(draw: Draw) -> Draw:
    """Decorator of a figure's function: it runs with the settings of `style.mplstyle`."""

    @functools.wraps(draw)
    def with_style(*args: Any, **options: Any) -> Any:
        import matplotlib

        # In a notebook, loading the backend switches on that figures show themselves. Were it loaded inside the
        # context, the end of it would switch that off again, and only the first picture would be seen.
        from matplotlib import pyplot

        pyplot.draw_if_interactive()

        with matplotlib.rc_context(_settings()):
            return draw(*args, **options)

    return with_style  # type: ignore[return-value]


def new_axes(ax: Axes | None, height: float) -> Axes:
    """The caller's axes, or new ones in a figure of `height` inches."""
    return new_figure(height).subplots() if ax is None else ax


def new_figure(height: float) -> Figure:
    """An empty figure of `height` inches that notebooks show by themselves."""
    from matplotlib import pyplot

    figure = pyplot.figure(figsize=(WIDTH, height), dpi=DPI, layout="constrained")
    _OURS.add(figure)
    return figure


def guide(ax: Axes, axis: Literal["both", "x", "y"]) -> None:
    """Lines that guide the eye."""
    ax.grid(axis=axis, alpha=0.3, linewidth=0.5, color=GREY)


def named(artists: Iterable[Artist]) -> list[Artist]:
    """Return the artists that a legend shows: their labels do not begin with '_'."""
    return [each for each in artists if not str(each.get_label()).startswith("_")]


def legend_below(ax: Axes, handles: Sequence[Artist], most: int) -> None:
    """A legend under everything else, with at most `most` columns and rows of nearly equal length; under the axes
    themselves in a figure that the caller made."""
    from matplotlib.figure import Figure

    if not handles:
        return
    ncols = math.ceil(len(handles) / math.ceil(len(handles) / most))
    options: dict[str, Any] = {"handles": handles, "ncols": ncols, "columnspacing": 1.3, "handlelength": 1.4}
    figure = ax.figure
    if isinstance(figure, Figure) and figure in _OURS:
        figure.legend(loc="outside lower center", **options)
    else:
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), **options)


def rectangles(
    ax: Axes, left: Any, right: Any, low: Any, high: Any, colour: str, label: str, *, zorder: int = 2,
    smooth: bool = False,
) -> None:  # fmt: skip
    """Many rectangles of one colour as one collection. left, right, low, high: numbers or arrays of one length. smooth:
    for rectangles that may be lower than a dot."""
    from matplotlib.collections import PolyCollection

    x0, x1, y0, y1 = (np.asarray(each, np.float64) for each in np.broadcast_arrays(left, right, low, high))
    corners = np.stack([np.stack([x0, x1, x1, x0], 1), np.stack([y0, y0, y1, y1], 1)], axis=2)
    boxes = PolyCollection(
        list(corners), facecolors=colour, linewidths=0, antialiased=smooth, label=label, zorder=zorder
    )
    ax.add_collection(boxes, autolim=False)


def finish(
    ax: Axes, title: str, words: str, *, x: str = "", y: str = "", grid: Literal["both", "x", "y"] | None = None,
    legend: Sequence[Artist] = (), columns: int = 3, title_pad: float | None = None,
) -> Axes:  # fmt: skip
    """The end of every picture: title, labels, lines that guide the eye, legend, and `words`, the text alternative."""
    ax.set_title(title, pad=title_pad)
    if x:
        ax.set_xlabel(x)
    if y:
        ax.set_ylabel(y)
    if grid:
        guide(ax, grid)
    legend_below(ax, legend, columns)
    _describe(ax, words)
    return ax


def finish_figure(figure: Figure, title: str, words: str) -> Figure:
    """The end of a picture of several axes: title, and `words`, the text alternative."""
    if title:
        figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    _describe(figure, words)
    return figure


def _describe(drawn: Axes | Figure, text: str) -> None:
    _ALTERNATIVES[_figure(drawn)] = " ".join(text.split())


def text_alternative(drawn: Axes | Figure) -> str:
    """The text alternative of a picture: its content in words with numbers, for those who cannot see it.

    drawn: what one of the functions returned. Raises KeyError for any other picture.
    """
    return _ALTERNATIVES[_figure(drawn)]


def save(drawn: Axes | Figure, path: str | Path) -> Path:
    """Write a picture, in the format that the name ends in; the same picture gives the same bytes. PNG and SVG carry
    the text alternative as their description. Closes the figure, so that a loop over many keeps none."""
    from matplotlib import pyplot

    figure, path = _figure(drawn), Path(path)
    kind = path.suffix.lstrip(".").lower()
    metadata: dict[str, Mapping[str, str | None]] = {
        "png": {"Description": text_alternative(figure), "Software": None},
        "svg": {"Description": text_alternative(figure), "Date": None},
        "pdf": {"CreationDate": None},
    }
    buffer = io.BytesIO()
    import matplotlib

    with matplotlib.rc_context(_settings()):
        figure.savefig(buffer, format=kind, dpi=DPI, metadata=metadata.get(kind))
    with replacing(path) as part:
        part.write_bytes(_with_palette(buffer.getvalue()) if kind == "png" else buffer.getvalue())
    pyplot.close(figure)
    return path


def _with_palette(png: bytes) -> bytes:
    """Return the picture in 256 colours, at a third of the size. No colour is off by more than one or two of 255."""
    from PIL import Image, PngImagePlugin  # matplotlib needs it too

    image = Image.open(io.BytesIO(png))
    chunks = PngImagePlugin.PngInfo()
    for key, value in image.info.items():
        if isinstance(key, str) and isinstance(value, str):
            chunks.add_itxt(key, value)
    buffer = io.BytesIO()
    small = image.convert("RGB").quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(buffer, "PNG", optimize=True, pnginfo=chunks, dpi=(DPI, DPI))
    return buffer.getvalue()


def _figure(drawn: Axes | Figure) -> Figure:
    figure = drawn if hasattr(drawn, "savefig") else drawn.figure
    return figure.figure  # type: ignore[return-value]  # the outermost of subfigures


def cells(ax: Axes, kind: np.ndarray, colours: Sequence[str], names: Mapping[int, str], x: Any, y: Any) -> list[Artist]:
    """Cells of a few kinds, numbered as their colours, between the edges x and y; returns what a legend shows of the
    kinds in `names` that there are."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    colourmap = ListedColormap(list(colours))
    ax.pcolormesh(x, y, kind, cmap=colourmap, vmin=0, vmax=len(colours) - 1, edgecolors="#DDDDDD", linewidth=0.6)
    ax.set(xlim=(x[0], x[-1]), ylim=(y[-1], y[0]))
    ax.tick_params(length=0, labelsize=8)
    ax.spines[:].set_color(GREY)
    return [Patch(color=colours[k], label=name) for k, name in names.items() if (kind == k).any()]


def rows(ax: Axes, labels: Sequence[str], left: float, right: float) -> None:
    """The axes of a timeline: a labelled row for each that has something to do, from the top."""
    ax.set(xlim=(left, right), ylim=(len(labels) - 0.5, -0.5))
    ax.set_yticks(range(len(labels)), labels, fontsize=8)
    ax.tick_params(axis="y", length=0)


def text_on(colour: str) -> str:
    """Black or white, whichever is legible on a colour '#RRGGBB', by its luminance (WCAG 2, relative luminance)."""
    red, green, blue = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in (red, green, blue)]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if (luminance + 0.05) ** 2 > 1.05 * 0.05 else "#FFFFFF"


def source(trace: Trace, pc: int, width: int = 60) -> str:
    """Source line of an instruction, 'number: text' cut to `width` characters; the machine code where there is none."""
    instruction = trace.instructions[pc]
    if instruction.line is None:
        return cut(instruction.text, width)
    text = (trace.program.source_line(instruction) or "").strip()
    return cut(f"{instruction.line}: {text}", width)


def first_warp(trace: Trace) -> int:
    """The first warp that was traced."""
    return int(trace.warps["warp"][0]) if len(trace.warps) else 0


def machine_code(trace: Trace, pc: int, width: int = 60) -> str:
    """An instruction as disassembled."""
    return cut(trace.instructions[pc].text, width)


def until(trace: Trace) -> str:
    """Words that a title adds where the trace does not reach to the end."""
    return "" if trace.complete else f" (recorded until cycle {trace.until:,})"


def lanes_in(mask: int) -> list[int]:
    """Lanes of a mask, ascending."""
    return [lane for lane in range(32) if mask >> lane & 1]


def ranges(numbers: Iterable[int]) -> str:
    """Ascending numbers in short: '0-15', '0,2,…,30', '1,4,9'."""
    rest, parts = list(numbers), list[str]()
    while rest:
        steps = np.diff(rest)
        count = int(np.argmin([*(steps == steps[:1]), False])) + 1  # that go on as they begin
        if count > 1 and steps[0] == 1:
            parts.append(f"{rest[0]}-{rest[count - 1]}")
        elif count > 3:
            parts.append(f"{rest[0]},{rest[1]},…,{rest[count - 1]}")
        else:
            parts.append(str(rest[0]))
            count = 1
        rest = rest[count:]
    return ",".join(parts)
