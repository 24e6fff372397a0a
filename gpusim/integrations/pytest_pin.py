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
    from gpusim.integrations.pin import PinCheck

FOLDER = "gpusim_pins"
"""Folder for recorded predictions, beside the test file."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option."""
    group = parser.getgroup("gpusim-pin", "pinned predictions of gpusim")
    group.addoption(
        "--gpusim-update", action="store_true", help=f"record what is predicted now in {FOLDER}, instead of comparing"
    )


@pytest.fixture
def gpusim_pin(request: pytest.FixtureRequest) -> Pin:
    """Simulates a launch and fails the test unless its cycles and counters are where they were: see `Pin`."""
    return Pin(request.path, request.node.name, update=request.config.getoption("--gpusim-update"))


class Pin:
    """Simulate a launch and hold it to numbers; made by the fixture, once per test.

    path: of the test file. test: the test's name, with its parameters.
    """

    def __init__(self, path: Path, test: str, *, update: bool) -> None:
        self._path, self._test, self._update = path, test, update
        self._count = 0

    # many parameters: as `gpusim.simulate`, and what was measured.
    def __call__(
        self,
        kernel: Any,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[Any] = (),
        *,
        gpu: Any = "h200",
        measured: Any = None,
        provenance: str = "",
        tolerance: float | None = None,
        counters: Mapping[str, float] | Iterable[str] = (),
        kernel_name: str = "",
        **options: Any,
    ) -> gpusim.Result:
        """The result of `gpusim.simulate`, once it is near enough.

        Args:
            kernel, grid, block, args, gpu, options: as `gpusim.simulate` takes them.
            measured: what hardware did: the path of an ncu export (`.csv`) or a baseline (`.json`), relative to the
                test file, or cycles, or {metric: number}. None: what gpusim predicted when `--gpusim-update` was last
                given, kept in the folder `gpusim_pins` beside the test file.
            provenance: where plain numbers were measured; has to be said for them.
            tolerance: greatest error of the cycles, a share: 0.1 is a tenth. Has to be said for a measurement; a
                recorded prediction has to be met exactly unless it is given.
            counters: further metrics, each with its tolerance; without tolerances they have `tolerance`'s.
            kernel_name: part of the kernel's name, where an export holds several of the same size.
        """
        import gpusim
        from gpusim.integrations import pin
        from gpusim.launch import Launch

        result = gpusim.simulate(kernel, grid, block, args, gpu, **options)
        share = 0.0 if tolerance is None and measured is None else tolerance
        if share is None:
            pytest.fail("gpusim_pin: say with tolerance= how far from the measurement is near enough", pytrace=False)
        allowed = dict(counters) if isinstance(counters, Mapping) else dict.fromkeys(counters, share)
        self._count += 1
        key = self._test if self._count == 1 else f"{self._test} #{self._count}"
        try:
            if measured is None:
                path = self._path.parent / FOLDER / f"{self._path.stem}.json"
                if self._update:
                    pin.write_pin(path, key, result, list(allowed))
                    return result
                reference = pin.pinned(path, key)
                advice = "If that is meant: pytest --gpusim-update, and look at what it changes."
                if reference is None:
                    pytest.fail(f"gpusim_pin: nothing is pinned for {key} yet: pytest --gpusim-update", pytrace=False)
            else:
                launch = Launch(kernel, grid, block)
                if isinstance(measured, (str, Path)):
                    measured = self._path.parent / measured
                reference = pin.reference_of(measured, provenance, launch.grid, launch.block, kernel_name)
                advice = _stalls(result)
            found = pin.checks(reference, result.metrics, share, allowed)
        except pin.PinError as error:
            pytest.fail(f"gpusim_pin: {error}", pytrace=False)
        if not all(check.holds for check in found):
            pytest.fail(_message(result, reference.source, found, advice), pytrace=False)
        return result


def _message(result: gpusim.Result, source: str, found: Sequence[PinCheck], advice: str) -> str:
    lines = [f"gpusim_pin: {result.kernel} on {result.record.config.gpu.name} leaves what it is pinned to ({source})"]
    lines += [f"  {'ok   ' if check.holds else 'LEFT '} {check}" for check in found]
    return "\n".join([*lines, advice])


def _stalls(result: gpusim.Result) -> str:
    """Where the predicted time goes: the first thing to look at if it is wrong."""
    reasons = sorted(result.stall_reasons.items(), key=lambda each: -each[1].share)[:3]
    return "Predicted warps spend their time in " + ", ".join(f"{name} {each.share:.0%}" for name, each in reasons)
