"""A program's launches and copies as traces for another simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpusim.driver.work.launches import LaunchCall, Observer

if TYPE_CHECKING:
    from gpusim.device import Device
    from gpusim.tracing.accel_sim import AccelSimTraces


class AccelSimExport(Observer):
    """Has the device write traces. Of the observers of a driver whose launches are functional."""

    def __init__(self, traces: AccelSimTraces):
        self.traces = traces

    def began(self, device: Device) -> None:
        device.accel_sim = self.traces

    def copied(
        self, kind: str, target: int, source: int, nbytes: int, stream: int, cycle: int, began: int
    ) -> None:
        if kind == "HtoD":
            self.traces.memcpy_htod(target, nbytes)

    def launching(self, call: LaunchCall, cycle: int) -> None:
        self.traces.stream = call.stream
