"""`gpusim config`: print, compare, explain, check and begin configurations."""

from __future__ import annotations

import argparse

from gpusim.cli import config_files
from gpusim.cli.exits import EXIT_OK, UserError
from gpusim.cli.options import add_command, add_json_option, add_set_option
from gpusim.cli.outputs import columns, print_json

EXAMPLES = """\
examples:
  gpusim config list
  gpusim config show h200
  gpusim config show mine.toml --set sm.count=66
  gpusim config diff h200 a100
  gpusim config diff h200 --set dram.bandwidth_gb_s=2400
  gpusim config keys dram
  gpusim config new mine --base h200 --set sm.count=264
  gpusim config check mine.toml
"""

SHOW_EXAMPLES = """\
examples:
  gpusim config show h200
  gpusim config show a100 --derived
  gpusim config show a100 --set sm.count=54 --json
"""
DIFF_EXAMPLES = """\
examples:
  gpusim config diff h200 a100
  gpusim config diff h200 --set l2.slices=48
"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(commands, "config", "print, compare, check and begin GPU configurations", EXAMPLES)
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    summary = "list the shipped configurations and where their values come from"
    each = add_command(actions, "list", summary, "example:\n  gpusim config list\n")
    add_json_option(each)
    each.set_defaults(command=list_names)

    summary = "print a resolved configuration as TOML, with the source of every value, and what follows from it"
    each = add_command(actions, "show", summary, SHOW_EXAMPLES)
    each.add_argument("name", nargs="?", default="h200", help="shipped name or TOML file (default: h200)")
    each.add_argument("--derived", action="store_true", help="only what follows: peak rates, ridge points, occupancy")
    add_set_option(each)
    add_json_option(each)
    each.set_defaults(command=show)

    each = add_command(actions, "diff", "print the values in which two configurations differ", DIFF_EXAMPLES)
    each.add_argument("first", metavar="NAME", help="shipped name or TOML file")
    each.add_argument("second", metavar="NAME", nargs="?", help="the other one (default: the first with --set)")
    add_set_option(each)
    add_json_option(each)
    each.set_defaults(command=show_diff)

    summary = "list the configuration's keys and what they mean"
    each = add_command(actions, "keys", summary, "examples:\n  gpusim config keys\n  gpusim config keys l1\n")
    each.add_argument("section", nargs="?", help="only keys of this section")
    add_json_option(each)
    each.set_defaults(command=show_keys)

    config_files.add(actions)


def list_names(options: argparse.Namespace) -> int:
    from gpusim.config import load_config, shipped_names
    from gpusim.config.create import KINDS, provenance

    rows = {name: (load_config(name).gpu, provenance(name)) for name in shipped_names()}
    if options.json:
        document = [
            {"name": name, "product": gpu.name, "arch": gpu.arch, "base": found.base}
            | {"sources": found.own, "inherited": found.inherited}
            for name, (gpu, found) in rows.items()
        ]
        print_json(document)
        return EXIT_OK
    table = [["", "product", "arch", *KINDS, "of the base"]]
    for name, (gpu, found) in rows.items():
        rest = f"{found.inherited} ({found.base})" if found.base else ""
        table.append([name, gpu.name, gpu.arch, *(str(found.own[kind]) for kind in KINDS), rest])
    print(columns(table))
    return EXIT_OK


def show(options: argparse.Namespace) -> int:
    from gpusim.config import load_config
    from gpusim.config.derived import derive

    config = load_config(options.name, options.overrides)
    rows = derive(config)
    if options.json:
        values: dict[str, object] = {}
        if not options.derived:
            values = {key: {"value": value, "source": config.source(key)} for key, value in config.items()}
        print_json(values | {"derived": config_files.derived_json(rows)})
        return EXIT_OK
    lines = config_files.derived_lines(rows)
    if not options.derived:
        print(config.to_toml())
        # As comments, so that what is printed is a configuration file.
        lines = ["# What follows from these values:", *(f"# {line}".rstrip() for line in lines)]
    print("\n".join(lines))
    return EXIT_OK


def show_diff(options: argparse.Namespace) -> int:
    from gpusim.config import diff, load_config

    if options.second is None and not options.overrides:
        raise UserError("config diff takes two configurations, or one and --set")
    first = load_config(options.first)
    second = load_config(options.second or options.first, options.overrides)
    rows = diff(first, second)
    if options.json:
        print_json({key: list(pair) for key, pair in rows.items()})
        return EXIT_OK
    names = (options.first, options.second or f"{options.first} with --set")
    table = [("", *names), *((key, _plain(a), _plain(b)) for key, (a, b) in rows.items())]
    print(columns(table))
    return EXIT_OK


def show_keys(options: argparse.Namespace) -> int:
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
    return EXIT_OK


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "[" + ", ".join(map(_plain, value)) + "]" if isinstance(value, tuple) else str(value)
