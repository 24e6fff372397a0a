"""Answers to the page: each function here takes plain values from it and returns plain values, in the worker's process.
Kernels that people write are executed there, with their own Python: whoever may connect may do as much.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import linecache
import re
import shlex
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.config import load_config
from gpusim.difference import compare_results
from gpusim.errors import KernelError, SimulationError, WorkloadError
from gpusim.explore.cost import cost
from gpusim.lab import play
from gpusim.lab.exercises import Exercise, checked
from gpusim.report_html import make_code, render
from gpusim.result import Result
from gpusim.results.counts import ratio
from gpusim.results.quantities import shown
from gpusim.results.table import LAB, spelled
from gpusim.simulation import simulate
from gpusim.tracing.perfetto import Trace
from gpusim.workload.request import LAUNCH_PARAMETERS, Request
from gpusim.workload.target import find_target, find_variant, load_kernel
from isa import Program, compile_cuda
from isa.listing import programs_from_cubin
from isa.mistakes import told

Answer = dict[str, Any]
MOST_PRINTED = 20_000
MOST_CYCLES = 5_000_000
"""A kernel of Write that runs longer is given up."""
MISTAKES = Path(__file__).with_name("mistakes.toml")
_SPOKEN = '// gpusim run --grid 196 --block 256 --args "float32[50000]=random, float32[50000], int32(50000)"'


def answer(task: tuple[str, Mapping[str, Any]]) -> Answer:
    """The answer to a question by its name, with the seconds it took; {"error": ...} for what the user did wrong."""
    name, values = task
    began = time.perf_counter()
    try:
        found = _ANSWERS[name](**values)
    except SimulationError as error:
        found = {"error": str(error)} | (vars(error) if isinstance(error, _Refused) else {})
    return found | {"seconds": round(time.perf_counter() - began, 3)}


def predict(experiment: str, place: Mapping[str, int], gpu: str) -> Answer:
    """Simulates one place of the sliders."""
    launch = play.launch_of(experiment, place)
    config = load_config(gpu)
    program = _programs(config.gpu.arch)[launch.entry]
    args = [np.int32(each) if isinstance(each, int) else np.zeros(each[1], each[0]) for each in launch.arguments]
    result = simulate(program, launch.grid, launch.block, args, config, trace=experiment == "steps")
    cycles = result.cycles if experiment == "pixels" else play.took(np.asarray(args[0]))
    return {"cycles": cycles, "facts": _counted(experiment, result), "steps": result.trace and _steps(result.trace)}


@cache
def _programs(arch: str) -> dict[str, Program]:
    """The experiments' kernels, disassembled together, so that no slider waits for one of them."""
    source, stored = play.SOURCE.read_text("utf-8"), arch.startswith("sm_90")
    return programs_from_cubin(play.CUBIN.read_bytes() if stored else compile_cuda(source, arch))


