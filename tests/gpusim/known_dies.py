"""Known dies and products: what the cost model was fitted to, and how far it is off.

`python -m tests.gpusim.known_dies` prints the tables of docs/exploring.md.

Areas are those of whole dies, with the SMs, slices and stacks that products disable. White papers and data sheets of
the vendor give areas and counts; arrays that they do not mention (instruction and constant caches) are taken to be as
large as in an H200.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import astuple, dataclass

import numpy as np

from gpusim.cli.outputs import columns
from gpusim.explore import technology as T
from gpusim.explore.cost import Structure, areas, powers

KB, MB = 1 << 10, 1 << 20
_OTHER_BYTES = 252 * KB
"""Instruction and constant caches of an SM: 4 x (5 + 2) + 32 + 128 + 64 KB."""


@dataclass(frozen=True)
class Die:
    """A die whose area is known."""

    name: str
    area_mm2: float
    structure: Structure


@dataclass(frozen=True)
class Product:
    """A product whose power limit is known, near its boost clock under load."""

    name: str
    power_w: float
    structure: Structure


def _machine(
    arch: str,
    sms: int,
    units: tuple[float, float, float, float],
    l1_kb: int,
    l2_mb: float,
    memory: tuple[str, float, float],
    clock_mhz: float,
    links: int,
) -> Structure:
    """units: FP32, integer, FP64 and tensor products of an SM. memory: kind, interfaces, GB/s."""
    family = T.FAMILIES[arch]
    fp32, integer, fp64, tensor = units
    return Structure(
        node=family.node, sms=sms, lanes=128, fp32=fp32, integer=integer, fp64=fp64, half=64, mufu=16, tensor=tensor,
        register_bytes=256 * KB, l1_bytes=l1_kb * KB, other_bytes=_OTHER_BYTES, crossbar_bytes=64 * sms,
        slice_bytes=64 * sms, l2_bytes=int(l2_mb * MB), memory=memory[0], interfaces=memory[1], memory_gb_s=memory[2],
        links=links, nvlink=family.nvlink, pcie=family.pcie, ray_tracing=family.ray_tracing and bool(tensor),
        clock_mhz=clock_mhz,
    )  # fmt: skip


_TURING, _ADA = (64, 64, 2, 512), (128, 64, 2, 512)
DIES = (
    Die("GP100", 610, _machine("sm_60", 60, (64, 0, 32, 0), 88, 4, ("HBM2", 4, 732), 1480, 4)),
    Die("GV100", 815, _machine("sm_70", 84, (64, 64, 32, 512), 128, 6, ("HBM2", 4, 900), 1530, 6)),
    Die("TU102", 754, _machine("sm_75", 72, _TURING, 96, 6, ("GDDR6", 12, 672), 1635, 2)),
    Die("TU104", 545, _machine("sm_75", 48, _TURING, 96, 4, ("GDDR6", 8, 448), 1710, 1)),
    Die("TU106", 445, _machine("sm_75", 36, _TURING, 96, 4, ("GDDR6", 8, 448), 1620, 0)),
    Die("TU116", 284, _machine("sm_75", 24, (64, 64, 2, 0), 96, 1.5, ("GDDR6", 6, 288), 1770, 0)),
    Die("TU117", 200, _machine("sm_75", 16, (64, 64, 2, 0), 96, 1, ("GDDR6", 4, 128), 1665, 0)),
    Die("GA100", 826, _machine("sm_80", 128, (64, 64, 32, 1024), 192, 48, ("HBM2E", 6, 2446), 1410, 12)),
    Die("GH100", 814, _machine("sm_90", 144, (128, 64, 64, 2048), 256, 60, ("HBM3", 6, 4020), 1830, 18)),
    Die("AD102", 608.5, _machine("sm_89", 144, _ADA, 128, 96, ("GDDR6X", 12, 1008), 2520, 0)),
    Die("AD103", 378.6, _machine("sm_89", 80, _ADA, 128, 64, ("GDDR6X", 8, 736), 2550, 0)),
    Die("AD104", 294.5, _machine("sm_89", 60, _ADA, 128, 48, ("GDDR6X", 6, 504), 2610, 0)),
    Die("AD106", 187.8, _machine("sm_89", 36, _ADA, 128, 32, ("GDDR6", 4, 288), 2535, 0)),
)
"""Whole dies: white papers of Pascal (GP100), Volta, Turing, Ampere (GA100), Hopper and Ada (AD102); the smaller ones
from TechPowerUp's database."""

