"""Rules of the code's rooms: who may import whom, no circles, sizes of files and functions, names of classes.

Each rule is a function from a folder to a list of violations, as in `test_repository.py`, and so is its planted
violation. docs/architecture.md says what the rooms are about.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house import PACKAGES, ROOT, Rule, Source, found_when_planted, modules, within

# What a module may import of this repository, by the longest prefix of its own name.
MAY_IMPORT = {
    "isa": ("isa",),
    "gpusim": ("isa", "gpusim"),
    "gpusim.workload": ("isa", "gpusim", "programs"),
    "gpusim.parallel": ("isa", "gpusim", "programs"),  # the kernels of layers
    "programs": ("programs", "gpusim.launch"),
    "programs.matmul_library": ("programs", "gpusim.launch", "gpusim.driver.libraries.blas"),  # a library's kernels
    "programs.images": ("programs", "gpusim.launch", "isa.Program"),  # an image is a program
    "validate": ("isa", "gpusim", "programs", "validate"),
}
# The rooms of gpusim, lowest first: each imports only from itself and from those before it. `gpusim` is what a user
# imports, names that are loaded when they are used.
ROOMS = (
    *("errors", "units", "config", "beside", "launch"),
    *("engine.state", "engine.rows", "engine.sm", "tensor_memory", "engine.memory", "engine", "translation"),
    *("machine", "tracing", "results", "report_html", "result", "host", "node", "device"),
    *("collectives", "driver", "exec", "bound", "simulation"),
    *("parallel", "workload", "explore", "difference", "plot", "lab", "gpusim", "integrations", "cli"),
)
MOST_AT_THE_TOP = 6
MOST_LINES, MOST_PARAMETERS = 80, 10
MOST_LINES_OF = {
    "gpusim": 1_068,
    "gpusim.beside": 481,
    "gpusim.bound": 1_382,
    "gpusim.cli": 2_338,
    "gpusim.collectives": 1_057,
    "gpusim.config": 1_450,
    "gpusim.difference": 970,
    "gpusim.driver": 13_633,
    "gpusim.engine": 18_870,
    "gpusim.exec": 900,
    "gpusim.explore": 2_462,
    "gpusim.host": 1_728,
    "gpusim.integrations": 188,
    "gpusim.lab": 884,
    "gpusim.launch": 2_045,
    "gpusim.machine": 1_640,
    "gpusim.node": 2_319,
    "gpusim.parallel": 1_082,
    "gpusim.plot": 1_985,
    "gpusim.report_html": 762,
    "gpusim.results": 3_348,
    "gpusim.tensor_memory": 1_374,
    "gpusim.tracing": 1_323,
    "gpusim.translation": 168,
    "gpusim.workload": 370,
    "isa": 6_494,
    "programs": 5_815,
    "validate": 9_543,
}
"""The most lines of each folder; the row `gpusim` is of what stands at its top. They only go down: a change that needs
lines takes them elsewhere first, in the same change."""


def wrong_imports(root: Path) -> list[str]:
    """isa <- gpusim <- programs <- validate, and no package imports the tests."""
    found = []
    for path, name, source in modules(root):
        allowed = MAY_IMPORT[max((p for p in MAY_IMPORT if within(name, p)), key=len)]
        for line, target in source.imports:
            ours = target.split(".")[0] in (*PACKAGES, "tests")
            if ours and not any(within(target, prefix) for prefix in allowed):
                found.append(f"{path.relative_to(root)}:{line} imports {target}")
    return found


def imports_from_above(root: Path) -> list[str]:
    """A room of gpusim imports from the rooms before it."""
    found = []
    for path, name, source in modules(root):
        if not within(name, "gpusim"):
            continue
        if (own := room(name)) == "gpusim" != name:
            found.append(f"{path.relative_to(root)} lies in no room")
            continue
        targets = {each for each in source.imports if within(each[1], "gpusim")}
        found += [
            f"{path.relative_to(root)}:{line} imports {target}, which is above {own}"
            for line, target in sorted(targets)
            if ROOMS.index(room(target)) > ROOMS.index(own)
        ]
    return found


def room(name: str) -> str:
    """The room of a module, or of what a module holds; names of `gpusim` itself are in the room of that name."""
    return max((each for each in ROOMS if within(name, f"gpusim.{each}")), key=len, default="gpusim")


def full_landing(root: Path) -> list[str]:
    """At the top of gpusim stands only what a user names."""
    top = sorted(path.name for path in (root / "gpusim").glob("*.py"))
    return [f"gpusim has {len(top)} modules at its top: {', '.join(top)}"] if len(top) > MOST_AT_THE_TOP else []


def circles(root: Path) -> list[str]:
    """No module imports itself by way of others."""
    sources = {name: source for _, name, source in modules(root)}
    to = {
        name: {known(target, sources) for _, target in source.imports} - {None, name}
        for name, source in sources.items()
    }
    found = defaultdict(list)
    reached = {name: reach(name, to) for name in sources}
    for name in sorted(sources):
        if name in reached[name]:
            found[min(each for each in reached[name] if name in reached[each])].append(name)
    return [f"a circle of {', '.join(names)}" for names in found.values()]


def known(target: str, names: dict[str, Source]) -> str | None:
    """The module that is imported: the target, or the one that holds it."""
    return next((each for each in (target, target.rpartition(".")[0]) if each in names), None)


def reach(start: str, to: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    left = [start]
    while left:
        left += (new := to[left.pop()] - seen)
        seen |= new
    return seen


def wrong_sizes(root: Path) -> list[str]:
    """A file fits in a head: most under 200 lines, and one over 500 says at its top why."""
    sources = {path: source for path, _, source in modules(root)}
    found = [
        f"{path.relative_to(root)} has {len(source.lines)} lines, and its docstring does not say why (more than 500)"
        for path, source in sources.items()
        if len(source.lines) > 500 and "500 lines" not in source.docstring
    ]
    median = statistics.median(len(source.lines) for source in sources.values())
    return found + ([f"the median file has {median} lines"] if median >= 200 else [])


def crowded_rooms(root: Path) -> list[str]:
    """A folder holds at most so many lines, and each has a limit."""
    lines: Counter[str] = Counter()
    for _, name, source in modules(root):
        package, _, inner = name.partition(".")
        folder = f"{package}.{inner.partition('.')[0]}"
        inside = package == "gpusim" and inner and (root / folder.replace(".", "/")).is_dir()
        lines[folder if inside else package] += len(source.lines)
    return [
        f"{folder} has {count:,} lines, and may have {MOST_LINES_OF.get(folder, 0):,}"
        for folder, count in sorted(lines.items())
        if count > MOST_LINES_OF.get(folder, 0)
    ]


def long_functions(root: Path) -> list[str]:
    """A function has at most 80 lines and 10 parameters, or says right above it why not: `# long: ...`, `# many
    parameters: ...`."""
    found = []
    for path, _, source in modules(root):
        for function in source.functions:
            reasons = "\n".join(comments_above(source.lines, function.heads))
            where = f"{path.relative_to(root)}:{function.line} {function.name} has"
            if function.size > MOST_LINES and not re.search(r"^# long: ..", reasons, re.MULTILINE):
                found.append(f"{where} {function.size} lines")
            if function.parameters > MOST_PARAMETERS and not re.search(
                r"^# many parameters: ..", reasons, re.MULTILINE
            ):
                found.append(f"{where} {function.parameters} parameters")
    return found


def comments_above(lines: list[str], heads: set[int]) -> Iterator[str]:
    """Comments right above a function, or above its decorators."""
    for first in heads:
        above = first - 2
        while above >= 0 and lines[above].lstrip().startswith("#"):
            yield lines[above].strip()
            above -= 1


def classes_of_one_name(root: Path) -> list[str]:
    """A public class's name says which one is meant."""
    where: dict[str, list[str]] = defaultdict(list)
    for _, name, source in modules(root):
        for each in source.classes:
            if not each.startswith("_"):
                where[each].append(name)
    return [f"{name} is a class in {', '.join(homes)}" for name, homes in sorted(where.items()) if len(homes) > 1]


