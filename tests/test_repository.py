"""Rules of the house that no other tool checks: who imports whom, sizes, words, links, packaging.

Each rule is a function from a folder to a list of violations. It must find none in this repository, and find the one
that is planted in a small copy: a rule that cannot fail is no rule.
"""

from __future__ import annotations

import ast
import base64
import json
import os
import re
import statistics
import subprocess
import sys
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("gpusim", "isa", "programs", "validate")
FOLDERS = (*PACKAGES, "tests", "docs", "notebooks", ".ci")
TEXT = {".py", ".toml", ".md", ".lock", ".ipynb", ".cu", ".ptx", ".txt", ".cfg", ".json", ".gpuprog", ""}

# What a module may import of this repository, by the longest prefix of its own name.
MAY_IMPORT = {
    "isa": ("isa",),
    "gpusim": ("isa", "gpusim"),
    "gpusim.workload": ("isa", "gpusim", "programs"),
    "programs": ("programs", "gpusim.launch"),
    "programs.images": ("programs", "gpusim.launch", "isa.Program"),  # an image is a program
    "validate": ("isa", "gpusim", "programs", "validate"),
}
FORBIDDEN = {
    "a private or local address": r"https?://(10\.|127\.|172\.(1[6-9]|2\d|3[01])\.|192\.168\.|localhost|\[?::1)",
    "a path of one machine": r"(?<![\w.$}])/(work|root|home|Users|tmp|opt)/\w|file:///|[A-Z]:\\Users\\",
    "a work marker": r"\b(TODO|FIXME|HACK)\b",
    "a conflict marker": r"^(<{7}|>{7})( |$)",
    "a key": r"BEGIN [A-Z ]*PRIVATE KEY|\bgh[pousr]_\w{30}|\bAKIA[0-9A-Z]{16}\b",
}
Rule = Callable[[Path], list[str]]


def files(root: Path, folders: tuple[str, ...] = FOLDERS) -> Iterator[Path]:
    """Files of the repository in these folders; with the default also those beside them."""
    if folders == FOLDERS:
        yield from (path for path in sorted(root.iterdir()) if path.is_file())
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and not {"__pycache__", ".ipynb_checkpoints"} & set(path.parts):
                yield path


def modules(root: Path) -> Iterator[tuple[Path, str, ast.Module]]:
    """(file, dotted name, syntax tree) of every module of the packages."""
    for path in files(root, PACKAGES):
        if path.suffix == ".py":
            name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
            yield path, name, ast.parse(path.read_text("utf-8"))


def imported(tree: ast.Module, name: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything a module imports, by statement or by a literal `import_module` call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = name.split(".")[: len(name.split(".")) - node.level + is_package] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
            yield from (
                (node.lineno, arg.value)
                for arg in node.args[:1]
                if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
            )


def wrong_imports(root: Path) -> list[str]:
    """isa <- gpusim <- programs <- validate, and no package imports the tests."""
    found = []
    for path, name, tree in modules(root):
        allowed = MAY_IMPORT[max((p for p in MAY_IMPORT if within(name, p)), key=len)]
        for line, target in imported(tree, name, path.name == "__init__.py"):
            ours = target.split(".")[0] in (*PACKAGES, "tests")
            if ours and not any(within(target, prefix) for prefix in allowed):
                found.append(f"{path.relative_to(root)}:{line} imports {target}")
    return found


def within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def wrong_sizes(root: Path) -> list[str]:
    """A file fits in a head: most under 200 lines, and one over 500 says at its top why."""
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path, _, _ in modules(root)}
    found = [
        f"{path.relative_to(root)} has {lengths[path]} lines, and its docstring does not say why (more than 500 lines)"
        for path, _, tree in modules(root)
        if lengths[path] > 500 and "500 lines" not in (ast.get_docstring(tree) or "")
    ]
    median = statistics.median(lengths.values())
    return found + ([f"the median file has {median} lines"] if median >= 200 else [])


def missing_docstrings(root: Path) -> list[str]:
    """Every module says what it is for, and every folder of modules is a package that says what lives there."""
    silent = [path for path, _, tree in modules(root) if not ast.get_docstring(tree)]
    loose = {path.parent for path, _, _ in modules(root) if not (path.parent / "__init__.py").exists()}
    found = [f"{path.relative_to(root)} has no docstring" for path in silent]
    return found + [f"{folder.relative_to(root)} has no __init__.py" for folder in sorted(loose)]


def forbidden_words(root: Path) -> list[str]:
    """Nothing that only makes sense on one machine or on one day."""
    found = []
    for path in files(root):
        if path.suffix not in TEXT or path.name == "LICENSE":
            continue
        for number, line in enumerate(text_of(path).splitlines(), 1):
            for what, pattern in FORBIDDEN.items():
                if re.search(pattern, line) and path.resolve() != Path(__file__):
                    found.append(f"{path.relative_to(root)}:{number} has {what}: {line.strip()[:80]}")
    return found


def text_of(path: Path) -> str:
    """A file's text; of a program image its document and the readable parts of its cubin."""
    if path.suffix != ".gpuprog":
        return path.read_text("utf-8", errors="replace")  # among them damaged files for the fuzz tests
    document = zlib.decompress(path.read_bytes().removeprefix(b"GPUPROG\n"))
    return document.decode() + "\n" + base64.b64decode(json.loads(document)["cubin"]).decode("latin-1")


