"""The text of a run on a node."""

from __future__ import annotations

from gpusim.node.result import NodeResult
from gpusim.units import byte_text

_MOST_COPIES, _MOST_LINKS = 20, 12


def report(result: NodeResult) -> str:
    """What was copied and when, which link held it up, what every link carried: the first copies, the busiest links."""
    lines = [
        result.title,
        f"{_copies(len(result.copies))}, {byte_text(result.bytes)} in {result.time_us:,.1f} us",
        *_bottleneck(result),
        "",
        f"{'Copy':<28}{'bytes':>10}{'begins':>12}{'ends us':>12}{'GB/s':>8}  held up by",
    ]
    for copy in result.copies[:_MOST_COPIES]:
        lines.append(
            f"  {copy.name:<26}{byte_text(copy.nbytes):>10}{copy.began_us:>12,.1f}{copy.ended_us:>12,.1f}"
            f"{copy.bandwidth_gb_s:>8.1f}  {copy.bottleneck}"
        )
    lines += _more(len(result.copies) - _MOST_COPIES)
    lines += ["", f"{'Link':<28}{'carried':>10}{'GB/s':>12}{'busy us':>12}{'of peak':>9}  over the run"]
    uses = sorted(result.links.values(), key=lambda use: (-use.held_us, -use.utilisation, use.name))
    for use in uses[:_MOST_LINKS]:
        bar = "".join(" .:-=+*#%@"[min(round(share * 9), 9)] for share in use.over_time(24))
        lines.append(
            f"  {use.name:<26}{byte_text(use.bytes):>10}{use.link.bandwidth_gb_s:>12.1f}{use.busy_us:>12,.1f}"
            f"{use.utilisation:>9.1%}  |{bar}|"
        )
    return "\n".join(lines + _more(len(uses) - _MOST_LINKS))


def _bottleneck(result: NodeResult) -> list[str]:
    if not result.bottleneck:
        return ["Nothing moved"]
    name = result.bottleneck
    total = sum(copy.duration_us for copy in result.copies)
    held = sum(copy.bottleneck == name for copy in result.copies)
    moving = sum(sum(copy.held_us.values()) for copy in result.copies)
    text = f"Bottleneck  {name}"
    if name in result.links:
        use = result.links[name]
        text += f" ({use.link.kind}, {use.link.bandwidth_gb_s:.1f} GB/s, {use.utilisation:.0%} of it used over the run)"
    lines = [f"{text}: sets the pace of {_copies(held)} of {len(result.copies)}"]
    if total and moving < 0.5 * total:
        lines.append(f"            but {1 - moving / total:.0%} of the copies' time is start-up and latency")
    waits = {name: wait for name, wait in result.engine_waits_us.items() if wait > 0.01 * result.time_us}
    for name, wait in sorted(waits.items(), key=lambda item: (-item[1], item[0]))[:3]:
        lines.append(f"            copies wait {wait:,.1f} us in all for the copy engine {name}")
    return lines


def _copies(count: int) -> str:
    return f"{count:,} {'copy' if count == 1 else 'copies'}"


def _more(count: int) -> list[str]:
    return [f"  ... and {count} more"] if count > 0 else []