def missing_docstrings(root: Path) -> list[str]:
    """Every module says what it is for, and every folder of modules is a package that says what lives there."""
    silent = [path for path, _, source in modules(root) if not source.docstring]
    loose = {path.parent for path, _, _ in modules(root) if not (path.parent / "__init__.py").exists()}
    found = [f"{path.relative_to(root)} has no docstring" for path in silent]
    return found + [f"{folder.relative_to(root)} has no __init__.py" for folder in sorted(loose)]


RULES: list[Rule] = [
    missing_docstrings,
    wrong_imports,
    imports_from_above,
    full_landing,
    circles,
    wrong_sizes,
    crowded_rooms,
    long_functions,
    classes_of_one_name,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule_holds(rule: Rule) -> None:
    assert rule(ROOT) == []


LONG = "def f():\n" + "    x = 1\n" * 80
MANY = "def f({}): ...\n".format(", ".join("abcdefghijk"))
PLANTED: list[tuple[Rule, str, str]] = [
    (missing_docstrings, "isa/bad.py", "x = 1"),
    (missing_docstrings, "isa/sub/fine.py", '"""A module."""'),
    (wrong_imports, "isa/bad.py", "from gpusim import launch"),
    (wrong_imports, "gpusim/engine/bad.py", "import programs.registry"),
    (wrong_imports, "gpusim/bad.py", "importlib.import_module('validate.ncu')"),
    (wrong_imports, "gpusim/cli/bad.py", "import validate"),
    (wrong_imports, "programs/bad.py", "from gpusim import simulate"),
    (wrong_imports, "validate/bad.py", "import tests.conftest"),
    (imports_from_above, "gpusim/attic/__init__.py", ""),
    (imports_from_above, "gpusim/engine/sm/bad.py", "from gpusim.engine.memory import system"),
    (imports_from_above, "gpusim/engine/rows/bad.py", "from gpusim import engine"),
    (imports_from_above, "gpusim/launch/bad.py", "from gpusim import simulate"),
    (imports_from_above, "gpusim/launch/bad.py", "from ..results.result import Result"),
    (imports_from_above, "gpusim/node/bad.py", "def f():\n    import gpusim.parallel"),
    (imports_from_above, "gpusim/node/bad.py", "if TYPE_CHECKING:\n    from gpusim.cli.run import add"),
    (imports_from_above, "gpusim/bad.py", "from gpusim import cli"),
    (full_landing, "gpusim/seventh.py", ""),
    (circles, "gpusim/device.py", "from gpusim.simulation import simulate"),
    (circles, "isa/one.py", "from isa import one, two"),
    (circles, "gpusim/units.py", "def f():\n    from . import simulation"),
    (wrong_sizes, "isa/bad.py", '"""Long."""\n' + "x = 1\n" * 500),
    (wrong_sizes, "isa/__init__.py", '"""Not over 500 lines, but all alike."""\n' + "x = 1\n" * 400),
    (crowded_rooms, "isa/bad.py", "x = 1\n" * MOST_LINES_OF["isa"]),
    (crowded_rooms, "gpusim/seventh.py", "x = 1\n" * MOST_LINES_OF["gpusim"]),
    (crowded_rooms, "gpusim/attic/bad.py", "x = 1"),
    (long_functions, "isa/bad.py", LONG),
    (long_functions, "isa/bad.py", "# long: the table of it all.\n\n" + LONG),
    (long_functions, "isa/bad.py", "# long:\n" + LONG),
    (long_functions, "isa/bad.py", "# many parameters: they are.\n" + LONG),
    (long_functions, "isa/bad.py", MANY),
    (long_functions, "isa/bad.py", "# long: it is.\n" + MANY),
    (long_functions, "isa/bad.py", "class C:\n    def f(self, {}, *j, k): ...".format(", ".join("abcdefghi"))),
    (classes_of_one_name, "gpusim/bad.py", "class Shared: ..."),
]
SOUND = {f"gpusim/{each}.py": "" for each in ("errors", "units", "config", "device")} | {
    "gpusim/simulation.py": "from gpusim import device, units",
    "isa/__init__.py": "from isa.two import Shared",
    "isa/one.py": "",
    "isa/two.py": "from . import one\n\n\nclass Shared: ...\n\n\nclass _Private: ...\n",
    "gpusim/__init__.py": "from gpusim import simulate\nfrom gpusim.plot import save\n",
    "gpusim/cli/__init__.py": "import gpusim\nfrom gpusim import __version__\n\n\nclass _Private: ...\n",
    "gpusim/engine/device.py": "from gpusim.engine.memory import system\nimport gpusim.engine.launch_state",
    "isa/long.py": f"# long: one table.\n# It goes on.\n@cached\n{LONG}\n\n@cached\n# many parameters: all.\n{MANY}",
    "isa/methods.py": "class _C:\n    def f(self, {}): ...\n".format(", ".join("abcdefghij")),
}


@pytest.mark.parametrize(("rule", "name", "text"), PLANTED)
def test_rule_can_fail(tmp_path: Path, rule: Rule, name: str, text: str) -> None:
    small = dict.fromkeys(("isa/__init__.py", "isa/one.py"), '"""A module."""')  # of two files one may be half
    sound = small if rule in (wrong_sizes, missing_docstrings) else SOUND
    assert len(found_when_planted(tmp_path, rule, sound, name, text)) == 1