def broken_links(root: Path) -> list[str]:
    """Links of the documentation resolve, headings included, and so do files that it names in `code`."""
    found = []
    for path in files(root):
        if path.suffix != ".md":
            continue
        text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            file = path.parent / name if name else path
            if not file.exists() or (anchor and anchor not in headings(file)):
                found.append(f"{path.relative_to(root)} links to {target}")
        for name in re.findall(rf"`((?:{'|'.join(FOLDERS[:-1])})/[\w./]*)`", text):
            if not (root / name).exists():
                found.append(f"{path.relative_to(root)} names {name}")
    return found


def headings(path: Path) -> set[str]:
    """Anchors of a Markdown file's headings, as code hosts make them."""
    titles = re.findall(r"^#+ +(.*)$", path.read_text("utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def wrong_lock(root: Path) -> list[str]:
    """Everything that pyproject.toml asks for is in the lock, with exact versions and hashes, from no special index."""
    lock = (root / "requirements.lock").read_text("utf-8")
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [re.split(r"[^\w-]", each)[0] for each in [*project["dependencies"], *extras["test"], *extras["build"]]]
    pinned = re.findall(r"^([\w-]+)==\S+.*?\\\n((?:    --hash=sha256:[0-9a-f]{64}.*\n)+)", lock, flags=re.MULTILINE)
    entries = re.findall(r"^\w.*$", lock, flags=re.MULTILINE)
    found = [f"{name} is not in the lock; run make lock" for name in wanted if name not in dict(pinned)]
    found += ["an entry of the lock has no exact version or no hash"] if len(entries) != len(pinned) else []
    return found + [line for line in lock.splitlines() if re.search(r"://|--(extra-)?index|--find-links", line)]


RULES: list[Rule] = [wrong_imports, wrong_sizes, missing_docstrings, forbidden_words, broken_links, wrong_lock]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule_holds(rule: Rule) -> None:
    assert rule(ROOT) == []


LOCK = "rich==1.0 \\\n    --hash=sha256:" + "0" * 64 + "\n"
PROJECT = '[project]\ndependencies = ["rich>=1"]\noptional-dependencies = {test = [], build = []}\n'
PLANTED: list[tuple[Rule, str, str]] = [
    (wrong_imports, "isa/bad.py", "from gpusim import launch"),
    (wrong_imports, "gpusim/engine/bad.py", "import programs.registry"),
    (wrong_imports, "gpusim/bad.py", "importlib.import_module('validate.ncu')"),
    (wrong_imports, "gpusim/cli/bad.py", "import validate"),
    (wrong_imports, "programs/bad.py", "from gpusim import simulate"),
    (wrong_imports, "validate/bad.py", "import tests.conftest"),
    (wrong_sizes, "isa/bad.py", '"""Long."""\n' + "x = 1\n" * 500),
    (wrong_sizes, "isa/__init__.py", '"""Not over 500 lines, but all alike."""\n' + "x = 1\n" * 400),
    (missing_docstrings, "isa/bad.py", "x = 1"),
    (missing_docstrings, "isa/sub/fine.py", '"""A module."""'),
    (forbidden_words, "docs/bad.md", "see http" + "://10.0.0.1/x"),
    (forbidden_words, "README.md", "cd /wo" + "rk/x"),
    (forbidden_words, "tests/bad.py", "# TO" + "DO: later"),
    (broken_links, "docs/bad.md", "[there](absent.md)"),
    (broken_links, "docs/bad.md", "# Here\n[there](#elsewhere)"),
    (broken_links, "docs/bad.md", "read `gpusim/absent.py`"),
    (wrong_lock, "requirements.lock", LOCK.replace("rich", "poor")),
    (wrong_lock, "requirements.lock", LOCK + "poor==1.0\n"),
    (wrong_lock, "requirements.lock", LOCK + "poor>=1.0 \\\n    --hash=sha256:" + "0" * 64 + "\n"),
    (wrong_lock, "requirements.lock", "--extra-index-url pypi.example\n" + LOCK),
]


@pytest.mark.parametrize(("rule", "name", "text"), PLANTED)
def test_rule_can_fail(tmp_path: Path, rule: Rule, name: str, text: str) -> None:
    sound = {"requirements.lock": LOCK, "pyproject.toml": PROJECT, "docs/good.md": "# Here\n[here](#here) `isa/`\n"}
    sound |= {f"isa/{each}.py": '"""A module."""\n' for each in ("__init__", "one")}
    for each, content in sound.items():
        (tmp_path / each).parent.mkdir(exist_ok=True)
        (tmp_path / each).write_text(content, "utf-8")
    assert rule(tmp_path) == []
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text, "utf-8")
    assert len(rule(tmp_path)) == 1


def test_wheel_holds_the_packages_and_their_data(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is not installed")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        held = set(wheel.namelist())
        points = next(name for name in held if name.endswith("entry_points.txt"))
        assert "gpusim = gpusim.cli:main" in wheel.read(points).decode()
    # No `validate`, the name of a module that others install; its baselines lie where `gpusim diff` looks for them.
    baselines = {path.relative_to(ROOT / "validate" / "baselines") for path in files(ROOT, ("validate/baselines",))}
    installed = tuple(each for each in PACKAGES if each != "validate")
    wanted = {path.relative_to(ROOT).as_posix() for path in files(ROOT, installed)}
    wanted |= {f"gpusim/difference/recordings/{path.as_posix()}" for path in baselines}
    assert {name for name in held if ".dist-info/" not in name} == wanted
    assert {"gpusim/config/h200.toml", "gpusim/difference/recordings/h200/vector_add/vector_add.json"} < wanted


@pytest.mark.skipif(os.name != "posix", reason="files have no executable bit here")
def test_ci_script_can_run() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
