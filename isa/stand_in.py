"""CUDA C++ with host code, where no host compiler reads it: NVRTC gets the code for the GPU and what that needs.

NVRTC takes neither host functions nor the host's headers. Functions that are not marked for the GPU are left out, and
of the other declarations (types with members of `std`, host variables) those that it complains of; the more they lose,
the fewer complaints are left, and one of code for the GPU is the user's. Headers in angle
brackets that are nowhere are stood in for by what kernels use of them: fixed-width integers, limits, constants,
`std::min` and the like. One in quotes is the user's own, and its absence a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from isa.compilers import compile_device_code
from isa.host_code import HostPart, HostSource, marking_macros, template_uses
from isa.toolchain import INSTANCES, Complaint, complaints, include_folders

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
        """The rest of a file, with its own headers by their paths."""
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


COMMON = "gpusim_stand_in.h"
"""Included before everything, as nvcc includes CUDA's runtime header."""

_C = ("assert", "float", "limits", "math", "stdbool", "stddef", "stdint", "stdio", "stdlib", "string", "time")
C_HEADERS = tuple(f"{each}.h" for each in _C)
# Names that CUDA or the text below declares globally and C++ headers in `std` too.
_IN_STD = """
    size_t ptrdiff_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t intptr_t uintptr_t
    abs fabs sqrt cbrt pow exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh
    asinh acosh atanh erf erfc tgamma lgamma floor ceil round trunc rint nearbyint fmod fma fmin fmax fdim hypot
    copysign ldexp frexp modf isnan isinf isfinite signbit memcpy memset printf malloc free
"""
# The constants as in the C library.
_COMMON_TEXT = """
#include <cuda_runtime.h>
#include <cuda_device_runtime_api.h>
#include <cuda/std/climits>
#include <cuda/std/cfloat>
#include <cuda/std/cstdint>
typedef unsigned int uint; typedef unsigned short ushort; typedef unsigned long ulong;
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#define INFINITY __builtin_bit_cast(float, 0x7f800000)
#define HUGE_VALF INFINITY
#define HUGE_VAL ((double)INFINITY)
#define NAN __builtin_bit_cast(float, 0x7fc00000)
#ifndef _WIN32
#define __linux__ 1
#endif
#define RAND_MAX 2147483647
#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
namespace std {
using nullptr_t = decltype(nullptr);
template <class T> constexpr __device__ const T& min(const T& a, const T& b) { return b < a ? b : a; }
template <class T> constexpr __device__ const T& max(const T& a, const T& b) { return a < b ? b : a; }
template <class T> constexpr __device__ void swap(T& a, T& b) {
  T c = static_cast<T&&>(a); a = static_cast<T&&>(b); b = static_cast<T&&>(c);
}
}
"""
# What CUDA has of the C++ library and of CUB, for functions on the GPU. It takes the compiler seconds.
_LIBRARY = ("array", "complex", "functional", "initializer_list", "limits", "numeric", "tuple", "utility")
_CUB_BLOCKS = ("reduce", "scan", "load", "store", "exchange", "radix_sort", "discontinuity", "histogram")
_CUB = (*(f"block/block_{each}" for each in _CUB_BLOCKS), "warp/warp_reduce", "warp/warp_scan")


def stand_in(name: str, rich: bool = False) -> str:
    """The text for a header of this name; rich: with what takes long to compile."""
    if name == COMMON:
        names = "".join(f"using ::{each};\n" for each in _IN_STD.split())
        library = "".join(f"#include <cuda/std/{each}>\n" for each in _LIBRARY if rich)
        return f"{_COMMON_TEXT}{library}namespace std {{\n{names}{'using namespace cuda::std;' if rich else ''}\n}}\n"
    if name == "cub/cub.cuh" and rich:
        return "".join(f"#include <cub/{each}.cuh>\n" for each in _CUB)
    space = name.partition("/")[0] if name.startswith(("thrust/", "cub/")) else "std"
    return f"namespace {space} {{}}\n"


def in_toolkit(name: str) -> bool:
    """True for a header of CUDA's that NVRTC can read."""
    if name.startswith("thrust/") or name == "cub/cub.cuh":
        return False
    return any(Path(each, name).is_file() for each in include_folders())


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


def includes(text: str) -> Iterator[re.Match[str]]:
    """The `#include` lines; groups quote ('<' or '"') and name, or macro where a macro names the file."""
    return _INCLUDE.finditer(text)


def spelling(include: re.Match[str]) -> str:
    """'"name"' or '<name>' of an include."""
    return include["quote"] + include["name"] + (">" if include["quote"] == "<" else '"') if include["name"] else ""


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
        for match in includes(found.texts[str(file)]):
            by_macro |= match["macro"] is not None
            if (name := match["name"]) is None:
                continue
            near = [file.parent] if match["quote"] == '"' else []
            header = next((each for folder in (*near, *searched) if (each := folder / name).is_file()), None)
            links[spelling(match)] = str(header.resolve()) if header else None
            if header and str(header.resolve()) not in found.texts:
                todo.append(header.resolve())
                found.texts[str(todo[-1])] = todo[-1].read_text(encoding="utf-8", errors="replace")
    return OwnFiles(found.texts, found.links, by_macro)
