"""Which GPU runs which machine code."""

from __future__ import annotations

import re

from gpusim.errors import LaunchError

_ARCHITECTURE = re.compile(r"sm_(\d+)(\d)([af]?)$")


def check_architecture(program: str, gpu: str, kernel: str) -> None:
    """Refuse machine code that a GPU's instruction decoder does not know.

    Code for compute capability X.y runs on X.z with z >= y; code for an 'a' target on that one only, for an 'f'
    target on its family, which is X.z with z >= y too (CUDA C++ Programming Guide, "Binary Compatibility" and
    "Family-Specific Features").

    Args:
        program: what the code was compiled for, such as 'sm_86' or 'sm_90a'.
        gpu: the configuration's `gpu.arch`.
        kernel: name for the message.

    Raises:
        LaunchError: names both.
    """
    code, machine = _ARCHITECTURE.match(program), _ARCHITECTURE.match(gpu)
    if code is None or machine is None:
        raise LaunchError(f"'{program}' on '{gpu}': not two architectures", kernel=kernel)
    same = code[1] == machine[1]
    if same and (int(code[2]) == int(machine[2]) if code[3] == "a" else int(code[2]) <= int(machine[2])):
        return
    raise LaunchError(
        f"its machine code is for {program}, which a GPU of {gpu} does not run; compile it for {gpu}, "
        f'or simulate the other architecture on this machine with overrides=["gpu.arch={program}"]',
        kernel=kernel,
    )
