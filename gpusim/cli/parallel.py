"""`gpusim parallel`: a training step on several GPUs, described in a TOML file."""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path
from typing import Any

from gpusim.cli.exits import EXIT_OK, UserError
from gpusim.cli.options import add_command, add_json_option
from gpusim.cli.outputs import print_json, save_picture

EXAMPLES = """\
examples:
  gpusim parallel step.toml
  gpusim parallel step.toml --option gpus=4 --option bucket_bytes=8388608
  gpusim parallel step.toml --option kind=fully_sharded --picture step.png
  gpusim parallel step.toml --json

docs/parallel.md says what the file may hold.
"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(commands, "parallel", "simulate a training step on several GPUs", EXAMPLES)
    parser.add_argument("file", type=Path, metavar="FILE.toml", help="kind of parallelism, its options, and layers")
    parser.add_argument(
        "--option", action="append", default=[], metavar="KEY=VALUE", help="instead of what the file says (repeatable)"
    )
    parser.add_argument("--events", action="store_true", help="also every event of the timeline")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the timeline: .png, .svg or .pdf")
    add_json_option(parser)
    parser.set_defaults(command=execute)


def execute(options: argparse.Namespace) -> int:
    from gpusim.parallel.file import run_file

    try:
        schedule = run_file(options.file, dict(map(_option, options.option)))
    except OSError as error:
        raise UserError(f"{options.file}: {error.strerror}") from error
    if options.json:
        print_json(schedule.to_dict())
    else:
        print(schedule)
        for each in schedule.timeline if options.events else ():
            print(
                f"{each.start_us:>12,.1f}{each.end_us:>12,.1f}  gpu{each.gpu} {each.stream:<14} {each.kind} {each.name}"
            )
    if options.picture:
        save_picture("training_timeline", schedule, options.picture, "--picture")
    return EXIT_OK


def _option(text: str) -> tuple[str, Any]:
    """KEY=VALUE with a value of TOML, or a word."""
    key, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"--option {text}: expected KEY=VALUE")
    try:
        return key.strip(), tomllib.loads(f"x = {value}")["x"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value
