"""Keeps profiles by content: of the program, the launch, its arguments, and what of the machine they depend on."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

import numpy as np

from gpusim.bound.profile import Effort, Profile, make_profile, needs_of
from gpusim.config import GPUConfig
from gpusim.launch import Launch
from gpusim.launch.program import program_of

_MOST = 64
_known: OrderedDict[Hashable, Profile] = OrderedDict()


def profile_of(
    target: Any, config: GPUConfig, key: Hashable | None = None, effort: Effort | None = None
) -> Profile:
    """The target's profile, made if it is not known; see `gpusim.bound.profile`, and `make_profile` for the effort."""
    needs = tuple(needs_of(config).items())
    name = ("key", key, needs)
    if key is not None and name in _known:
        _known.move_to_end(name)
        return _known[name]
    target = target() if callable(target) else target
    launch: Launch = getattr(target, "launch", target)
    program = program_of(launch, config.gpu.arch)
    content = _digest(program.sha256, _parts(launch), needs)
    found = _known.get(content) or make_profile(program, launch, config, effort)
    _keep(content, found)
    if key is not None:
        _keep(name, found)
    return found


def _keep(name: Hashable, profile: Profile) -> None:
    _known[name] = profile
    _known.move_to_end(name)
    while len(_known) > _MOST:
        _known.popitem(last=False)


def _parts(launch: Launch) -> list[Any]:
    """What of a launch's shape and arguments tells it from others."""
    parts: list[Any] = [launch.grid, launch.block, launch.shared_bytes, str(launch.signature)]
    for value in launch.args:
        array = np.asarray(value)
        content = hashlib.blake2b(np.ascontiguousarray(array).data, digest_size=16).hexdigest()
        parts.append((str(array.dtype), array.shape, array.strides, content))
    return parts


def _digest(*parts: Any) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
