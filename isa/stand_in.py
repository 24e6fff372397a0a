"""CUDA C++ with host code, where no host compiler reads it: NVRTC gets the code for the GPU and what that needs.

NVRTC takes neither host functions nor the host's headers. Functions that are not marked for the GPU are left out, and
of the other declarations (types with members of `std`, host variables) those that it complains of; the more they lose,
the fewer complaints are left, and one of code for the GPU is the user's. Headers in angle
brackets that are nowhere are stood in for by what kernels use of them: fixed-width integers, limits, constants,
`std::min` and the like. One in quotes is the user's own, and its absence a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from isa.compiler_log import INSTANCES, Complaint, complaints
from isa.host_code import HostPart, HostSource, marking_macros, template_uses
from isa.includes import includes, own_files, spelling
from isa.nvrtc import compile_device_code
from isa.stand_in_headers import C_HEADERS, COMMON, in_toolkit, stand_in
from isa.toolchain import include_folders

_MOST_ROUNDS = 60
_HOST_ONLY = re.compile("host(?:__)? (?:function|variable)")


def compile_without_host(
    source: str, path: str, flags: Sequence[str], folders: Sequence[str], expressions: Sequence[str] = ()
) -> tuple[bytes | None, str]:
    """Compile the GPU's part of a text with NVRTC.

    Args:
        path: where the text comes from.
        flags: options of NVRTC.
        folders: where its own headers are, besides its folder: those of the options -I.
        expressions: instances of kernels' templates that must be in the cubin; those that the host code names are,
            where their arguments are known outside of it.

    Returns:
        The cubin, None if there are errors left, and the log.

    Raises:
        ToolchainMissing: there is no NVRTC.
    """
    unit = _Unit(source, str(Path(path).resolve()), folders)
    flags = (*flags, f"--pre-include={COMMON}")
    cubin, log = None, ""
    for _ in range(_MOST_ROUNDS):
        asked = (*expressions, *(each for each in unit.instances if each not in expressions))
        cubin, log = compile_device_code(unit.code(unit.path), unit.path, flags, unit.headers(), asked)
        # Of all complaints, not of the first that helps: each round compiles anew.
        if cubin is not None or not (any([unit.heed(each) for each in complaints(log)]) or unit.enrich()):
            break
    return cubin, log


class _Unit:
    """A text with the headers of the user's that it includes, and what stands in for those that are nowhere."""

    def __init__(self, source: str, path: str, folders: Sequence[str]) -> None:
        self.path = path
        own = own_files(source, Path(path), folders)
        texts, self._links = own.texts, own.links
        self._macros = marking_macros(texts.values())
        self._names: dict[str, str] = {}  # of headers of the tool chain, by file
        self._sources = {file: HostSource(text, self._macros) for file, text in texts.items()}
        self._rich, self._certain = False, set[HostPart]()
        self._stand_ins = {name: stand_in(name) for name in (COMMON, *C_HEADERS, "cstdio")}
        self._required = set[str]()
        for spelled in [each for links in own.links.values() for each, file in links.items() if file is None]:
            name = spelled[1:-1]
            if in_toolkit(name):
                if name == "cuda.h":
                    self._adopt(next(str(found) for each in include_folders() if (found := Path(each, name)).is_file()))
            elif spelled[0] == "<":
                self._stand_in(name)
            else:
                self._required.add(name)
        kernels = (part.template for each in self._sources.values() for part in each.parts)
        templates = {name for name in kernels if name}
        host = [each.masked[p.start : p.end] for each in self._sources.values() for p in each.left_out]
        self.instances = [use for text in host for use in template_uses(text, templates)]

    def code(self, file: str) -> str:
        """What is left of a file, with its own headers by their paths."""
        links = self._links[file]

        def linked(match: re.Match[str]) -> str:
            own = links.get(spelling(match))
            return f'#include "{own}"' if own else match[0]

        text = self._sources[file].code()
        for match in reversed(list(includes(text))):
            text = text[: match.start()] + linked(match) + text[match.end() :]
        return text

    def headers(self) -> dict[str, str]:
        own = {
            self._names.get(file, file): f'#line 1 "{file}"\n' + self.code(file)
            for file in self._sources
            if file != self.path
        }
        return own | self._stand_ins

    def heed(self, complaint: Complaint) -> bool:
        """Change what a complaint is about; False if nothing can be."""
        if name := complaint.missing_file:
            return name not in self._required and self._stand_in(name)
        if complaint.places[0][0] == INSTANCES:
            asked = complaint.excerpt.partition("nv_mangled_name ")[2].strip()
            if asked not in self.instances:
                return False
            self.instances.remove(asked)
            return True
        for file, line in complaint.places:
            path = str(Path(file).resolve())
            source = self._sources.get(path)
            if source is None:
                if _HOST_ONLY.search(complaint.text) and self._adopt(path):
                    return True
                continue
            for part in source.at(line):
                if self._may_go(part, complaint.text):
                    source.left_out.add(part)
                    if _HOST_ONLY.search(complaint.text):
                        self._certain.add(part)
                    return True
        return False

    def enrich(self) -> bool:
        """Stand in with more, which takes the compiler seconds, and begin again; False if that is done already."""
        if self._rich:
            return False
        self._rich = True
        self._stand_ins = {name: stand_in(name, rich=True) for name in self._stand_ins}
        for each in self._sources.values():
            each.left_out = {part for part in each.left_out if part.host or part in self._certain}
        return True

    def _adopt(self, path: str) -> bool:
        """Read a header of the toolkit's as one of the user's, for what it declares for the host."""
        path = str(Path(path).resolve())
        for folder in include_folders() if path not in self._sources else ():
            if Path(path).is_relative_to(Path(folder).resolve()):
                self._names[path] = Path(path).relative_to(Path(folder).resolve()).as_posix()
                text = Path(path).read_text(encoding="utf-8", errors="replace")
                self._sources[path] = HostSource(text, self._macros | marking_macros([text]))
                self._links[path] = {}
                return True
        return False

    @staticmethod
    def _may_go(part: HostPart, text: str) -> bool:
        """A member that is no function stays with its class, whose layout a kernel may rely on."""
        return not part.device and (not part.member or part.function or _HOST_ONLY.search(text) is not None)

    def _stand_in(self, name: str) -> bool:
        if name in self._stand_ins:
            return False
        self._stand_ins[name] = stand_in(name, self._rich)
        return True
