"""The JSON schema in the package: it is what its types say, and what commands print keeps to it, field by field."""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpusim.cli import main
from gpusim.cli.schema import FILE
from gpusim.difference.side import NotAResult, read_result
from gpusim.results import SCHEMA_VERSION
from tests import forks
from tests.result_schema import COMMANDS, make_schema

SMALL = ("--gpu", "tiny", "--threads", "1")
SAXPY = ("saxpy", "--size", "256", "--gpu", "tiny")
PRINTED = {
    "list": [("list",), ("list", "--metrics")],
    "config-list": [("config", "list")],
    "config-show": [("config", "show", "a100", "--set", "sm.count=54"), ("config", "show", "--derived")],
    "config-diff": [("config", "diff", "h200", "a100")],
    "config-keys": [("config", "keys", "l1")],
    "config-check": [("config", "check", "h200"), ("config", "check", "h200", "--set", "dram.bandwidth_gb_s=9000")],
    "cost": [("cost", "h200")],
    "collective": [("collective", "all_reduce", "4K,64K", "--gpus", "2")],
}
SIMULATED = {
    "run": [
        ("run", "vector_add", "--size", "300", *SMALL),
        ("run", *SAXPY, "--sampled"),
        ("run", *SAXPY, "--functional"),
        ("run", *SAXPY, "--no-bound"),
    ],
    "show": [("show", "vector_add"), ("show", *SAXPY, "--run")],
    "diff": [
        ("diff", *SAXPY, "--set-b", "issue.policy=lrr"),
    ],
    "bound": [("bound", "vector_add", "--gpu", "tiny", "--gpu", "a100")],
    "sweep": [("sweep", *SAXPY, "--set", "sm.count=1,2", "--workers", "0", "--metrics", "dram__bytes_read.sum")],
    "compare": [("compare", "tiny", "tiny", "sm.count=1", "--program", "saxpy", "--size", "256", "--workers", "0")],
    "sensitivity": [("sensitivity", *SAXPY, "--keys", "sm.count", "--next", "tiny", "--workers", "0")],
}
SCRIPT = """
import numpy as np
from numba import cuda

@cuda.jit
def add(a, b):
    a[cuda.grid(1)] += b

add[2, 32](np.zeros(64, np.float32), 1)
"""


@cache
def validator(command: str) -> jsonschema.Validator:
    """Of a command's part of the file, but with no other fields than those that it knows: a new one has to be added."""
    whole: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    for part in whole["$defs"].values():
        if "properties" in part:
            part.setdefault("additionalProperties", False)
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{command}", "$defs": whole["$defs"]})


def check(command: str, text: str) -> None:
    """Hold what a command printed to its part of the schema, and to JSON, which has no NaN."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    validator(command).validate(json.loads(text, parse_constant=refuse))


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) in (0, 1)
    return capsys.readouterr().out


def test_the_file_is_what_the_types_say() -> None:
    assert json.loads(FILE.read_text("utf-8")) == make_schema(), "renew it with python -m tests.result_schema"
    jsonschema.Draft202012Validator.check_schema(make_schema())


def test_the_command_prints_it_whole_and_in_parts(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "schema") == FILE.read_text("utf-8")
    for name in COMMANDS:
        part = json.loads(printed(capsys, "schema", *name.split("-")))
        used = set(json.dumps(part).split('"#/$defs/')[1:])
        assert name in {each.partition('"')[0] for each in used} <= set(part["$defs"])
    jsonschema.Draft202012Validator.check_schema(part)  # each has the same definitions
    assert main(["schema", "figures"]) == 2
    assert "no command 'figures' prints JSON; those that do: run, " in capsys.readouterr().err


@pytest.mark.parametrize("words", [words for each in PRINTED.values() for words in each], ids=" ".join)
def test_documents(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    (command,) = (name for name, cases in PRINTED.items() if words in cases)
    check(command, printed(capsys, *words, "--json"))


@pytest.mark.usefixtures("toolchain")
@pytest.mark.parametrize("words", [words for each in SIMULATED.values() for words in each], ids=" ".join)
def test_documents_of_runs(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    (command,) = (name for name, cases in SIMULATED.items() if words in cases)
    text = printed(capsys, *words, "--json")
    check(command, text)
    assert json.loads(text)["schema_version"] == SCHEMA_VERSION
    # Were a field renamed, or were there one more, it would be noticed.
    other = json.loads(text) | {"unknown": 1}
    with pytest.raises(jsonschema.ValidationError, match="unknown"):
        check(command, json.dumps(other))
    del other["unknown"], other["schema_version"]
    with pytest.raises(jsonschema.ValidationError, match="schema_version"):
        check(command, json.dumps(other))


@pytest.mark.usefixtures("toolchain")
def test_documents_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What needs a file: traces, a search."""
    check("export", printed(capsys, "export", "accel-sim", *SAXPY, str(tmp_path / "traces"), "--json"))
    pytest.importorskip("optuna")
    space = 'program = [{ name = "saxpy", size = 256 }]\ngpu = "tiny"\naxes.sm.count = [1, 2]\n'
    (tmp_path / "space.toml").write_text(space, "utf-8")
    search = ("search", str(tmp_path / "space.toml"), "--trials", "3", "--workers", "0", "--json")
    check("search", printed(capsys, *search))


@pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")
@pytest.mark.usefixtures("toolchain")
def test_documents_of_scripts(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT, "utf-8")
    environment = os.environ | {"PYTHONPATH": str(forks.ROOT)}
    for command, *words in (
        ("script", "--gpu", "tiny", "--save", "all.launches", "script.py"),
        ("replay", "all.launches"),
    ):
        asked = ("-m", "gpusim.cli", command, "--json", "--output", "out.json", *words)
        done = forks.run(*asked, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
        check(command, (tmp_path / "out.json").read_text("utf-8"))


def test_a_result_of_another_version_is_refused(tmp_path: Path) -> None:
    document = {"cycles": 1, "metrics": {}, "stall_reasons": {}}
    file = tmp_path / "saved.json"
    for version in ({}, {"schema_version": SCHEMA_VERSION}):
        file.write_text(json.dumps(document | version), "utf-8")
        assert read_result(file) == document | version
    file.write_text(json.dumps(document | {"schema_version": SCHEMA_VERSION + 1}), "utf-8")
    with pytest.raises(NotAResult, match=f"has version {SCHEMA_VERSION + 1} of the schema; this gpusim reads"):
        read_result(file)
