"""numba-cuda's own tests on the simulated GPU: the rules of the score, and some of the tests themselves."""

from __future__ import annotations

import json
import sys

import pytest

import gpusim
from validate import numba_suite, pool
from validate.numba_suite import SuiteOutcome

CHOSEN = (
    "doc_examples.test_vecadd",
    "cudadrv.test_events",
    "cudadrv.test_host_alloc",
    "cudapy.test_multiprocessing",
    "cudapy.test_slicing",
)


def row(test, outcome, launches=0, **facts):
    return SuiteOutcome(test, outcome, launches=launches, **facts)


def test_the_score_counts_what_exists_on_one_gpu():
    rows = [
        row("a", "passed", 3),
        row("b", "passed"),
        row("c", "failed", 1, known="reason"),
        row("d", "crashed", 1),
        row("e", "failed", 1, excluded="reason"),
        row("f", "skipped"),
        row("g", "passed", known="an old reason"),
    ]
    counts = numba_suite.score(rows)
    expected = {"tests": 7, "excluded": 1, "skipped": 1, "counted": 5, "passed": 3}
    expected |= {"launching": 3, "launching_passed": 1}
    assert {key: counts[key] for key in expected} == expected
    assert counts["unexpected"] == ["d"]
    assert counts["fixed"] == ["g"]
    assert "3 of 5 tests pass (60.0 %)" in numba_suite.score_text(counts)


def test_rules_name_tests_by_pattern(tmp_path, monkeypatch):
    rules = tmp_path / "rules.toml"
    rules.write_text('[excluded]\n"cudapy/test_ipc.py::*" = "no IPC"\n[failing]\n"*::test_slow" = "slow"\n')
    monkeypatch.setattr(numba_suite, "RULES", rules)
    lines = [
        {"test": "cudapy/test_ipc.py::A::test_x", "outcome": "started"},
        {"test": "cudapy/test_ipc.py::A::test_x", "outcome": "failed", "detail": "", "seconds": 1.0, "launches": 0},
        {"test": "cudapy/test_sm.py::test_slow", "outcome": "timeout"},
        {"test": "cudapy/test_sm.py::test_fast", "outcome": "started"},
    ]
    results = tmp_path / "x.jsonl"
    results.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = {each.test: (each.outcome, each.excluded, each.known) for each in numba_suite.outcomes(results)}
    assert found == {
        "cudapy/test_ipc.py::A::test_x": ("failed", "no IPC", None),
        "cudapy/test_sm.py::test_slow": ("timeout", None, "slow"),
    }


def test_the_engine_is_compiled_before_any_limit_counts(tmp_path, monkeypatch):
    results, simulate = [], gpusim.simulate
    monkeypatch.setattr(pool, "core_is_cached", lambda: False)
    monkeypatch.setattr(gpusim, "simulate", lambda *launch, **gpu: results.append(simulate(*launch, **gpu)))
    assert list(numba_suite.run(["no such file"], folder=tmp_path)) == []
    assert [result.cycles > 0 for result in results] == [True]


@pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")
@pytest.mark.parametrize("module", CHOSEN)
def test_some_of_the_suite_passes(tmp_path, module):
    pytest.importorskip("filecheck", reason="numba-cuda's tests need it")
    ((name, rows),) = numba_suite.run([module], folder=tmp_path, timeout_s=90)
    assert name == f"numba.cuda.tests.{module}"
    log = (tmp_path / f"{name}.log").read_text()
    assert rows, log
    assert {each.test: each.outcome for each in rows if each.outcome not in ("passed", "skipped")} == {}, log
    assert any(each.outcome == "passed" for each in rows), log
