"""What CUDA's compilers complain of, with the user's line.

Three front ends write these logs: EDG's, in NVRTC and cicc ("k.cu(3): error: ..."), gcc's and clang's as a preprocessor
("k.cu:3:10: fatal error: ...") and Microsoft's ("k.cu(3): fatal error C1083: ...").
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from isa.errors import CompileError

_ERROR = re.compile(
    r"^(?P<file>\S.*?)(?:\((?P<line>\d+)\)|:(?P<row>\d+)(?::\d+)?) ?: "
    r"(?:catastrophic |fatal )?error(?: [A-Z]?#?\w+)?: (?P<text>.+)$"
)
_FRAME = re.compile(r"\bat line (\d+)(?: of (\S.*))?$")
_FROM = re.compile(r"^(?:In file included|\s+) from (.+?):(\d+)[,:]")
_NO_FILE = re.compile(
    r'^(?:cannot open source file "(.+?)"|(.+?): No such file or directory|Cannot open include file: \'(.+?)\':)'
)
_SYSTEM = re.compile(
    r"^/usr/(?:include|lib|local/cuda)|.*/(?:site|dist)-packages/nvidia/"
    r"|.*[\\/](?:Microsoft Visual Studio|Windows Kits)[\\/]"
)
INSTANCES = "__nv_name_map"
"""The file, in errors, of the names of templates' instances that were asked for."""


@dataclass(frozen=True)
class Complaint:
    """An error. places: file and line, first where it is, then where that was instantiated or included from."""

    text: str
    places: tuple[tuple[str, int], ...]
    excerpt: str = ""

    @property
    def missing_file(self) -> str | None:
        """The header that could not be opened, if that is it."""
        match = _NO_FILE.match(self.text)
        return next(filter(None, match.groups())) if match else None

    def as_error(self) -> CompileError:
        """With the innermost of its places that is the user's."""
        own = next((each for each in self.places if not _SYSTEM.match(each[0])), self.places[0])
        return CompileError(self.text, *own)


def complaints(log: str) -> Iterator[Complaint]:
    """The errors of a log, in its order."""
    rows = log.splitlines()
    included: list[tuple[str, int]] = []
    for index, row in enumerate(rows):
        if source := _FROM.match(row):
            included.append((source[1], int(source[2])))
            continue
        error = _ERROR.match(row)
        if error:
            places = [(error["file"], int(error["line"] or error["row"])), *included]
            for below in rows[index + 1 :]:
                if not below.strip() or _ERROR.match(below):
                    break
                if frame := _FRAME.search(below):
                    places.append((frame[2] or places[-1][0], int(frame[1])))
            yield Complaint(error["text"], tuple(places), "\n".join(rows[index + 1 : index + 2]))
        included = []


def first_complaint(log: str, path: str, tool: str) -> CompileError:
    """The first error of a log; without a place in the source the first row that speaks of one, in the tool's words."""
    for each in complaints(log):
        return each.as_error()
    rows = [row for row in log.splitlines() if re.search(r"error|fatal", row)] or log.split("\n")
    return CompileError(rows[0].strip() or f"{tool} failed without a message", path)
