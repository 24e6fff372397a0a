"""What a notebook shows of a result: a few lines of HTML without a script."""

from __future__ import annotations

from html import escape

from gpusim.results.analysis import Analysis
from gpusim.results.counts import ratio
from gpusim.units import joule_text

_LINES = 5
_FINDINGS = 3
_BARS = 6
_BLUE = "#3b8ec4"  # reads on white and on dark grey


def compact(result: Analysis) -> str:
    """Head, how sure it is, what limits the launch, advice on lines, throughput and the costliest lines. Colours are
    the notebook's own, but for the bars."""
    record = result.record
    launch = record.launch
    head = (
        f"<b>{escape(result.kernel)}</b> on {escape(record.config.gpu.name)}: {result.cycles:,} cycles = "
        f"{result.time_us:,.2f} µs, {joule_text(result.energy_j, 'µ')} at {result.power_w:,.0f} W; "
        f"{launch.blocks:,} blocks of {launch.threads_per_block:,} threads"
    )
    advice = "".join(
        f"<li>{100 * each.share:.0f} % <b>{escape(each.kind)}</b>: {escape(each.sentence)}</li>"
        for each in [each for each in result.advice if each.line is not None][:_FINDINGS]
    )
    bars = "".join(_bar(name, share) for name, share in list(result.limiter.utilisation.items())[:_BARS])
    total = sum(row.cycles for row in result.source_lines)
    lines = "".join(
        f"<tr><td>{100 * ratio(row.cycles, total):.1f} %</td><td>{row.instructions:,}</td>"
        f"<td>{row.threads_per_instruction:.1f}</td><td>{row.shared_wavefronts_excessive:,}</td>"
        f"<td>{escape(row.main_stall or '-')}</td>"
        f'<td style="text-align:left"><code>{"" if row.line is None else row.line}: {escape(row.text)}</code></td></tr>'
        for row in result.source_lines[:_LINES]
    )
    return (
        f'<div class="gpusim-result"><p>{head}</p><p>{escape(str(result.interval))}.</p>'
        f"<p>{escape(result.limiter.sentence)}</p>"
        f"<ol>{advice}</ol>"
        "<table><thead><tr><th>unit</th><th>of its peak while blocks run</th></tr></thead>"
        f"<tbody>{bars}</tbody></table>"
        "<table><thead><tr><th>warp cycles</th><th>instructions</th><th>threads</th><th>bank conflicts</th>"
        f'<th>main stall</th><th style="text-align:left">line</th></tr></thead><tbody>{lines}</tbody></table></div>'
    )


def _bar(name: str, share: float) -> str:
    width = 100 * min(share, 1.0)
    return (
        f'<tr><td style="text-align:left">{escape(name)}</td><td style="text-align:left">'
        '<span style="display:inline-block;'
        f'width:10em;border:1px solid {_BLUE}"><span style="display:block;width:{width:.1f}%;height:.7em;'
        f'background:{_BLUE}"></span></span> {100 * share:.1f} %</td></tr>'
    )
