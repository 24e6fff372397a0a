"""What the tests of the house's rules share: its files, its modules, what they import, and small copies of it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ("gpusim", "isa", "programs")
PACKAGES = (*SHIPPED, "validate")
FOLDERS = (*PACKAGES, "tests", "docs", "notebooks", ".ci")
Rule = Callable[[Path], list[str]]
_parsed = lru_cache(maxsize=None)(ast.parse)


def files(root: Path, folders: tuple[str, ...] = FOLDERS) -> Iterator[Path]:
    """Files of the repository in these folders; with the default also those beside them."""
    if folders == FOLDERS:
        yield from (path for path in sorted(root.iterdir()) if path.is_file() and path.name != ".git")
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and not {"__pycache__", ".ipynb_checkpoints"} & set(path.parts):
                yield path


def modules(root: Path) -> Iterator[tuple[Path, str, ast.Module]]:
    """(file, dotted name, syntax tree) of every module of the packages."""
    for path in files(root, PACKAGES):
        if path.suffix == ".py":
            name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
            yield path, name, _parsed(path.read_text("utf-8"))


def imported(tree: ast.Module, name: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything a module imports, by statement or by a literal `import_module` call, wherever
    it stands: in functions and for type checkers too."""
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


def within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def found_when_planted(root: Path, rule: Rule, sound: Mapping[str, str], name: str, text: str) -> list[str]:
    """What a rule finds in a small copy of the repository, where it has to find nothing, once this file is in it."""
    for each, content in sound.items():
        (root / each).parent.mkdir(parents=True, exist_ok=True)
        (root / each).write_text(content, "utf-8")
    assert rule(root) == []
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text, "utf-8")
    return rule(root)
