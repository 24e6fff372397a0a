from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim
from gpusim.launch import Launch, as_dim3


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (7, (7, 1, 1)),
        (np.int64(7), (7, 1, 1)),
        ((3, 2), (3, 2, 1)),
        ([5, 3, 2], (5, 3, 2)),
        ((np.int32(4),), (4, 1, 1)),
    ],
)
def test_dim3_fills_up_with_ones(value: Any, expected: tuple[int, int, int]) -> None:
    dims = as_dim3(value)
    assert dims == expected
    assert all(type(dim) is int for dim in dims)


@pytest.mark.parametrize("value", [0, -1, (4, 0), (), (1, 2, 3, 4)])
def test_dim3_rejects_values(value: Any) -> None:
    with pytest.raises(ValueError, match="grid"):
        as_dim3(value, "grid")


@pytest.mark.parametrize("value", [1.0, "1", True, None, (1, 2.0)])
def test_dim3_rejects_types(value: Any) -> None:
    with pytest.raises(TypeError, match="block"):
        as_dim3(value, "block")


def test_launch_normalises_and_counts() -> None:
    x = np.zeros(3)
    launch = Launch(print, (3, 2), (5, 3), [x, 1])
    assert (launch.grid, launch.block) == ((3, 2, 1), (5, 3, 1))
    assert launch.args[0] is x
    assert (launch.blocks, launch.threads_per_block) == (6, 15)
    assert (launch.shared_bytes, launch.signature) == (0, None)


@pytest.mark.parametrize("one", [np.zeros(4), np.zeros((2, 2)), np.float32(1), 3, None, "x", {"x": 1}])
def test_one_argument_is_not_taken_for_several(one: Any) -> None:
    def kernel(x: Any) -> None:
        pass

    launches = (
        lambda: Launch(kernel, 1, 1, one),
        lambda: gpusim.simulate(kernel, 1, 1, one, gpu="tiny"),
        lambda: gpusim.Device("tiny").launch(kernel, 1, 1, one),
    )
    for launch in launches:
        with pytest.raises(TypeError, match=rf"args must be a tuple .* got one {type(one).__name__}; .*\(x,\)"):
            launch()
    assert Launch(kernel, 1, 1, (each for each in (1, 2))).args == (1, 2)  # type: ignore[arg-type]


def test_launch_rejects_shared_bytes() -> None:
    with pytest.raises(ValueError, match="shared_bytes"):
        Launch(print, 1, 1, shared_bytes=-4)
    with pytest.raises(TypeError, match="shared_bytes"):
        Launch(print, 1, 1, shared_bytes=1.5)  # type: ignore[arg-type]
