"""`gpusim nvcc`: the vendor's compiler out of its wheels, for programs of `gpusim exec`."""

from __future__ import annotations

import argparse
import subprocess

from gpusim.cli.options import add_command

EXAMPLES = """\
examples:
  gpusim nvcc -arch=sm_90 -o saxpy saxpy.cu && gpusim exec ./saxpy
  gpusim nvcc -arch=sm_90 -std=c++20 -o product product.cu -lcublas
  CUDA_HOME=$(gpusim nvcc --home) gpusim script extension.py     builds PyTorch's extensions with it

All arguments are nvcc's. The runtime is linked as a shared library, as `gpusim exec` needs it, unless --cudart says
otherwise. No CUDA toolkit has to be installed; a C++ compiler has to be.
"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(commands, "nvcc", "compile CUDA C++ with the installed packages' nvcc", EXAMPLES)
    parser.prefix_chars = "\0"  # what begins with a hyphen is nvcc's
    what = "nvcc's own; --home alone prints the folder of the toolkit"
    parser.add_argument("arguments", nargs="*", metavar="ARGS", help=what)
    parser.set_defaults(command=execute)


def execute(options: argparse.Namespace) -> int:
    """Run nvcc. Returns its exit status."""
    from gpusim.exec.toolkit import nvcc_command, toolkit_folder

    if options.arguments == ["--home"]:
        print(toolkit_folder())
        return 0
    status = subprocess.run(nvcc_command(options.arguments), check=False).returncode
    return status if status >= 0 else 128 - status
