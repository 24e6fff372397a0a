"""The list of programs, and which of them judge.

`programs.toml` has them by collection and name, with their arguments. Whether one is train or judge follows from its
name alone, so that nobody has chosen it.
"""

from __future__ import annotations

import hashlib
import shlex
import tomllib
from pathlib import Path

LIST = Path(__file__).with_name("programs.toml")
JUDGE_SHARE = 0.45


def split(name: str) -> str:
    """'train' or 'judge', by the digest of a program's name: 'adam' of 'hecbench/adam'."""
    digest = hashlib.sha256(name.rpartition("/")[2].encode()).digest()
    return "judge" if int.from_bytes(digest[:4], "big") < JUDGE_SHARE * 2**32 else "train"


def read() -> dict[str, tuple[str, ...]]:
    """Arguments of all programs by name ('hecbench/adam'), in the order of the list."""
    return {
        f"{collection}/{key}": tuple(shlex.split(entry if isinstance(entry, str) else entry.get("arguments", "")))
        for collection, programs in tomllib.loads(LIST.read_text("utf-8")).items()
        for key, entry in programs.items()
    }
