"""The wheel: what is in it, and that it works where there is nothing of this repository."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from isa.cache import cache_folder
from tests.house import ROOT, SHIPPED, files

MOST_BYTES = 3_700_000


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (built,) = folder.glob("*.whl")
    return built


def test_wheel_holds_the_packages_and_their_data(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
        points = next(name for name in held if name.endswith("entry_points.txt"))
        assert "gpusim = gpusim.cli:main" in archive.read(points).decode()
    wanted = {path.relative_to(ROOT).as_posix() for path in files(ROOT, SHIPPED)}
    # What `gpusim diff PROGRAM hardware` compares with: the H200 alone.
    recorded = ROOT / "validate" / "baselines"
    wanted |= {
        f"gpusim/difference/recordings/{path.relative_to(recorded).as_posix()}"
        for path in files(ROOT, ("validate/baselines/h200",))
    }
    assert {name for name in held if ".dist-info/" not in name} == wanted
    assert "gpusim/config/h200.toml" in wanted
    assert wheel.stat().st_size < MOST_BYTES


@pytest.mark.skipif(os.name != "posix", reason="links to the test environment's packages")
@pytest.mark.usefixtures("toolchain")
def test_an_installed_wheel_simulates(wheel: Path, tmp_path: Path) -> None:
    """Into an environment that has what gpusim depends on, from this one, and gpusim from the wheel alone."""
    home = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True, timeout=120)
    scripts, ours = home / "bin", sysconfig.get_path("purelib")
    install = [*("-m", "pip", "--quiet", "--python", str(home)), *("install", "--no-deps", "--no-index", str(wheel))]
    subprocess.run([sys.executable, *install], check=True, timeout=120)
    (installed,) = home.rglob("site-packages")
    names = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
    for path in Path(ours).iterdir():  # what gpusim depends on looks installed too, tool chain and all
        if "gpusim" not in path.name and not (installed / path.name).exists():
            (installed / path.name).symlink_to(path)

    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    clean["GPUSIM_CACHE_DIR"] = str(cache_folder())  # compiled code is kept by content, so it is found again

    def output(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = output(str(scripts / "python"), "-c", "import gpusim, isa; print(gpusim.__file__, isa.__file__)")
    assert all(Path(each).is_relative_to(installed) for each in where.split())
    report = output(str(scripts / "gpusim"), "run", "matmul/tiled")
    assert "output equals the NumPy reference" in report and "Simulation" in report
    assert names == set(SHIPPED)
