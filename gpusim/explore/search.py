"""Search a space of machines for the best ones: fastest under a budget, or the front between two goals.

    found = search(space, goals=["time_us"], limits=["area_mm2 <= 600"], trials=60)
    found.best.values, found.frame()

Optuna proposes the candidates (T. Akiba et al., KDD 2019): a tree-structured Parzen estimator, NSGA-II, or chance. A
candidate is one machine, on which every program of the space runs. What it costs in area and power is known before it
runs; one that breaks such a limit is not run at all, and neither is one whose analytical bound says that another
machine already beats it.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gpusim.config import GPUConfig, load_config
from gpusim.errors import ConfigError, SimulationError
from gpusim.explore.cost import cost
from gpusim.explore.evaluate import check_points
from gpusim.explore.goals import COLUMNS, COSTS, OF_RUNS, Goal, Limit, dominates, geometric_mean
from gpusim.explore.interrupt import interruptible, stop_if_interrupted
from gpusim.explore.keys import find_keys, unchecked, value_of
from gpusim.explore.point import Point
from gpusim.explore.space import Space
from gpusim.explore.sweep import PointEvaluator, load_pandas

if TYPE_CHECKING:
    import pandas

SAMPLERS = ("tpe", "nsga2", "random")
_PATIENCE, _MOST_REPEATED = 8, 10_000
"""Machines that a sampler may propose again, one after the other, before chance proposes; and chance."""
_FAR = 1e30
"""Value of a goal that was not evaluated; the broken limit is what counts then."""


class SearchError(SimulationError):
    """A search that cannot be made: Optuna is missing, or nothing that was tried ran."""


@dataclass(frozen=True)
class Candidate:
    """One machine that was tried.

    machine: the values of the axes and of what follows from them. values: by column, goals and limits among them;
    without those that were not evaluated. feasible: keeps all limits. pruned: was not run, for the limit or the bound
    that `pruned` names. error: why it is no machine, or what went wrong in a program.
    """

    number: int
    machine: Mapping[str, Any]
    values: Mapping[str, float]
    feasible: bool
    pruned: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class Found:
    """The result of a search: all candidates in the order in which they were tried."""

    goals: tuple[Goal, ...]
    limits: tuple[Limit, ...]
    candidates: tuple[Candidate, ...]
    runs: int

    def front(self) -> list[Candidate]:
        """Candidates that keep all limits and that no other one beats in all goals, by the first goal."""
        whole = [each for each in self.candidates if each.feasible and each.error is None and each.pruned is None]
        distinct = {tuple(self._losses(each)): each for each in reversed(whole)}
        front = [each for losses, each in distinct.items() if not any(dominates(other, losses) for other in distinct)]
        return sorted(front, key=self._losses)

    @property
    def best(self) -> Candidate:
        """The first of the front. Raises SearchError if there is none."""
        front = self.front()
        if not front:
            errors = [each.error for each in self.candidates if each.error]
            reason = f"; the first error: {errors[0]}" if errors else ""
            raise SearchError(f"no candidate of {len(self.candidates)} keeps all limits and ran{reason}")
        return front[0]

    def frame(self, front: bool = False) -> pandas.DataFrame:
        """All candidates as a table, or those of the front. Raises TableError without pandas."""
        return load_pandas().DataFrame(self.rows(front))

    def rows(self, front: bool = False) -> list[dict[str, Any]]:
        """The candidates as plain values; front: only those on the front."""
        chosen = self.front() if front else self.candidates
        on_front = {each.number for each in self.front()}
        names = dict.fromkeys(name for each in self.candidates for name in each.values)
        return [
            {"number": each.number} | dict(each.machine) | {name: each.values.get(name) for name in names}
            | {"feasible": each.feasible, "front": each.number in on_front, "pruned": each.pruned, "error": each.error}
            for each in chosen
        ]  # fmt: skip

    def _losses(self, candidate: Candidate) -> list[float]:
        return [goal.loss(candidate.values[goal.name]) for goal in self.goals]


# many parameters: the options of a search, each by its name
def search(
    space: Space,
    goals: Sequence[str | Goal] = ("time_us",),
    limits: Sequence[str | Limit] = (),
    *,
    trials: int = 100,
    sampler: str = "tpe",
    seed: int = 0,
    derived: Mapping[str, str] | None = None,
    rows: PointEvaluator | None = None,
    batch: int = 1,
    population: int = 24,
    screen: bool = True,
    progress: Callable[[int, int, int], None] | None = None,
) -> Found:
    """Try `trials` machines of a space and say which are best.

    Args:
        space: programs and axes.
        goals: what is to be small: "time_us", "cycles", "energy_j", "energy_delay" (J s), "launch_w" (geometric means
            over the programs), "area_mm2", "power_w" (of the machine, as `cost` prices it), or a metric; "max metric"
            for what is to be large. Several goals: a front.
        limits: such as "area_mm2 <= 600" or "power_w <= h200", the cost of that configuration.
        sampler: "tpe", "nsga2" or "random". seed: the same seed, batch and results give the same candidates.
        derived: keys that follow from an axis, {"l2.bytes": "l2.slices"}: in proportion, as in the base machine,
            rounded to what is valid.
        rows: evaluates points, with its journal and workers. batch: candidates proposed at once, for several workers.
        population: of a generation of NSGA-II.
        screen: leave out candidates whose analytical bound is beaten already.
        progress: called with (machines tried, of which failed, trials) at the start and after every batch.

    Raises ConfigError for names and values that mean nothing, SearchError without Optuna.
    """
    aims = tuple(Goal.of(each) for each in goals)
    bounds = tuple(Limit.of(each) for each in limits)
    if not aims or len({each.name for each in aims}) < len(aims):
        raise ConfigError("a search needs goals, each of them once")
    if trials < 1 or batch < 1 or population < 2:
        raise ConfigError("trials and batch must be at least 1, population at least 2")
    rules = dict(derived or {})
    _check_rules(rules, space)
    wanted = dict.fromkeys([*(aim.name for aim in aims), *(bound.name for bound in bounds)])
    metrics = [name for name in wanted if name not in COLUMNS]
    run = rows or PointEvaluator(workers=0)
    gpus = next(axis for axis in space.axes if axis.name == "gpu").values
    about = [Point(program, gpu) for program, _ in space.programs for gpu in gpus]
    check_points(about, metrics)
    run.ask_for(metrics, about)
    # A bound is of time. What is to be large, or is a metric, has none.
    timed = all(aim.name in (*COSTS, "time_us", "cycles") and not aim.larger for aim in aims)
    screen = screen and timed and any(aim.name not in COSTS for aim in aims)
    study, chance = _study(sampler, seed, population, len(aims), trials), random.Random(f"search {seed}")
    under_way = _Search(space, aims, bounds, metrics, rules, run, screen, study, chance)
    known, before, left = under_way.known, run.evaluated, True
    with interruptible():
        while left:
            if progress is not None:
                progress(len(known), sum(each.error is not None for each in known.values()), trials)
            # Unless every machine of the space has been tried.
            left = len(known) < trials and under_way.go_on(min(batch, trials - len(known)))
            stop_if_interrupted()
    return Found(aims, bounds, tuple(known.values()), run.evaluated - before)


def _key(choice: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted(choice.items()))


@dataclass
class _Search:
    """A search under way: machines are proposed, each once, priced, bounded and run.

    study: Optuna's. chance: proposes where the study has nothing new any more. known: candidates in the order in which
    they were tried, by `_key` of their choice. seen: losses of those that ran and keep all limits.
    """

    space: Space
    goals: tuple[Goal, ...]
    limits: tuple[Limit, ...]
    metrics: list[str]
    rules: Mapping[str, str]
    run: PointEvaluator
    screen: bool
    study: Any
    chance: random.Random
    known: dict[tuple[Any, ...], Candidate] = field(default_factory=dict)
    seen: list[list[float]] = field(default_factory=list)

    def go_on(self, count: int) -> bool:
        """Try up to so many machines more, all runs of which are made together. Returns whether there were any."""
        asked = self._new(count)
        priced = [self._price(choice, len(self.known) + k) for k, (_, choice) in enumerate(asked)]
        points = [point for _, own in priced for point in own]
        found = {row["key"]: row for row in (self.run(points) if points else [])}
        for (trial, choice), (candidate, own) in zip(asked, priced, strict=True):
            done = self._finish(candidate, [found[point.key] for point in own]) if own else candidate
            if done.error is None and done.pruned is None and done.feasible:
                self.seen.append([goal.loss(done.values[goal.name]) for goal in self.goals])
            self._tell(trial, done)
            self.known[_key(choice)] = done
        return bool(asked)

    def _new(self, count: int) -> list[tuple[Any, dict[str, Any]]]:
        """Return up to `count` trials with their choices; fewer if the space has no more. A known machine that the
        sampler proposes is told again, so that it goes on from there."""
        size = math.prod(len(axis.values) for axis in self.space.axes)
        found: dict[tuple[Any, ...], tuple[Any, dict[str, Any]]] = {}
        repeated = 0
        while len(found) < count and len(self.known) + len(found) < size and repeated < _MOST_REPEATED:
            if repeated >= _PATIENCE:
                places = {axis.name: self.chance.randrange(len(axis.values)) for axis in self.space.axes}
                self.study.enqueue_trial(places)
            trial = self.study.ask()
            choice = _suggest(trial, self.space)
            key = _key(choice)
            if key in self.known:
                self._tell(trial, self.known[key])
            elif key not in found:
                found[key], repeated = (trial, choice), 0
                continue
            repeated += 1
        return list(found.values())

    def _tell(self, trial: Any, candidate: Candidate) -> None:
        """Report a candidate to the study: its goals and by what share it breaks each limit."""
        values = candidate.values
        broken = [each.excess(values[each.name]) if each.name in values else 0.0 for each in self.limits]
        # What is no machine, or what its bound rules out, is worse than any machine that ran.
        broken.append(1.0 if candidate.error is not None or candidate.pruned == "bound" else 0.0)
        trial.set_user_attr("broken", broken)
        losses = [goal.loss(values.get(goal.name, math.inf)) for goal in self.goals]
        self.study.tell(trial, [loss if math.isfinite(loss) else _FAR for loss in losses])

    def _price(self, choice: Mapping[str, Any], number: int) -> tuple[Candidate, list[Point]]:
        """Return what is known before anything runs, and the points to run."""
        machine = dict(choice)
        try:
            base = load_config(choice["gpu"])
            follows: dict[str, Any] = {}
            for target, source in self.rules.items():
                follows |= _follow(base, target, source, machine | follows)
            machine |= {name: value for name, value in follows.items() if name in self.rules}
            points = [
                Point(point.program, point.gpu, tuple((dict(point.config) | follows).items()), point.parameters)
                for point in self.space.at(choice)
            ]
            price = cost(load_config(base, dict(points[0].config)))
        except SimulationError as error:
            return Candidate(number, machine, {}, False, error=" ".join(str(error).split())), []
        values = {"area_mm2": price.area_mm2, "power_w": price.power_w}
        broken = [limit for limit in self.limits if limit.name in values and not limit.holds(values[limit.name])]
        if broken:
            return Candidate(number, machine, values, False, pruned=str(broken[0])), []
        if self.screen and self._beaten(points, values):
            return Candidate(number, machine, values, True, pruned="bound"), []
        return Candidate(number, machine, values, True), points

    def _beaten(self, points: Sequence[Point], values: Mapping[str, float]) -> bool:
        """Return whether even the analytical bound is beaten in all goals by a machine that was run."""
        if not self.seen:
            return False
        cycles: list[Any] = [row.get("bound_cycles") for row in self.run.bounds(points)]
        if None in cycles:
            return False
        machine = load_config(points[0].gpu, dict(points[0].config))
        times = [machine.time_us(each) for each in cycles]
        bound = {**values, "cycles": geometric_mean(cycles), "time_us": geometric_mean(times)}
        losses = [goal.loss(bound[goal.name]) for goal in self.goals]
        return any(dominates(other, losses) for other in self.seen)

    def _finish(self, candidate: Candidate, rows: Sequence[Mapping[str, Any]]) -> Candidate:
        errors = [f"{row['program']}: {row['error']}" for row in rows if row["error"]]
        if errors:
            return replace(candidate, feasible=False, error=errors[0])
        values = dict(candidate.values)
        for name in (*OF_RUNS, *self.metrics):
            values[name] = geometric_mean([row[name] for row in rows])
        feasible = all(limit.holds(values[limit.name]) for limit in self.limits)
        return replace(candidate, values=values, feasible=feasible)


def _follow(base: GPUConfig, target: str, source: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """A key in proportion to another one, with what it takes along."""
    share = chosen[source] / value_of(base, source)
    (key,) = find_keys([target])
    return key.changes(unchecked(base, chosen), value_of(base, target) * share)


def _check_rules(rules: Mapping[str, str], space: Space) -> None:
    axes = {axis.name: axis for axis in space.axes}
    known = set(axes)
    for target, source in rules.items():
        find_keys([target, source])  # both are numbers of the configuration
        if target in axes:
            raise ConfigError("is an axis, so it does not follow from another key", key=target)
        if source not in known:
            raise ConfigError(f"follows from {source}, which is no axis", key=target)
        known.add(target)


def _study(sampler: str, seed: int, population: int, goals: int, trials: int) -> Any:
    if sampler not in SAMPLERS:
        raise ConfigError(f"no sampler {sampler!r}; there are {', '.join(SAMPLERS)}")
    try:
        import optuna
    except ImportError:
        raise SearchError("a search uses Optuna, which is not installed; `pip install 'gpusim[explore]'` adds it") \
            from None  # fmt: skip

    def broken(trial: Any) -> list[float]:
        return list(trial.user_attrs["broken"])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # limits are an experimental feature of some versions
        made: Any
        if sampler == "tpe":
            startup = min(10, max(2, trials // 4))
            made = optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=startup, multivariate=True, constraints_func=broken
            )
        elif sampler == "nsga2":
            made = optuna.samplers.NSGAIISampler(seed=seed, population_size=population, constraints_func=broken)
        else:
            made = optuna.samplers.RandomSampler(seed=seed)
        level = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        try:
            return optuna.create_study(directions=["minimize"] * goals, sampler=made)
        finally:
            optuna.logging.set_verbosity(level)


def _suggest(trial: Any, space: Space) -> dict[str, Any]:
    """One choice: values of all axes."""
    chosen: dict[str, Any] = {}
    for axis in space.axes:
        levels = axis.values
        ordered = all(isinstance(value, int | float) and not isinstance(value, bool) for value in levels)
        place = (
            trial.suggest_int(axis.name, 0, len(levels) - 1)
            if ordered and len(levels) > 1
            else trial.suggest_categorical(axis.name, list(range(len(levels))))
        )
        chosen[axis.name] = levels[place]
    return chosen
