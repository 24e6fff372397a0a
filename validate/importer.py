"""From a recording (`validate.record`) to baselines (`validate.baseline`).

A baseline is written only from a complete recording of the code that the program images hold today: every
size of the variant, right outputs, at least two profiled launches, the same cubin.
"""

from __future__ import annotations

import argparse
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpusim.cli.parser import UserError
from gpusim.config import shipped_names
from programs import images, registry
from validate import baseline
from validate.baseline import Baseline, Measurement, Number, Spread, plain
from validate.gpu import read_json
from validate.metrics import ASKED_AGAIN, CYCLES, EXACT, LAUNCH, with_differences
from validate.points import ProgramPoint, select
from validate.record import FORMAT

_CLOCKS = {
    "sm": "gpc__cycles_elapsed.avg.per_second",
    "l2": "lts__cycles_elapsed.avg.per_second",
    "dram": "dram__cycles_elapsed.avg.per_second",
}


class ImportRefused(UserError):
    """A recording cannot be kept, or would replace baselines; nothing was written."""


def import_recording(
    path: Path, only: Sequence[str] = (), *, gpu: str | None = None, force: bool = False, folder: Path = baseline.FOLDER
) -> dict[str, str]:
    """Write the baselines of the chosen variants and return what happened to each: 'new', 'replaced' or 'same'.

    gpu: whose baselines they are; by default what `gpu_name` says.

    Raises:
        ImportRefused: a point is missing, failed or ran other code, or a file with other content exists and
            `force` is not given. Then nothing has been written.
    """
    document = _read(path)
    gpu = gpu or gpu_name(document["provenance"]["gpu"])
    texts: dict[str, str] = {}
    problems = []
    for name in dict.fromkeys(point.variant for point in select(only)):
        try:
            texts[name] = baseline.text_of(make(document, name))
        except ImportRefused as refused:
            problems.append(str(refused))
    outcome = {}
    for name, text in texts.items():
        file = baseline.path_of(name, gpu, folder)
        old = file.read_text("utf-8") if file.exists() else None
        outcome[name] = "new" if old is None else "same" if old == text else "replaced"
        if outcome[name] == "replaced" and not force:
            problems.append(f"{file} holds another measurement; --force replaces it")
    if problems:
        raise ImportRefused("\n".join(["nothing imported:", *problems]))
    for name, text in texts.items():
        file = baseline.path_of(name, gpu, folder)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    baseline.load.cache_clear()
    return outcome


def gpu_name(product: str) -> str:
    """The configuration that a GPU's product name stands for: 'NVIDIA H100 80GB HBM3' is 'h100'; the name in
    underscores if none is shipped for it."""
    words = re.split(r"[ -]", product.removeprefix("NVIDIA ").lower())
    return next((word for word in words if word in shipped_names()), "_".join(words))


def make(document: dict[str, Any], variant: str) -> Baseline:
    """The baseline of one variant from a recording's document. Raises ImportRefused."""
    program, measurements, rows = images.image(variant), [], []
    for size in registry.get(variant).sizes:
        point = ProgramPoint(variant, size)
        row = document["points"].get(str(point))
        problem = _problem(row, program.sha256, point.program.polls) or document["failures"].get(str(point))
        if row is None or problem:
            raise ImportRefused(f"{point}: {problem}")
        measurements.append(_measurement(point, row, document["provenance"]))
        rows.append(row)
    return Baseline(
        variant=variant,
        code=baseline.RecordedCode(
            image=images.entry_of(variant)["file"], symbol=program.symbol, code_sha256=program.code_sha256,
            cubin_sha256=program.sha256,
        ),
        provenance=_provenance(document["provenance"], rows),
        sizes=measurements,
    )  # fmt: skip


def _read(path: Path) -> dict[str, Any]:
    try:
        document = read_json(path)
    except (OSError, ValueError) as error:
        raise ImportRefused(f"{path} is no recording: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ImportRefused(f"{path} is no recording of format {FORMAT}")
    return document


def _problem(row: dict[str, Any] | None, cubin_sha256: str, polls: bool) -> str | None:
    """Return the reason why a point cannot be imported, None if it can."""
    if row is None:
        return "not in the recording"
    if not row.get("check", {}).get("ok"):
        return f"wrong outputs: {row.get('check', {}).get('mismatch', 'not checked')}"
    if not row.get("cold_us"):
        return "no times"
    if len(row.get("profiles", [])) < 2:
        return "fewer than two profiled launches, so no spread"
    if row["image"]["cubin_sha256"] != cubin_sha256:
        return "the recording ran other code than the program image holds now"
    for profile in row["profiles"]:
        if (profile["grid"], profile["block"]) != (row["launch"]["grid"], row["launch"]["block"]):
            return f"profiled with grid {profile['grid']} and block {profile['block']}"
        missing = [name for name in (CYCLES, *EXACT, *LAUNCH) if name not in with_differences(profile["metrics"])]
        if missing:
            return f"not measured: {', '.join(missing)}"
    for name in (*EXACT, *LAUNCH):
        if polls and name in ASKED_AGAIN:
            continue
        if len({with_differences(profile["metrics"])[name] for profile in row["profiles"]}) > 1:
            return f"{name} varies from launch to launch, so it cannot be exact"
    return None


def _measurement(point: ProgramPoint, row: dict[str, Any], found: dict[str, Any]) -> Measurement:
    profiles = [with_differences(profile["metrics"]) for profile in row["profiles"]]
    counters: dict[str, Number | list[Number]] = {}
    for name in sorted(set.intersection(*map(set, profiles))):
        values = [plain(profile[name]) for profile in profiles]
        counters[name] = values[0] if len(set(values)) == 1 else values
    warm = None
    if "warm" in row:
        who = {name: found[name] for name in ("gpu", "date", "ncu")} | {"driver": found["smi_before"]["driver_version"]}
        warm = baseline.WarmMeasurement.of([each["metrics"] for each in row["warm"]], who)
    check = {name: row["check"][name] for name in baseline.OutputCheck.model_fields}
    return Measurement(
        size=point.size,
        seed=row["seed"],
        launch=row["launch"],
        check=baseline.OutputCheck.model_validate(check),
        cycles=Spread.of(counters[CYCLES]),
        cold_us=Spread.of(row["cold_us"]),
        counters=counters,
        warm=warm,
    )


def _provenance(found: dict[str, Any], rows: list[dict[str, Any]]) -> baseline.GPUProvenance:
    before, after = found["smi_before"], found["smi_after_times"]
    said = before["clocks.max.sm"], before["clocks.max.mem"], after["clocks.sm"]
    numbers = (int(each.removesuffix(" MHz")) for each in said)
    clocks: dict[str, Number] = dict(zip(("sm_max", "memory_max", "sm_after_times"), numbers, strict=True))
    metrics = [profile["metrics"] for row in rows for profile in row["profiles"]]
    for part, name in _CLOCKS.items():
        seen = [each[name] for each in metrics if name in each]
        if seen:
            clocks[f"{part}_under_ncu"] = round(statistics.median(seen) / 1e6)
    copied = {
        name: found[name]
        for name in baseline.GPUProvenance.model_fields
        if name not in ("driver", "clocks_mhz", "tools") and name in found
    }
    return baseline.GPUProvenance(
        driver=before["driver_version"], clocks_mhz=clocks, tools=images.index()["tools"], **copied
    )


def command(options: argparse.Namespace) -> int:
    """`validate import`. Raises ImportRefused."""
    outcome = import_recording(options.raw, options.only, gpu=options.gpu, force=options.force)
    for name, what in outcome.items():
        print(f"{name}: {what}")
    return 0
