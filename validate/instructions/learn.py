"""Learn the texts of instructions from nvdisasm, for `isa/encodings/`.

Of each shape of text that code has, one encoding is a sample. Each of its bits is flipped: a bit that changes one
operand belongs to that operand's field, and what it counts is the difference; a bit that makes another shape has to
stay as it is, and the other shape is a sample too. A template whose text is wrong for drawn operands depends on more
than one of them (IMAD with a factor of RZ is IMAD.MOV), so those with a special value in the sample stay as well. What
is drawn and wrong is a sample of the next round; a template that is right where another one is wrong goes before it.
In the end what is still wrong goes.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gpusim.cli.parser import EXIT_OK
from isa.cubin import read_cubin
from isa.instruction import INSTRUCTION_BYTES
from isa.listing import disassemble, read_sections
from isa.templates import GUARD, SHOWN, UNKNOWN, Field, Template, file_of, float_text, read_template
from isa.toolchain import find_tool

_BITS = tuple(bit for bit in range(16, 126) if SHOWN >> bit & 1)
_ALWAYS = 7 << 12
_BATCH = 400
_DRAWN, _LAST_ROUNDS = 8, 8
_MISSED, _WRONG = 60, 10  # samples of a round for each opcode, of seeds and of what was drawn
_JUMP = re.compile(r"\b(BRA|BSSY|CALL\.REL|RET\.REL|WARPSYNC\.COLLECTIVE|LEPC)\b.* (-?0x[0-9a-f]+)$")
_TABLE = re.compile(r"BRX|JMX")  # nvdisasm lists their targets
_GUARDED = re.compile(r"@!?(U?P)\w ")
_OPERAND = re.compile(
    r"(?P<L>=>-?0x[0-9a-f]+)|(?P<X>-?0x[0-9a-f]+)"
    r"|(?P<sign>[-~!]?)(?P<bar>\|?)(?<![\w.])(?P<file>UR|R|UP|P|SB|B)(?P<index>\d+|[ZT])(?![\w@])\|?(?P<reuse>(?:\.reuse)?)"
    r"|(?P<F>(?<![\w.+])(?:-0\.0 ?|[+-]?(?:\d+(?:\.\d*)?(?:e[+-]?\d+)?|INF ?|[QS]?NAN ?)))(?![\w.\]])"
)
_PLACE = re.compile(r"\{[^}]* \d+\+[^}]*\}")
_BAD = re.compile(r"at address (0x[0-9a-f]+)")
_LINE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s+/\* 0x")
NOP = 0x7918 | 7 << 12
_FLOATS = (("F", 32, 32), ("D", 32, 32), ("H", 32, 16), ("H", 48, 16))


def field(bits: int, at: int, width: int, value: int) -> int:
    """`bits` with one field replaced."""
    mask = (1 << width) - 1
    return bits & ~(mask << at) | (value & mask) << at


def texts(encodings: Iterable[int], architecture: str = "SM90") -> list[str | None]:
    """Text of each encoding, None where nvdisasm refuses it. Raises ToolchainMissing if there is no nvdisasm."""
    words = list(encodings)
    refused: set[int] = set()
    while True:
        listing, complaints = _disassemble(words, architecture)
        found = {int(address, 16) // INSTRUCTION_BYTES for address in _BAD.findall(complaints)} - refused
        if not found and not listing and len(words) > 1:  # it does not say where
            parts = words[: len(words) // 2], words[len(words) // 2 :]
            each_text = (text for part in parts for text in texts(part, architecture))
            found = {k for k, text in enumerate(each_text) if text is None}
        if not found:
            break
        refused |= found
        for k in found:
            words[k] = NOP
    result: list[str | None] = [None] * len(words)
    for match in _LINE.finditer(listing):
        k = int(match[1], 16) // INSTRUCTION_BYTES
        if k not in refused:
            result[k] = " ".join(match[2].split())
    return result


def _disassemble(words: list[int], architecture: str) -> tuple[str, str]:
    with tempfile.TemporaryDirectory(prefix="gpusim-") as folder:
        path = Path(folder, "code.bin")
        path.write_bytes(b"".join(word.to_bytes(INSTRUCTION_BYTES, "little") for word in words))
        done = subprocess.run(
            [find_tool("nvdisasm"), "-b", architecture, "-hex", str(path)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    return done.stdout, done.stderr


@dataclass(frozen=True)
class _Operand:
    kind: str
    value: int
    text: str
    sign: str = ""
    bar: str = ""
    reuse: str = ""


@dataclass(frozen=True)
class _Row:
    """A template and an encoding that has it."""

    text: str
    example: int

    @cached_property
    def template(self) -> Template:
        return read_template(self.text, self.example)

    @property
    def unknown(self) -> bool:
        return self.template.parts[0] == UNKNOWN

    @property
    def fields(self) -> list[Field]:
        return [part for part in self.template.parts if isinstance(part, Field)]

    def fits(self, encoding: int) -> bool:
        return encoding & self.template.mask == self.template.fixed

    def drawn(self, draw: random.Random, number: int) -> Iterator[int]:
        """The example with other operands: some special, and each power of two of a number, with registers that are."""
        powers = [32 * (each.kind == "X" and each.runs[0][1] > 16) for each in self.fields]
        for turn in range(number + max(powers, default=0)):
            yield self._drawn(draw, 0.9 if turn >= number else 0.4, turn - number)

    def _drawn(self, draw: random.Random, part: float, power: int) -> int:
        encoding = self.example
        for each in self.fields:
            for first, width, *_ in each.runs:
                most = (1 << width) - 1
                special = draw.choice((0, most, most, 1 << draw.randrange(width)))
                value = special if draw.random() < part else draw.getrandbits(width)
                if power >= 0 and width > 16:
                    value = 1 << power % width
                encoding = encoding & ~(most << first) | value << first
            for _, bit in each.flags:
                encoding ^= (draw.random() < 0.4) << bit
        return encoding

    def kept(self, which: Sequence[int], urz: int) -> _Row:
        """The template with some of its fields as the example has them."""
        values = iter([each.text(self.example, urz) if k in which else "" for k, each in enumerate(self.fields)])
        return _Row(_PLACE.sub(lambda place: next(values) or place[0], self.text), self.example)

    def special(self) -> list[int]:
        """Fields that have a special value in the example: all bits, one or none."""
        runs = ([(self.example >> at & (1 << width) - 1, width) for at, width, *_ in each.runs] for each in self.fields)
        return [k for k, each in enumerate(runs) if any(not v & (v - 1) or v == (1 << w) - 1 for v, w in each)]

    def apart(self, encoding: int) -> _Row | None:
        """A template without a text for the special operands of an encoding; None if it has none."""
        other = _Row(self.text, encoding)
        special, places = other.special(), _PLACE.findall(self.text)
        free = "".join(place for k, place in enumerate(places) if k not in special)
        return _Row(f"{self.text.partition(' ')[0]} {UNKNOWN}{free}", encoding) if special else None


class Learner:
    """Learns the templates of one architecture, such as 'sm_90', from encodings of its code."""

    def __init__(self, arch: str, seeds: Iterable[int], known: Iterable[_Row] = ()) -> None:
        self.arch, self.urz = arch, 255 if int(arch[3:]) >= 100 else 63
        self._draw = random.Random(arch)
        self.rows: dict[int, list[_Row]] = defaultdict(list)
        for row in known:
            self.rows[row.example & 0xFFF].append(row)
        examples = (row.example for rows in self.rows.values() for row in rows)
        self.seeds = list({each & SHOWN: each for each in (*seeds, *examples)}.values())
        self._texts = dict(zip(self.seeds, self._listed(self.seeds), strict=True))
        self._shapes: set[tuple[int, str]] = set()
        self._kept: set[tuple[int, int]] = set()

    def learn(self, rounds: int) -> Iterator[str]:
        """Learn in rounds; yields a line about each."""
        samples = [each for each, text in self._texts.items() if text and self._new_shape(each, text)]
        for number in range(rounds):
            others = [each for at in range(0, len(samples), _BATCH) for each in self._round(samples[at : at + _BATCH])]
            wrong = self._ordered()
            missed = [each for each, text in self._texts.items() if text and self._text(each) != text]
            yield (
                f"{self.arch} round {number}: {sum(map(len, self.rows.values())):,} templates, "
                f"{len(wrong):,} drawn are wrong, {len(missed):,} of {len(self.seeds):,} seeds are not known"
            )
            samples = others if number == 0 else []
            for found, most in ((missed, _MISSED), (wrong, _WRONG)):
                by_opcode = defaultdict(list)
                for each in found:
                    by_opcode[each & 0xFFF].append(each)
                samples += [each for group in by_opcode.values() for each in group[:most]]
            if not wrong and not missed:
                break
        for _ in range(_LAST_ROUNDS):
            wrong = self._ordered()
            wrong += [each for each, text in self._texts.items() if self._text(each) not in (None, text)]
            for word, text in zip(wrong, self._listed(wrong), strict=True):
                rows = self.rows[word & 0xFFF]
                if self._text(word) not in (None, text):
                    at = next(k for k, row in enumerate(rows) if row.fits(word))
                    apart = rows[at].apart(word)
                    rows[at : at + (apart is None)] = [apart] if apart else []
            yield f"{self.arch}: {len(wrong):,} drawn are wrong, and told apart or forgotten"
            if not wrong:
                break

    def _listed(self, encodings: Sequence[int]) -> list[str | None]:
        """Texts; a jump's target reads `=>` and its distance from the next instruction."""
        listed = texts(encodings, self.arch.upper().replace("_", ""))
        for k, text in enumerate(listed):
            if text and (jump := _JUMP.search(text)):
                distance = int(jump[2], 16) - INSTRUCTION_BYTES * (k + 1)
                listed[k] = f"{text[: jump.start(2)]}=>{'-' * (distance < 0)}0x{abs(distance):x}"
        return listed

    def _new_shape(self, encoding: int, text: str) -> bool:
        shape = encoding & 0xFFF, _OPERAND.sub("#", _GUARDED.sub("", text, count=1))
        if shape in self._shapes or _TABLE.match(shape[1]):
            return False
        self._shapes.add(shape)
        return True

    def _text(self, encoding: int) -> str | None:
        row = next((row for row in self.rows[encoding & 0xFFF] if row.fits(encoding)), None)
        return None if row is None else row.template.text(encoding, self.urz)

    def _round(self, samples: Sequence[int]) -> list[int]:
        """Learn from samples; returns encodings one bit away that have new shapes."""
        words, others, rows = [], [], []
        plain = [each & ~GUARD | _ALWAYS for each in samples]
        # Five cycles, no scoreboard. A warp that may give way keeps no operand, and then the bits of reuse are refused.
        staying = [field(each, 105, 21, 5 | 1 << 4 | 7 << 5 | 7 << 8) for each in plain]
        for each, other, text in zip(plain, staying, self._listed(staying), strict=True):
            word = each if text is None else other
            words += [word, word & ~GUARD, *(word ^ 1 << bit for bit in _BITS)]
        listed, step = self._listed(words), 2 + len(_BITS)
        for at in range(0, len(words), step):
            base, guarded, *flipped = listed[at : at + step]
            if base is None or _TABLE.match(base):
                continue
            guard = _GUARDED.match(guarded or "")
            row, further = self._row(words[at], base, flipped)
            row = _Row(f"{guard[1] if guard else ''} {row}", words[at])
            others += [bits for bits, text in further if self._new_shape(bits, text)]
            if row.template.text(words[at], self.urz) == base:
                rows.append(row)
        self._add(self._settled(rows))
        return others

    def _add(self, rows: Iterable[_Row]) -> None:
        """Add templates, those with fewer operands first."""
        for row in rows:
            key, others = (row.template.mask, row.template.fixed), self.rows[row.example & 0xFFF]
            if key not in self._kept:
                self._kept.add(key)
                bits = row.template.mask.bit_count()
                behind = (k for k, each in enumerate(others) if each.template.mask.bit_count() < bits)
                others.insert(next(behind, len(others)), row)

    def _operands(self, text: str) -> tuple[list[str], list[_Operand]]:
        """The text between operands, and operands."""
        between, found, at = [], [], 0
        for match in _OPERAND.finditer(text):
            between.append(text[at : match.start()])
            at = match.end()
            if file := match["file"]:
                last = {"R": 255, "UR": self.urz}.get(file, 7)
                value = int(match["index"]) if match["index"].isdigit() else last
                found.append(_Operand(file, value, match[0], match["sign"], match["bar"], match["reuse"]))
            else:
                kind = match.lastgroup or ""
                value = 0 if kind == "F" else int(match[0].removeprefix("=>"), 16)
                found.append(_Operand(kind, value, match[0]))
        return [*between, text[at:]], found

    def _row(self, word: int, base: str, flipped: Sequence[str | None]) -> tuple[str, list[tuple[int, str]]]:
        """The text of a template, and what has another shape, from a text and those with each bit flipped."""
        between, operands = self._operands(base)
        counts: list[dict[int, int]] = [{} for _ in operands]
        flags: list[dict[int, str]] = [{} for _ in operands]
        floats: list[set[int]] = [set() for _ in operands]
        further = []
        for bit, text in zip(_BITS, flipped, strict=True):
            if text is None or text == base:
                continue
            others_between, others = self._operands(text)
            if others_between != between or [each.kind for each in others] != [each.kind for each in operands]:
                further.append((word ^ 1 << bit, text))
                continue
            changed = [k for k, pair in enumerate(zip(operands, others, strict=True)) if pair[0] != pair[1]]
            if len(changed) != 1:
                continue
            k = changed[0]
            clear, is_set = (others[k], operands[k]) if word >> bit & 1 else (operands[k], others[k])
            if clear.kind == "F":
                floats[k].add(bit)
            elif (clear.sign, clear.bar, clear.reuse) == (is_set.sign, is_set.bar, is_set.reuse):
                counts[k][bit] = is_set.value - clear.value
            elif clear.value == is_set.value:
                signs = (clear.bar, is_set.bar, "|"), (clear.reuse, is_set.reuse, "r"), (clear.sign, is_set.sign, "")
                for before, after, flag in signs:
                    if after and not before:
                        flags[k][bit] = flag or after
        parts = [between[0]]
        for k, operand in enumerate(operands):
            parts += _place(operand, counts[k], flags[k], floats[k], word), between[k + 1]
        return "".join(parts), further

    def _wrong(self, rows: Sequence[_Row], number: int) -> list[list[int]]:
        """For each template, drawn encodings of which its text is wrong, alone or because another one comes first."""
        drawn = [[*row.drawn(self._draw, number)] for row in rows]
        listed = iter(self._listed([word for words in drawn for word in words]))
        return [
            [word for word in words if next(listed) not in (None, row.template.text(word, self.urz))]
            for row, words in zip(rows, drawn, strict=True)
        ]

    def _settled(self, rows: Sequence[_Row]) -> Iterator[_Row]:
        """The templates, those that are wrong for some operands with special operands as the sample has them."""
        tried = []
        for row, drawn in zip(rows, self._wrong(rows, 2 * _DRAWN), strict=True):
            special = row.special() if drawn else []
            choices = [[k] for k in special] + ([special] if len(special) > 1 else [])
            tried.append((row, [row.kept(each, self.urz) for each in choices]))
        wrong = iter(self._wrong([each for _, others in tried for each in others], 2 * _DRAWN))
        for row, others in tried:
            yield from [each for each in others if not next(wrong)] or [row]

    def _ordered(self) -> list[int]:
        """Put templates that are right before others that are wrong; returns what is wrong."""
        wrong: list[int] = []
        for _ in range(5):
            known = [row for rows in self.rows.values() for row in rows]
            drawn = [*wrong, *(word for row in known for word in row.drawn(self._draw, _DRAWN))]
            wrong, moved = [], 0
            for word, text in zip(drawn, self._listed(drawn), strict=True):
                rows = self.rows[word & 0xFFF]
                fitting = [k for k, row in enumerate(rows) if row.fits(word)]
                right = [k for k in fitting if rows[k].template.text(word, self.urz) == text]
                if text is None or not fitting or right[:1] == fitting[:1] or rows[fitting[0]].unknown:
                    continue
                wrong.append(word)
                if right:
                    rows.insert(fitting[0], rows.pop(right[0]))
                    moved += 1
            if not moved:
                break
        return wrong


