"""Baselines: what a real GPU did with the bundled programs, one readable file per variant.

`load` reads a file of `validate/baselines/`, `text_of` is what one holds; the models below are the files' schema, and a
file that does not fit it is refused. `validate.importer` makes baselines from a recording.
"""

from __future__ import annotations

import statistics
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from validate.gpu import compact_text
from validate.metrics import CYCLES
from validate.points import ProgramPoint

FOLDER = Path(__file__).parent / "baselines"

Number = int | float


class BaselineError(ValueError):
    """A baseline does not fit the schema, contradicts its own name, or is of other code or inputs than there are."""


class MissingBaseline(LookupError):
    """There is no baseline of the variant, or not at that size."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Spread(_Model):
    """Several measurements of one thing: the median stands for all of them."""

    median: Number
    min: Number
    max: Number
    count: int

    @classmethod
    def of(cls, values: Any) -> Spread:
        """The spread of at least one value, or of one that never varies."""
        values = values if isinstance(values, list) else [values]
        middle = plain(statistics.median(values))
        return cls(median=middle, min=plain(min(values)), max=plain(max(values)), count=len(values))

    @property
    def relative(self) -> float:
        """From the least to the greatest, as a share of the median."""
        return (self.max - self.min) / self.median if self.median else 0.0


class OutputCheck(_Model):
    """Comparison of the GPU's outputs with the NumPy reference; `exact` means equal bit for bit."""

    ok: Literal[True]
    exact: bool
    max_abs_error: float
    max_rel_error: float


class WarmMeasurement(_Model):
    """Launches on what the same launch before them left in caches. provenance: 'gpu', 'driver', 'date', and 'ncu' if it
    is known; cycles: as of `Measurement`; counters: all others, medians."""

    provenance: dict[str, str]
    cycles: Spread
    counters: dict[str, Number]

    @classmethod
    def of(cls, launches: list[dict[str, float]], provenance: dict[str, str]) -> WarmMeasurement:
        """What was counted of these launches."""
        seen = {name: Spread.of([each[name] for each in launches]) for name in sorted(launches[0])}
        cycles = seen.pop(CYCLES)
        return cls(provenance=provenance, cycles=cycles, counters={name: each.median for name, each in seen.items()})


class Measurement(_Model):
    """One point as measured.

    size, seed: of the inputs. launch: as `validate.points.describe` spells it.
    cycles: gpc__cycles_elapsed.max, caches flushed before each launch.
    cold_us: time between two events around the launch, caches emptied. warm: None where it was not measured.
    counters: in ncu's base units, by ncu's names; a list holds one value per launch where they vary.
    """

    size: int
    seed: int
    launch: dict[str, Any]
    check: OutputCheck
    cycles: Spread
    cold_us: Spread
    counters: dict[str, Number | list[Number]]
    warm: WarmMeasurement | None = None

    def __getitem__(self, name: str) -> Number:
        """A counter, the median of the launches where they vary. Raises KeyError."""
        value = self.counters[name]
        return plain(statistics.median(value)) if isinstance(value, list) else value


class GPUProvenance(_Model):
    """GPU, driver and tools of a recording. Clocks in MHz: the most the GPU allows, the driver's reading just after the
    timed launches, and ncu's (median over launches); tools: versions of those that compiled the kernel."""

    date: str
    gpu: str
    compute_capability: str
    sm_count: int
    driver: str
    cuda_driver: int
    ncu: str
    cache_control: str
    clock_control: str
    clocks_mhz: dict[str, Number]
    event_overhead_us: float
    python: str
    cupy: str | None = None
    numpy: str
    tools: dict[str, str]


class RecordedCode(_Model):
    """The machine code that ran. image: file in `programs/images`; code_sha256: digest of what executes."""

    image: str
    symbol: str
    code_sha256: str
    cubin_sha256: str


class Baseline(_Model):
    """A variant as measured on one GPU, at each of its sizes."""

    format: Literal[1] = 1
    variant: str
    code: RecordedCode
    provenance: GPUProvenance
    sizes: list[Measurement]

    def at(self, size: int) -> Measurement:
        """The measurement at a size. Raises MissingBaseline."""
        for each in self.sizes:
            if each.size == size:
                return each
        sizes = ", ".join(str(each.size) for each in self.sizes)
        raise MissingBaseline(f"{self.variant} was not recorded at size {size}, only at {sizes}")


def gpu_of(configuration: str) -> str:
    """The GPU whose baselines a configuration is compared with: its own, or the H200's where it has none."""
    return configuration if (FOLDER / configuration).is_dir() else "h200"


def path_of(variant: str, gpu: str = "h200", folder: Path = FOLDER) -> Path:
    """Return where the baseline of a variant lies."""
    family, _, name = variant.partition("/")
    return folder / gpu / family / f"{name or family}.json"


@cache
def load(variant: str, gpu: str = "h200", folder: Path = FOLDER) -> Baseline:
    """The baseline of a variant.

    Raises:
        MissingBaseline: there is none.
        BaselineError: the file does not fit the schema.
    """
    path = path_of(variant, gpu, folder)
    try:
        found = Baseline.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise MissingBaseline(f"no baseline of {variant} on {gpu}: {path} does not exist") from None
    except (OSError, ValueError) as error:  # pydantic's are of the latter
        raise BaselineError(f"{path}: {error}") from None
    if found.variant != variant:
        raise BaselineError(f"{path} holds {found.variant}, not {variant}")
    return found


def measured(point: ProgramPoint, gpu: str = "h200") -> Measurement:
    """Return the measurement of a point. Raises as `load`, and MissingBaseline for another size or seed."""
    found = load(point.variant, gpu).at(point.size)
    if found.seed != point.seed:
        raise MissingBaseline(f"{point} was recorded with seed {found.seed}, not {point.seed}")
    return found


def text_of(baseline: Baseline) -> str:
    """The file's content: JSON with sorted keys, one counter per line."""
    return compact_text(baseline.model_dump(mode="json", exclude_none=True), sort_keys=True)


def plain(value: Any) -> Number:
    """An int where the value is whole, else the float."""
    return int(value) if float(value).is_integer() else float(value)
