from __future__ import annotations

from pathlib import Path

import pytest

import programs
from programs import registry
from programs.registry import UnknownProgram


def test_every_module_with_variants_is_found() -> None:
    folder = Path(programs.__path__[0])
    defining = {path.stem for path in folder.glob("*.py") if "\nVARIANTS = " in path.read_text()}
    assert set(registry.families()) == defining
    assert {"vector_add", "reduction", "matmul"} <= defining


def test_names_are_unique_and_found() -> None:
    names = registry.names()
    assert len(names) == len(set(names))
    assert [registry.get(name).name for name in names] == names


def test_bare_family_is_the_last_of_its_ladder() -> None:
    assert registry.get("reduction").name == "reduction/shuffle"
    assert registry.get("vector_add").name == "vector_add"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("reductoin", "reduction"),
        ("reduction/sequental", "reduction/sequential"),
        ("vector_add/fast", "vector_add"),
        ("", "there are"),
        ("zzzzzz", r"there are \w+, \w+"),
    ],
)
def test_unknown_name_names_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(UnknownProgram, match=hint) as caught:
        registry.get(name)
    assert isinstance(caught.value, LookupError)
    assert repr(name) in str(caught.value)


def test_names_of_variants_tell_their_family() -> None:
    """So each is addressed by its name: a family of several has no variant that is called as the family is."""
    for family, ladder in registry.families().items():
        alone = [family] if len(ladder) == 1 else []
        assert all(each.name in alone or each.name.startswith(f"{family}/") for each in ladder), family