PRODUCTS = (
    Product("P100 SXM2", 300, _machine("sm_60", 56, (64, 0, 32, 0), 88, 4, ("HBM2", 4, 732), 1480, 4)),
    Product("V100 SXM2", 300, _machine("sm_70", 80, (64, 64, 32, 512), 128, 6, ("HBM2", 4, 900), 1530, 6)),
    Product("RTX 2080 Ti", 260, _machine("sm_75", 68, _TURING, 96, 5.5, ("GDDR6", 11, 616), 1635, 2)),
    Product("A100 SXM 80GB", 400, _machine("sm_80", 108, (64, 64, 32, 1024), 192, 40, ("HBM2E", 5, 2039), 1410, 12)),
    Product("H100 SXM", 700, _machine("sm_90", 132, (128, 64, 64, 2048), 256, 50, ("HBM3", 5, 3350), 1755, 18)),
    Product("H200 SXM", 700, _machine("sm_90", 132, (128, 64, 64, 2048), 256, 60, ("HBM3E", 6, 4800), 1755, 18)),
    Product("RTX 4090", 450, _machine("sm_89", 128, _ADA, 128, 72, ("GDDR6X", 12, 1008), 2520, 0)),
)
"""Data sheets. The T4 is not among them: at 70 W it runs at little more than half of its boost clock."""


def fit(dies: Iterable[Die] = DIES) -> T.Factors:
    """The factors that make the squares of the relative errors of these dies least. Areas are linear in them."""
    dies = list(dies)
    none = np.zeros(len(astuple(T.FITTED)))

    def total(die: Die, factors: np.ndarray) -> float:
        return sum(areas(die.structure, T.Factors(*factors)).values())

    offsets = np.array([total(die, none) for die in dies])
    columns = [np.array([total(die, none + unit) for die in dies]) - offsets for unit in np.eye(len(none))]
    known = np.array([die.area_mm2 for die in dies])
    factors, *_ = np.linalg.lstsq(np.stack(columns, 1) / known[:, None], (known - offsets) / known, rcond=None)
    return T.Factors(*(float(factor) for factor in factors))


def area_errors() -> dict[str, float]:
    """Relative error of the model's area of each die."""
    return {die.name: _area_error(die, T.FITTED) for die in DIES}


def leave_one_out() -> dict[str, float]:
    """Relative error of each die with factors fitted to all others: how well the model predicts a die."""
    return {die.name: _area_error(die, fit(other for other in DIES if other is not die)) for die in DIES}


def power_errors() -> dict[str, float]:
    """Relative error of the power of each product at the model's activity, against its limit."""
    powered = {each: powers(each.structure, areas(each.structure)) for each in PRODUCTS}
    return {each.name: sum(watts.values()) / each.power_w - 1 for each, watts in powered.items()}


def _area_error(die: Die, factors: T.Factors) -> float:
    return sum(areas(die.structure, factors).values()) / die.area_mm2 - 1


def tables() -> tuple[str, str]:
    """The errors of areas and of powers."""
    area, left_out, power = area_errors(), leave_one_out(), power_errors()

    def summary(errors: dict[str, float]) -> str:
        sizes = [abs(error) for error in errors.values()]
        return f"{statistics.fmean(sizes):.1%}, {max(sizes):.1%}"

    dies = [
        (each.name, f"{each.area_mm2:.1f}", f"{area[each.name]:+.1%}", f"{left_out[each.name]:+.1%}") for each in DIES
    ]
    products = [(each.name, f"{each.power_w:.0f}", f"{power[each.name]:+.1%}") for each in PRODUCTS]
    last = "mean, largest", ""
    return (
        columns([("die", "mm^2", "model", "left out"), *dies, (*last, summary(area), summary(left_out))], "<>"),
        columns([("product", "limit, W", "model"), *products, (*last, summary(power))], "<>"),
    )


if __name__ == "__main__":
    print(*tables(), sep="\n\n")
