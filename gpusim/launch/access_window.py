"""A window of addresses whose lines L2 is to keep, or to give up first, for a launch (CUDA's access-policy window)."""

from __future__ import annotations

from dataclasses import dataclass

from gpusim.config.models import GPUConfig
from gpusim.errors import LaunchError

PROPERTIES = ("normal", "streaming", "persisting")
"""As `cudaAccessProperty` numbers them."""


@dataclass(frozen=True)
class AccessWindow:
    """The treatment by L2 of accesses to a window of addresses.

    address, nbytes: the window. hit_ratio: share of its lines, 0 to 1, whose accesses have the property `hit`; the
    others have `miss`. Which lines these are is a hash of their addresses. Both are names of PROPERTIES; `miss` is not
    persisting.
    """

    address: int
    nbytes: int
    hit_ratio: float = 1.0
    hit: str = "persisting"
    miss: str = "streaming"

    def check(self, config: GPUConfig) -> None:
        """Raise LaunchError for a window that a GPU does not take."""
        for name, wrong in (
            (f"{self.nbytes:,} bytes, allowed 1 to {config.l2.window_max_bytes:,}",
             not 0 < self.nbytes <= config.l2.window_max_bytes),
            (f"a hit ratio of {self.hit_ratio}, allowed 0 to 1", not 0 <= self.hit_ratio <= 1),
            (f"property {self.hit!r}, allowed {', '.join(PROPERTIES)}", self.hit not in PROPERTIES),
            (f"property {self.miss!r} for the other lines, allowed {', '.join(PROPERTIES[:2])}",
             self.miss not in PROPERTIES[:2]),
        ):  # fmt: skip
            if wrong:
                raise LaunchError(f"an access window with {name}")
