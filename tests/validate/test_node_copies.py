"""Recorded copies of two and four H200, replayed on the simulated node."""

from __future__ import annotations

import pytest

from gpusim.node import describe_node_keys, load_node
from validate.__main__ import main
from validate.compared import Compared
from validate.gpu import read_json
from validate.node import copies
from validate.streams.compare import EXPERIMENTS


@pytest.fixture(scope="module")
def rows() -> list[Compared]:
    return copies.compare()


def test_every_recorded_copy_is_simulated(rows: list[Compared]) -> None:
    assert len(rows) == sum(len(read_json(path)["copies"]) for path in copies.recordings()) == 77 + 83
    for path in copies.recordings():
        about = read_json(path)["about"]
        assert about["driver"] == "580.159.04" and about["date"] == "2026-11-21" and "medians" in about["timed"]
    assert {row.point for row in rows} >= copies.CALIBRATED


def test_copies_take_the_recorded_time(rows: list[Compared]) -> None:
    """From 16 MB on within 5 %, below within 30 %, of what the model has nothing from."""
    assert {row.point: round(row.error, 3) for row in rows if not row.within and row.gap is None} == {}


def test_known_gaps_are_still_gaps(rows: list[Compared]) -> None:
    open_gaps = {row.point[1:] for row in rows if not row.within}
    assert open_gaps == set(copies.GAPS), "a gap that is closed leaves the list"


def test_errors_are_no_larger_than_accepted(rows: list[Compared]) -> None:
    """Means over the judged points, with a tenth of room."""
    errors: dict[str, list[float]] = {}
    for row in rows:
        if not row.calibrated:
            errors.setdefault(row.group, []).append(abs(row.error))
    means = {group: sum(found) / len(found) for group, found in errors.items()}
    accepted = {
        "between GPUs, 16 MB and more": 0.013,
        "between GPUs, less": 0.087,
        "host, pinned, 16 MB and more": 0.009,
        "host, pinned, less": 0.061,
        "host, pageable, 16 MB and more": 0.052,
        "host, pageable, less": 0.106,
        "within a GPU, 16 MB and more": 0.055,
        "within a GPU, less": 0.146,
    }
    assert set(means) == set(accepted)
    assert {group: mean for group, mean in means.items() if mean > accepted[group]} == {}


def test_a_wrong_bandwidth_would_be_seen() -> None:
    slow = load_node("hgx_h200", overrides=["nvlink.links=17"])
    path = [path for path in copies.recordings() if "4" in path.name]
    errors = [
        abs(row.error) for row in copies.compare(path, slow) if row.point[1] == "peer" and row.point[2] >= 1 << 28
    ]
    assert errors and min(errors) > copies.LARGE_LIMIT


def test_what_is_said_to_be_measured_names_a_recorded_kind() -> None:
    kinds = {entry["kind"] for path in copies.recordings() for entry in read_json(path)["copies"]}
    config = load_node().config
    cited = [config.source(key) for key in describe_node_keys() if config.source(key).startswith("microbenchmark")]
    assert len(cited) > 20
    others = {"pageable", "pointer chase", "broadcast", "managed", *EXPERIMENTS}
    for source in cited:
        assert any(kind in source for kind in (*kinds, *others)), source


def test_the_command_sums_up(capsys: pytest.CaptureFixture[str]) -> None:
    four = next(str(path) for path in copies.recordings() if "4" in path.name)
    assert main(["node", "copies", "--all", "--recording", four]) == 0
    text = capsys.readouterr().out
    assert "between GPUs, 16 MB and more" in text and "peer_ring" in text
    assert "outside: 4 GPUs, to_device_pageable, 1,073,741,824 bytes" in text and "NOT KNOWN" not in text
    assert main(["node", "copies", "--recording", four, "--node", "two_nodes_ib"]) == 0
    assert main(["node", "copies", "--recording", four, "--node", "dgx1"]) == 1
    assert "NOT KNOWN" in capsys.readouterr().out
    assert main(["node", "copies", "--node", "hgx_h2000"]) == 2
    assert "did you mean 'hgx_h200'" in capsys.readouterr().err
