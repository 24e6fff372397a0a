"""Find the vendor's tool chain: ptxas, nvdisasm, NVRTC.

It comes from the PyPI wheels `nvidia-cuda-nvcc`, `nvidia-cuda-nvdisasm` and `nvidia-cuda-nvrtc` beside the
running interpreter; else from `$CUDA_HOME` or `$CUDA_PATH`, else from `$PATH`. None of it needs a GPU.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from isa.errors import CompileError, ToolchainFailed, ToolchainMissing

TOOL_SECONDS = 600
_NVRTC_PATTERNS = ("lib/libnvrtc.so*", "lib64/libnvrtc.so*", "bin/nvrtc64_*.dll", "bin/x64/nvrtc64_*.dll")


def _roots() -> tuple[Path, ...]:
    """Folders that may hold bin/, lib/ and include/, best first."""
    spec = importlib.util.find_spec("nvidia")
    wheels = [Path(base) for base in (spec.submodule_search_locations or ())] if spec else []
    roots = [folder for base in wheels for folder in sorted(base.glob("*")) if folder.is_dir()]
    homes = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    return (*roots, *homes)


def find_tool(name: str) -> str:
    """Path of an executable ('ptxas', 'nvcc', 'nvdisasm' or 'nvlink'). Raises ToolchainMissing (it is in none of the
    places; the message says how to install it)."""
    return _find_tool(name, os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), os.environ.get("PATH"))


@lru_cache(maxsize=16)
def _find_tool(name: str, *environment: str | None) -> str:
    file = name + (".exe" if sys.platform == "win32" else "")
    for root in _roots():
        if os.access(root / "bin" / file, os.X_OK):
            return str(root / "bin" / file)
    found = shutil.which(name)
    if found is None:
        raise _missing(name)
    return found


def run_tool(command: list[str], seconds: int = TOOL_SECONDS) -> subprocess.CompletedProcess[str]:
    """Run a tool and keep what it prints. Raises ToolchainFailed (it has not ended after so many seconds, as may happen
    with a damaged file, or has crashed)."""
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        raise ToolchainFailed(f"{name} has not ended after {seconds} seconds") from None
    if done.returncode < 0:
        raise ToolchainFailed(f"{name} crashed with signal {-done.returncode}: {done.stderr.strip() or 'no message'}")
    return done


def first_error(report: str) -> tuple[str, int | None]:
    """The first complaint in the output of ptxas or nvlink: the message, and the line of the source if named."""
    row = next((row for row in report.splitlines() if "error" in row or "fatal" in row), report.strip())
    line = re.search(r"line (\d+);", row)
    return re.sub(r"^.*?(?:error|fatal)\s*:\s*", "", row), int(line[1]) if line else None


def find_nvrtc() -> str:
    """Path of NVRTC's shared library. Raises ToolchainMissing (it is in neither the wheels nor the CUDA folder)."""
    for root in _roots():
        for pattern in _NVRTC_PATTERNS:
            found = [path for path in sorted(root.glob(pattern)) if ".alt." not in path.name]
            if found:
                return str(found[-1])
    raise _missing("nvrtc")


def host_compiler() -> str | None:
    """Path of the C++ compiler that nvcc asks: that of $NVCC_CCBIN, else gcc, on Windows cl. None without one."""
    return shutil.which(os.environ.get("NVCC_CCBIN") or ("cl" if sys.platform == "win32" else "gcc"))


def library_folders() -> tuple[str, ...]:
    """Folders with CUDA's libraries for kernels, such as libcudadevrt.a."""
    found = [root / name for root in _roots() for name in ("lib", "lib64", "lib/x64")]
    return tuple(str(folder) for folder in found if folder.is_dir())


def include_folders() -> tuple[str, ...]:
    """Folders with CUDA's headers."""
    found = [root / name for root in _roots() for name in ("include", "include/cccl")]
    return tuple(str(folder) for folder in found if folder.is_dir())


