"""Declarations of a CUDA C++ file, with those that are for the host alone: enough of the language to leave that out.

A scanner of brackets and semicolons, not a parser: whether a declaration is needed the compiler says (see
`isa.stand_in`), and what is left out is replaced by spaces, so that lines keep their numbers.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

# Comments, literals and directives, in which brackets mean nothing. A directive keeps its '#', a string its quotes.
_OPAQUE = re.compile(
    r"""(?P<comment>//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z))
    |R"(?P<delimiter>[^\s()\\]{0,16})\(.*?\)(?P=delimiter)"
    |"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'
    |^[ \t]*\#(?:\\\r?\n|/\*.*?\*/|[^\n])*""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_MARKS = ("__global__", "__device__", "__constant__", "__shared__", "__managed__")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\([^)\n]*\))?[ \t]+((?:\\\r?\n|[^\n])*)", re.MULTILINE)
_ATTRIBUTES = re.compile(
    r"\b(?:alignas|__align__|__attribute__|__launch_bounds__|__declspec|__cluster_dims__|decltype)\s*(?=\()"
)
_TYPE = re.compile(r"(?:^|[\s>;:{}])(?:struct|class|union|enum)\b")
_PROTOTYPE = re.compile(
    r"(?!\s*(?:typedef|using|static_assert|_Static_assert|template\s+\w)\b)[^={}]*\w\s*\([^={}]*\)\s*;$"
)
_NAMESPACE = re.compile(r'\bnamespace\b[^()=;]*$|\bextern\s*"\s*"\s*$')
_ACCESS = re.compile(r"\s*(?:public|private|protected)\s*:(?!:)")


@dataclass(frozen=True)
class HostPart:
    """A declaration or definition, at namespace scope or a member of a class.

    start, end: where in the text. first, last: its lines, from 1. function: it has a body of statements. member: of a
    class. device: it, or a part of it, is marked as the GPU's. head: what stands before the body, comments left out.
    """

    start: int
    end: int
    first: int
    last: int
    function: bool
    member: bool
    device: bool
    head: str

    @property
    def host(self) -> bool:
        """It is a function, or the declaration of one, that is not marked and could not run at compile time."""
        if self.device or self.member or re.search(r"\bconstexpr\b", self.head):
            return False
        return self.function or bool(_PROTOTYPE.match(self.head))

    @property
    def constant(self) -> re.Match[str] | None:
        """Position of `constexpr`, if it is a function that is not marked."""
        return re.search(r"\bconstexpr\b", self.head) if self.function and not self.device else None

    @property
    def template(self) -> str | None:
        """The name, if it is a kernel's template."""
        if not re.match(r"\s*template\s*<\s*[^>\s]", self.head) or "__global__" not in self.head:
            return None
        named = re.search(r"(\w+)\s*\(", without_attributes(self.head))
        return named[1] if named else None


class HostSource:
    """A text and its parts. left_out: those that are taken away."""

    def __init__(self, text: str, macros: Iterable[str] = ()) -> None:
        """macros: names that stand for a mark such as `__device__`, see `marking_macros`."""
        self.text = text
        self._marks = re.compile(rf"\b(?:{'|'.join((*_MARKS, *map(re.escape, macros)))})\b")
        self.left_out = {part for part in self.parts if part.host}

    @cached_property
    def masked(self) -> str:
        """The text with comments, literals and directives as spaces."""
        return _OPAQUE.sub(_blank, self.text)

    @cached_property
    def parts(self) -> tuple[HostPart, ...]:
        return tuple(self._scan())

    def at(self, line: int) -> list[HostPart]:
        """The parts on a line that are still there, the smallest first."""
        found = [each for each in self.parts if each.first <= line <= each.last and each not in self.left_out]
        return sorted(found, key=lambda each: each.end - each.start)

    def code(self) -> str:
        """The text without what was left out; directives stay, since they may say what comes after. A function that may
        run at compile time is marked for the GPU, whose code may use its value."""
        edits = [(part.start, part.end, self._blank[part.start : part.end]) for part in self.left_out]
        for part in self.parts:
            if part.constant:
                place = part.start + part.constant.start()
                edits.append((place, place, "__device__ "))
        pieces, place = list[str](), 0
        for start, end, text in sorted(edits, key=lambda each: (each[0], -each[1])):
            if start >= place:  # else it lies in what was left out
                pieces += [self.text[place:start], text]
                place = end
        return "".join((*pieces, self.text[place:]))

    @cached_property
    def _blank(self) -> str:
        """The text with all but directives as spaces."""
        pieces, place = list[str](), 0
        for match in _OPAQUE.finditer(self.text):
            if match[0].lstrip(" \t").startswith("#"):
                pieces += [_spaces(self.text[place : match.start()]), match[0]]
                place = match.end()
        return "".join((*pieces, _spaces(self.text[place:])))

    def _scan(self) -> Iterator[HostPart]:
        """Walk over the brackets. Of the branches of a condition the first one counts where they differ in brackets."""
        lines = [match.start() for match in re.finditer("\n", self.text)]
        open_: list[tuple[str, int, int]] = []  # what each bracket opens, where its part begins and where it stands
        start, conditions = 0, []
        for match in re.finditer(r"[(){}\[\];#]", self.masked):
            sign, place = match[0], match.start()
            inside = open_[-1][0] if open_ else "names"
            if sign == "#":
                word = re.match(r"#\s*(\w*)", self.text[place : place + 40])
                name = word[1] if word else ""
                if name.startswith("if"):
                    conditions.append(list(open_))
                elif name.startswith("el") and conditions and len(conditions[-1]) != len(open_):
                    open_ = list(conditions[-1])
                elif name == "endif" and conditions:
                    conditions.pop()
            elif sign in "([":
                open_.append(("bracket", start, place))
            elif sign in ")]":
                if inside == "bracket":
                    open_.pop()
            elif sign == "{":
                kind = _opened(self.masked[start:place]) if inside in ("names", "type") else "value"
                open_.append((kind, start, place))
                start = place + 1 if kind in ("names", "type") else start
            elif sign == "}":
                while open_ and open_[-1][0] == "bracket":
                    open_.pop()
                if not open_:
                    continue
                kind, begin, brace = open_.pop()
                if kind == "body":
                    yield self._part(begin, place + 1, brace, open_, lines)
                start = place + 1 if kind in ("names", "body") else begin
            elif inside in ("names", "type"):
                yield self._part(start, place + 1, None, open_, lines)
                start = place + 1

    def _part(
        self, start: int, end: int, brace: int | None, open_: list[tuple[str, int, int]], lines: list[int]
    ) -> HostPart:
        label = _ACCESS.match(self.masked, start, end)
        start = label.end() if label else start
        first = re.compile(r"[^\s#]").search(self.masked, start, end)
        start = first.start() if first else start
        head = self.masked[start : brace if brace is not None else end]
        device = bool(self._marks.search(head))
        first_line, last_line = (bisect_left(lines, each) + 1 for each in (start, end - 1))
        return HostPart(
            start, end, first_line, last_line, brace is not None, bool(open_ and open_[-1][0] == "type"), device, head
        )


def _opened(head: str) -> str:
    """Scope that a brace opens after this head: 'names' (a namespace), a 'type', a function's 'body' or a 'value'."""
    if _NAMESPACE.search(head):
        return "names"
    plain = without_attributes(without_template(head)).strip()
    first, last = plain.find("("), plain.rfind(")")
    if _TYPE.search(plain) and last < 0 and "=" not in plain:
        return "type"
    assigned = "=" in plain[last:] or ("=" in plain[:first] and "operator" not in plain[:first])
    # A member's initial value: 'A(int n) : size{n} {'.
    initial = re.search(r"\)[^()]*(?<!:):(?!:).*[\w>]$", plain, re.DOTALL)
    return "value" if last < 0 or assigned or initial else "body"


def without_template(head: str) -> str:
    """A head without 'template <...>' before it."""
    while match := re.match(r"\s*template\s*<", head):
        depth, place = 1, match.end()
        while place < len(head) and depth:
            depth += (head[place] == "<") - (head[place] == ">")
            place += 1
        head = head[place:]
    return head


def without_attributes(head: str) -> str:
    """A head without `alignas(16)` and the like, whose brackets are not a function's parameters."""
    while match := _ATTRIBUTES.search(head):
        depth, place = 0, match.end()
        for place in range(match.end(), len(head)):
            depth += (head[place] == "(") - (head[place] == ")")
            if not depth:
                break
        head = head[: match.start()] + head[place + 1 :]
    return head


def _blank(match: re.Match[str]) -> str:
    text, spaces = match[0], _spaces(match[0])
    if text[0] == '"':
        return f'"{spaces[1:-1]}"'
    if text.lstrip(" \t")[:1] != "#":
        return spaces
    place = text.index("#")
    return spaces[:place] + "#" + spaces[place + 1 :]


def _spaces(text: str) -> str:
    return "\n".join(" " * len(row) for row in text.split("\n"))


def marking_macros(texts: Iterable[str]) -> set[str]:
    """Names that `#define` gives to `__device__` and the like, by way of others too."""
    bodies: dict[str, str] = {}
    for text in texts:
        for match in _MACRO.finditer(text):
            bodies[match[1]] = bodies.get(match[1], "") + " " + match[2]
    found: set[str] = set()
    while True:
        marks = {*_MARKS, *found}
        more = {name for name, body in bodies.items() if name not in found and marks & set(re.findall(r"\w+", body))}
        if not more:
            return found
        found |= more


def template_uses(text: str, names: Iterable[str]) -> list[str]:
    """Uses of these templates with their arguments: 'ns::kernel<float, 4>', each once."""
    found: dict[str, None] = {}
    if not (wanted := "|".join(map(re.escape, names))):
        return []
    for match in re.finditer(rf"(?<![\w:])(?:\w+\s*::\s*)*(?:{wanted})\s*<(?!<)", text):
        depth, angles = 0, 1
        for place in range(match.end(), min(len(text), match.end() + 1000)):
            sign = text[place]
            depth += (sign == "(") - (sign == ")")
            if not depth:
                angles += (sign == "<") - (sign == ">")
            if not angles:
                found[" ".join(text[match.start() : place + 1].split())] = None
            if not angles or sign in ";{}":
                break
    return list(found)


def kernel_templates(text: str) -> set[str]:
    """Names of the templates of kernels in a text."""
    return {name for part in HostSource(text).parts if (name := part.template)}