def _place(operand: _Operand, counts: dict[int, int], flags: dict[int, str], floats: set[int], word: int) -> str:
    """The field of an operand, or its text where its bits are not understood."""
    for kind, first, width in _FLOATS if operand.kind == "F" else ():
        value = word >> first & (1 << width) - 1
        if floats <= set(range(first, first + width)) and float_text(kind, value).rstrip() == operand.text.rstrip():
            return f"{{{kind} {first}+{width}}}"
    total = sum(count for bit, count in counts.items() if word >> bit & 1)
    runs: list[list[int]] = []
    for bit, count in sorted(counts.items(), key=lambda each: abs(each[1])):
        shift = abs(count).bit_length() - 1
        if abs(count) != 1 << shift:
            return operand.text
        first, width, lowest, signed = runs[-1] if runs else (0, 0, 0, 1)
        if not signed and (bit, shift) == (first + width, lowest + width):
            runs[-1] = [first, width + 1, lowest, count < 0]
        else:
            runs.append([bit, 1, shift, count < 0])
    if not runs or total != operand.value:
        return operand.text
    text = ",".join(f"{at}+{width}{f'<{low}' if low else ''}{'-' * sign}" for at, width, low, sign in runs)
    order = sorted(flags, key=lambda bit: ("|r".find(flags[bit]) % 3, bit))
    return f"{{{operand.kind} {text}{''.join(f' {flags[bit]}{bit}' for bit in order)}}}"


def command(args: argparse.Namespace) -> int:
    """Learn from the code of cubins and from the templates that there are, and write those of their architectures."""
    seeds = defaultdict(list)
    for path in args.cubins:
        content = Path(path).read_bytes()
        sections = read_sections(disassemble(content)).values()
        seeds[read_cubin(content, str(path)).arch] += [line[2] for section in sections for line in section.lines]
    for arch, encodings in seeds.items():
        known = json.loads(lzma.decompress(file_of(arch).read_bytes()))["rows"] if file_of(arch).exists() else {}
        rows = (_Row(text, int(word, 16)) for each in known.values() for text, word in each)
        learner = Learner(arch, encodings, rows)
        for line in learner.learn(args.rounds):
            print(line)
        found = {f"{opcode:x}": [(row.text, f"{row.example:x}") for row in learner.rows[opcode]]
                 for opcode in sorted(learner.rows)}  # fmt: skip
        content = json.dumps({"urz": learner.urz, "rows": found}, separators=(",", ":"))
        file_of(arch).write_bytes(lzma.compress(content.encode(), preset=9))
    return EXIT_OK
