"""What comes out of a matrix product on a machine beside the GPU."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProductRun:
    """A product of m x k and k x n on `machine`, with data that nothing has touched before.

    seconds: from the first request to the last result. bytes: that passed each level, by its name, device memory
    'memory'. least_seconds: what each of these and the arithmetic would take alone at its peak. limit: what the
    machine spent most time with, in its own words. share: part of the time that was spent so.
    """

    machine: str
    m: int
    n: int
    k: int
    seconds: float
    bytes: dict[str, int]
    least_seconds: dict[str, float]
    limit: str
    share: float

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        return 2 * self.m * self.n * self.k

    @property
    def operations_per_s(self) -> float:
        """Achieved."""
        return self.operations / self.seconds

    @property
    def utilisation(self) -> float:
        """Part of the machine's peak arithmetic."""
        return self.least_seconds["arithmetic"] / self.seconds

    @property
    def intensity(self) -> float:
        """Operations per byte of device memory."""
        return self.operations / self.bytes["memory"]

    def __str__(self) -> str:
        return (
            f"{self.m} x {self.n} x {self.k} on {self.machine}: {self.seconds * 1e6:,.2f} us, "
            f"{self.operations_per_s / 1e12:.2f} TOP/s, {100 * self.utilisation:.1f} % of peak; "
            f"{self.limit} {100 * self.share:.0f} % of the time"
        )
