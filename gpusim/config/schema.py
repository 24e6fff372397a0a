"""The configuration's JSON schema, which editors check and complete TOML files with.

Made from the pydantic models: descriptions, ranges and choices come from `sections.py`. What TOML files have beyond
those is added: `base`, values as `{ value, source }`, and no key that must be there, since a base gives the others.
Draft 7, with every definition in its place, which is what editors' TOML plug-ins understand.
"""

from __future__ import annotations

from typing import Any

from gpusim.config.keys import unit_of
from gpusim.config.load import shipped_names
from gpusim.config.models import GPUConfig

FILE_NAME = "gpusim.schema.json"
"""What the file is called that `#:schema` in a configuration points to."""


def config_schema() -> dict[str, Any]:
    """JSON schema (draft 7) of a configuration file."""
    models = GPUConfig.model_json_schema()
    properties = _sections(models, models["$defs"], "")
    base = {
        "description": "configuration that gives every value not listed here: a shipped name, or a path "
        "relative to this file",
        "anyOf": [{"enum": list(shipped_names())}, {"type": "string", "minLength": 1}],
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "gpusim configuration",
        "description": "A GPU that gpusim simulates: a base and what differs from it. Times are SM clock cycles.",
        "type": "object",
        "properties": {"base": base, **properties},
        "additionalProperties": False,
    }


def _sections(model: dict[str, Any], definitions: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Properties of a model: tables for its sections, `_value` for what is a value."""
    found: dict[str, Any] = {}
    for name, each in model["properties"].items():
        part = definitions.get(_reference(each), {})
        if "properties" in part:
            text = each.get("description") or part.get("description", "")
            found[name] = {
                "description": " ".join(text.split()),
                "type": "object",
                "properties": _sections(part, definitions, f"{prefix}{name}."),
                "additionalProperties": False,
            }
        else:
            found[name] = _value(each, f"{prefix}{name}")
    return found


def _reference(each: dict[str, Any]) -> str:
    # A section with a description of its own is wrapped in `allOf` by some versions of pydantic.
    inner = each.get("allOf", [each])[0]
    return str(inner.get("$ref", "")).rpartition("/")[2]


def _value(each: dict[str, Any], key: str) -> dict[str, Any]:
    """A value, plain or with its source."""
    plain = {name: part for name, part in each.items() if name not in ("title", "description")}
    if "prefixItems" in plain:  # draft 7 has it under `items`
        plain["items"] = plain.pop("prefixItems")
        plain["additionalItems"] = False
    unit = unit_of(key)
    text = each.get("description", "")
    with_source = {
        "type": "object",
        "properties": {
            "value": plain,
            "source": {
                "type": "string",
                "pattern": r"\S",
                "description": "where the value comes from, such as 'spec: data sheet'",
            },
        },
        "required": ["value"],
        "additionalProperties": False,
    }
    return {"description": f"{text} [{unit}]" if unit else text, "anyOf": [plain, with_source]}
