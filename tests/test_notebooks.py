"""Every lesson runs without an error, and the notebook that is committed is the one that its source makes."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import nbformat
import pytest
from jupyter_client.manager import KernelManager
from nbclient.exceptions import CellExecutionError

from tests import forks

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "notebooks"
LESSONS = sorted(path.stem for path in FOLDER.glob("[0-9][0-9]-*.py"))
MOST_BYTES = 400 * 1024


def _build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebooks_build", FOLDER / "build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


build = _build()


def _committed(lesson: str) -> nbformat.NotebookNode:
    return nbformat.read(FOLDER / f"{lesson}.ipynb", as_version=4)


def _kinds(cell: nbformat.NotebookNode) -> list[str]:
    """What a cell has put out, without how much of it."""
    return sorted(out.name if out.output_type == "stream" else min(out.get("data", ["error"])) for out in cell.outputs)


def test_lessons_are_numbered_without_a_gap():
    assert LESSONS and [lesson[:2] for lesson in LESSONS] == [f"{k + 1:02d}" for k in range(len(LESSONS))]
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == LESSONS


@pytest.fixture(scope="module")
def manager() -> Iterator[KernelManager]:
    """One kernel for all lessons: to start it takes as long as most lessons."""
    kernel = KernelManager(kernel_name="python3")
    with pytest.MonkeyPatch.context() as changed:
        changed.delenv("MPLBACKEND")  # Jupyter has a backend of its own, which shows pictures in the notebook
        yield kernel
    kernel.shutdown_kernel(now=True)


@pytest.mark.parametrize("lesson", LESSONS)
def test_runs(manager, lesson):
    # Assertions in the cells hold the numbers that the text speaks of to what the simulator says.
    made = build.notebook(FOLDER / f"{lesson}.py")
    # Pictures are drawn once, and coarse: nobody looks at these.
    drawn = "%config InlineBackend.print_figure_kwargs = {'dpi': 20}"
    cells = ["%reset -f", "__import__('ctypes').CDLL(None).malloc_trim(0);", drawn]
    afresh = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
    build.execute(afresh, manager)
    build.execute(made, manager)
    code = [cell for cell in made.cells if cell.cell_type == "code"]
    assert not [out.text for cell in code for out in cell.outputs if out.get("name") == "stderr"]
    committed = [cell for cell in _committed(lesson).cells if cell.cell_type == "code"]
    assert [_kinds(cell) for cell in code] == [_kinds(cell) for cell in committed], "run notebooks/build.py again"


def test_a_false_assertion_is_seen(manager, tmp_path):
    source = tmp_path / "99-wrong.py"
    source.write_text("# %%\nassert 1 + 1 == 3\n")
    with pytest.raises(CellExecutionError):
        build.execute(build.notebook(source), manager)


@pytest.mark.parametrize("lesson", LESSONS)
def test_committed_is_what_the_source_makes(lesson):
    made, committed = build.notebook(FOLDER / f"{lesson}.py"), _committed(lesson)
    nbformat.validate(committed)
    ours, theirs = ([(c.cell_type, c.id, c.metadata, c.source) for c in each.cells] for each in (made, committed))
    assert ours == theirs, "run notebooks/build.py again"
    code = [cell for cell in committed.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1)), "not run from top to bottom"
    assert any("image/png" in out.get("data", {}) for cell in code for out in cell.outputs)
    assert (FOLDER / f"{lesson}.ipynb").stat().st_size < MOST_BYTES


EVERY_SCRIPT = """
import sys
from importlib import import_module

sys.path.insert(0, {folder!r})
sys.argv[1:] = ["2"]

def main(comm):
    for name in {names}:
        import_module(name).main(comm)
    print("right", flush=True)

if __name__ == "__main__":
    import_module("ranks").run(main)
"""


def test_what_gpus_do_together_takes_thirty_lines(tmp_path):
    """Each script checks what it has computed. All run in the same processes, since these take long to begin."""
    folder = FOLDER / "several_gpus"
    scripts = [path for path in sorted(folder.glob("*.py")) if path.stem != "ranks"]
    assert len(scripts) == 8 and max(len(path.read_text("utf-8").splitlines()) for path in scripts) <= 30
    program = tmp_path / "every.py"
    program.write_text(EVERY_SCRIPT.format(folder=str(folder), names=[path.stem for path in scripts]))
    done = forks.run("-m", "gpusim.cli", "exec", "--gpus", "2", "--functional", sys.executable, str(program))
    assert done.stdout.count("right\n") == 2 and "all_reduce" in done.stdout, done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize("lesson", LESSONS)
def test_has_exercises_with_hidden_answers(lesson):
    """What computes them is folded, too, and nothing before them is."""
    cells = _committed(lesson).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    begun = next(k for k, cell in enumerate(cells) if build.ANSWERS in cell.source)
    folded = [k for k, cell in enumerate(cells) if all(cell.metadata.get("jupyter", {"no": False}).values())]
    assert folded == [k for k, cell in enumerate(cells) if cell.cell_type == "code" and k > begun] != []
    exercises, _, answers = text.partition("## Exercises")[2].partition(build.ANSWERS)
    asked, answered = re.findall(r"^\d\. ", exercises, re.M), re.findall(r"^\d\. ", answers, re.M)
    assert len(asked) >= 3 and asked == answered
    assert "</details>" in answers


@pytest.mark.parametrize("lesson", LESSONS)
def test_readme_names_it(lesson):
    assert f"]({lesson}.ipynb)" in (FOLDER / "README.md").read_text("utf-8")
