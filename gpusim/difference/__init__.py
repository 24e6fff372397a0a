"""Two runs side by side: what changed, and why.

`compare_results` makes a `Difference` of two results, of results saved as JSON, or of a result and what a real GPU did;
terminal and JSON show the same object. Reading order: `side` (one run in plain values), `recorded` (a run of a real
GPU), `pairs` (what differs), `why` (in sentences), `tables` (with its text), `compare` (all of it, with its page).
"""

from gpusim.difference.compare import Difference, compare_results
from gpusim.difference.pairs import Change, FindingChange, LineChange
from gpusim.difference.side import LineCost, NotAResult, Run, as_run

__all__ = [
    "Change", "Difference", "FindingChange", "LineChange", "LineCost", "NotAResult", "Run", "as_run", "compare_results",
]  # fmt: skip
