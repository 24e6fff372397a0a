"""Twelve exercises that check themselves: a kernel that runs and could do better, hints, and goals that the counters of
a run decide. Their texts are in `solve/`, each with its title and task on top; `solve/rules.toml` has goals and hints.

A goal is met by any kernel whose `check()` agrees and whose counters do; the tests hold that no beginning meets all of
its goals and that a solution does.
"""

from __future__ import annotations

import ast
import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusim.result import Result

FOLDER = Path(__file__).parent / "solve"


@dataclass(frozen=True)
class ExerciseGoal:
    """text: what is asked. of: metrics of a run whose sum decides it, 'roof' for the share of its roof in percent;
    least, most: what that has to be."""

    text: str
    of: tuple[str, ...]
    least: float = -math.inf
    most: float = math.inf

    def value(self, result: Result) -> float:
        """The number of a run that decides."""
        metrics = {"roof": 100 * result.roofline.share_of_roof} if "roof" in self.of else result.metrics
        return float(sum(metrics[name] for name in self.of))

    def to_dict(self, result: Result) -> dict[str, Any]:
        """What a run has reached, as the page takes it."""
        found = self.value(result)
        told = f"{found:,.0f}" if found.is_integer() else f"{found:,.2f}"
        return {"text": self.text, "value": told, "reached": self.least <= found <= self.most}


@dataclass(frozen=True)
class Exercise:
    """number: from 1. gpu: the machine it runs on. hints: from a nudge to nearly the answer."""

    number: int
    title: str
    task: str
    start: str
    hints: tuple[str, ...]
    goals: tuple[ExerciseGoal, ...]
    gpu: str = "h200"

    def to_dict(self) -> dict[str, Any]:
        """As the page takes it."""
        return vars(self) | {"goals": [each.text for each in self.goals]}


def _exercise(path: Path, rules: dict[str, dict[str, Any]]) -> Exercise:
    number = int(path.name[:2])
    text = path.read_text("utf-8")
    title, _, task = (ast.get_docstring(ast.parse(text)) or "").partition("\n\n")
    own = rules[str(number)]
    goals = tuple(ExerciseGoal(**each) for each in own.pop("goals"))
    return Exercise(number, title, " ".join(task.split()), text.partition('"""\n\n')[2], goals=goals, **own)


def _exercises() -> tuple[Exercise, ...]:
    rules = tomllib.loads((FOLDER / "rules.toml").read_text("utf-8"))
    return tuple(_exercise(path, rules) for path in sorted(FOLDER.glob("*.txt")))


EXERCISES = _exercises()
