"""How far the stand-ins' kernels are from the libraries' own, as the table of launches says it.

`python -m tests.gpusim.test_counterparts` writes `counterparts.txt` anew from what was recorded.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import gpusim.driver.outputs.counterparts as module
from gpusim.driver.outputs.counterparts import Counterpart, counterpart_of

DATA = Path(__file__).parent / "data"
FILE = Path(module.__file__).with_name("counterparts.txt")
NOT_MEASURED = {"gpusim_gemm": "cuBLAS", "gpusim_sgemm": "cuBLAS", "gpusim_sparse": "cuSPARSE"}


def _read(name: str, key: str) -> list:
    return json.loads((DATA / f"{name}_h200.json").read_text())[key]


def recorded() -> dict[tuple[str, str], list[float]]:
    """The library's time over that of our kernels, by what their names begin with and the library."""
    found = defaultdict(list)
    for kind, *_, library, _, ours, _, _, _ in (*_read("products", "products"), *_read("products", "judge")):
        found[f"gpusim_gemm_{kind}", "cuBLAS"].append(library / ours)
    for each in _read("convolutions", "convolutions"):
        for way in ("forward", "data", "filter"):
            if each[way][2] not in ("product", "winograd"):  # those are kernels of other names
                found[f"gpusim_conv_{way}", "cuDNN"].append(each[way][0] / each[way][1])
    for _, ours, library in _read("transforms", "transforms"):
        found["gpusim_fft", "cuFFT"].append(library / ours)
    return found


def rows() -> list[str]:
    """Lines of the file but its head."""
    made = [f"{begins} {library} 0 0 0 1 1" for begins, library in NOT_MEASURED.items()]
    for (begins, library), ratios in recorded().items():
        half, most = np.quantile(np.abs(1 / np.array(ratios) - 1), (0.5, 0.9))
        low, high = np.quantile(ratios, (0.1, 0.9))
        made.append(f"{begins} {library} {len(ratios)} {half:.3f} {most:.3f} {low:.3f} {high:.3f}")
    return made


def test_the_table_says_what_was_recorded():
    lines = FILE.read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == rows()


def test_the_longest_beginning_counts():
    of_halves, others = counterpart_of("gpusim_gemm_f16_64x32_bias"), counterpart_of("gpusim_gemm_c32_64x64")
    assert of_halves and of_halves.begins == "gpusim_gemm_f16" and "cuBLAS" in str(of_halves)
    assert others and str(others).endswith("stands for cuBLAS: no counterpart measured")
    assert counterpart_of("vectorized_elementwise_kernel") is None


def test_errors_of_model_and_stand_in_are_independent():
    # The model is right to 10 % either way, the library takes between the same and a fifth less.
    low, high = Counterpart("a", "cuBLAS", 9, 0.1, 0.2, 0.8, 1.0).span(1000, 1000 / 1.1, 1100)
    assert low == pytest.approx(1000 * 0.8**0.5 / np.exp(np.hypot(np.log(1.1), np.log(0.8) / 2)))
    assert high == pytest.approx(800 * 1000**2 / (1000 * low))
    assert Counterpart("a", "cuFFT", 0, 0, 0, 1, 1).span(1000, 900, 1200) == (900, 1200)


if __name__ == "__main__":
    head = [line for line in FILE.read_text().splitlines() if line.startswith("#")]
    FILE.write_text("\n".join([*head, *rows(), ""]))
