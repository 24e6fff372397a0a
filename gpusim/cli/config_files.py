"""`gpusim config check`, `new` and `schema`: for those who write configurations of their own."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim.cli.exits import EXIT_OK, UserError
from gpusim.cli.options import add_command, add_json_option, add_set_option
from gpusim.cli.outputs import print_json

if TYPE_CHECKING:
    from gpusim.config.derived import DerivedValue

_EXIT_WRONG = 1
CHECK_EXAMPLES = """\
examples:
  gpusim config check mine.toml
  gpusim config check h200 --set dram.bandwidth_gb_s=9000
status 1 if something is wrong; warnings alone leave it 0
"""
NEW_EXAMPLES = """\
examples:
  gpusim config new mine --base h200 --set sm.count=264
  gpusim config new 'Half the L2' --base h100 --set l2.bytes=26214400 -o half.toml
"""


def add(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    summary = "check a configuration file: what is wrong, what is suspicious, and what follows from it"
    each = add_command(actions, "check", summary, CHECK_EXAMPLES)
    each.add_argument("name", metavar="FILE", help="TOML file or shipped name")
    add_set_option(each)
    add_json_option(each)
    each.set_defaults(command=check)

    summary = "write a short configuration file of your own, with comments and a schema for editors beside it"
    each = add_command(actions, "new", summary, NEW_EXAMPLES)
    each.add_argument("name", metavar="NAME", help="what the GPU is called")
    each.add_argument("--base", default="h200", metavar="NAME", help="what gives all other values (default: h200)")
    add_set_option(each)
    each.add_argument("-o", "--output", type=Path, metavar="FILE", help="where to (default: NAME.toml)")
    each.add_argument("--force", action="store_true", help="overwrite a file that is there")
    each.set_defaults(command=new)

    summary = "print the JSON schema of configuration files, for editors"
    each = add_command(actions, "schema", summary, "example:\n  gpusim config schema > gpusim.schema.json\n")
    each.set_defaults(command=schema)


def check(options: argparse.Namespace) -> int:
    from gpusim.config.check import check
    from gpusim.config.derived import derive

    report = check(options.name, options.overrides)
    derived = derive(report.config) if report.config else ()
    if options.json:
        document = {
            "ok": not report.errors,
            "errors": [{"key": each.key, "message": str(each)} for each in report.errors],
            "warnings": [{"key": each.key, "message": each.reason} for each in report.warnings],
            "derived": derived_json(derived),
        }
        print_json(document)
        return _EXIT_WRONG if report.errors else EXIT_OK
    for error in report.errors:
        print(f"error: {error}")
    for warned in report.warnings:
        print(f"warning: {warned}")
    if report.errors:
        return _EXIT_WRONG
    if report.warnings:
        print()
    print("\n".join(derived_lines(derived)))
    return EXIT_OK


def new(options: argparse.Namespace) -> int:
    from gpusim.config.create import FILE_NAME, new_file

    stem = re.sub(r"[^a-z0-9_.-]+", "-", options.name.lower()).strip("-.")
    if not stem and options.output is None:
        raise UserError(f"no file can be called {options.name!r}; say -o FILE")
    path = options.output or Path(f"{stem}.toml")
    text = new_file(options.name, options.base, options.overrides, path)
    if path.exists() and not options.force:
        raise UserError(f"{path} is there already; --force overwrites it")
    path.write_text(text, encoding="utf-8")
    print(f"{path} written")
    beside = path.parent / FILE_NAME
    if not beside.exists():
        beside.write_text(_schema_text(), encoding="utf-8")
        print(f"{beside} written, which the file's first line names for editors")
    return EXIT_OK


def schema(options: argparse.Namespace) -> int:
    print(_schema_text(), end="")
    return EXIT_OK


def derived_lines(rows: tuple[DerivedValue, ...]) -> list[str]:
    """Derived values under their headings."""
    names = max(len(row.name) for row in rows)
    values = max(len(row.text) for row in rows)
    lines: list[str] = []
    group = None
    for row in rows:
        if row.group != group:
            group = row.group
            lines += [*([""] if lines else []), group]
        lines.append(f"  {row.name:<{names}}  {row.text:>{values}}  {row.meaning}")
    return lines


def derived_json(rows: tuple[DerivedValue, ...]) -> dict[str, dict[str, Any]]:
    """Derived values by name, in the units that the names carry."""
    return {row.name: {"value": row.value, "group": row.group, "meaning": row.meaning} for row in rows}


def _schema_text() -> str:
    from gpusim.config.create import config_schema

    return json.dumps(config_schema(), indent=1) + "\n"
