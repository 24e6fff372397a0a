"""Program images against what the tool chain makes of the sources today."""

from __future__ import annotations

import pytest

from gpusim.launch.program import program_of
from programs import images, registry
from validate.images import tools

ENTRIES = images.index()["images"]
ROOT = images.FOLDER.parents[1]


def module(entry):
    return ROOT.joinpath(*entry["kernel"].split(".")[:-1]).with_suffix(".py")


def compiled_again(entry):
    """The last kernel of each file, all of one that takes instructions from `programs.ptx`, all of CUDA C++, and
    whatever has another source than the one in its image."""
    file, text = module(entry), module(entry).read_text("utf-8")
    last = [each["file"] for each in ENTRIES if module(each) == file][-1]
    held = images.image(entry["variants"][0]).source.get(file.relative_to(ROOT).as_posix(), ())
    return entry["file"] == last or "import ptx" in text or list(held) != text.splitlines()


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
