"""Compile every bundled kernel for one architecture and save its program image (`programs.images`)."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import programs
from gpusim.launch.arguments import program_of
from isa import Program, ProgramFileError
from isa.toolchain import numba_version, tool_version
from programs import images, registry

ROOT = Path(programs.__file__).parent.parent
"""Source files are recorded relative to this folder."""


def build(arch: str = "sm_90", *, force: bool = False, say: Callable[[str], None] = print) -> list[str]:
    """Bring every image up to date and return the names of the files written.

    An image that holds what the tool chain compiles today, and today's source, stays as it is: its cubin
    would differ all the same, in names that Numba numbers. `force` rewrites it.
    """
    entries: dict[str, dict[str, Any]] = {}
    written = []
    for variant in filter(attrgetter("image"), map(registry.get, registry.names())):
        launch, file = variant.make(variant.test_size, 0), f"{variant.family}/{variant.kernel.__name__}.gpuprog"
        spelled = images.type_names(launch.args)
        if file in entries:
            if entries[file]["types"] != spelled:
                raise ValueError(f"{variant.name} takes other types than {entries[file]['variants'][0]}: {spelled}")
            entries[file]["variants"].append(variant.name)
            continue
        program, path = without_folder(program_of(launch, arch), ROOT), images.FOLDER / file
        fresh = not force and is_current(path, program)
        if not fresh:
            program.save(path)
            written.append(file)
        say(f"{file}: {len(program.instructions)} instructions, {'as it was' if fresh else 'written'}")
        entries[file] = {
            "file": file,
            "kernel": images.kernel_name(variant.kernel),
            "types": spelled,
            "variants": [variant.name],
            "code_sha256": program.code_sha256,
        }
    document = {"arch": arch, "tools": tools(), "images": list(entries.values())}
    images.INDEX.write_text(json.dumps(document, indent=1) + "\n")
    images.index.cache_clear()
    return written


def tools() -> dict[str, str]:
    """Versions of what turns a kernel into machine code."""
    names = numba_version().split()
    return {**dict(zip(names[::2], names[1::2], strict=True)), "ptxas": tool_version("ptxas")}


def without_folder(program: Program, root: Path) -> Program:
    """Return a copy whose source files are named relative to `root`, so that it is the same wherever it was compiled.

    In the cubin, the folder's name is overwritten by './/...' of equal length, which means the same to every
    reader of paths and moves nothing in the file.
    """
    folder = f"{root.as_posix()}/"

    def shorten(file: str) -> str:
        return file.removeprefix(folder)

    prefix = folder.encode()
    cubin = program.cubin.replace(prefix, b"." + b"/" * (len(prefix) - 1))
    return replace(
        program,
        instructions=tuple(
            each if each.file is None else replace(each, file=shorten(each.file)) for each in program.instructions
        ),
        source={shorten(file): lines for file, lines in program.source.items()},
        cubin=cubin,
        sha256=hashlib.sha256(cubin).hexdigest(),
    )


def is_current(path: Path, program: Program, *, source: bool = True) -> bool:
    """Return whether a saved image holds the same machine code and, if asked for, the same source."""
    try:
        saved = Program.open(path)
    except ProgramFileError:
        return False
    lines, saved_lines = ([each.line for each in one.instructions] for one in (program, saved))
    same_source = (saved.source, saved_lines) == (program.source, lines)
    return saved.code_sha256 == program.code_sha256 and (same_source or not source)


def command(options: argparse.Namespace) -> int:
    """`validate images`."""
    print(f"{len(build(options.arch, force=options.force))} images written")
    return 0
