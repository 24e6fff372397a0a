"""Exercises: what a file of them says, and what decides that one is solved. docs/lab.md describes the format.

A solution is a text of imports, constants and kernels: nothing else of it is executed by Python. Its inputs, its launch
and its check are the exercise's, and it is judged a second time at a size and with values that nobody has seen.
"""

from __future__ import annotations

import ast
import copy
import math
import re
import secrets
import tomllib
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from functools import partial
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.errors import DataRaceError, WorkloadError, did_you_mean
from gpusim.result import Result
from gpusim.results.metrics import METRICS
from gpusim.simulation import simulate
from isa.errors import CompileError

MOST_CYCLES = 20_000_000
"""A kernel that runs longer is given up."""
_IMPORTS = "math", "numpy", "numba"
_HARMLESS = (
    *(ast.Import, ast.ImportFrom, ast.alias, ast.FunctionDef, ast.arguments, ast.arg, ast.keyword, ast.Assign),
    *(ast.Expr, ast.Constant, ast.Tuple, ast.BinOp, ast.UnaryOp, ast.Name, ast.Attribute),
    *(ast.operator, ast.unaryop, ast.expr_context),
)


@dataclass(frozen=True)
class ExerciseGoal:
    """text: what is asked. of: metrics of a run whose sum decides it, 'roof' for the share of its roof in percent;
    least, most: what that has to be."""

    text: str
    of: tuple[str, ...]
    least: float = -math.inf
    most: float = math.inf

    def to_dict(self, result: Result) -> dict[str, Any]:
        """Return what a run has reached, as the page takes it."""
        metrics = {"roof": 100 * result.roofline.share_of_roof} if "roof" in self.of else result.metrics
        found = float(sum(metrics[name] for name in self.of))
        told = f"{found:,.0f}" if found.is_integer() else f"{found:,.2f}"
        return {"text": self.text, "value": told, "reached": self.least <= found <= self.most}


@dataclass(frozen=True)
class Exercise:
    """kernel: the name of the one to launch. n: the size that is shown; others: those of which one is drawn to judge a
    solution again. start: the text to begin with. given: Python with inputs(n, chance, *asks) and check(*arguments).
    goals, hints: from a nudge to nearly the answer. grid, block: expressions of n; without one the solution says it.
    asks: constants of the solution that inputs takes. gpu: the machine it runs on."""

    title: str
    task: str
    kernel: str
    n: int
    others: tuple[int, ...]
    start: str
    given: str
    goals: tuple[ExerciseGoal, ...]
    hints: tuple[str, ...] = ()
    grid: str = ""
    block: str = ""
    asks: tuple[str, ...] = ()
    gpu: str = "h200"

    def run(self, source: str, path: Path, n: int | None = None) -> Result:
        """Launch a solution with the exercise's own inputs and check what it wrote. path: that tracebacks are to name.
        n: the size; without one the shown size and values, else values by chance. Raises AssertionError if it is wrong.
        """
        chance = np.random.default_rng(0 if n is None else secrets.randbits(64))
        given = self.brought(self.n if n is None else n)
        names: dict[str, Any] = {"n": given["n"], "__name__": "solution"}
        exec(compile(self.parsed(source, path, given), str(path), "exec"), names)
        asked = [self.kernel, *self.asks, *(name for name in ("grid", "block") if name not in given)]
        if missing := [name for name in asked if name not in names]:
            raise WorkloadError(f"the exercise asks for {' and '.join(missing)}, which the text has to define")
        grid, block = (given.get(name, names.get(name)) for name in ("grid", "block"))
        args = given["inputs"](given["n"], chance, *(names[each] for each in self.asks))
        before = copy.deepcopy(args)
        run = partial(simulate, names[self.kernel], grid, block, args, self.gpu)
        result = checked(run, trace=n is None, max_cycles=MOST_CYCLES)
        for was, now in zip(before[:-1], args, strict=False):
            assert np.array_equal(was, now), "the kernel has changed an input"
        given["check"](*before[:-1], args[-1])
        return result

    def judge(self, source: str, path: Path) -> str:
        """Why a solution that has reached its goals at the shown size is none; '' if it is one."""
        n = secrets.choice(self.others)
        try:
            result = self.run(source, path, n)
        except Exception as error:
            return f"Right for what is shown, but not for other values and n = {n:,}: {error}"
        missed = [each.text for each in self.goals if not each.to_dict(result)["reached"]]
        return f"Reached for what is shown, but not for n = {n:,}: {'; '.join(missed)}" if missed else ""

    def brought(self, n: int) -> dict[str, Any]:
        """What the exercise brings by name: n, what `given` defines, and grid and block if it has them."""
        names: dict[str, Any] = {"np": np, "n": n}
        exec(compile(self.given, "given", "exec"), names)
        for key in ("grid", "block"):
            if text := getattr(self, key):
                exec(f"{key} = {text}", names)
        return names

    def parsed(self, source: str, path: Path, own: Container[str]) -> ast.Module:
        """The text, of which Python executes only what is harmless. It is not read again from the file, which an
        encoding of its own could turn into another text. own: names that it may not define. Raises CompileError."""
        tree = ast.parse(source, str(path))
        for node in tree.body:
            head = copy.copy(node)
            if isinstance(head, ast.FunctionDef):
                head.body = []
            for reason in filter(None, (_refusal(part, own) for part in ast.walk(head))):
                raise CompileError(reason, str(path), node.lineno)
        return tree


