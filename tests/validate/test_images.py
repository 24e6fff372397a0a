"""Program images against what the tool chain makes of the sources today."""

from __future__ import annotations

import ast

import pytest

from gpusim.launch.program import program_of
from programs import images, registry
from validate.images import tools

ENTRIES = images.index()["images"]
ROOT = images.FOLDER.parents[1]


def module(entry):
    return ROOT.joinpath(*entry["kernel"].split(".")[:-1]).with_suffix(".py")


LAST = {module(entry): entry["file"] for entry in ENTRIES}


def made_of(text, name):
    """What a kernel's machine code and its lines are made of in its file: its function, and the functions and constants
    there that it names, directly or not. Empty if there is no such function."""
    top = {}
    for node in ast.parse(text).body:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [node])
        for target in targets:
            for each in ast.walk(target) if isinstance(node, ast.Assign | ast.AnnAssign) else targets:
                if found := getattr(each, "id", getattr(each, "name", None)):
                    top[found] = node
    reached, left = {}, [name]
    while left:
        each = left.pop()
        if each in top and each not in reached:
            # Where a function stands is in the lines of the program, where a constant does is not.
            reached[each] = ast.dump(top[each], include_attributes=isinstance(top[each], ast.FunctionDef))
            left += [node.id for node in ast.walk(top[each]) if isinstance(node, ast.Name)]
    return reached if name in top else {}


def compiled_again(entry):
    """The last kernel of each file, all of one that takes instructions from `programs.ptx`, all of CUDA C++, and
    whatever is made of something else than what its image holds."""
    file, text = module(entry), module(entry).read_text("utf-8")
    if entry["file"] == LAST[file] or "import ptx" in text:
        return True
    source = images.image(entry["variants"][0]).source
    held, name = "\n".join(source.get(file.relative_to(ROOT).as_posix(), ())), entry["kernel"].split(".")[-1]
    return not made_of(held, name) == made_of(text, name) != {}


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
    assert sorted(named) == sorted(registry.names())
    files = {path.relative_to(images.FOLDER).as_posix() for path in images.FOLDER.rglob("*.gpuprog")}
    assert files == {entry["file"] for entry in ENTRIES}


@pytest.mark.parametrize("entry", list(filter(compiled_again, ENTRIES)), ids=lambda entry: entry["file"])
def test_an_image_is_what_its_source_compiles_to(entry, toolchain):
    recorded, present = images.index()["tools"], tools()
    if recorded != present:
        pytest.skip(f"the images were compiled with {recorded}, here are {present}")
    variant = registry.get(entry["variants"][0])
    compiled = program_of(variant.make(variant.test_size, 0), images.index()["arch"])
    image = images.image(variant.name)
    assert compiled.code_sha256 == image.code_sha256 == entry["code_sha256"]
    assert [each.line for each in compiled.instructions] == [each.line for each in image.instructions]
