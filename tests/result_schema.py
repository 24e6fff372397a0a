"""The JSON schema of what `--json` prints, made from the types of what is printed.

`python -m tests.result_schema` writes the file that `gpusim schema` prints; `gpusim/test_schema.py` holds it to real
output. Dataclasses are those of the packages, with their docstrings; what a command puts around them stands here.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, NotRequired, get_type_hints

from pydantic import Field, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import TypedDict

from gpusim.cli.schema import FILE
from gpusim.collectives.result import CollectiveResult
from gpusim.difference.pairs import Change, FindingChange, LineChange
from gpusim.difference.side import Run
from gpusim.explore.sensitivity import Sensitivity
from gpusim.results import SCHEMA_VERSION
from gpusim.results.analysis import InstructionCosts, SourceLine
from gpusim.results.quantities import shown
from gpusim.results.record import Bound
from gpusim.results.roofline import Roofline
from gpusim.results.table import DIFF, JSON
from gpusim.workload.target import ReferenceCheck

Version = Annotated[
    Literal[SCHEMA_VERSION],
    Field(description="Raised when a field goes or changes its meaning. A new field leaves it as it is."),
]
Dim3 = Annotated[list[int], Field(min_length=3, max_length=3, description="x, y and z")]
Cell = str | float | bool | None
Row = dict[str, Cell]
Plain = Annotated[Any, Field(description="a value of the configuration")]


def printed(name: str, of: type, *derived: str, without: tuple[str, ...] = (), **more: Any) -> type:
    """The type of a dataclass's fields and some of its properties as one JSON object; more: further fields."""
    hints = {each: hint for each, hint in get_type_hints(of).items() if each not in without}
    for each in derived:
        getter = getattr(of, each).fget
        returned = get_type_hints(getter)["return"]
        hints[each] = Annotated[returned, Field(description=getter.__doc__)]
    return document(name, of.__doc__, **hints | more)


def document(name: str, about: str | None, /, **fields: Any) -> Any:
    """The type of a JSON object with such fields."""
    made = TypedDict(name, fields)
    made.__doc__ = about
    return made


_FOLLOWS = ("threads_per_instruction", "thread_efficiency", "stall_cycles", "main_stall")
Line = printed("Line", SourceLine, *_FOLLOWS)
InstructionCost = printed("InstructionCost", InstructionCosts, *_FOLLOWS)
LaunchRoofline = printed(
    "LaunchRoofline", Roofline, "kind", "operations_per_s", "roof", "share_of_roof",
    intensity=Annotated[dict[str, float], Field(description="operations per byte moved, by level of memory")],
)  # fmt: skip


_PRINTED = {
    "schema_version": Version, "grid": Dim3, "block": Dim3, "configuration": dict[str, Plain],
    "roofline": LaunchRoofline, "source_lines": list[Line], "instructions": list[InstructionCost],
}  # fmt: skip
"""Fields of a result whose type says less than its schema."""


def run_document() -> type:
    """The document of a run: what the command puts before it, and the rows of the table of quantities."""
    fields: dict[str, Any] = {
        "program": NotRequired[str],
        "size": NotRequired[int | None],
        "seed": NotRequired[int | None],
        "check": NotRequired[ReferenceCheck | None],
    }
    for each in shown(JSON):
        if not each.metric:
            text = f"{each.meaning}, in {each.unit}" if each.unit else each.meaning
            kind = Annotated[_PRINTED.get(each.name, each.kind), Field(description=text)]
            fields[each.name] = NotRequired[kind] if each.timed or each.optional else kind
    return document(
        "RunDocument",
        "`gpusim run --json`, and `Result.to_dict()`, which does not know program, size, seed and check. A functional "
        "run lacks what needs times. size and seed: null for a kernel of your own. check: null where outputs were not "
        "compared.",
        **fields,
    )


