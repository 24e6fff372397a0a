"""`gpusim config`: print, compare, explain, check and begin configurations."""

from __future__ import annotations

import argparse
import re
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim.cli.outputs import columns, print_json
from gpusim.cli.parser import EXIT_MISMATCH, EXIT_OK, UserError
from isa.folders import put_file

if TYPE_CHECKING:
    from gpusim.config.derived import DerivedValue


def list_names(options: argparse.Namespace) -> None:
    from gpusim.config import load_config, shipped_names
    from gpusim.config.create import KINDS, provenance

    rows = {name: (load_config(name).gpu, *provenance(name)) for name in shipped_names()}
    if options.json:
        print_json([
            {"name": name, "product": gpu.name, "arch": gpu.arch, "base": base, "sources": own, "inherited": inherited}
            for name, (gpu, own, base, inherited) in rows.items()
        ])  # fmt: skip
        return
    table = [["", "product", "arch", *KINDS, "of the base"]]
    for name, (gpu, own, base, inherited) in rows.items():
        rest = f"{inherited} ({base})" if base else ""
        table.append([name, gpu.name, gpu.arch, *(str(own[kind]) for kind in KINDS), rest])
    print(columns(table))


def show(options: argparse.Namespace) -> None:
    from gpusim.config import load_config
    from gpusim.config.derived import derive

    config = load_config(options.name, options.overrides)
    rows = derive(config)
    if options.json:
        items = () if options.derived else config.items()
        values = {key: {"value": value, "source": config.source(key)} for key, value in items}
        print_json(values | {"derived": derived_json(rows)})
        return
    lines = derived_lines(rows)
    if not options.derived:
        print(config.to_toml())
        # As comments, so that what is printed is a configuration file.
        lines = ["# What follows from these values:", *(f"# {line}".rstrip() for line in lines)]
    print("\n".join(lines))


def show_diff(options: argparse.Namespace) -> None:
    from gpusim.config import diff, load_config
    from gpusim.config.models import toml_value

    if options.second is None and not options.overrides:
        raise UserError("config diff takes two configurations, or one and --set")
    first = load_config(options.first)
    rows = diff(first, load_config(options.second or options.first, options.overrides))
    if options.json:
        print_json({key: list(pair) for key, pair in rows.items()})
        return
    names = (options.first, options.second or f"{options.first} with --set")
    table = [("", *names), *((key, toml_value(a), toml_value(b)) for key, (a, b) in rows.items())]
    print(columns(table) if rows else f"{names[0]} and {names[1]} do not differ")


def show_keys(options: argparse.Namespace) -> None:
    from gpusim.config import describe_keys

    keys = describe_keys()
    if options.section:
        prefix = options.section.rstrip(".") + "."
        chosen = {key: text for key, text in keys.items() if key.startswith(prefix) or key == options.section}
        if not chosen:
            sections = dict.fromkeys(key.partition(".")[0] for key in keys)
            raise UserError(f"no section {options.section!r}; the sections are {', '.join(sections)}")
        keys = chosen
    if options.json:
        print_json(dict(keys))
    else:
        print(columns(list(keys.items())))


def check(options: argparse.Namespace) -> int:
    from gpusim.config.check import check
    from gpusim.config.derived import derive

    report = check(options.name, options.overrides)
    derived = derive(report.config) if report.config else ()
    if options.json:
        print_json({
            "ok": not report.errors,
            "errors": [{"key": each.key, "message": str(each)} for each in report.errors],
            "warnings": [{"key": each.key, "message": each.reason} for each in report.warnings],
            "derived": derived_json(derived),
        })  # fmt: skip
    else:
        found = [f"error: {each}" for each in report.errors] + [f"warning: {each}" for each in report.warnings]
        print("\n".join(found + ([] if report.errors else [""] * bool(found) + derived_lines(derived))))
    return EXIT_MISMATCH if report.errors else EXIT_OK


def new(options: argparse.Namespace) -> None:
    from gpusim.config.create import new_file

    name = Path(options.name).name.removesuffix(".toml")  # a folder in front is the file's
    stem = re.sub(r"[^a-z0-9_.-]+", "-", name.lower()).strip("-.")
    if not stem and options.output is None:
        raise UserError(f"no file can be called {options.name!r}; say -o FILE")
    path = options.output or Path(options.name).parent / f"{stem}.toml"
    text = new_file(name, options.base, options.overrides, path)
    if path.exists() and not options.force:
        raise UserError(f"{path} is there already; --force overwrites it")
    put_file(path, text.encode())
    print(f"{path} written")


def derived_lines(rows: tuple[DerivedValue, ...]) -> list[str]:
    """Derived values under their headings."""
    table: list[tuple[str, ...]] = []
    for group, own in groupby(rows, lambda row: row.group):
        table += [("", "", "")] * bool(table) + [(group, "", "")]
        table += [(f"  {row.name}", row.text, row.meaning) for row in own]
    return columns(table, "<><").splitlines()


def derived_json(rows: tuple[DerivedValue, ...]) -> dict[str, dict[str, Any]]:
    """Derived values by name, in the units that the names carry."""
    return {row.name: {"value": row.value, "group": row.group, "meaning": row.meaning} for row in rows}
