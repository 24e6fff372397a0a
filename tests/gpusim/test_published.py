"""Published microbenchmarks: the shipped configurations reproduce them within limits; the docs show what comes out."""

import re
from functools import cache
from pathlib import Path

import pytest

from gpusim.config import load_config, shipped_names
from gpusim.config.derived import peak_operations_per_s
from validate import published
from validate.compared import Compared
from validate.published import ROWS, PublishedNumber

DOCS = Path(__file__).resolve().parents[2] / "docs"


# What fills L2 or goes to memory takes seconds on a large GPU: these stand for the rest, beside each row of everything
# else on a GPU of each architecture. `python -m validate published` runs all.
LARGE = (" l2", " dram", "_stream", "192", "6384", "2768")
QUICK = ("batch", "move", "products")
HELD_LARGE = {
    "t4": {"pointers l2", "again l2", "read_stream"},
    "a10": {"scale_stream"},
    "v100": {"indices dram"},
    "h100": {"indices l2", "pointers dram"},
    "b200": {"bulk 1x32768"},
}
HELD = [
    row
    for row in ROWS
    if row.gap
    or (not row.kernel.endswith(LARGE) and (row.gpu not in ("b200", "l40s") or row.kernel.startswith(QUICK)))
    or row.kernel in HELD_LARGE.get(row.gpu, ())
]


@cache
def shown():
    """Cells of the table in the docs, a list for each row, without its head."""
    text = re.search(r"<!-- table -->\n(.*?)\n<!-- /table -->", (DOCS / "validation.md").read_text("utf-8"), re.DOTALL)
    assert text is not None
    head, lines = published.table([]).splitlines(), text[1].splitlines()
    assert lines[: len(head)] == head
    return [cells(line) for line in lines[len(head) :]]


def cells(line):
    return [cell.strip() for cell in line.split("|")]


@pytest.mark.parametrize("row", HELD, ids=lambda row: f"{row.gpu} {row.kernel}")
def test_reproduced(row):
    """A known gap is still one: whoever closes it takes away the row's `gap`. Simulated numbers may be a hundredth off
    before the table in the docs has to be renewed."""
    found = published.compared(row)
    assert not found.verdict, f"{found.simulated:.1f} {row.unit}, published {row.published} ({row.source})"
    in_docs = float(shown()[ROWS.index(row)][4].replace(",", ""))
    assert in_docs == pytest.approx(found.simulated, rel=0.01, abs=0.05), "python -m validate published --docs"


def test_the_table_in_the_docs_is_that_of_the_rows():
    assert len(shown()) == len(ROWS)
    for row, old in zip(ROWS, shown(), strict=True):
        simulated = float(old[4].replace(",", ""))
        like = Compared(group="", case="", point=(row,), measured=row.published, simulated=simulated)
        new = cells(published.table([like]).splitlines()[-1])
        assert old[:4] == new[:4] and old[6:] == new[6:], "python -m validate published --docs"
        assert row.gap or abs(like.error) < row.limit <= 0.15


def test_a_row_fails_where_the_machine_is_another():
    row = next(row for row in ROWS if row.gpu == "a100" and row.kernel == "pointers l1")
    wrong = PublishedNumber(
        row.gpu, row.kernel, row.what, row.published, row.unit, row.source, ("l1.latency_cycles=36",)
    )
    found = published.compared(wrong)
    assert found.verdict == "off" and found.error == pytest.approx(0.093, abs=0.01)


# Data sheets: FP32, FP64 and 16-bit tensor TFLOP/s with 32-bit sums, GB/s, SMs, MiB of L2; None: not published. The
# tensor rate of the H100, H200 and B200 is not that of mma.sync, which the configuration's tensor pipe stands for; for
# the B200's `tcgen05` see `test_tensor_memory_times.py`. The FP64 of the GB300 is that of 160 SMs.
SHEETS = {
    "v100": (15.7, 7.8, 125, 900, 80, 6),
    "t4": (8.1, 0.254, 65, 320, 40, 4),
    "a100": (19.5, 9.7, 312, 2039, 108, 40),
    "h100": (66.9, 33.5, None, 3350, 132, 50),
    "h200": (66.9, 33.5, None, 4800, 132, 60),
    "b200": (75, 37, None, 8000, 148, 126),
    "gb300": (75, 1.25 * 148 / 160, None, 8000, None, None),
    "rubin": (None, None, None, 22000, 224, None),
    "a10": (31.2, 0.488, 125, 600, 72, 6),
    "rtx3090": (35.6, 0.556, 71, 936, 82, 6),
    "l40s": (91.6, 1.43, 366.5, 864, 142, 96),
    "l4": (30.3, 0.473, 121, 300, 58, 48),
    "rtx4090": (82.6, 1.29, 165.2, 1008, 128, 72),
    "rtx5090": (104.8, 1.64, 209.5, 1792, 170, 96),
    "orin": (5.3, 0.0832, 42.5, 204.8, 16, 4),
}


def test_every_product_has_a_data_sheet():
    assert set(SHEETS) == set(shipped_names()) - {"tiny"}


@pytest.mark.parametrize("name", SHEETS)
def test_peaks_are_those_of_the_data_sheets(name):
    config = load_config(name)
    fp32, fp64, tensor, bandwidth, sms, l2 = SHEETS[name]
    peaks = peak_operations_per_s(config)
    for kind, sheet in (("FP32", fp32), ("FP64", fp64), ("tensor", tensor)):
        assert sheet is None or peaks[kind] / 1e12 == pytest.approx(sheet, rel=0.01)
    assert config.dram.bandwidth_gb_s == bandwidth
    assert sms in (None, config.sm.count) and l2 in (None, config.l2.bytes >> 20)
