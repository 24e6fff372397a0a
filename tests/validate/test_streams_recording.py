"""What was recorded of streams on an H200: that it is all there, and the rules that docs/streams.md reads from it."""

from __future__ import annotations

from typing import Any

import pytest

from validate.streams import measure

SPLITS = (8, 16, 32, 64, 100, 132, 164, 196, 228)


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return measure.load()


def test_every_experiment_is_kept_with_what_it_was_measured_on(found: dict[str, Any]) -> None:
    assert set(found["experiments"]) >= set(measure.EXPERIMENTS)
    about = found["about"]
    assert about["gpu"] == "NVIDIA H200" and "580.159.04" in about["nvidia_smi"]["said"] and about["cuda"] == "13.0"
    assert about["date"] == "2026-11-25" and "globaltimer" in about["timed"]
    assert set(found["experiments"]["timer"]["steps_ns"]) == {"0", "32"}


def test_no_grid_passes_another_of_its_priority(found: dict[str, Any]) -> None:
    """Whichever came first: the other's first block starts after its last one."""
    cases = [runs for name, runs in found["experiments"]["leftover"].items() if name.startswith("A fills")]
    spans = [
        [grid if isinstance(grid[0], int) else _brief(grid) for grid in run.values()] for runs in cases for run in runs
    ]
    for grids in spans:
        first, then = sorted(grids)
        assert then[0] >= first[1] - 64, "starts within two steps of the timer are of one time"
    assert len(spans) == 72


def _brief(blocks: list[list[int]]) -> list[int]:
    starts = [start for _, start, _ in blocks]
    return [min(starts), max(starts)]


def test_at_most_128_grids_run_at_once(found: dict[str, Any]) -> None:
    for name in ("many_grids", "many_grids_1", "many_grids_32"):
        for run in found["experiments"][name]["160 grids"]:
            events = sorted([(end, -1) for end in run["last_end"]] + [(start, 1) for start in run["first_start"]])
            running = [sum(step for _, step in events[: k + 1]) for k in range(len(events))]
            assert max(running) == 128


def test_the_rule_of_the_split_says_who_joins_whom(found: dict[str, Any]) -> None:
    """All 9,216 pairs, and how many blocks join on an SM."""
    pairs = [pair for rows in found["experiments"]["splits"].values() for pair in rows]
    wrong = []
    for first, second, (joined, most) in pairs:
        split = wishes(*first)[1]
        least, _, largest = wishes(*second)
        room = min((2048 - first[0]) // second[0], (split - first[1] - 1) // (second[1] + 1), 4)
        expected = room if least <= split <= largest else 0
        if (joined > 0) != (expected > 0) or (joined >= 132 and most != expected):
            wrong.append((first, second, joined, most))
    assert wrong == [] and len(pairs) == 9216


def wishes(threads: int, shared: int, prefers: int) -> tuple[int, int, int]:
    """Least, wished and largest split of a grid of few registers."""
    full = _up(_blocks(threads, shared, 228) * (shared + 1))
    doubled = min(32, 2 * _blocks(threads, shared, 228)) * (shared + 1)
    usual = _up(doubled) if 128 <= threads <= 512 and doubled <= 228 else full
    if shared == 0:
        usual = min(32, max(8, 8192 // threads))
    if prefers < 0:
        return full, usual, 228
    if prefers == 0:
        wished = _up(shared + 1) if shared else usual
        return 8 if not shared else wished, wished, wished
    wished = max(_up(prefers * 2.28), _up(shared + 1))
    least = next(split for split in SPLITS if _blocks(threads, shared, split) == _blocks(threads, shared, wished))
    return least, wished, wished


def _up(kilobytes: float) -> int:
    return next(split for split in SPLITS if split >= kilobytes)


def _blocks(threads: int, shared: int, split: int) -> int:
    return min(32, 2048 // threads, split // (shared + 1))
