"""Rules of the house that no other tool checks: words, links, the lock. Those of its code: `test_rooms.py`.

Each rule is a function from a folder to a list of violations. It must find none in this repository, and find the one
that is planted in a small copy: a rule that cannot fail is no rule.
"""

from __future__ import annotations

import base64
import json
import os
import re
import tomllib
import zlib
from pathlib import Path

import pytest

from tests.house import FOLDERS, ROOT, Rule, files, found_when_planted

TEXT = {".py", ".toml", ".md", ".lock", ".ipynb", ".cu", ".ptx", ".txt", ".cfg", ".json", ".gpuprog", ""}

# By what they are: strings of which a text has one, for it is quickly searched for them, and a pattern.
FORBIDDEN: dict[str, tuple[tuple[str, ...], str]] = {
    "a private or local address": (
        ("http",),
        r"https?://(10\.|127\.|172\.(1[6-9]|2\d|3[01])\.|192\.168\.|localhost|\[?::1)",
    ),
    "a path of one machine": (
        (*(f"/{name}/" for name in ("work", "root", "home", "Users", "tmp", "opt")), "file:", ":\\"),
        r"(?<![\w.$}])/(work|root|home|Users|tmp|opt)/\w|file:///|[A-Z]:\\Users\\",
    ),
    "a work marker": (("TODO", "FIXME", "HACK"), r"\b(TODO|FIXME|HACK)\b"),
    "a conflict marker": (("<" * 7, ">" * 7), r"^(<{7}|>{7})( |$)"),
    "a key": (
        ("PRIVATE KEY", *(f"gh{letter}_" for letter in "pousr"), "AKIA"),
        r"BEGIN [A-Z ]*PRIVATE KEY|\bgh[pousr]_\w{30}|\bAKIA[0-9A-Z]{16}\b",
    ),
}


def forbidden_words(root: Path) -> list[str]:
    """Nothing that only makes sense on one machine or on one day."""
    found = []
    for path in files(root):
        if path.suffix not in TEXT or path.name == "LICENSE":
            continue
        text = text_of(path)
        patterns = {
            what: pattern
            for what, (some, pattern) in FORBIDDEN.items()
            if any(map(text.__contains__, some)) and re.search(pattern, text, re.MULTILINE)
        }
        for number, line in enumerate(text.splitlines() if patterns else (), 1):
            for what, pattern in patterns.items():
                if re.search(pattern, line) and path.resolve() != Path(__file__):
                    found.append(f"{path.relative_to(root)}:{number} has {what}: {line.strip()[:80]}")
    return found


def text_of(path: Path) -> str:
    """A file's text; of a program image its document and the readable parts of its cubin."""
    if path.suffix != ".gpuprog":
        return path.read_text("utf-8", errors="replace")  # among them damaged files for the fuzz tests
    document = zlib.decompress(path.read_bytes().removeprefix(b"GPUPROG\n"))
    return document.decode() + "\n" + base64.b64decode(json.loads(document)["cubin"]).decode("latin-1")


def broken_links(root: Path) -> list[str]:
    """Links of the documentation resolve, headings included, and so do files that it names in `code`."""
    found = []
    for path in files(root):
        if path.suffix != ".md":
            continue
        text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            file = path.parent / name if name else path
            if not file.exists() or (anchor and anchor not in headings(file)):
                found.append(f"{path.relative_to(root)} links to {target}")
        for name in re.findall(rf"`((?:{'|'.join(FOLDERS[:-1])})/[\w./]*)`", text):
            if not (root / name).exists():
                found.append(f"{path.relative_to(root)} names {name}")
    return found


def headings(path: Path) -> set[str]:
    """Anchors of a Markdown file's headings, as code hosts make them."""
    titles = re.findall(r"^#+ +(.*)$", path.read_text("utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def wrong_lock(root: Path) -> list[str]:
    """Everything that pyproject.toml asks for is in the lock, with exact versions and hashes, from no special index."""
    lock = (root / "requirements.lock").read_text("utf-8")
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [re.split(r"[^\w-]", each)[0] for each in [*project["dependencies"], *extras["test"], *extras["build"]]]
    pinned = re.findall(r"^([\w-]+)==\S+.*?\\\n((?:    --hash=sha256:[0-9a-f]{64}.*\n)+)", lock, flags=re.MULTILINE)
    entries = re.findall(r"^\w.*$", lock, flags=re.MULTILINE)
    found = [f"{name} is not in the lock; run make lock" for name in wanted if name not in dict(pinned)]
    found += ["an entry of the lock has no exact version or no hash"] if len(entries) != len(pinned) else []
    return found + [line for line in lock.splitlines() if re.search(r"://|--(extra-)?index|--find-links", line)]


RULES: list[Rule] = [forbidden_words, broken_links, wrong_lock]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule_holds(rule: Rule) -> None:
    assert rule(ROOT) == []


def test_a_release_of_cuda_that_pytorch_pins_has_what_is_asked_of_it() -> None:
    """cuda-toolkit 13.0, as its metadata says; pip leaves an extra out that a package does not have."""
    has = "cccl crt cublas cudart cufft cupti cuxxfilt curand nvcc nvfatbin nvjitlink nvml nvptxcompiler nvrtc nvvm"
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    (extras,) = (
        re.findall(r"\w+", each[len("cuda-toolkit") : each.index("]")]) for each in asked if "toolkit[" in each
    )
    assert extras and set(extras) <= set(has.split())


LOCK = "rich==1.0 \\\n    --hash=sha256:" + "0" * 64 + "\n"
PROJECT = '[project]\ndependencies = ["rich>=1"]\noptional-dependencies = {test = [], build = []}\n'
PLANTED: list[tuple[Rule, str, str]] = [
    (forbidden_words, "docs/bad.md", "see http" + "://10.0.0.1/x"),
    (forbidden_words, "README.md", "cd /wo" + "rk/x"),
    (forbidden_words, "tests/bad.py", "# TO" + "DO: later"),
    (broken_links, "docs/bad.md", "[there](absent.md)"),
    (broken_links, "docs/bad.md", "# Here\n[there](#elsewhere)"),
    (broken_links, "docs/bad.md", "read `gpusim/absent.py`"),
    (wrong_lock, "requirements.lock", LOCK.replace("rich", "poor")),
    (wrong_lock, "requirements.lock", LOCK + "poor==1.0\n"),
    (wrong_lock, "requirements.lock", LOCK + "poor>=1.0 \\\n    --hash=sha256:" + "0" * 64 + "\n"),
    (wrong_lock, "requirements.lock", "--extra-index-url pypi.example\n" + LOCK),
]


@pytest.mark.parametrize(("rule", "name", "text"), PLANTED)
def test_rule_can_fail(tmp_path: Path, rule: Rule, name: str, text: str) -> None:
    sound = {"requirements.lock": LOCK, "pyproject.toml": PROJECT, "docs/good.md": "# Here\n[here](#here) `isa/`\n"}
    sound["isa/one.py"] = ""
    assert len(found_when_planted(tmp_path, rule, sound, name, text)) == 1


@pytest.mark.skipif(os.name != "posix", reason="files have no executable bit here")
def test_ci_script_can_run() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
