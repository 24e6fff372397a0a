"""Run tests on the lowest and the newest Python and Numba that pyproject.toml declares: `make versions`.

Each pair has an environment in a folder `.venv-PYTHON-numba-NUMBA` of the repository, which is made once and brought up
to date when pyproject.toml has changed. Interpreters are found on the PATH, as python3.11 and the like; one that is
missing is a failure, since nothing was shown. Arguments go to pytest.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def declared(project: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(Python, what pip is asked for of Numba): both lowest, and both newest."""
    pythons = [re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", each) for each in project["classifiers"]]
    versions = sorted((each[1] for each in pythons if each), key=lambda version: int(version[2:]))
    assert project["requires-python"] == f">={versions[0]}"
    (numba,) = (each for each in project["dependencies"] if re.match(r"numba\W", each) and "cuda" not in each)
    bounds = re.fullmatch(r"numba>=([\d.]+),<([\d.]+)", numba)
    assert bounds is not None
    lowest, above = bounds.groups()
    yield versions[0], f"numba=={lowest}.0"
    yield versions[-1], f"numba<{above}"


def environment(python: str, numba: str) -> Path:
    """The interpreter of an environment that has everything the tests need, with this Numba."""
    found = shutil.which(f"python{python}")
    if found is None:
        raise SystemExit(f"python{python} is not on the PATH")
    folder = ROOT / f".venv-{python}-{re.sub(r'[^a-z0-9.]+', '-', numba)}"
    stamp = folder / "of"
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        subprocess.run([found, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [folder / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
        subprocess.run([*pip, numba, "--editable", f"{ROOT}[test,build]"], check=True)
        stamp.write_text(wanted)
    return folder / "bin" / "python"


def main(arguments: list[str]) -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    worst = 0
    for python, numba in declared(project):
        interpreter = environment(python, numba)
        print(f"--- Python {python}, {numba}", flush=True)
        # Compiled before the tests, so that their processes find it compiled.
        compiling = [interpreter, "-m", "gpusim.cli", "run", "vector_add"]
        subprocess.run(compiling, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        worst = max(worst, subprocess.run([interpreter, "-m", "pytest", *arguments], cwd=ROOT).returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
