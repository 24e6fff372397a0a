"""Facts that follow from an unchanging object, worked out once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any, TypeVar

_Fact = TypeVar("_Fact")


class Once:
    """An object that remembers what others have worked out of it, as long as it lives; copies and pickles do not."""

    @cached_property
    def _facts(self) -> dict[Hashable, Any]:
        return {}

    def once(self, what: Hashable, work_out: Callable[[], _Fact]) -> _Fact:
        """The fact of this name, worked out when it is first asked for."""
        if what not in self._facts:
            self._facts[what] = work_out()
        found: _Fact = self._facts[what]
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_facts"}
