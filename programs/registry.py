"""Finds the programs: every module of this package that has a tuple `VARIANTS` is a family.

A family's `VARIANTS` is ordered as a ladder. Its bare name stands for the last one, where the ladder leads:
the fastest version of a computation, or the strongest case of an effect.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Mapping
from functools import cache

import programs
from programs.variant import Variant


class UnknownProgram(LookupError):
    """No program has the name asked for; the message names the nearest ones."""


def names() -> list[str]:
    """All variant names: families in alphabetical order, their variants in the order of the ladder."""
    return [variant.name for ladder in families().values() for variant in ladder]


def recorded() -> list[str]:
    """Names of the variants that have a recording from hardware."""
    return [name for name in names() if get(name).recorded]


@cache
def families() -> Mapping[str, tuple[Variant, ...]]:
    """Each family's variants in the order of its ladder, by family name."""
    return {module: _ladder(module) for module in _modules() if _ladder(module)}


def get(name: str) -> Variant:
    """The variant of that name; a family's bare name gives the last of its ladder. Raises UnknownProgram."""
    family = name.partition("/")[0]
    for variant in reversed(_ladder(family)) if family in _modules() else ():
        if name in (family, variant.name):
            return variant
    raise UnknownProgram(_unknown(name))


def _unknown(name: str) -> str:
    ladders = families()
    family = name.partition("/")[0]
    # With the family right, its own variants help more than names that merely look alike.
    near = [v.name for v in ladders[family]] if family in ladders else []
    near = list(dict.fromkeys(near or difflib.get_close_matches(name, [*ladders, *names()], n=4, cutoff=0.5)))
    hint = f"did you mean {', '.join(near)}?" if near else f"there are {', '.join(ladders)}"
    return f"no program named {name!r}; {hint}"


@cache
def _modules() -> tuple[str, ...]:
    return tuple(sorted(info.name for info in pkgutil.iter_modules(programs.__path__)))


@cache
def _ladder(module: str) -> tuple[Variant, ...]:
    """The variants of a module, which is imported for it and for no other."""
    _load_late("numba.cuda")
    return tuple(getattr(importlib.import_module(f"{programs.__name__}.{module}"), "VARIANTS", ()))


def _load_late(name: str) -> None:
    """Let a module be loaded when something of it is first used. A program only names `numba.cuda`, which takes as long
    to load as all of Numba, until its kernel has to be compiled."""
    if name in sys.modules or (spec := importlib.util.find_spec(name)) is None or spec.loader is None:
        return
    spec.loader = loader = importlib.util.LazyLoader(spec.loader)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    parent, _, child = name.rpartition(".")
    setattr(sys.modules[parent], child, module)
