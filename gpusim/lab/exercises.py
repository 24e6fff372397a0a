"""Twelve exercises that check themselves: a kernel that runs and could do better, hints, and goals that the counters of
a run decide. Their texts are in `solve/`, each with its title and task on top.

A goal is met by any kernel whose `check()` agrees and whose counters do; the tests hold that no beginning meets all of
its goals and that a solution does.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusim.result import Result
from gpusim.results.counts import ratio

FOLDER = Path(__file__).parent / "solve"
_LD, _ST = (f"l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_{each}.ratio" for each in ("ld", "st"))
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"


@dataclass(frozen=True)
class ExerciseGoal:
    """text: what is asked. value: the number of a run that decides it; least or most: what it has to be."""

    text: str
    value: Callable[[Result], float]
    most: float | None = None
    least: float | None = None

    def reached(self, result: Result) -> bool:
        """Whether a run does it."""
        found = self.value(result)
        return (self.most is None or found <= self.most) and (self.least is None or found >= self.least)

    def said(self, result: Result) -> str:
        """The number of a run, as it is shown."""
        found = self.value(result)
        return f"{found:,.0f}" if float(found).is_integer() else f"{found:,.2f}"


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
        goals = [each.text for each in self.goals]
        return {
            "number": self.number,
            "title": self.title,
            "task": self.task,
            "start": self.start,
            "gpu": self.gpu,
            "hints": list(self.hints),
            "goals": goals,
        }


def _metric(name: str) -> Callable[[Result], float]:
    return lambda result: float(result.metrics[name])


def _per(name: str, of: str) -> Callable[[Result], float]:
    return lambda result: ratio(float(result.metrics[name]), float(result.metrics[of]))


def _occupancy(result: Result) -> float:
    return 100 * result.occupancy.theoretical


_SECTORS = (ExerciseGoal("a load touches four sectors at most", _metric(_LD), most=4.0),)
_STORES = (ExerciseGoal("a store touches four sectors at most", _metric(_ST), most=4.0),)
_NO_CONFLICT = (ExerciseGoal("no bank conflict", _metric(_CONFLICTS), most=0),)
_LANES = "smsp__thread_inst_executed_per_inst_executed.ratio"
_RULES: dict[int, tuple[tuple[ExerciseGoal, ...], tuple[str, ...]]] = {
    1: (
        (
            ExerciseGoal(
                "40 blocks of 256 threads: no more than needed",
                lambda r: r.record.launch.blocks,
                most=40,
                least=40,
            ),
        ),
        (
            "cuda.grid(1) is the number of a thread in the whole grid.",
            "10,000 elements are no multiple of 256: round up.",
            "i = cuda.grid(1), and if i < x.size around the work.",
        ),
    ),
    2: (
        (*_SECTORS, *_STORES),
        (
            "Which elements do lanes 0 and 1 read?",
            "A row lies in memory word after word: let lanes go along it.",
            "row, column = i // COLUMNS, i % COLUMNS",
        ),
    ),
    3: (
        (
            ExerciseGoal("no divergent branch", _metric("smsp__sass_branch_targets_threads_divergent.sum"), most=0),
            ExerciseGoal("27 of 32 lanes at work in the mean", _metric(_LANES), least=27),
        ),
        (
            "A warp diverges where its lanes disagree, not where warps do.",
            "Let the first half of the threads do the even elements and the second half the odd ones.",
            "half = x.size // 2; a thread i below half does element 2 * i, the others 2 * (i - half) + 1.",
        ),
    ),
    4: (
        _NO_CONFLICT,
        (
            "Word w of shared memory lies in bank w % 32. In which bank is tile[column, row]?",
            "What if a row were not 32 words long?",
            "Make the tile (32, 33).",
        ),
    ),
    5: (
        (ExerciseGoal("28 of 32 lanes at work in the mean", _metric(_LANES), least=28), *_NO_CONFLICT),
        (
            "Count which threads add in the last rounds, and in how many warps they are.",
            "Let thread t below BLOCK // 2 add what lies half of the array away, then half of the rest.",
            "step = BLOCK // 2; while step > 0: if t < step: part[t] += part[t + step]; step //= 2",
        ),
    ),
    6: (
        (
            ExerciseGoal(
                "no wavefront of shared memory",
                _metric("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"),
                most=0,
            ),
        ),
        (
            "Hold the sum in a variable of the thread, not in an array.",
            "After value += shuffled by 16, lane 0 holds the sum of lanes 0 and 16.",
            "for step in (16, 8, 4, 2, 1): value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)",
        ),
    ),
    7: (
        _SECTORS,
        (
            "How far apart are the x of two neighbours?",
            "An array of its own for each of x, y, z and w would do.",
            "points = points.T.copy() and points[0, i].",
        ),
    ),
    8: (
        (ExerciseGoal("every place for warps taken, 100 % theoretical occupancy", _occupancy, least=100),),
        (
            "How many words of shared memory does a block really use?",
            "A tile needs its block and one word at each side.",
            "WORDS = BLOCK + 2",
        ),
    ),
    9: (
        (
            ExerciseGoal(
                "200 atomics of warps at global memory at most",
                lambda r: (
                    r.metrics["l1tex__t_requests_pipe_lsu_mem_global_op_red.sum"]
                    + r.metrics["l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum"]
                ),
                most=200,
            ),
        ),
        (
            "cuda.shared.array(BINS, int32) is one for each block; it has to be set to zero.",
            "cuda.atomic.add works on shared memory too.",
            "Clear, cuda.syncthreads(), count at home, cuda.syncthreads(), and the first BINS threads "
            "add to the global bins.",
        ),
    ),
    10: (
        (
            ExerciseGoal(
                "90 % of the time that the bytes alone would take",
                lambda r: 100 * r.roofline.share_of_roof,
                least=90,
            ),
        ),
        (
            "How many of the places for warps are taken?",
            "A loop of known length is unrolled, and its loads go out together.",
            "Sixteen elements a thread, each a sixteenth of the array apart: for k in range(16).",
        ),
    ),
    11: (
        (*_SECTORS, *_STORES, *_NO_CONFLICT),
        (
            "A block reads its tile by rows, waits, and writes it by rows.",
            "Where a block stands in the output is turned round too: blockIdx.y is along its rows.",
            "A tile of (32, 33) words, written as [y, x] and read as [x, y].",
        ),
    ),
    12: (
        (
            ExerciseGoal(
                "7,000 sectors of loads from global memory at most",
                _metric("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"),
                most=7000,
            ),
            *_NO_CONFLICT,
        ),
        (
            "A block of 16 x 16 threads needs 16 rows of a and 16 columns of b.",
            "Go along k in steps of 16: every thread loads one word of each tile, then all wait.",
            "Wait again after the products of a tile, before the next one is loaded.",
        ),
    ),
}


def _exercise(path: Path) -> Exercise:
    number = int(path.name[:2])
    text = path.read_text("utf-8")
    title, _, task = (ast.get_docstring(ast.parse(text)) or "").partition("\n\n")
    start = text.partition('"""\n\n')[2]
    goals, hints = _RULES[number]
    gpu = "tiny" if number == 10 else "h200"  # on a large GPU the launch itself takes longer than a small array
    return Exercise(number, title, " ".join(task.split()), start, hints, goals, gpu)


EXERCISES = tuple(_exercise(path) for path in sorted(FOLDER.glob("*.txt")))
