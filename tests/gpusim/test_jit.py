"""Where compiled code is kept: by the content of all that it can have taken a constant or a function from."""

from pathlib import Path

import pytest

from gpusim.bound import walk
from gpusim.engine.state import code_cache

SOURCES = {
    "gpusim/engine/one.py": "from gpusim.bound.far import FAR\nfrom gpusim.engine.near import (\n    NEAR,  # it\n)\n",
    "gpusim/engine/near.py": "NEAR = 1\n",
    "gpusim/bound/far.py": "from isa import numbers as n\n\nFAR = n.ONE\n",
    "gpusim/other.py": "OTHER = 1\n",
    "isa/__init__.py": "from isa.heavy import nothing\n",
    "isa/heavy.py": "",
    "isa/numbers.py": "ONE = 1\n",
}
CACHED = (code_cache.code_folder, code_cache._noted, code_cache._notes, code_cache._imported, code_cache._file_of)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A function from a name to a folder with the sources, of which `code_cache` takes the last."""

    def make(name, **changed):
        root = tmp_path / name
        for path, text in SOURCES.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        for function in CACHED:
            function.cache_clear()
        monkeypatch.setattr(code_cache, "_HOME", root)
        return root

    yield make
    for function in CACHED:
        function.cache_clear()


def folder(root):
    for function in CACHED:
        function.cache_clear()
    return code_cache.code_folder(root / "gpusim/engine/one.py").name


@pytest.mark.parametrize("path", [path for path in SOURCES if path not in ("gpusim/other.py", "isa/heavy.py")])
def test_a_change_of_what_a_file_imports_is_another_folder(home, path):
    root = home("one")
    before = folder(root)
    (root / path).write_text((root / path).read_text() + "# changed\n")
    # A package is not followed where a module of it is named.
    assert (folder(root) != before) == (path != "isa/__init__.py")


def test_what_a_file_does_not_import_does_not_count(home):
    root = home("one")
    before = folder(root)
    for path in ("gpusim/other.py", "isa/heavy.py"):
        (root / path).write_text("changed = 1\n")
    assert folder(root) == before


def test_two_checkouts_share_their_code(home):
    assert folder(home("one")) == folder(home("two"))


def test_the_walk_of_the_bound_follows_its_constants():
    """`bound.walk` freezes numbers of other files of its room into machine code."""
    needed = {path.relative_to(code_cache._HOME).as_posix() for path in code_cache._needed(Path(walk.__file__))}
    assert {"gpusim/bound/work.py", "isa/microops.py"} <= needed
