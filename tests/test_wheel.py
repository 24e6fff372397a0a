"""The wheel: what is in it, what it says of itself, and that it works where there is nothing of this repository."""

from __future__ import annotations

import email
import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from email.message import Message
from pathlib import Path

import pytest
import yaml

import gpusim
from isa.cache import cache_folder
from tests.house import ROOT, SHIPPED, files

MOST_BYTES = 4_150_000
URL, REF = "https://code.example/gpusim", "v0"  # where the repository is said to be, and which tag is built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    where = os.environ | {"GPUSIM_REPOSITORY_URL": URL, "GPUSIM_REPOSITORY_REF": REF}
    subprocess.run(command, cwd=ROOT, env=where, check=True, capture_output=True, timeout=120)
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


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def test_versions_agree(wheel: Path) -> None:
    """Of the wheel, the package, the citation and the changelog, whose form is that of Keep a Changelog."""
    citation = re.search(r"^version: (\S+)$\n^date-released: (\S+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.M)
    assert citation is not None
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    form = re.compile(r"(\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)")
    released = [form.fullmatch(each) for each in re.findall("^## (.*)$", changes, re.M)]
    assert all(released) and released[0] is not None
    assert released[0].groups() == citation.groups()
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall("^### (.*)$", changes, re.M)) <= kinds
    assert {citation[1], metadata(wheel)["Version"]} == {gpusim.__version__}


def test_the_readme_of_the_wheel_leads_to_the_repository(wheel: Path) -> None:
    """PyPI shows it, and has none of the files beside it."""
    found = metadata(wheel)
    assert found["Description-Content-Type"] == "text/markdown"
    assert f"Repository, {URL}" in found.get_all("Project-URL", [])
    text = found.get_payload(decode=True).decode()  # type: ignore[union-attr]  # one part, not several
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'\b(?:src|srcset|href)="([^"]+)"', text)
    ours = [each.removeprefix(URL) for each in targets if each.startswith(URL)]
    assert len(ours) > 20 and all(re.match("https://|#", each) for each in targets)
    for each in ours:
        found_at = re.fullmatch(rf"/(?:blob|raw)/{REF}/([^#]+)(?:#.*)?", each)
        assert found_at and (ROOT / found_at[1]).exists(), each
    code = f"from hatch_build import absolute; print(absolute({'[a](b.md) ![c](d.png) [e](#f)'!r}, None, ''))"
    plain = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True, timeout=60)
    assert plain == "a c [e](#f)\n"  # where nobody says where the repository is


def test_workflows_run_what_is_declared() -> None:
    flows = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in (ROOT / ".github/workflows").glob("*.yml")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = [name.rpartition(" ")[2] for name in project["classifiers"] if re.search(r":: 3\.\d+$", name)]
    assert flows["tests"]["jobs"]["quick"]["strategy"]["matrix"]["python"] == declared
    assert {declared[0], declared[-1]} == set(flows["release"]["jobs"]["try"]["strategy"]["matrix"]["python"])
    ran = [step.get("run", "") for job in flows["tests"]["jobs"].values() for step in job["steps"]]
    assert ".ci/run" in ran
    publish = flows["release"]["jobs"]["publish"]
    assert set(publish["needs"]) == {"build", "try"} and publish["permissions"] == {"id-token": "write"}
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8"))
    docker = (ROOT / "Dockerfile").read_text("utf-8")
    assert container["postCreateCommand"] == "make demo" and 'CMD ["make", "demo"]' in docker
    assert f" AS {container['build']['target']}\n" in docker


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
