"""Which functions do something and which are refused, as the documentation has it.

python -m docs.site.refused        the list of docs/driver.md, to be put there
"""

from __future__ import annotations

import re
from collections import defaultdict

import gpusim.driver.library  # noqa: F401 - it declares the functions
from gpusim.driver.exports import LIBRARIES, REASONS, reason

_TOO_MANY = ("libcublas", "libcudnn", "libcufft", "libcupti")
BEGIN, END = "<!-- refused: python -m docs.site.refused -->", "<!-- end -->"
_TOO_MANY = ("libcublas", "libcudnn", "libcupti", "libcusparse")


def listing() -> str:
    """How many functions of each library do something, and by reason those that are refused, without the prefix of
    their library and the suffixes of their variants; cuBLAS, cuSPARSE and CUPTI have too many for a list."""
    lines = ["| library | functions | that do something |", "|---|---|---|"]
    by_reason = defaultdict(set)
    for _, library in sorted(LIBRARIES.items()):
        refused = [symbol for symbol in library.symbols if library.declared(symbol) is None]
        lines.append(f"| `{library.soname}` | {len(library.symbols)} | {len(library.symbols) - len(refused)} |")
        for symbol in refused if not library.soname.startswith(_TOO_MANY) else ():
            by_reason[reason(symbol)].add(re.sub(r"^(__)?(cu(da)?|nvml)|(_v\d)?(_pt(ds|sz))?$", "", symbol))
    lines += ["", "| refused, because | functions |", "|---|---|"]
    lines += [f"| {why} | {', '.join(sorted(by_reason[why]))} |" for why, _ in REASONS if why in by_reason]
    return "\n".join(lines)


if __name__ == "__main__":
    print(f"{BEGIN}\n\n{listing()}\n\n{END}")
