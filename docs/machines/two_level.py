"""A scheduler of two levels: a few warps of a sub-partition take turns, and one that waits for memory makes room for
another one (V. Narasiman et al., "Improving GPU Performance via Large Warps and Two-Level Warp Scheduling", MICRO
2011).

    gpusim run layernorm/two_passes --model docs/machines/two_level.py:TwoLevel
"""

from gpusim import machine


class TwoLevelScheduler(machine.Scheduler):
    most_active = 4
    """Warps of a sub-partition that take turns."""

    def __init__(self, sm: machine.SM, number: int) -> None:
        super().__init__(sm, number)
        self.active: list[machine.Warp] = []

    def choose(self, ready: list[machine.Warp]) -> machine.Warp:
        now = self.env.now
        self.active = [warp for warp in self.active if warp in self.warps and warp.ready <= now + 32]
        waiting = sorted((warp for warp in ready if warp not in self.active), key=lambda warp: warp.age)
        self.active += waiting[: self.most_active - len(self.active)]
        turn = [warp for warp in self.active if warp in ready] or ready
        return min(turn, key=lambda warp: warp.since)  # the one that has not issued for longest


class TwoLevelSM(machine.SM):
    Scheduler = TwoLevelScheduler


class TwoLevel(machine.GPU):
    SM = TwoLevelSM
