"""The vendor's compiler driver: CUDA C++ with host code, read with the help of a host compiler (gcc, clang, cl)."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from isa.compiler_log import INSTANCES
from isa.toolchain import find_tool, include_folders, run_tool

_NO_HOST = re.compile(r"host compiler|unsupported (?:GNU|clang|Microsoft)|cicc|cudafe", re.IGNORECASE)


def compile_with_host(
    source: str, path: str, flags: Sequence[str], expressions: Sequence[str] = ()
) -> tuple[bytes | None, str, list[str]]:
    """Compile a text with nvcc, its device code to a cubin and its host code not at all.

    Args:
        path: where the text comes from; the file itself is read if that is what it holds.
        flags: options of nvcc; those that find CUDA's headers come after them.
        expressions: C++ names of kernels' instances that are to be in the cubin, such as 'ns::kernel<float, 4>'.

    Returns:
        The cubin, None if there are errors, the log, and the files that were read besides the text.

    Raises:
        ToolchainMissing: there is no nvcc.
        ToolchainFailed: it does not end.
    """
    file = Path(path).resolve()
    with tempfile.TemporaryDirectory(prefix="gpusim-") as folder:
        cubin, needed, unit = Path(folder, "made.cubin"), Path(folder, "made.d"), file
        if expressions or not file.is_file() or file.read_bytes() != source.encode():
            # The address of an instance is what makes the front end emit it.
            wanted = [f"static auto *const gpusim_instance_{i} = &{each};" for i, each in enumerate(expressions)]
            unit = Path(folder, file.name)
            named = str(file).replace("\\", "\\\\")
            text = [f'#line 1 "{named}"', source, f'#line 1 "{INSTANCES}"', *wanted, ""]
            unit.write_text("\n".join(text), encoding="utf-8")
        command = [find_tool("nvcc"), "-cubin", *flags, "-MD", "-MF", str(needed), "-o", str(cubin)]
        # Not as folders of the system: complaints of what a macro of theirs stands for would be left out.
        command += [f"-I{each}" for each in include_folders()]
        done = run_tool([*command, str(unit)])
        log = (done.stderr + done.stdout).replace(str(unit), str(file))
        if done.returncode or not cubin.is_file():
            return None, log, []
        return cubin.read_bytes(), log, [each for each in _dependencies(needed) if each != str(unit)]


def host_compiler_fails(log: str) -> bool:
    """Whether nvcc failed for want of a part of the tool chain or of a host compiler that it takes."""
    return bool(_NO_HOST.search(log))


def _dependencies(file: Path) -> list[str]:
    """The files of a rule for make, whose spaces are escaped."""
    text = file.read_text(encoding="utf-8", errors="replace").replace("\\\n", " ").replace("\\\r\n", " ")
    _, _, names = text.partition(" : ") if " : " in text else text.partition(": ")
    return [re.sub(r"\\([ #])", r"\1", name) for name in re.findall(r"(?:\\[ #]|\S)+", names)]
