"""Options that several commands share: programs, GPUs, runs, journals, JSON."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from gpusim.workload.request import Request

PROGRAM_HELP = "a bundled program (gpusim list), FILE.py:KERNEL, or a .cubin, .ptx, .cu or .gpuprog file"


def names_of(text: str) -> list[str]:
    """The names of a list such as 'racecheck, initcheck'."""
    return [name.strip() for name in text.split(",") if name.strip()]


Adder = Callable[[argparse.ArgumentParser], None]


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    summary: str,
    epilog: str,
    execute: Callable[[argparse.Namespace], int] | None = None,
    *options: Adder,
) -> argparse.ArgumentParser:
    """A command with its one-line summary and examples, the function that runs it, and what adds its options."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(parser=parser, command=execute)  # parser: who tells what an unknown option is nearly called
    for add in options:
        add(parser)
    return parser


def add_gpu_options(parser: argparse.ArgumentParser) -> None:
    """--gpu and --set."""
    parser.add_argument(
        "--gpu", default="h200", metavar="NAME", help="shipped configuration or a TOML file (default: h200)"
    )
    add_set_option(parser)


def add_set_option(parser: argparse.ArgumentParser) -> None:
    """--set."""
    words = "change one value of the configuration, such as sm.count=66 (may be repeated; see gpusim config keys)"
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides", help=words)


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """--json."""
    parser.add_argument("--json", action="store_true", help="print JSON for a program to read")


def add_program(parser: argparse.ArgumentParser) -> None:
    """The program."""
    parser.add_argument("program", metavar="PROGRAM", help=PROGRAM_HELP)


def add_target_options(parser: argparse.ArgumentParser) -> None:
    """The program and everything that says how it is launched."""
    add_program(parser)
    add_launch_options(parser)
    add_gpu_options(parser)


def add_launch_options(parser: argparse.ArgumentParser) -> None:
    """Everything that says how a program is launched: the fields of `gpusim.workload.request.Request`."""
    add_field_options(parser, Request)
    add_cuda_options(parser.add_argument_group("kernels in CUDA C++ (.cu)"))


def add_field_options(parser: argparse._ActionsContainer, of: type, suffix: str = "") -> None:
    """Make an option of each field of a dataclass that has a `help` in its metadata, with metavar, choices and group.

    suffix: of the options' names, which are then one side's only: without a default, and left out of help texts.
    """
    groups: dict[str, argparse._ActionsContainer] = {"": parser}
    for each in (each for each in fields(of) if "help" in each.metadata):
        given = dict(each.metadata)
        group = "" if suffix else given.pop("group", "")
        if group not in groups:
            groups[group] = parser.add_argument_group(group)
        flag = given.pop("flag", f"--{each.name.replace('_', '-')}")
        dest = f"{each.name}{suffix}".replace("-", "_")
        about: dict[str, Any] = {"type": int if str(each.type).startswith("int") else str, "dest": dest}
        if suffix:
            about |= {"help": argparse.SUPPRESS}
        else:
            about |= {name: value for name, value in given.items() if value} | {"default": each.default}
        groups[group].add_argument(flag + suffix, **about)


def add_cuda_options(parser: argparse._ArgumentGroup) -> None:
    """Add the compiler's options for a .cu file; all of them are in `cuda_options`, in its order."""
    further = "further options of nvcc, such as --cuda-options='--use_fast_math --extended-lambda'"
    for name, const, metavar, text in (
        ("-D", "-D", "NAME[=VALUE]", "define a macro"),
        ("-I", "-I", "DIR", "search a folder for headers"),
        ("-std", "-std=", "STD", "the C++ standard, such as c++20"),
        ("--cuda-options", "", "OPTIONS", further),
    ):
        parser.add_argument(name, dest="cuda_options", action=_Append, const=const, metavar=metavar, help=text)


class _Append(argparse.Action):
    """Add to a command line: `const` with the value, quoted; the value as it is where that is empty."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:
        given = shlex.quote(self.const + values) if self.const else values
        setattr(namespace, self.dest, " ".join(filter(None, (getattr(namespace, self.dest), given))))


def add_limit_options(parser: argparse.ArgumentParser) -> None:
    """--threads and --max-cycles."""
    parser.add_argument("--threads", type=int, metavar="N", help="host threads (default: one per core; same result)")
    parser.add_argument("--max-cycles", type=int, metavar="N", help="give up after so many cycles")


def add_mode_option(parser: argparse.ArgumentParser) -> None:
    """--mode, and --sampled and --functional for short."""
    parser.add_argument(
        "--mode", default="detailed", metavar="MODE", help="detailed (default), sampled or functional: docs/modes.md"
    )
    for mode in ("sampled", "functional"):
        parser.add_argument(
            f"--{mode}", dest="mode", action="store_const", const=mode, help=f"the same as --mode {mode}"
        )


def add_model_option(parser: argparse.ArgumentParser) -> None:
    """--model."""
    words = "engine (default), simpy, or FILE.py:CLASS, a machine of your own: docs/machine.md"
    parser.add_argument("--model", default="engine", metavar="MODEL", help=words)


def add_progress_option(parser: argparse.ArgumentParser) -> None:
    """--progress and --no-progress."""
    words = "show progress and what is left (default: if standard error is a terminal)"
    parser.add_argument("--progress", action=argparse.BooleanOptionalAction, help=words)


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Options of every command that simulates one launch."""
    add_limit_options(parser)
    words = "what else to look for: initcheck, racecheck, synccheck, separated by commas (memcheck is always on)"
    parser.add_argument("--check", default="", metavar="TOOLS", help=words)
    add_progress_option(parser)


def add_output_check_option(parser: argparse.ArgumentParser) -> None:
    """--no-check."""
    help = "do not compare a bundled program's output with its NumPy reference"
    parser.add_argument("--no-check", action="store_true", help=help)
