"""Keeps profiles by content: of the program, the launch, its arguments, and what of the machine they depend on."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any

import numpy as np

from gpusim.bound.profile import Profile, make_profile, needs_of
from gpusim.config import GPUConfig
from gpusim.launch import Launch
from gpusim.simulation import program_of

_MOST = 64
_known: OrderedDict[str, Profile] = OrderedDict()


def profile_of(launch: Launch, config: GPUConfig) -> Profile:
    """The launch's profile, made if it is not known."""
    program = program_of(launch.kernel, launch.args, config, launch.signature)
    key = _digest(program.sha256, _parts(launch), sorted(needs_of(config).items()))
    if key not in _known:
        _known[key] = make_profile(program, launch, config)
        while len(_known) > _MOST:
            _known.popitem(last=False)
    _known.move_to_end(key)
    return _known[key]


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
