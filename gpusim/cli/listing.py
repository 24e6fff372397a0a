"""`gpusim list`: bundled programs, or the metrics that a result holds."""

from __future__ import annotations

import argparse
import textwrap

from gpusim.cli.outputs import print_json
from gpusim.units import aligned

_NAME, _SIZE, _WIDTH = 34, 12, 110


def execute(options: argparse.Namespace) -> None:
    if options.metrics:
        _metrics(options.json)
    else:
        _programs(options.json)


def _programs(as_json: bool) -> None:
    from gpusim.workload.target import registry

    families = registry().families()
    if as_json:
        names = ("name", "teaches", "default_size", "sizes", "size_name", "gpu")
        rows = [(family, variant) for family, ladder in families.items() for variant in ladder]
        print_json([{"family": family} | {name: getattr(each, name) for name in names} for family, each in rows])
        return
    print(f"{'program':<{_NAME}}{'default size':>{_SIZE}}  what it teaches")
    for family, ladder in families.items():
        if len(ladder) > 1:
            print(f"{family} (stands for {ladder[-1].name})")
        for variant in ladder:
            name = f"  {variant.name}" if len(ladder) > 1 else variant.name
            head = f"{aligned((name, -_NAME), (f'{variant.default_size:,}', _SIZE))}  "
            text = variant.teaches + f" (--gpu {variant.gpu})" * (variant.gpu != "h200")
            print(textwrap.fill(text, _WIDTH, initial_indent=head, subsequent_indent=" " * len(head)))


def _metrics(as_json: bool) -> None:
    from gpusim.results.metrics import METRICS

    if as_json:
        print_json([{"name": name, "unit": each.unit, "meaning": each.meaning} for name, each in METRICS.items()])
        return
    for name, each in METRICS.items():
        unit = f" [{each.unit}]" if each.unit else ""
        print(f"{name}{unit}\n    {each.meaning}")
