"""Run the suite on the simulator: the same cubins, the same launches, one device for each case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import gpusim
from gpusim.config import load_config
from gpusim.launch import Launch
from gpusim.launch.arguments import bind
from gpusim.launch.device_array import DeviceArray
from isa import Program
from validate.microbench import images
from validate.microbench.bench import BLANK_BYTES, Bench, Case, evicting, last_array

STARTS = 3
"""Runs of a case."""
_MEMORY_BYTES = 80 << 30
"""More than any case takes; only what is written takes memory of the host."""


def simulate(
    benches: Sequence[Bench], gpu: str = "h200", overrides: Sequence[str] = (), *, slow: bool = True
) -> Iterator[tuple[Bench, Case, dict[str, float]]]:
    """Numbers of every case of every benchmark, as they are done. slow: those too that take more than a second."""
    for bench in benches:
        for case in bench.cases:
            if slow or not case.slow:
                yield bench, case, run(bench, case, gpu, overrides)


def run(
    bench: Bench, case: Case, gpu: str = "h200", overrides: Sequence[str] = (), starts: int = STARTS
) -> dict[str, float]:
    """The numbers of one case as the simulator predicts them: medians of runs that begin at other times of the interval
    in which a bank of DRAM is refreshed, as what was measured are medians of runs that begin at any."""
    interval = load_config(gpu, list(overrides)).dram.refresh_interval_cycles
    found = [_once(bench, case, gpu, overrides, round(k * interval / starts)) for k in range(starts)]
    return {name: float(np.median([each[name] for each in found])) for name in found[0]}


def _once(bench: Bench, case: Case, gpu: str, overrides: Sequence[str], cycle: int) -> dict[str, float]:
    """The numbers of a run that begins at that cycle of the refresh."""
    device = gpusim.Device(gpu, overrides=list(overrides) or None, memory_bytes=_MEMORY_BYTES)
    args = case.make()
    placed = _place(device, args)
    device.pass_time(device.now_cycles + cycle)
    program = images.program_of(bench)
    # Nothing has run on a new device, which is what 'cold' and 'other' bring about.
    if case.before in ("same", "evicted"):
        _launch(device, program, case, placed)
    if case.before == "evicted":
        _reset(args, placed)
        for other, way in evicting():
            _launch(device, images.program_of(other), way, _place(device, way.make()))
    _launch(device, program, case, placed)
    index = last_array(args)
    return case.reduce((*args[:index], placed[index].copy_to_host(), *args[index + 1 :]))


def _launch(device: gpusim.Device, program: Program, case: Case, placed: Sequence[Any]) -> None:
    # Without the way back that `Device.launch` keeps in case of an error: some arrays are huge.
    bound = bind(program, placed, device.memory)
    launch = Launch(program, case.grid, case.block, tuple(placed), case.shared_bytes)
    device.submit(device.modules.link(program), launch, bound.parameter_bytes).wait()
    bound.release()


def _place(device: gpusim.Device, args: Sequence[Any]) -> list[Any]:
    return [_device_array(device, value) if isinstance(value, np.ndarray) else value for value in args]


def _device_array(device: gpusim.Device, value: np.ndarray) -> DeviceArray:
    blank = value.nbytes >= BLANK_BYTES
    return device.device_array(value.shape, value.dtype) if blank else device.to_device(value)


def _reset(args: Sequence[Any], placed: Sequence[Any]) -> None:
    for value, array in zip(args, placed, strict=True):
        if isinstance(value, np.ndarray) and value.nbytes < BLANK_BYTES:
            array.copy_to_device(value)
