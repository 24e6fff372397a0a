"""Kernels keep the properties that their programs are about, in the machine code of their images.

`tests/validate/test_images.py` holds the images to what the sources compile to."""

from __future__ import annotations

import re

import numpy as np
import pytest

from isa import Program
from programs import images, registry

KERNELS = {registry.get(name).kernel: name for name in reversed(registry.names()) if registry.get(name).image}


def texts(program: Program) -> list[str]:
    return [each.text for each in program.instructions]


@pytest.mark.parametrize("name", sorted(KERNELS.values()))
def test_compiles_to_the_precision_of_its_arguments(name: str) -> None:
    program = images.image(name)
    assert sum(each.line is not None for each in program.instructions) > len(program.instructions) / 2
    # A stray Python float would promote single precision to double, an order of magnitude slower on many
    # GPUs.
    args = registry.get(name).make(registry.get(name).test_size, 0).args
    double = [text for text in texts(program) if re.search(r"\bD(ADD|MUL|FMA|SETP|MNMX|MMA)\b|F64", text)]
    assert bool(double) == any(arg.dtype == np.float64 for arg in args), double


def test_divergent_paths_stay_separate_loops() -> None:
    added = {text.split(", ")[-1] for text in texts(images.image("divergence/1")) if "FADD" in text}
    assert len({each for each in added if re.match(r"-?[\d.]", each)}) == 32


def test_saxpy_is_contracted() -> None:
    code = " ".join(texts(images.image("saxpy")))
    assert "FFMA" in code and "FMUL" not in code