def checked(run: Callable[..., Result], **options: Any) -> Result:
    """Run a kernel and look for races and wrong barriers. Of a race whose cause is a wrong barrier, raises that one."""
    try:
        return run(**options, check=("racecheck", "synccheck"))
    except DataRaceError:
        run(**options, check=("synccheck",))
        raise


def _refusal(part: ast.AST, own: Container[str]) -> str:
    """Why a solution may not have a part of a statement outside of its kernels; '' if it may. Nothing may be called,
    imported or changed that could reach what judges. own: names of the exercise's."""
    bound, fine = [], isinstance(part, _HARMLESS)
    match part:
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            modules = [each.name for each in names]
            if isinstance(part, ast.ImportFrom):
                modules = ["." * part.level + str(part.module)]
            fine, bound = set(modules) <= set(_IMPORTS), [each.asname or each.name for each in names]
            if modules == ["numba"] and all(each.name == "cuda" for each in names if each.asname == "cuda"):
                bound = [each for each in bound if each != "cuda"]
        case ast.FunctionDef(name=name, decorator_list=made):
            fine, bound = [ast.unparse(getattr(each, "func", each)) for each in made] == ["cuda.jit"], [name]
        case ast.Call(func=called):
            fine = ast.unparse(called) == "cuda.jit"
        case ast.Attribute(attr=name, ctx=how):
            fine = isinstance(how, ast.Load) and not name.startswith("_")
        case ast.Name(id=name, ctx=ast.Store()):
            bound = [name]
    if not fine or any(name in ("cuda", "*") or name.startswith("__") for name in bound):
        return "a solution has imports of math, numpy and numba, constants, and functions with @cuda.jit, nothing else"
    return "".join(f"{name} is the exercise's own" for name in bound if name in own and name != "np")


def load_exercises(file: str | Path | None = None) -> tuple[Exercise, ...]:
    """The exercises of a TOML file, or the bundled ones. Raises WorkloadError, with line and key of what is wrong."""
    path = Path(file or Path(__file__).with_suffix(".toml"))
    try:
        text = path.read_text("utf-8")
        tables = tomllib.loads(text).get("exercise", [])
    except (OSError, ValueError) as error:  # the parser names line and column
        raise WorkloadError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    heads = [k for k, line in enumerate(text.splitlines(), 1) if re.match(r"\[\[\s*exercise\s*\]\]", line)]
    if not tables or len(heads) != len(tables):
        raise WorkloadError(f"{path}: an exercise begins with a line [[exercise]]; there are {len(heads)}")
    found: dict[str, Exercise] = {}
    for table, head in zip(tables, heads, strict=True):
        try:
            exercise = _exercise(table)
            if found.setdefault(exercise.title, exercise) is not exercise:
                raise ValueError("title: another exercise has the same")
        except Exception as error:  # what `given` itself raises is among them
            told = re.sub(r"^\w+\.__init__\(\) (got an unexpected|missing) .*?arguments?:?", r"\1 key:", str(error))
            keys = (each for each in re.findall(r"\w+", told) if each in table)
            lines = list(enumerate(text.splitlines()[head:], head + 1))
            at = next((k for key in keys for k, each in lines if re.match(rf"{key}\s*=", each)), head)
            raise WorkloadError(f"{path}:{at}: {told}") from None
    return tuple(found.values())


def _exercise(table: Mapping[str, Any]) -> Exercise:
    """An exercise whose parts fit together. Raises errors that name the key."""
    exercise, kinds = Exercise(**table), {"n": int, "least": Number, "most": Number}
    kinds |= dict.fromkeys(("others", "goals", "hints", "asks", "of"), list)
    for key, value in (*table.items(), *(each for goal in table["goals"] for each in goal.items() if each[0] in kinds)):
        kind = kinds.get(key, str)
        if not isinstance(value, kind):
            raise TypeError(f"{key}: {value!r} is no {kind.__name__}")
    exercise = replace(exercise, goals=tuple(ExerciseGoal(**each) for each in table["goals"]))
    for name in (name for goal in exercise.goals for name in goal.of if name not in (*METRICS, "roof")):
        raise ValueError(f"goals: no metric is named {name}{did_you_mean(name, METRICS)}")
    brought = exercise.brought(exercise.n)
    exercise.parsed(exercise.start, Path("start"), brought)
    if not {"inputs", "check"} <= set(brought):
        raise ValueError("given: it has to define inputs(n, chance) and check(...)")
    if not exercise.others:
        raise ValueError("others: a size is needed at which a solution is judged again")
    return exercise