LaunchGroup = document(
    "LaunchGroup",
    "Launches of one kernel with one grid, block and dynamic shared memory. kernel, symbol, name: plain, mangled, and "
    "in full. calls: that ended well; repeated: of these with the time of an earlier one. first, last: numbers of "
    "launches, from 1. cycles, time_us, energy_j, "
    "instructions: of all calls together. limiter: of the longest call. Without times there is neither energy nor "
    "limiter. low_cycles, high_cycles: sums of what nine in ten launches of their kinds lie between and, of stand-ins' "
    "kernels, the library's own, as `stands_for` says; 0 where that is not known. nvtx_range: innermost of the thread "
    "that launched, behind its domain and ': '; '' for none.",
    **dict.fromkeys(("kernel", "symbol", "name", "nvtx_range"), str), grid=Dim3, block=Dim3,
    **dict.fromkeys(("shared_bytes", "calls", "failed", "findings", "repeated", "first", "last", "instructions"), int),
    **dict.fromkeys(("cycles", "least_cycles", "most_cycles"), int), time_us=float, energy_j=float | None,
    limiter=str | None, low_cycles=float, high_cycles=float, stands_for=str | None,
)  # fmt: skip
Total = document(
    "Total", "All launches together. low_us, high_us: if each is as far off as nine in ten of its kind are.",
    calls=int, cycles=int, time_us=float, energy_j=float | None, low_us=float, high_us=float,
)  # fmt: skip
GpuUse = document(
    "GpuUse", "What a GPU of a program did: time in which kernels run, copies do, and it is in a collective, waiting "
    "for others or moving data. exposed_us: of the last, what no kernel runs beside. peak_bytes: allocated at once.",
    gpu=str, kernels_us=float, copies_us=float, collectives_us=float, exposed_us=float, peak_bytes=int,
)  # fmt: skip
CollectiveUse = document(
    "CollectiveUse", "Calls of one collective, or of messages. how: algorithm and protocol; link: the busiest. calls: "
    "of all ranks together. time_us: their sum from the time when the last rank has come; waited_us: that before it.",
    **dict.fromkeys(("name", "how", "link"), str), ranks=int, nbytes=int, calls=int, time_us=float, waited_us=float,
)  # fmt: skip
LaunchTable = document(
    "LaunchTable",
    "`gpusim script --json`, `exec` and `replay`: the launches of one process, or of all that share the GPUs of a "
    "node. gpus, collectives: of a program with several GPUs.",
    schema_version=Version, gpu=str, launches=list[LaunchGroup], total=Total, host_seconds=float,
    gpus=list[GpuUse], collectives=list[CollectiveUse],
)  # fmt: skip


_TOLD = {"section": NotRequired[str], "unit": NotRequired[str]}
Changed = printed("Changed", Change, "ratio", without=tuple(_TOLD), **_TOLD)
StallChanged = printed("StallChanged", Change, "ratio", "difference", without=tuple(_TOLD), **_TOLD)
FindingChanged = printed("FindingChanged", FindingChange, "state")


def diff_document() -> type:
    """The document of a comparison, with the numbers of the table of quantities."""
    rows = [each for each in shown(DIFF) if not each.metric]
    run = printed("Run", Run, without=("numbers",), **{each.name: float | None for each in rows})
    numbers = {each.bare: Changed for each in rows}
    return document(
        "DiffDocument",
        "`gpusim diff --json`: both runs, and what differs between them, the most changed first. why: in sentences. "
        "energy, power: null on a side that was measured.",
        **{"a": run, "b": run} | numbers, **dict.fromkeys(("launch", "configuration", "metrics"), list[Changed]),
        **dict.fromkeys(("energy_parts", "stalls"), list[StallChanged]), findings=list[FindingChanged],
        lines=list[LineChange], why=list[str], schema_version=Version,
    )  # fmt: skip


