"""A folder that is laid out as a CUDA toolkit, made of links into the vendor's wheels beside this interpreter.

The wheels have compiler, headers and libraries, but no `lib64`, and their libraries have no names without a version,
such as `libcudart.so`, which linkers look for. nvcc finds everything relative to the folder from which it is called.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from gpusim.errors import SimulationError
from gpusim.exec.libraries import kept_folder, library_folder
from isa.toolchain import find_tool, library_folders

_PARTS = {"nvcc": "bin/nvcc", "the CUDA runtime's headers": "include/cuda_runtime.h", "nvvm": "nvvm/bin/cicc"}


def toolkit_folder() -> Path:
    """The folder, which `$CUDA_HOME` may name: bin, include, lib, lib64 and nvvm. It is made when it is not there.

    Libraries of the vendor's that are not installed, such as cuBLAS, are those that `gpusim exec` puts in their place.
    Raises SimulationError if a part of the tool chain is missing, ToolchainMissing without nvcc.
    """
    compiler = Path(find_tool("nvcc"))
    root = compiler.parent.parent
    for name, part in _PARTS.items():
        if not (root / part).exists():
            raise SimulationError(
                f"{name} is not in {root}; install the parts of one release: "
                "pip install 'cuda-toolkit[cccl,crt,cudart,nvcc,nvvm]==13.*'"
            )
    libraries = {**_libraries(library_folder()), **_libraries(*map(Path, library_folders()))}
    links = {path: root / path for path in ("include", "nvvm")}
    links |= {f"bin/{each.name}": each for each in compiler.parent.iterdir()}
    links |= {f"lib64/{name}": path for name, path in libraries.items()}
    digest = hashlib.sha256("\0".join(f"{name}\0{path}" for name, path in sorted(links.items())).encode())

    def link(made: Path) -> None:
        for name, path in links.items():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).symlink_to(path)
        (made / "lib").symlink_to("lib64")

    return kept_folder("toolkit", digest.hexdigest()[:16], "links", link)


def _libraries(*folders: Path) -> dict[str, Path]:
    """Libraries by each name under which a linker may look for them."""
    found = {}
    for folder in folders:
        for path in sorted(folder.glob("lib*.*"), reverse=True):  # the newest release first
            found[path.name] = path
            found.setdefault(re.sub(r"\.so[.\d]+$", ".so", path.name), path)
    return found


def nvcc_command(arguments: list[str]) -> list[str]:
    """The command that runs nvcc of the folder; it links the shared runtime unless the arguments choose another."""
    chosen = any(re.match(r"-?-cudart\b", each) for each in arguments)
    return [os.fspath(toolkit_folder() / "bin" / "nvcc"), *([] if chosen else ["--cudart", "shared"]), *arguments]
