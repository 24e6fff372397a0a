"""What the tests of the house's rules share: its files, its modules, what they import, and small copies of it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ("gpusim", "isa", "programs")
PACKAGES = (*SHIPPED, "validate")
FOLDERS = (*PACKAGES, "tests", "docs", "notebooks", ".ci")
Rule = Callable[[Path], list[str]]


def files(root: Path, folders: tuple[str, ...] = FOLDERS) -> Iterator[Path]:
    """Files of the repository in these folders; with the default also those beside them."""
    if folders == FOLDERS:
        yield from (path for path in sorted(root.iterdir()) if path.is_file() and path.name != ".git")
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and not {"__pycache__", ".ipynb_checkpoints"} & set(path.parts):
                yield path


class Function(NamedTuple):
    """A function as the rules see it: the lines with `def` and decorators, its length, and how many may be given."""

    name: str
    line: int
    heads: set[int]
    size: int
    parameters: int


class Source(NamedTuple):
    """What the rules read in a module: its syntax tree, which takes a hundred times the memory, is not kept."""

    lines: list[str]
    docstring: str
    imports: list[tuple[int, str]]
    functions: list[Function]
    classes: list[str]


def modules(root: Path) -> Iterator[tuple[Path, str, Source]]:
    """(file, dotted name, what is in it) of every module of the packages."""
    for path in files(root, PACKAGES):
        if path.suffix == ".py":
            name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
            yield path, name, _read(path.read_text("utf-8"), name, path.name == "__init__.py")


@cache
def _read(text: str, name: str, is_package: bool) -> Source:
    tree = ast.parse(text)
    imports, functions = [], []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            heads = {node.lineno, *(each.lineno for each in node.decorator_list)}
            size = (node.end_lineno or 0) - node.lineno + 1
            functions.append(Function(node.name, node.lineno, heads, size, _parameters(node.args)))
        else:
            imports += [(node.lineno, target) for target in _imported(node, name, is_package)]
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    return Source(text.splitlines(), ast.get_docstring(tree) or "", imports, functions, classes)


def _parameters(arguments: ast.arguments) -> int:
    """How many a caller may give: neither self nor cls."""
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    gathered = [each for each in (arguments.vararg, arguments.kwarg) if each]
    return len(named) + len(gathered) - (named[:1] != [] and named[0].arg in ("self", "cls"))


def _imported(node: ast.AST, name: str, is_package: bool) -> Iterator[str]:
    """What a statement or a literal `import_module` call imports, wherever it stands: in functions and for type
    checkers too."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        parents = name.split(".")[: len(name.split(".")) - node.level + is_package] if node.level else []
        base = ".".join([*parents, *([node.module] if node.module else [])])
        yield from (f"{base}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
        yield from (arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant) and isinstance(arg.value, str))


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
