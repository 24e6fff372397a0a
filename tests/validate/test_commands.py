"""What the commands say of themselves."""

from __future__ import annotations

import argparse
import shlex

import pytest

from validate import __main__ as command
from validate import commands


def parsers(parser):
    """A parser and those of its commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from parsers(each)


PARSERS = {each.prog: each for each in parsers(commands.parser())}


@pytest.mark.parametrize("name", PARSERS)
def test_help_prints_and_its_example_can_be_run(name, capsys):
    words = name.split()[3:]  # behind python -m validate
    with pytest.raises(SystemExit) as ended:
        command.main([*words, "--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert f"usage: {name}" in printed and "%%" not in printed
    example = printed.splitlines()[-1]
    if PARSERS[name].epilog is None:  # the whole
        return
    assert example.startswith(f"example: {name}")
    options = commands.parser().parse_args(shlex.split(example)[4:])
    assert callable(commands.function_of(options.command))


def test_there_are_the_commands_of_the_documents():
    assert {"compare", "score", "record", "import", "calibrate"} <= {name.split()[-1] for name in PARSERS}