ControlBits = document(
    "ControlBits", "The compiler's scheduling bits. Barriers: number of a scoreboard, 7 for none.",
    **{"stall": int, "yield": bool, "write_barrier": int, "read_barrier": int, "wait_mask": int},
)  # fmt: skip
ShownInstruction = document(
    "ShownInstruction", "One instruction of the listing. address: byte offset in the kernel. costs: with --run.",
    address=int, text=str, file=str | None, line=int | None, source=str, control=ControlBits,
    costs=NotRequired[InstructionCost],
)  # fmt: skip
ShowDocument = document(
    "ShowDocument", "`gpusim show --json`.", schema_version=Version, kernel=str, arch=str, registers=int,
    static_shared_bytes=int, instructions=list[ShownInstruction],
)  # fmt: skip
BoundDocument = document(
    "BoundDocument", "`gpusim bound --json`: the least time on each GPU that was asked for.", schema_version=Version,
    program=str, size=int | None, seed=int | None, kernel=str, bounds=list[Bound],
)  # fmt: skip
SweepDocument = document(
    "SweepDocument",
    "`gpusim sweep --json`. points: rows of the table; columns depend on what is swept (docs/exploring.md). seconds: "
    "of the whole sweep. resumed: rows that the journal had already.",
    schema_version=Version, points=list[Row], seconds=float, resumed=int,
)  # fmt: skip
SearchDocument = document(
    "SearchDocument",
    "`gpusim search --json`. candidates: all machines that were tried, front: the best of them; columns depend on the "
    "space (docs/exploring.md).",
    schema_version=Version, goals=list[str], limits=list[str], runs=int, front=list[Row], candidates=list[Row],
)  # fmt: skip
SensitivityDocument = printed(
    "SensitivityDocument", Sensitivity, schema_version=Version, next=NotRequired[Sensitivity],
    text=Annotated[str, Field(description="what limits the program, in words")],
)  # fmt: skip
CompareDocument = document(
    "CompareDocument",
    "`gpusim compare --json`. machines: a row for each, in the order given: its time with the interval, energy, mean "
    "power, area, what limits it and why, or the error; launches: the same of each, with its weight.",
    schema_version=Version, machines=list[dict[str, Cell | list[Row]]],
)  # fmt: skip
CostPart = document("CostPart", "One part of a machine.", area_mm2=float, power_w=float)
CostDocument = document(
    "CostDocument", "`gpusim cost --json`: a first-order model (docs/exploring.md). node: the process. errors: "
    "how far areas and powers of known dies and products are off.",
    schema_version=Version, area_mm2=float, power_w=float, node=str, parts=dict[str, CostPart], errors=str,
)  # fmt: skip
Collective = printed(
    "Collective", CollectiveResult, "bus_gb_s", without=("steps", "utilisation", "bin_us"), schema_version=Version
)
Exported = document(
    "Exported",
    "`gpusim export --json`: what was written; several of them, in a list, where several processes had launches.",
    schema_version=Version, folder=str, seconds=float,
    **dict.fromkeys(("kernels", "copies", "instructions", "nbytes"), int),
)  # fmt: skip
ListedProgram = document(
    "ListedProgram", "`gpusim list --json`: one of the bundled programs.", default_size=int, sizes=list[int],
    **dict.fromkeys(("name", "family", "teaches", "size_name", "gpu"), str),
)  # fmt: skip
ListedMetric = document(
    "ListedMetric", "`gpusim list --metrics --json`: one metric.", name=str, unit=str, meaning=str
)  # fmt: skip
ListedConfiguration = document(
    "ListedConfiguration",
    "`gpusim config list --json`: one shipped GPU. sources: how many of its own values come from where; inherited: how "
    "many its base gives.",
    name=str, product=str, arch=str, base=str | None, sources=dict[str, int], inherited=int,
)  # fmt: skip
Derived = document(
    "Derived", "A number that follows from a configuration, in the unit that its name carries.", value=float, group=str,
    meaning=str,
)  # fmt: skip
Problem = document("Problem", "What is wrong or suspicious, and at which key.", key=str | None, message=str)
CheckedConfiguration = document(
    "CheckedConfiguration", "`gpusim config check --json`. derived: empty if something is wrong.", ok=bool,
    errors=list[Problem], warnings=list[Problem], derived=dict[str, Derived],
)  # fmt: skip
ConfigValue = document("ConfigValue", "A value of a configuration and its source.", value=Plain, source=str)


class ShownConfiguration(TypedDict, extra_items=ConfigValue):  # type: ignore[call-arg]
    """`gpusim config show --json`: values by dotted key, and what follows from them."""

    derived: dict[str, Derived]


COMMANDS: dict[str, Any] = {
    "run": run_document(),
    "script": LaunchTable,
    "exec": LaunchTable | list[LaunchTable],
    "replay": LaunchTable,
    "show": ShowDocument,
    "diff": diff_document(),
    "bound": BoundDocument,
    "sweep": SweepDocument,
    "search": SearchDocument,
    "sensitivity": SensitivityDocument,
    "compare": CompareDocument,
    "cost": CostDocument,
    "collective": list[Collective],
    "export": Exported | list[Exported],
    "list": list[ListedProgram] | list[ListedMetric],
    "config-list": list[ListedConfiguration],
    "config-show": ShownConfiguration,
    "config-diff": dict[str, Annotated[list[Plain], Field(min_length=2, max_length=2)]],
    "config-keys": dict[str, str],
    "config-check": CheckedConfiguration,
}
"""What each command prints. Lists of `exec` and `export` have an element for each process."""


class _Schema(GenerateJsonSchema):
    """A printed dataclass has all of its fields, those with a default too."""

    def field_is_required(self, field: Any, total: bool) -> bool:
        return field["type"] == "dataclass-field" or super().field_is_required(field, total)


def make_schema() -> dict[str, Any]:
    """The schema (2020-12): a definition for each command, and those that they use."""
    printed_now = COMMANDS | {"run": run_document(), "diff": diff_document()}
    adapters = [(name, "serialization", TypeAdapter(type_)) for name, type_ in printed_now.items()]
    found, whole = TypeAdapter.json_schemas(adapters, schema_generator=_Schema)
    commands = {name: found[name, "serialization"] for name in COMMANDS}
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "title": "gpusim --json",
        "description": f"What gpusim prints with --json, version {SCHEMA_VERSION}: the document of any of its "
        "commands. `gpusim schema COMMAND` prints the part of one.",
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in COMMANDS],
        "$defs": _tidy(commands | whole["$defs"]),
    }


def _tidy(schema: Any) -> Any:
    """Without titles that only repeat names, with docstrings as running text."""
    if isinstance(schema, list):
        return [_tidy(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: part for name, part in schema.items() if name != "title" or isinstance(part, dict)}
    if isinstance(text := kept.get("description"), str):
        kept["description"] = " ".join(text.split())
    return {name: _tidy(part) for name, part in kept.items() if (name, part) != ("additionalProperties", True)}


if __name__ == "__main__":
    FILE.write_text(json.dumps(make_schema(), indent=1) + "\n", "utf-8")
