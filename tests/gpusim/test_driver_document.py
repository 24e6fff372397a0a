"""The list of functions in the documentation is what the code says."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from docs.site.refused import BEGIN, END, listing
from gpusim.driver.exports import LIBRARIES, REASONS, reason
from gpusim.driver.registry import ENTRY_POINTS

TEXT = (Path(__file__).parents[2] / "docs" / "driver.md").read_text(encoding="utf-8")


def test_the_document_is_up_to_date():
    assert TEXT.split(BEGIN)[1].split(END)[0].strip() == listing(), "run: python -m docs.site.refused"


def test_whatever_is_declared_is_exported():
    exported = {symbol for library in LIBRARIES.values() for symbol in library.symbols}
    assert {name.partition("@")[0] for name in ENTRY_POINTS} <= exported


def test_every_reason_is_needed_and_every_refusal_has_one():
    refused = {
        symbol for library in LIBRARIES.values() for symbol in library.symbols if library.declared(symbol) is None
    }
    assert {reason(symbol) for symbol in refused} == {why for why, _ in REASONS}
    with pytest.raises(KeyError):
        reason("cuNothing")


def test_variants_are_what_they_are_variants_of():
    library = LIBRARIES["libcuda.so.1"]
    for symbol in library.symbols:
        base = re.sub(r"_pt(ds|sz)$", "", symbol)
        found, own = library.declared(base), base != symbol
        assert library.declared(symbol) == (replace(found, per_thread=own) if found else None)
