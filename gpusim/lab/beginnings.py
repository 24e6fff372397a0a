"""What one can begin with in the lab's editor: the texts of `starts/`, by their titles."""

from __future__ import annotations

import ast
from pathlib import Path

STARTS = [
    {"title": ast.get_docstring(ast.parse(text)) or path.stem, "source": text.partition('"""\n\n')[2]}
    for path in [
        Path(__file__).parent / "starts" / f"{name}.txt" for name in ("vector-add", "mandelbrot", "heat")
    ]
    for text in [path.read_text("utf-8")]
]
