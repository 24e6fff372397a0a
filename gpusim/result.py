"""`gpusim.Result`: what a run tells, and the ways to show it."""

from __future__ import annotations

import os
from pathlib import Path

from gpusim.report_html import write
from gpusim.report_html.compact import compact
from gpusim.results.quantities import Shown


class Result(Shown):
    """The outcome of one simulated launch: printed, it is the report."""

    def report_html(self, path: str | os.PathLike[str], title: str | None = None) -> Path:
        """Write the report as one HTML file that opens from disk, and return its path. With a trace it has the warp
        stepper. title: what was run, by default the kernel's name. Raises OSError if it cannot be written."""
        return write(self, path, title)

    def _repr_html_(self) -> str:
        return compact(self)
