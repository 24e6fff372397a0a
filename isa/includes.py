"""The user's headers that a file of CUDA C++ includes, followed without a preprocessor, for keys of the cache."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from isa.toolchain import include_folders

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*(?:(?P<quote>[<\"])(?P<name>[^>\"\n]+)[>\"]|(?P<macro>\S+))", re.M)


@dataclass(frozen=True)
class OwnFiles:
    """A file and its own headers.

    texts: by path, the file itself first. links: by path, the file that each spelling in it ('"name"' or '<name>')
    means, None for one that is not the user's. by_macro: a macro names a further one.
    """

    texts: dict[str, str]
    links: dict[str, dict[str, str | None]]
    by_macro: bool

    def key_parts(self) -> Iterator[str]:
        """All that is known of them without a compiler, for a cache key: of a header that is not the user's, its name
        and which folders of CUDA's have it."""
        for path, text in self.texts.items():
            yield from (path, text)
            for spelled, file in self.links[path].items():
                yield from (spelled, file or repr([Path(each, spelled[1:-1]).is_file() for each in include_folders()]))


def own_files(source: str, path: Path, folders: Sequence[str]) -> OwnFiles:
    """Follow the includes of a text; the conditions that they stand under are not looked at.

    folders: where headers are searched besides the file's own folder, those of the options -I. A folder with CUDA's own
    headers is none of the user's.
    """
    path = path.resolve()
    searched = [path.parent, *(Path(each) for each in folders if not Path(each, "cuda_runtime.h").is_file())]
    found = OwnFiles({str(path): source}, {}, by_macro=False)
    todo, by_macro = [path], False
    while todo:
        file = todo.pop()
        links = found.links[str(file)] = {}
        for match in _INCLUDE.finditer(found.texts[str(file)]):
            by_macro |= match["macro"] is not None
            if (name := match["name"]) is None:
                continue
            near = [file.parent] if match["quote"] == '"' else []
            header = next((each for folder in (*near, *searched) if (each := folder / name).is_file()), None)
            spelled = f'"{name}"' if match["quote"] == '"' else f"<{name}>"
            links[spelled] = str(header.resolve()) if header else None
            if header and str(header.resolve()) not in found.texts:
                todo.append(header.resolve())
                found.texts[str(todo[-1])] = todo[-1].read_text(encoding="utf-8", errors="replace")
    return OwnFiles(found.texts, found.links, by_macro)
