"""The fixture `gpusim_pin`, for tests of repositories that use gpusim: a kernel stays near what was measured.

It is there wherever gpusim is installed, since pytest finds it by itself; docs/diff.md shows how it is used. Nothing
heavy is imported until a test asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import gpusim


@pytest.fixture
def gpusim_pin(request: pytest.FixtureRequest) -> Pin:
    """Simulates a launch and fails the test unless its cycles and counters are near what was measured: see `Pin`."""
    return Pin(request.path.parent)


class Pin:
    """Simulates a launch and holds it to numbers. folder: paths of measurements are relative to it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    # many parameters: as `gpusim.simulate`, and what was measured.
    def __call__(
        self,
        kernel: Any,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[Any] = (),
        *,
        measured: Any,
        tolerance: float,
        gpu: Any = "h200",
        provenance: str = "",
        counters: Mapping[str, float] | Iterable[str] = (),
        kernel_name: str = "",
        **options: Any,
    ) -> gpusim.Result:
        """The result of `gpusim.simulate`, once it is near enough.

        Args:
            kernel, grid, block, args, gpu, options: as `gpusim.simulate` takes them.
            measured: what hardware did: the path of an ncu export (`.csv`) or a baseline (`.json`), or cycles, or
                {metric: number}.
            tolerance: greatest error of the cycles, a share: 0.1 is a tenth.
            provenance: where plain numbers were measured; has to be said for them.
            counters: further metrics, each with its tolerance; without tolerances they have `tolerance`'s.
            kernel_name: part of the kernel's name, where an export holds several of the same size.
        """
        import gpusim
        from gpusim.difference import NotAResult
        from gpusim.integrations import pin
        from gpusim.launch import Launch
        from gpusim.results.profile import ProfileError

        if isinstance(measured, (str, Path)):
            measured = self._folder / measured
        launch = Launch(kernel, grid, block)
        shares = dict(counters) if isinstance(counters, Mapping) else dict.fromkeys(counters, tolerance)
        try:
            source, known = pin.measured_counters(measured, provenance, launch.grid, launch.block, kernel_name)
            result = gpusim.simulate(kernel, grid, block, args, gpu, **options)
            shares = {pin.CYCLES: tolerance} | shares
            found = [pin.check(name, source, known, result.metrics, share) for name, share in shares.items()]
        except (pin.PinError, ProfileError, NotAResult) as error:
            pytest.fail(f"gpusim_pin: {error}", pytrace=False)
        if not all(holds for holds, _ in found):
            lines = [
                f"gpusim_pin: {result.kernel} on {result.record.config.gpu.name} leaves what it is pinned to ({source})"
            ]
            lines += [f"  {'ok   ' if holds else 'LEFT '} {text}" for holds, text in found]
            # Where the predicted time goes: the first thing to look at if it is wrong.
            reasons = sorted(result.stall_reasons.items(), key=lambda each: -each[1].share)[:3]
            stalls = ", ".join(f"{name} {each.share:.0%}" for name, each in reasons)
            pytest.fail("\n".join([*lines, f"Predicted warps spend their time in {stalls}"]), pytrace=False)
        return result
