"""Sentences that say what changed between two runs, and why: each from numbers of both sides."""

from __future__ import annotations

from collections.abc import Iterator

from gpusim.difference.pairs import FindingChange, Pairs
from gpusim.results.finding import Finding
from gpusim.results.stalls import STALL_MEANINGS
from gpusim.units import joule_text

_LEAST = 0.01
"""Part of A's cycles below which a finding that remains is not worth a sentence."""
_CLOCKS = 0.02
"""Relative difference of the clocks from which time is told beside cycles."""
_MOST = 5
"""Findings that get a sentence because of what they save or cost; any that vanished gets one too."""
_INSTRUCTIONS = "smsp__inst_executed.sum"
_WORTH = {
    "bank conflicts": "excessive shared-memory wavefronts",
    "uncoalesced accesses": "excessive sectors",
    "barriers": "arrivals at the barrier",
    "loop overhead": "warp instructions of the loop's control",
    "shared-memory exchange": "shared-memory instructions",
    "memory latency": "warp cycles of waiting",
    "work per thread": "loads per thread",
    "divergence": "lanes active",
    "instruction fetch": "warp cycles of waiting",
    "partial warps": "lanes without a thread",
}
"""Noun that a finding's number counts, by the kind of finding."""
_NAMES = {"static": "static power", "launch": "beginning the launch and its warps", "issue": "issuing instructions"}
"""Of parts of the energy, those whose own names do not say what they are."""


def sentences(difference: Pairs) -> list[str]:
    """The whole first, then the findings by what they saved or cost, the work done, the stall reasons and energy."""
    parts = (_whole, _hardware, _findings, _work, _stalls, _energy)
    return [text for part in parts for text in part(difference)]


def _whole(difference: Pairs) -> Iterator[str]:
    a, b = difference.cycles.a, difference.cycles.b
    if a == b:
        yield f"Both take {a:,.0f} cycles."
        return
    if not a:
        return
    change = f"{abs(b - a):,.0f} {'fewer' if b < a else 'more'} ({100 * (b / a - 1):+.1f} %)"
    yield f"B takes {b:,.0f} cycles, {b / a:.2f} times A's {a:,.0f}: {change}."
    before, after = difference.a.time_us, difference.b.time_us
    if before and abs(after / before / (b / a) - 1) > _CLOCKS:
        yield (
            f"In time B takes {after:,.2f} us, {after / before:.2f} times A's {before:,.2f} us: its cycles come at "
            f"{b / after:,.0f} MHz, A's at {a / before:,.0f} MHz."
        )


def _hardware(difference: Pairs) -> Iterator[str]:
    """Add what a comparison with a real GPU can tell."""
    sides = {name: run for name, run in (("A", difference.a), ("B", difference.b)) if run.measured}
    for name, run in sides.items():
        other = difference.b if name == "A" else difference.a
        if run.spread and not other.measured:
            low, high = run.spread
            where = "within" if low <= other.cycles <= high else "outside"
            yield (
                f"{name} was measured on {run.gpu}: {low:,.0f} to {high:,.0f} cycles, and the model's "
                f"{other.cycles:,.0f} lie {where}, {100 * (other.cycles / run.cycles - 1):+.1f} % off the median."
            )
    if sides:
        unequal = [each for each in difference.metrics if not each.equal]
        count = len(difference.metrics)
        yield f"{count - len(unequal)} of {count} recorded metrics are equal on both sides."


def _findings(difference: Pairs) -> Iterator[str]:
    told = [each for each in difference.findings if abs(each.saved) >= _LEAST * difference.a.cycles][:_MOST]
    told += [each for each in difference.findings if each.state == "gone" and each not in told]
    for each in told:
        yield _finding(each)


def _finding(change: FindingChange) -> str:
    name = str(change)[:1].upper() + str(change)[1:]
    noun = _WORTH.get(change.kind, "")
    before = _cost(change.a, "A's time", change.cycles_a, noun)
    # The second number stands beside the first, which has said what it counts.
    after = _cost(change.b, "B's", change.cycles_b, noun, named=change.a is None)
    if change.b is None:
        return f"{name}: {before} -> gone."
    if change.a is None:
        return f"{name}: none in A -> {after}, new."
    return f"{name}: {before} -> {after}, {abs(change.saved):,.0f} cycles {'less' if change.saved > 0 else 'more'}."


def _cost(finding: Finding | None, whose: str, cycles: float, noun: str, named: bool = True) -> str:
    if finding is None:
        return ""
    whole = finding.value == int(finding.value)
    value = f"; {finding.value:,.{0 if whole else 1}f}{f' {noun}' if named else ''}" if noun else ""
    return f"{100 * finding.share:.1f} % of {whose} ({cycles:,.0f} cycles{value})"


def _work(difference: Pairs) -> Iterator[str]:
    """Cycles of warps are instructions times cycles per instruction: which of the two changed."""
    a, b = (run.metrics.get(_INSTRUCTIONS) for run in (difference.a, difference.b))
    if not a or not b or not difference.a.latency or not difference.b.latency:
        return
    before, after = difference.a.latency, difference.b.latency
    yield (
        f"B executes {b:,.0f} warp instructions, {b / a:.2f} times A's {a:,.0f}, and a warp takes {after:.1f} cycles "
        f"for each, {after / before:.2f} times A's {before:.1f}."
    )


def _stalls(difference: Pairs) -> Iterator[str]:
    changes = [each for each in difference.stalls if each.name != "selected"]
    if not changes or abs(changes[0].difference) < 0.05:
        return
    most = changes[0]
    way = "less" if most.difference < 0 else "more"
    yield (
        f"The stall reason that changed most is {most.name} ({STALL_MEANINGS.get(most.name, 'another reason')}): "
        f"{most.a:.1f} -> {most.b:.1f} cycles per instruction, {abs(most.difference):.1f} cycles {way}."
    )


def _energy(difference: Pairs) -> Iterator[str]:
    """A sentence on the change of the joules and the unit that changed most."""
    energy, power, parts = difference.energy, difference.power, difference.energy_parts
    if not parts or not energy.a or abs(energy.difference) < _LEAST * energy.a:
        return
    most, watts = parts[0], [f"{each:,.0f} W" for each in (power.b, power.a)]
    yield (
        f"B takes {joule_text(energy.b)}, {energy.b / energy.a:.2f} times A's {joule_text(energy.a)}, "
        f"{'both ' * (watts[0] == watts[1])}at {' instead of '.join(dict.fromkeys(watts))}. "
        f"What changed most is {_NAMES.get(most.name, most.name)}: {joule_text(most.a)} -> {joule_text(most.b)}."
    )