def _steps(trace: Trace) -> list[list[int]]:
    """What the warp of `steps` has issued: which line of those that the page shows, a mask of lanes, and how many
    instructions. A step ends where line or lanes change, and where a loop begins anew. Barriers at which lanes wait for
    others belong to none. All is done twice, and the second time counts."""
    first = play.SOURCE.read_text("utf-8").partition("lane_by_lane(")[0].count("\n") + 1
    steps, before = list[list[int]](), 0
    for pc, lanes in trace.of_warp(0)[["pc", "active"]].tolist():
        each = trace.instructions[pc]
        line = (each.line or 0) - first
        if 0 < line < len(play.EXPERIMENTS["steps"].code) and each.opcode not in ("BSSY", "NOP", "BSYNC"):
            if not steps or steps[-1][:2] != [line, lanes] or pc < before:
                steps.append([line, lanes, 0])
            steps[-1][2] += 1
            before = pc
    return steps[len(steps) // 2 :]


def _counted(experiment: str, result: Result) -> list[tuple[str, str, str]]:
    """Return what the simulator has counted beside the cycles: name, value, remark."""
    name, metric, loads, remark = play.EXPERIMENTS[experiment].counted
    per = loads * result.record.launch.threads_per_block // 32 or 1
    counted = [(name, f"{ratio(result.metrics[metric], per):.1f}", remark)]
    if experiment == "pixels":
        limiters = "limited by " + ", ".join(result.occupancy.limiters)
        counted += [("Theoretical occupancy", f"{100 * result.occupancy.theoretical:.0f} %", limiters)]
    return counted


class _Refused(SimulationError):
    """Something is wrong with what was written. line: of it, from 1; printed: what it had printed until then; detail:
    what the machine says of it."""


def write(source: str, gpu: str, language: str = "python", previous: Answer | None = None) -> Answer:
    """Runs what stands in the editor. language: "python" or "cuda". previous: what `gpusim run --json` would have said
    of the run before."""
    launch, name = (_launched_cuda, "kernel.cu") if language == "cuda" else (_launched, "kernel.py")
    result, printed = _run(source, lambda path: launch(path, gpu), name)
    why = None if previous is None else compare_results(previous, result).why
    return _shown(result) | {"printed": printed, "why": why}


def solve(exercise: Exercise, source: str) -> Answer:
    """Runs a solution, and says which goals it reaches; one that reaches all is judged again."""
    result, printed = _run(source, lambda path: exercise.run(source, path))
    goals = [goal.to_dict(result) for goal in exercise.goals]
    reached = all(each["reached"] for each in goals)
    doubt = exercise.judge(source, Path("kernel.py")) if reached else ""
    return _shown(result) | {"printed": printed, "goals": goals, "doubt": doubt, "solved": reached and not doubt}


def watch(program: str, gpu: str, size: int | None = None) -> Answer:
    """Runs a bundled program at a size that can be watched; the page of its warps."""
    config = load_config(gpu)
    target = find_target(Request(program, size=size or find_variant(program).test_size), config)
    result = target.simulate(config, trace=True)
    return {"page": render(result, target.name, sections=("source", "stepper", "warps")), "cycles": result.cycles}


def _run(source: str, launch: Callable[[Path], Result], name: str = "kernel.py") -> tuple[Result, str]:
    """Write the text into a file and launch it; the result, and what was printed."""
    printed = io.StringIO()
    with tempfile.TemporaryDirectory(prefix="gpusim-lab-") as folder:
        path = Path(folder) / name
        path.write_text(source, "utf-8")
        linecache.checkcache()
        try:
            with contextlib.redirect_stdout(printed):
                result = launch(path)
        except Exception as error:
            raise _refused(error, path, printed.getvalue()[:MOST_PRINTED]) from None
    return result, printed.getvalue()[:MOST_PRINTED]


def _launched(path: Path, gpu: str) -> Result:
    """Execute a text as a module and launch what it says."""
    kernel = load_kernel(str(path), "kernel" if re.search(r"^kernel\s*=", path.read_text("utf-8"), re.M) else None)
    names = kernel.py_func.__globals__
    missing = [name for name in ("grid", "block", "args") if name not in names]
    if missing:
        raise WorkloadError(f"say how it is launched: {', '.join(missing)} = ... is missing")
    shared = names.get("shared_bytes", 0)
    run = partial(simulate, kernel, names["grid"], names["block"], names["args"], gpu, shared)
    result = checked(run, trace=True, max_cycles=MOST_CYCLES)
    if callable(names.get("check")):
        names["check"]()
    return result


def _launched_cuda(path: Path, gpu: str) -> Result:
    """Launch a kernel in CUDA C++ as a comment in it says, in the words of `gpusim run`, and print its arrays."""
    spoken = re.search(r"^\s*//\s*gpusim run\b(.*)", path.read_text("utf-8"), re.MULTILINE)
    if spoken is None:
        raise WorkloadError(f"say how it is launched, in a line such as {_SPOKEN}")
    words = [part for word in shlex.split(spoken[1]) for part in (word.split("=", 1) if word[:2] == "--" else [word])]
    given = dict(itertools.pairwise(words))
    values = {each: given[name] for each in LAUNCH_PARAMETERS if (name := f"--{each.replace('_', '-')}") in given}
    asked = {"program": str(path), **values, "shared_bytes": int(values.get("shared_bytes", 0))}
    target = find_target(Request.of(asked), config := load_config(gpu))
    result = checked(target.simulate, gpu=config, trace=True, max_cycles=MOST_CYCLES)
    for number, array in enumerate(target.launch.args):
        if isinstance(array, np.ndarray):
            print(f"argument {number}: {np.array2string(array, threshold=16, suppress_small=True)}")
    return result


def _refused(error: Exception, path: Path, printed: str) -> _Refused:
    """Say what is wrong in a user's words, without the name of a file that the user has never seen."""
    text = (str(error) or "it is not true").replace(f"{path} cannot be imported: ", "")
    text = text.replace(str(path), "the kernel").replace(path.name, "the kernel")
    text = re.sub(r"^the kernel(:\d+)?: ", "", text)
    thread, block, other = (_index(getattr(error, name, None)) for name in ("thread", "block", "other_thread"))
    where = f"thread {thread} of block {block}" if thread else "a thread"
    sync = "__syncthreads()" if path.suffix == ".cu" else "cuda.syncthreads()"
    facts = vars(error) | {"where": where, "other": other, "sync": sync}
    lines = dict(enumerate(path.read_text("utf-8").splitlines(), 1))
    said = f"{type(error).__name__}: {text}"
    sentence, line = told(said, lines, _line_of(error, path), MISTAKES, facts)
    refused = _Refused(sentence or (text if isinstance(error, SimulationError) else said))
    vars(refused).update(line=line, printed=printed, detail=text if isinstance(error, KernelError) else "")
    return refused


def _index(place: tuple[int, ...] | None) -> str:
    """An index of a thread or a block, of one dimension if the others are zero."""
    return "" if place is None else str(place[0] if not any(place[1:]) else place)


def _line_of(error: BaseException, path: Path) -> int | None:
    """The line of the user's text that an error is about."""
    seen: BaseException | None = error
    while seen is not None:
        if getattr(seen, "line", None) and Path(str(getattr(seen, "file", path) or path)).name == path.name:
            return int(seen.line)  # type: ignore[attr-defined]
        if isinstance(seen, SyntaxError) and seen.lineno:
            return seen.lineno
        lines = [each.lineno for each in traceback.extract_tb(seen.__traceback__) if each.filename == str(path)]
        if lines:
            return lines[-1]
        seen = seen.__cause__ or seen.__context__
    return None


def _shown(result: Result) -> Answer:
    """Return what stands beside the editor."""
    doubles = sum(np.dtype(getattr(each, "dtype", "f4")) == np.float64 for each in result.record.launch.args)
    advice = [{name: getattr(each, name) for name in ("kind", "line", "share", "sentence")} for each in result.advice]
    return {
        "kernel": result.kernel, "cycles": result.cycles, "time_us": result.time_us, "limiter": result.limiter.sentence,
        "metrics": [
            [each.short or each.label, value := each.value(result), spelled(value, each.unit, "µ"), each.better]
            for each in shown(LAB)
        ],
        "code": make_code(result), "advice": advice, "doubles": doubles, "saved": result.to_dict(),
        "page": render(result),
    }  # fmt: skip


def machine(gpu: str, changes: Sequence[str], program: str, size: int | None) -> Answer:
    """Return a machine with other parameters, and a program on it."""
    return _explored(gpu, tuple(changes), program, size)


@lru_cache(maxsize=256)
def _explored(gpu: str, changes: tuple[str, ...], program: str, size: int | None) -> dict[str, Any]:
    """A machine with other parameters, `sm.count=264`, and the sliders of the one without: area and power; a program's
    time and energy, its blocks and how many of them fit at once. Raises SimulationError for what cannot be."""
    known, config = dict(load_config(gpu).items()), load_config(gpu, changes)
    result, silicon = find_target(Request(program, size=size), config).simulate(config), cost(config)
    sure = result.interval
    found = {
        "time_us": result.time_us, "energy_j": result.energy_j, "limiter": result.limiter.sentence,
        "area_mm2": silicon.area_mm2, "power_w": silicon.power_w, "sure": str(sure or ""),
        "blocks": result.record.launch.blocks, "held": result.occupancy.blocks_per_sm * config.sm.count,
        "sectors": result.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"],
        "between_us": [config.time_us(sure.low), config.time_us(sure.high)] if sure else None,
    }  # fmt: skip
    sliders = [
        each | {"values": [_scaled(known[each["key"]], k) for k in each["factors"]]}
        for each in play.TABLES["parameter"]
    ]
    return {"parameters": sliders, "is": found}


def _scaled(value: Any, factor: float) -> Any:
    return round(value * factor) if isinstance(value, int) else value * factor


_ANSWERS: dict[str, Callable[..., Answer]] = {each.__name__: each for each in (predict, write, solve, watch, machine)}