def identity(name: str) -> str:
    """The identity of a tool's build, for cache keys: its path, size and modification time.

    A version string would need a process of 20 ms for every look-up.
    """
    return file_identity(find_nvrtc() if name == "nvrtc" else find_tool(name))


def file_identity(path: str) -> str:
    """A file's path, size and modification time."""
    state = os.stat(path)
    return f"{path} {state.st_size} {state.st_mtime_ns}"


@lru_cache(maxsize=8)
def numba_version() -> str:
    """Versions of Numba and of its CUDA target, 'numba 0.68.0 numba-cuda 0.30.4'. Raises ToolchainMissing (one of them
    is not installed)."""
    import importlib.metadata  # here, since it takes longer to import than the rest of the package

    try:
        return " ".join(f"{name} {importlib.metadata.version(name)}" for name in ("numba", "numba-cuda"))
    except importlib.metadata.PackageNotFoundError as error:
        raise ToolchainMissing(
            f"{error.name} is not installed; install it with: pip install numba-cuda[cu13]"
        ) from error


@lru_cache(maxsize=8)
def tool_version(name: str) -> str:
    """Version that a tool prints, such as '13.5.37'; for reports."""
    done = run_tool([find_tool(name), "--version"])
    match = re.search(r"V(\d+(?:\.\d+)+)", done.stdout)
    if done.returncode or not match:
        raise ToolchainFailed(f"{name} --version failed: {(done.stderr or done.stdout).strip()}")
    return match[1]


def _missing(name: str) -> ToolchainMissing:
    wheel = name if name in ("nvdisasm", "nvrtc") else "nvcc"  # which holds ptxas and nvlink too
    return ToolchainMissing(
        f"{name} was not found in the nvidia wheels beside {sys.executable}, $CUDA_HOME, $CUDA_PATH or "
        f"$PATH; install it with: pip install nvidia-cuda-{wheel}"
    )


_ERROR = re.compile(
    r"^(?P<file>\S.*?)(?:\((?P<line>\d+)\)|:(?P<row>\d+)(?::\d+)?) ?: "
    r"(?:catastrophic |fatal )?error(?: [A-Z]?#?\w+)?: (?P<text>.+)$"
)
_FRAME = re.compile(r"\bat line (\d+)(?: of (\S.*))?$")
_FROM = re.compile(r"^(?:In file included|\s+) from (.+?):(\d+)[,:]")
_SYSTEM = re.compile(
    r"^/usr/(?:include|lib|local/cuda)|.*/(?:site|dist)-packages/nvidia/"
    r"|.*[\\/](?:Microsoft Visual Studio|Windows Kits)[\\/]"
)
INSTANCES = "__nv_name_map"
"""The file, in errors, of the names of templates' instances that were asked for."""


def first_complaint(log: str, path: str, tool: str) -> CompileError:
    """The first error of a log. Of its places, where it is and then where that was instantiated or included from, the
    innermost that is the user's counts; without any it is the first row that speaks of one, in the tool's words."""
    rows = log.splitlines()
    included: list[tuple[str, int]] = []
    for index, row in enumerate(rows):
        if source := _FROM.match(row):
            included.append((source[1], int(source[2])))
            continue
        if error := _ERROR.match(row):
            places = [(error["file"], int(error["line"] or error["row"])), *included]
            for below in rows[index + 1 :]:
                if not below.strip() or _ERROR.match(below):
                    break
                if frame := _FRAME.search(below):
                    places.append((frame[2] or places[-1][0], int(frame[1])))
            code, caret = (*rows[index + 1 : index + 3], "", "")[:2]
            ended = error["text"].startswith("expected a") and 0 <= caret.find("^") <= len(code) - len(code.lstrip())
            own = next((each for each in places if not _SYSTEM.match(each[0])), places[0])
            return CompileError(error["text"] + " before this line" * ended, *own)
        included = []
    told = next((row for row in rows if re.search(r"error|fatal", row)), log.split("\n")[0])
    return CompileError(told.strip() or f"{tool} failed without a message", path)
