"""The suite's kernels as machine code, so that what is measured is what is simulated: one program image for each kernel
in `validate/microbench/images/`, and `index.json`, which says which benchmarks launch which.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from gpusim.launch.arguments import infer_signature
from isa import Program, assemble, compile_kernel
from isa.instruction import INSTRUCTION_BYTES
from isa.listing import program_from_cubin
from isa.numba_code import numba_code
from programs.images import NoImage
from validate.images import ROOT, is_current, tools, without_folder
from validate.microbench.bench import Bench, select

FOLDER = Path(__file__).parent / "images"
INDEX = FOLDER / "index.json"


@cache
def index() -> dict[str, Any]:
    """The content of `index.json`: 'tools' (name to version) and 'images', file to 'code_sha256' and 'benches'."""
    return json.loads(INDEX.read_text()) if INDEX.exists() else {"tools": {}, "images": {}}


def program_of(bench: Bench) -> Program:
    """The decoded image that a benchmark launches. Raises NoImage."""
    return _open(_file_of(bench))


def code_of(bench: Bench) -> str:
    """Digest of the machine code that a benchmark launches. Raises NoImage."""
    return index()["images"][_file_of(bench)]["code_sha256"]  # type: ignore[no-any-return]


def build(benches: list[Bench], say: Callable[[str], None] = print) -> list[str]:
    """Bring the images of these benchmarks up to date; returns the names of the files written.

    An image that holds what the tool chain compiles today stays as it is.
    Raises ValueError if the compiler has found a way around what a benchmark measures, or two kernels share a name.
    """
    kernels: dict[str, Any] = {}
    images, written = dict(index()["images"]), []
    for bench in benches:
        file, types = f"{bench.kernel.__name__}.gpuprog", infer_signature(bench.cases[0].make())
        if kernels.setdefault(file, (bench.kernel, types)) != (bench.kernel, types):
            raise ValueError(f"{bench.name}: another kernel has its kernel's name, or takes other arguments")
        program = _compile(bench, types)
        _check(bench, program)
        path = FOLDER / file
        if not is_current(path, program, source=False):
            path.parent.mkdir(exist_ok=True)
            program.save(path)
            written.append(file)
            say(f"{file}: {len(program.instructions)} instructions")
        names = {*images.get(file, {}).get("benches", ()), bench.name}
        images[file] = {"code_sha256": program.code_sha256, "benches": sorted(names)}
    INDEX.write_text(json.dumps({"tools": tools(), "images": dict(sorted(images.items()))}, indent=1) + "\n")
    index.cache_clear()
    _open.cache_clear()
    return written


def _compile(bench: Bench, types: tuple[Any, ...]) -> Program:
    whole = _in_clusters(bench, types) if bench.cluster else compile_kernel(bench.kernel, types, bench.arch)
    program = without_folder(whole, ROOT)
    return program if bench.rewrite is None else _rewritten(program, bench.rewrite)


def _in_clusters(bench: Bench, types: tuple[Any, ...]) -> Program:
    """The kernel for launches in clusters of a size that its PTX says, since Numba has no word for it."""
    code = numba_code(bench.kernel, types, bench.arch, {})
    said = rf"\1 .explicitcluster .reqnctapercluster {bench.cluster}, 1, 1"
    ptx, found = re.subn(r"(\.entry [^)]*\))", said, code.ptx)
    if found != 1:
        raise ValueError(f"{bench.name}: {found} entries in its PTX")
    return program_from_cubin(assemble(ptx, bench.arch), code.entry, abi="numba")


def _rewritten(program: Program, rewrite: Callable[..., Any]) -> Program:
    """The program whose instructions are replaced one by one, in its cubin too."""

    def code(words: Any) -> bytes:
        return b"".join(word.to_bytes(INSTRUCTION_BYTES, "little") for word in words)

    old = [each.encoding for each in program.instructions]
    before, after = code(old), code(rewrite(old))
    if program.cubin.count(before) != 1:
        raise ValueError(f"the code of {program.name} is not in its cubin once")
    changed = program_from_cubin(program.cubin.replace(before, after), program.symbol, abi="numba")
    return replace(changed, source=program.source)


def _check(bench: Bench, program: Program) -> None:
    held = program.opcode_histogram()
    for opcode in bench.opcodes:
        if held[opcode] < 16:
            raise ValueError(f"{bench.name} holds {held[opcode]} {opcode}: {held.most_common(6)}")


def _file_of(bench: Bench) -> str:
    for file, entry in index()["images"].items():
        if bench.name in entry["benches"]:
            return file  # type: ignore[no-any-return]
    raise NoImage(f"no program image of {bench.name}; 'python -m validate microbench build' compiles it")


@cache
def _open(file: str) -> Program:
    return Program.open(FOLDER / file)


def command(options: argparse.Namespace) -> int:
    """`validate microbench build`."""
    print(f"{len(build(select(options.only)))} images written")
    return 0
