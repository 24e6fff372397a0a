"""Make the notebooks from their sources and run them: `python notebooks/build.py [01 05 ...]`.

A lesson is written as `NN-title.py`, cells divided by `# %%` (jupytext's percent format), which reads well in a review.
This runs it and writes `NN-title.ipynb` beside it, with its outputs. Run it again when a lesson or the model changes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import jupytext
import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent
ANSWERS = "<details><summary>Answers</summary>"
SECONDS = 120
"""A cell that takes longer than this has failed."""


def sources() -> list[Path]:
    """The lessons, in order."""
    return sorted(FOLDER.glob("[0-9][0-9]-*.py"))


def notebook(source: Path) -> nbformat.NotebookNode:
    """A lesson as a notebook without outputs. Cells have the same ids each time, and those of answers are folded."""
    made = jupytext.read(source, fmt="py:percent")
    answers = False
    for number, cell in enumerate(made.cells):
        cell["id"] = f"cell-{number:02d}"
        folded = answers and cell.cell_type == "code"
        cell["metadata"] = {"jupyter": {"source_hidden": True, "outputs_hidden": True}} if folded else {}
        answers = answers or ANSWERS in cell.source
    made["metadata"] = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    made["nbformat"], made["nbformat_minor"] = 4, 5
    return made


def execute(made: nbformat.NotebookNode, manager: KernelManager | None = None) -> None:
    """Run all cells in the folder of the lessons; outputs go into the notebook. Raises CellExecutionError.

    manager: of a kernel that may be running already and goes on afterwards; without one, a kernel for this alone.
    """
    # The packages of this checkout come first, so that a lesson runs without an installation too.
    path = os.pathsep.join([str(FOLDER.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    # One output for what a cell prints, however many messages it came in: that hangs on how busy the machine is.
    client = NotebookClient(
        made,
        km=manager,
        timeout=SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(FOLDER)}},
        record_timing=False,
        coalesce_streams=True,
    )
    client.execute(env=os.environ | {"PYTHONPATH": path})


def main(chosen: list[str]) -> None:
    for source in sources():
        if not chosen or source.name[:2] in chosen:
            made = notebook(source)
            execute(made)
            # What the kernel says of itself would change with the machine.
            made["metadata"]["language_info"] = {"name": "python"}
            nbformat.write(made, source.with_suffix(".ipynb"))
            print(f"{source.stem}: {source.with_suffix('.ipynb').stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main(sys.argv[1:])
