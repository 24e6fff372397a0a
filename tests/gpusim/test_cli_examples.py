"""Every example of every help text runs; one that would take long parses, and what it names exists."""

import argparse
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from gpusim.cli import axes, main, make_parser
from gpusim.config import load_config
from gpusim.explore.evaluate import check_points
from gpusim.workload.request import Request
from gpusim.workload.target import find_variant
from isa import compile_cuda

SHORT = (
    "list", "config", "cost h200", "collective all_reduce 64M",
    "show vector_add", "show reduction", "show kernels.py", "run vector_add", "bound vector_add",
    "sweep study.toml --bound-only",
)  # fmt: skip
"""What is run, because it takes a second or less."""
LONG = "--sampled"
KERNELS = """
from numba import cuda

@cuda.jit
def scale(x, factor):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= factor
"""
SCRIPT = """
import numpy as np
from numba import cuda

@cuda.jit
def scale(x):
    x[cuda.grid(1)] *= 2

scale[2, 32](np.ones(64, np.float32))
"""
STUDY = 'program = "saxpy"\ngpu = "tiny"\n[axes]\nsize = [600, 601]\nsm.count = [1, 2]\n'


def parsers(parser, words=("gpusim",)):
    """Every command with its parser, commands of commands included."""
    yield " ".join(words), parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, each in action.choices.items():
                yield from parsers(each, (*words, name))


def examples():
    """(command, example) of all help texts, without the remark at its end."""
    for command, parser in parsers(make_parser()):
        for line in (parser.epilog or "").splitlines():
            if line.startswith("  gpusim "):
                # Two spaces begin a remark, "> FILE" is for a shell.
                yield command, re.split(r"  | > ", line.strip())[0]


EXAMPLES = list(examples())


def test_every_command_has_examples_and_they_are_its_own():
    commands = {command for command, parser in parsers(make_parser())}
    assert commands == {command for command, _ in EXAMPLES}
    assert all(example.startswith(command) for command, example in EXAMPLES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files that examples name."""
    folder = tmp_path_factory.mktemp("examples")
    for name in ("kernels.py", "old.py", "new.py"):
        (folder / name).write_text(KERNELS)
    for name in ("saxpy.py", "train.py"):
        (folder / name).write_text(SCRIPT)
    (folder / "study.toml").write_text(STUDY)
    (folder / "space.toml").write_text(STUDY + "[search]\ntrials = 4\n")
    (folder / "mine.toml").write_text('base = "h200"\nsm.count = 264\n')
    return folder


@pytest.mark.parametrize("example", sorted({example for _, example in EXAMPLES}))
def test_example_parses_and_names_what_exists(example, folder, monkeypatch):
    monkeypatch.chdir(folder)
    options = make_parser().parse_args(shlex.split(example)[1:])
    given = vars(options)
    if "axes" in given and options.what[0] != "study.toml":
        check_points(axes.read_space(options).space.grid())
    for name in ("program", "a", "b"):
        text = given.get(name)
        elsewhere = example.startswith("gpusim exec ") or (text or "").startswith("./")  # an executable
        if text and Request(text).file is None and not text.endswith((".json", ".csv", "hardware")) and not elsewhere:
            find_variant(text)
    machines = [given.get(name) for name in ("gpu", "gpu_a", "gpu_b", "next", "base", "first", "second")]
    for each in machines:
        for gpu in each if isinstance(each, list) else [each]:
            if gpu and "axes" not in given:
                load_config(gpu, given.get("overrides") if gpu == machines[0] else None)


@pytest.mark.parametrize(
    "example", sorted({each for _, each in EXAMPLES if each[7:].startswith(SHORT) and LONG not in each})
)
def test_short_example_runs(example, folder, monkeypatch, capsys, toolchain):
    monkeypatch.chdir(folder)
    if example.startswith("gpusim config new"):
        (folder / "mine.toml").unlink(missing_ok=True)
    if example.endswith(".cubin"):
        (folder / "library.cubin").write_bytes(compile_cuda("__global__ void k() {}"))
    assert main(shlex.split(example)[1:]) == 0, capsys.readouterr().err


NAMED = re.compile(r"(?:`|^  |; |: |see )gpusim ([a-z]+)(?: ([a-z]+))?([^`;)]*)", re.MULTILINE)
PROSE = {"come", "decodes", "executes", "is", "takes"}


@cache
def known_commands():
    return dict(parsers(make_parser()))


def wrong_names(text):
    """Commands, and options of them, that a text names and that there are not."""
    known = known_commands()
    for first, second, rest in NAMED.findall(text):
        if first in PROSE:
            continue
        command = f"gpusim {first}"
        if command not in known or (first == "config" and second and f"{command} {second}" not in known):
            yield f"{command} {second}".strip()
            continue
        own = known.get(f"{command} {second}", known[command])
        options = {name for each in (known[command], own) for action in each._actions for name in action.option_strings}
        if first not in ("exec", "nvcc", "script"):  # whose words are those of what they start
            given = re.split(r"  | -- |#|\|", rest)[0]
            asked = re.findall(r"(?<![\w-])--[a-z][a-z-]+", given)
            yield from (f"{command} {each}" for each in asked if each not in options)


def test_help_texts_messages_and_documents_name_only_what_there_is():
    root = Path(__file__).parents[2]
    texts = {command: parser.format_help() for command, parser in parsers(make_parser())}
    files = [*root.glob("gpusim/**/*.py"), *root.glob("docs/*.md"), root / "README.md", *root.glob("notebooks/*.py")]
    texts |= {str(file.relative_to(root)): file.read_text("utf-8") for file in files}
    found = {name: list(wrong_names(text)) for name, text in texts.items()}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}
    assert sum(len(NAMED.findall(text)) for text in texts.values()) > 100
    for planted in ("see gpusim profile x", "`gpusim config lst`", "`gpusim sweep gemv --metrisc x`"):
        assert list(wrong_names(planted)), planted
