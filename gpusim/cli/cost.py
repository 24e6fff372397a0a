"""`gpusim cost`: what a GPU costs in silicon and power, part by part."""

from __future__ import annotations

import argparse

from gpusim.cli.outputs import columns, print_json, versioned
from gpusim.cli.parser import UserError

RETICLE_MM2 = 858
"""26 mm by 33 mm, the field of today's scanners."""


def execute(options: argparse.Namespace) -> None:
    from gpusim.config import diff, load_config
    from gpusim.explore.cost import cost
    from gpusim.explore.technology import ERRORS

    if options.links is not None and options.links < 0:
        raise UserError("--links must not be below 0")
    base = load_config(options.gpu or "h200")
    config = load_config(base, options.overrides + options.changes)
    found = cost(config, node=options.node, links=options.links)
    if options.json:
        print_json(versioned(found.to_dict() | {"errors": ERRORS.replace("\n", " ")}))
        return
    changed = diff(base, config)
    what = ", ".join(f"{key} = {value}" for key, (_, value) in changed.items())
    print(f"{config.gpu.name}{', ' + what if what else ''}: {found.structure.node}, first-order model")
    rows: list[tuple[str, ...]] = [("", "mm^2", "", "W")]
    for name, part in sorted(found.parts.items(), key=lambda each: -each[1].area_mm2):
        share = f"{100 * part.area_mm2 / found.area_mm2:.0f} %"
        rows.append((name, f"{part.area_mm2:.1f}", share, f"{part.power_w:.1f}"))
    whole = {"together": found}
    if changed:
        whole["without --set"] = cost(base, node=options.node, links=options.links)
    rows += [(name, f"{each.area_mm2:.1f}", "", f"{each.power_w:.1f}") for name, each in whole.items()]
    print(columns(rows, "<>"))
    if found.structure.dies > 1:
        print(f"{found.structure.dies} dies of {found.area_mm2 / found.structure.dies:.0f} mm^2 each")
    if found.area_mm2 > RETICLE_MM2 * found.structure.dies:
        print(f"more than the {RETICLE_MM2} mm^2 that a mask has room for")
    print(f"errors: {ERRORS}")
