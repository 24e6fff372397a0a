"""How an input is damaged: single bits, lost and repeated pieces, absurd numbers in a format's fields, other words."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Sequence
from typing import Any

ABSURD = (0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 255, 256, 4095, 65535, 65536, 1 << 31, (1 << 31) - 1,
          (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)  # fmt: skip
_TOKEN = re.compile(r"0x[0-9a-f]+|\d+|[A-Za-z_]+|\s+|.", re.DOTALL)


def mutate_bytes(rng: random.Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """A few random changes anywhere."""
    work = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        if not work:
            return bytes(rng.randbytes(rng.randrange(16)))
        at = rng.randrange(len(work))
        kind = rng.randrange(8)
        if kind == 0:
            work[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            work[at] = rng.randrange(256)
        elif kind == 2:
            del work[at:]
        elif kind == 3:
            del work[at : at + rng.randrange(1, 65)]
        elif kind == 4:
            work[at:at] = work[at : at + rng.randrange(1, 65)]
        elif kind == 5:
            size = rng.choice((1, 2, 4, 8))
            value = rng.choice(ABSURD) & (1 << 8 * size) - 1
            work[at : at + size] = value.to_bytes(size, "little")
        elif kind == 6:
            work[at : at + 16] = rng.randbytes(16)
        elif others:
            other = rng.choice(others)
            start = rng.randrange(max(len(other), 1))
            work[at : at + 64] = other[start : start + 64]
    return bytes(work)


def mutate_elf(rng: random.Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """Changes in the ELF header, in section headers, and in the sections that a reader takes numbers from."""
    if len(data) < 64 or rng.random() < 0.2:
        return mutate_bytes(rng, data, others)
    work = bytearray(data)
    table = struct.unpack_from("<Q", data, 40)[0]
    count = struct.unpack_from("<H", data, 60)[0]
    for _ in range(rng.choice((1, 1, 2, 4))):
        where = rng.randrange(10)
        index = rng.randrange(max(count, 1))
        header = table + 64 * index
        if where == 0:
            offset, size = rng.choice(((4, 1), (5, 1), (8, 1), (18, 2), (40, 8), (48, 4), (58, 2), (60, 2), (62, 2)))
            _put(rng, work, offset, size)
        elif where <= 3:
            offset, size = rng.choice(((0, 4), (4, 4), (8, 8), (24, 8), (32, 8), (40, 4), (44, 4), (48, 8), (56, 8)))
            _put(rng, work, header + offset, size)
        elif header + 64 <= len(data):
            start, size = struct.unpack_from("<QQ", data, header + 24)
            if 0 < size < 1 << 20 and start + size <= len(data):
                _put(rng, work, start + rng.randrange(size), rng.choice((1, 2, 4, 8)))
    return bytes(work)


def _put(rng: random.Random, work: bytearray, at: int, size: int) -> None:
    if not 0 <= at <= len(work) - size:
        return
    old = int.from_bytes(work[at : at + size], "little")
    choice = rng.randrange(4)
    value = (old + rng.randrange(-4, 5), old ^ 1 << rng.randrange(8 * size), rng.choice(ABSURD), rng.getrandbits(64))
    work[at : at + size] = (value[choice] & (1 << 8 * size) - 1).to_bytes(size, "little")


def mutate_text(rng: random.Random, text: str, words: Sequence[str] = ()) -> str:
    """Tokens lost, repeated, exchanged, replaced by other words and numbers; sometimes plain garbage."""
    if rng.random() < 0.1:
        return mutate_bytes(rng, text.encode()).decode("utf-8", "replace")
    tokens = _TOKEN.findall(text)
    for _ in range(rng.choice((1, 1, 2, 4))):
        if not tokens:
            return rng.choice(words) if words else ""
        at = rng.randrange(len(tokens))
        kind = rng.randrange(8)
        if kind == 0:
            del tokens[at]
        elif kind == 1:
            tokens.insert(at, tokens[rng.randrange(len(tokens))])
        elif kind == 2:
            other = rng.randrange(len(tokens))
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif kind == 3 and words:
            tokens[at] = rng.choice(words)
        elif kind == 4:
            tokens[at] = str(rng.choice(ABSURD))
        elif kind == 5:
            tokens[at] = hex(rng.choice(ABSURD))
        elif kind == 6:
            tokens[at] = (tokens[at] * rng.choice((2, 3, 100, 3000)))[:20_000]
        else:
            numbers = [k for k, token in enumerate(tokens) if token.isdigit()]
            if numbers:
                tokens[rng.choice(numbers)] = str(rng.randrange(300))
    return "".join(tokens)[:200_000]


def mutate_tree(rng: random.Random, tree: Any) -> Any:
    """A JSON tree with one place changed: a value of another kind, lost, repeated, or damaged."""
    if isinstance(tree, dict) and tree and rng.random() < 0.9:
        key = rng.choice(list(tree))
        changed = dict(tree)
        if rng.random() < 0.03:
            del changed[key]
        else:
            changed[key] = mutate_tree(rng, tree[key])
        return changed
    if isinstance(tree, list) and tree and rng.random() < 0.9:
        at = rng.randrange(len(tree))
        changed = list(tree)
        kind = rng.random()
        if kind < 0.05:
            del changed[at]
        elif kind < 0.1:
            changed.insert(at, tree[at])
        else:
            changed[at] = mutate_tree(rng, tree[at])
        return changed
    if isinstance(tree, str) and rng.random() < 0.7:
        return mutate_text(rng, tree)
    if isinstance(tree, int) and not isinstance(tree, bool) and rng.random() < 0.7:
        return rng.choice((-1, tree + 1, -tree, *ABSURD, 1 << 70))
    others = (None, True, -1, 0, 1 << 40, 1e300, float("nan"), "", "x", "0x10", [], [[]], {}, {"a": 1}, [1, 2, 3])
    return rng.choice(others)
