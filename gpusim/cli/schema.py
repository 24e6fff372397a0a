"""`gpusim schema`: the JSON schema of what `--json` prints."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from gpusim.cli.outputs import print_json
from gpusim.cli.parser import UserError

FILE = Path(__file__).with_name("results.schema.json")


def execute(options: argparse.Namespace) -> None:
    text = FILE.read_text("utf-8")
    if not options.words:
        print(text, end="")
        return
    whole, name = json.loads(text), "-".join(options.words)
    if name not in commands():
        known = ", ".join(commands())
        raise UserError(f"no command {' '.join(options.words)!r} prints JSON; those that do: {known}")
    head = {"$schema": whole["$schema"], "title": f"gpusim {' '.join(options.words)} --json", "$ref": f"#/$defs/{name}"}
    print_json(head | {"$defs": whole["$defs"]})


def commands() -> list[str]:
    """Commands that print JSON, with - between their words."""
    return [each["$ref"].rpartition("/")[2] for each in json.loads(FILE.read_text("utf-8"))["anyOf"]]
