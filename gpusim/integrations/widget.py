"""The HTML report as a notebook widget, with `pip install gpusim[widget]`.

    from gpusim.integrations.widget import ReportWidget
    ReportWidget(gpusim.simulate(kernel, grid, block, args, trace=True))

The page lives in a frame of its own, so that its style and the notebook's do not meet. Importing this module imports
anywidget.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    import anywidget
    import traitlets
except ImportError as missing:
    raise ImportError(f"gpusim.integrations.widget needs {missing.name}: pip install 'gpusim[widget]'") from missing

from gpusim.report_html import render

if TYPE_CHECKING:
    from gpusim.result import Result

_ESM = """
function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.title = "gpusim report";
  frame.style.cssText = "width:100%;border:1px solid #8888;border-radius:6px";
  const draw = () => { frame.srcdoc = model.get("page"); };
  const size = () => { frame.style.height = `${model.get("height")}px`; };
  model.on("change:page", draw);
  model.on("change:height", size);
  size();
  draw();
  el.append(frame);
}
export default { render };
"""


class ReportWidget(anywidget.AnyWidget):
    """The report of one result. height: of the frame, in pixels."""

    _esm = _ESM
    page = traitlets.Unicode().tag(sync=True)
    height = traitlets.Int(700).tag(sync=True)

    def __init__(self, result: Result, title: str | None = None, height: int = 700):
        super().__init__(page=render(result, title), height=height)
