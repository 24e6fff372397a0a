"""`python -m validate cuda-suite`: what is made of what programs say, and what is kept."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from validate import __main__ as command
from validate import suite
from validate.commands import UsageError
from validate.suite import Listed, Trial, judge, read, table


@pytest.mark.parametrize(
    ("status", "said", "complained", "verdict", "reason"),
    [
        (0, ["x", "Test PASSED"], [], "passed", ""),
        (0, [], ["all passed"], "passed", ""),
        (0, ["PASS", "then FAILED"], [], "failed", "then FAILED"),
        (1, ["PASS"], [], "failed", "status 1: PASS"),
        (0, ["0.5 ms"], [], "no verdict", "0.5 ms"),
        (0, [], [], "no verdict", "it prints nothing"),
        (1, ["FAIL"], ["gpusim: SUST is not simulated"], "refused", "SUST is not simulated"),
        (0, ["PASS"], ["gpusim: compiling the simulator core (once)", "gpusim: 1,234 functions, now f"], "passed", ""),
        (3, ["a " * 200], [], "failed", ("status 3: " + "a " * 200)[:157] + "..."),
    ],
)
def test_judge(status, said, complained, verdict, reason):
    assert judge(Listed(Path()), status, said, complained) == (verdict, reason)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[programs.a]\nprogram = 'a'\nfolders = 'x'", "folders"),
        ("[programs.a]\nprogram = 'a'\npasses = '('", "program a: missing"),
        ("a = ", "Invalid value"),
        ("a = 1", "programs"),
    ],
)
def test_a_list_that_cannot_be_read(tmp_path, text, wrong, capsys):
    file = tmp_path / "list.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=wrong):
        read(file)
    assert command.main(["cuda-suite", "--suite", str(file)]) == 2
    assert wrong in capsys.readouterr().err


def test_the_list_of_public_collections_can_be_read(tmp_path):
    found = read(Path(suite.__file__).with_suffix(".toml"), tmp_path)
    assert len(found) > 100
    assert all(each.program.is_relative_to(tmp_path) for each in found.values())


LIST = """
[programs.good]
program = "good"
arguments = ["PASS"]
[programs.bad]
program = "good"
arguments = ["nothing"]
passes = "some"
[programs.slow]
program = "slow"
[programs.gone]
program = "gone"
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="gpusim exec needs Linux")
def test_a_list_is_run_and_goes_on_where_it_was(tmp_path, capsys):
    for name, lines in (("good", "echo $1 >> ran; echo $1"), ("slow", "sleep 60")):
        (tmp_path / name).write_text(f"#!/bin/sh\ncd '{tmp_path}'\n{lines}\n")
        (tmp_path / name).chmod(0o755)
    lists = tmp_path / "lists"
    lists.mkdir()
    (lists / "list.toml").write_text(LIST)
    results = tmp_path / "results.json"
    words = ["cuda-suite", "--suite", str(lists / "list.toml"), "--root", str(tmp_path), "--results", str(results)]
    words += ["--jobs", "3"]
    assert command.main([*words, "--only", "slow", "--timeout", "1"]) == 1
    assert command.main([*words, "--only", "good|bad|gone"]) == 1
    rows = {row["name"]: row for row in json.loads(results.read_text())}
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "good": "passed", "bad": "no verdict", "slow": "timeout", "gone": "missing",
    }  # fmt: skip
    assert rows["slow"]["reason"] == "over 1 s"
    assert capsys.readouterr().out.splitlines()[-1] == ("1 passed, 1 no verdict, 1 missing")
    assert command.main([*words, "--only", "good"]) == 0  # what has passed stands
    assert (tmp_path / "ran").read_text().split().count("PASS") == 1
    assert command.main([*words, "--only", "good", "--again"]) == 0
    assert (tmp_path / "ran").read_text().split().count("PASS") == 2
    assert {row["name"] for row in json.loads(results.read_text())} == set(rows)


def test_the_table_has_two_parts():
    rows = [Trial("b", "functional", "failed", "x | y"), Trial("a", "functional", "passed", launches=1234)]
    text = table(rows)
    assert "| a | functional | 1,234 | 0 |" in text and r"| b | functional | failed | x \| y |" in text
    assert text.endswith("1 passed, 1 failed") and asdict(rows[0])["reason"] == "x | y"
