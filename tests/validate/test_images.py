"""Program images against what the tool chain makes of the sources today."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from gpusim.launch.arguments import program_of
from programs import images, registry
from validate.images import tools

ENTRIES = images.index()["images"]
ROOT = images.FOLDER.parents[1]


def module(entry):
    return ROOT.joinpath(*entry["kernel"].split(".")[:-1]).with_suffix(".py")


@cache
def definitions(text):
    """What a file binds at its top, by name. A docstring is in no machine code."""
    top = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
            del node.body[0]
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [node])
        for target in targets:
            for each in ast.walk(target) if isinstance(node, ast.Assign | ast.AnnAssign) else targets:
                if found := getattr(each, "id", getattr(each, "name", None)):
                    top[found] = node
    return top


@cache
def made_of(text, name):
    """What a kernel's machine code and its lines are made of in its file: its function, and the functions and constants
    there that it names, directly or not. Empty if there is no such function."""
    top = definitions(text)
    reached, left = {}, [name]
    while left:
        each = left.pop()
        if each in top and each not in reached:
            # Where a function stands is in the lines of the program, where a constant does is not.
            reached[each] = ast.dump(top[each], include_attributes=isinstance(top[each], ast.FunctionDef))
            left += [node.id for node in ast.walk(top[each]) if isinstance(node, ast.Name)]
    return reached if name in top else {}


def is_changed(entry):
    """Whether a kernel is made of something else than what its image holds: of the file that it stands in what it
    names there, of others every line."""
    own, name = module(entry).relative_to(ROOT).as_posix(), entry["kernel"].split(".")[-1]
    held = images.image(entry["variants"][0]).source
    for file, lines in held.items():
        text = (ROOT / file).read_text("utf-8")
        same = made_of("\n".join(lines), name) == made_of(text, name) if file == own else text.splitlines() == lines
        if not same:
            return True
    return not held or (own in held and not made_of(module(entry).read_text("utf-8"), name))


def instructions(entry):
    """Instructions of `programs.ptx` that a kernel takes, of which no image tells."""
    made = made_of(module(entry).read_text("utf-8"), entry["kernel"].split(".")[-1])
    return set(re.findall(r"id='ptx'.*?attr='(\w+)'", " ".join(made.values())))


def compiled_again():
    """Kernels of another source than their images', and every sixtieth and small ones that have each instruction of
    `programs.ptx`: the compilation of what has not changed takes seconds for some."""
    by_size = sorted(ENTRIES, key=lambda entry: (images.FOLDER / entry["file"]).stat().st_size)
    chosen, met = [entry for entry in ENTRIES if is_changed(entry)], set()
    for place, entry in enumerate(by_size):
        taken = instructions(entry)
        if entry not in chosen and (not taken <= met or place % 60 == 0):
            chosen.append(entry)
            met |= taken
    for entry in reversed(chosen):
        others = set().union(*(instructions(each) for each in chosen if each is not entry))
        if not is_changed(entry) and set() < instructions(entry) <= others:
            chosen = [each for each in chosen if each is not entry]
    return chosen


def test_what_a_kernel_is_made_of():
    text = "N = 2\nM = 3\ndef f(x):\n    return x * N\ndef k(x):\n    x[0] = f(x)\ndef other(x):\n    x[0] = M\n"
    found = made_of(text, "k")
    assert found.keys() == {"k", "f", "N"}
    assert made_of(text.replace("M = 3", "M = 4"), "k") == found
    for other in (text.replace("N = 2", "N = 4"), text.replace("x * N", "x + N"), "\n" + text):
        assert made_of(other, "k") != found
    assert made_of(text, "missing") == {}


def test_every_variant_has_one_image_and_every_image_a_variant():
    named = [name for entry in ENTRIES for name in entry["variants"]]
    assert sorted(named) == sorted(name for name in registry.names() if registry.get(name).image)
    files = {path.relative_to(images.FOLDER).as_posix() for path in images.FOLDER.rglob("*.gpuprog")}
    assert files == {entry["file"] for entry in ENTRIES}


@pytest.mark.skipif(tools() != images.index()["tools"], reason="another tool chain than the one that built the images")
def test_images_are_what_their_sources_compile_to(toolchain):
    differing = []
    for entry in compiled_again():
        variant = registry.get(entry["variants"][0])
        compiled = program_of(variant.make(variant.test_size, 0), images.index()["arch"])
        image = images.image(variant.name)
        lines, held = ([each.line for each in one.instructions] for one in (compiled, image))
        if not compiled.code_sha256 == image.code_sha256 == entry["code_sha256"] or lines != held:
            differing.append(entry["file"])
    assert not differing
