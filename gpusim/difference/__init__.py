"""Two runs side by side: what changed, and why.

`compare_results` makes a `Difference` of two results, of results saved as JSON, or of a result and what a real GPU did;
terminal and page show the same object. Reading order: `side` (one run in plain values), `recorded` (a run of a real
GPU), `pairs` (the difference), `why` (its sentences), `text` and `page` (its views).
"""

from gpusim.difference.pairs import Change, Difference, FindingChange, LineChange, compare_results
from gpusim.difference.side import Line, NotAResult, Run, as_run

__all__ = [
    "Change",
    "Difference",
    "FindingChange",
    "Line",
    "LineChange",
    "NotAResult",
    "Run",
    "as_run",
    "compare_results",
]
