"""The argument parser: the commands, and the options that several of them share."""

from __future__ import annotations

import argparse

EPILOG = """\
examples:
  gpusim list                                      what there is to run
  gpusim run reduction/shuffle --size 1000000      run it on a simulated H200 and report
  gpusim run vector_add --set sm.count=66          the same on half of the SMs
  gpusim show matmul/tiled --run                   machine code with the cost of each instruction
  gpusim diff transpose/tiled transpose/padded     two runs: what changed, and why
  gpusim sweep gemv --set sm.count=66,132,264      many machines, one table
  gpusim bound matmul/tiled --gpu h200 --gpu a100  the least time it can take, and why
  gpusim script train.py --epochs 2                a Numba CUDA script, as it is, on the simulated GPU
  gpusim figures transpose/tiled pictures          pictures of what happened
  gpusim config diff h200 a100                     where two GPUs differ
  gpusim collective all_reduce 256M --gpus 8       what a collective of several GPUs takes
  gpusim parallel step.toml                        what a training step on several GPUs takes
  gpusim sensitivity gemv --next a100              which parameter of a GPU moves the time most
  gpusim search space.toml --limit "area_mm2 <= h200"    the best machines under a budget
  gpusim cost h200 --set sm.count=264              what a GPU costs in area and power
"""


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line; `options.command(options)` runs the command chosen."""
    from gpusim.cli import (
        bound,
        collective,
        configs,
        cost,
        diff,
        figures,
        listing,
        parallel,
        plot,
        run,
        script,
        search,
        sensitivity,
        show,
        sweep,
    )

    parser = argparse.ArgumentParser(
        prog="gpusim",
        description="A GPU simulator that executes the machine code a real GPU would run.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    modules = (
        run, script, listing, show, diff, bound, sweep, search,
        sensitivity, cost, figures, plot, configs, collective, parallel,
    )  # fmt: skip
    for module in modules:
        module.add(commands)
    return parser


class _Version(argparse.Action):
    """Prints the version; imported only then."""

    def __init__(self, option_strings, dest):
        super().__init__(option_strings, dest, nargs=0, help="print the version and exit")

    def __call__(self, parser, namespace, values, option_string=None):
        from gpusim import __version__

        print(f"gpusim {__version__}")
        parser.exit()


def add_command(commands, name: str, summary: str, epilog: str) -> argparse.ArgumentParser:
    """A command with its one-line summary and examples."""
    return commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_gpu_options(parser: argparse.ArgumentParser) -> None:
    """--gpu and --set."""
    parser.add_argument(
        "--gpu", default="h200", metavar="NAME", help="shipped configuration or a TOML file (default: h200)"
    )
    add_set_option(parser)


def add_set_option(parser: argparse.ArgumentParser) -> None:
    """--set."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="overrides",
        help="change one value of the configuration, such as sm.count=66 (may be repeated; see gpusim config keys)",
    )


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """--json."""
    parser.add_argument("--json", action="store_true", help="print JSON for a program to read")


def add_target_options(parser: argparse.ArgumentParser) -> None:
    """The program and everything that says how it is launched."""
    parser.add_argument(
        "program",
        metavar="PROGRAM",
        help="a bundled program (gpusim list), FILE.py:KERNEL, or a .cubin, .ptx, .cu or .gpuprog file",
    )
    add_launch_options(parser)
    add_gpu_options(parser)


def add_launch_options(parser: argparse.ArgumentParser) -> None:
    """Everything that says how a program is launched."""
    bundled = parser.add_argument_group("bundled programs")
    bundled.add_argument("--size", type=int, metavar="N", help="problem size (default: the program's own)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of random inputs (default: 0)")
    own = parser.add_argument_group("your own kernels")
    own.add_argument("--grid", metavar="X[,Y[,Z]]", help="blocks of the grid")
    own.add_argument("--block", metavar="X[,Y[,Z]]", help="threads of a block")
    own.add_argument(
        "--args",
        metavar="SPEC",
        help="the kernel's arguments, such as 'float32[1024]=random, float32[32,32], int32(7), 2.5'; see below",
    )
    own.add_argument(
        "--signature",
        metavar="TYPES",
        help="Numba types of the arguments, such as 'void(float32[::1], int32)'",
    )
    own.add_argument("--entry", metavar="NAME", help="kernel of a file that holds several")
    own.add_argument(
        "--abi", choices=("numba", "c"), help="how the file's kernel takes arguments (default: guessed)"
    )
    own.add_argument(
        "--shared-bytes", type=int, metavar="N", help="dynamic shared memory per block (default: 0)"
    )


ARGUMENT_HELP = """\
arguments of your own kernels (--args), separated by commas:
  float32[1024]           array of zeros, any NumPy number type and up to any number of dimensions: int32[64,64]
  float32[1024]=random    uniform from 0 to 1; integers from 0 to 99; the same for the same --seed
  float32[1024]=arange    0, 1, 2, ...;  =ones;  =zeros;  =3.5 every element
  7   2.5   true          a number as Python has it: a 64-bit integer or float, a boolean
  int32(7)  float32(2.5)  a number of a NumPy type
"""
