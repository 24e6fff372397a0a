"""`gpusim.Result`: what a run tells, and the ways to show it."""

from __future__ import annotations

import html
import json
import os
from pathlib import Path
from typing import Any

from gpusim.report_html import write
from gpusim.results.analysis import Analysis
from gpusim.results.quantities import render, to_dict


class Result(Analysis):
    """The outcome of one simulated launch: printed, or shown by a notebook, it is the report."""

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values, for JSON. Numbers have the units of the attributes they stand for."""
        return to_dict(self)

    def to_json(self, indent: int | None = 2) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=indent)

    def report_html(self, path: str | os.PathLike[str], title: str | None = None) -> Path:
        """Write the report as one HTML file that opens from disk, and return its path. With a trace it has the warp
        stepper. title: what was run, by default the kernel's name. Raises OSError if it cannot be written."""
        return write(self, path, title)

    def __str__(self) -> str:
        return render(self)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"
