"""docs/exploring.md says what the simulator says: its machines, its prices, and the times its answer rests on."""

import re
from pathlib import Path

import pytest

from gpusim.cli.compare import machines_of
from gpusim.config import load_config
from gpusim.config.check import check
from gpusim.explore import Point, cost, evaluate, read_sweep

DOCS = Path(__file__).resolve().parents[1] / "docs"
TEXT = (DOCS / "exploring.md").read_text("utf-8")


def test_the_file_is_the_one_that_is_quoted_and_makes_sixty_points():
    (quoted,) = re.findall(r"<!-- exploring -->\n```toml\n(.*?)```", TEXT, flags=re.DOTALL)
    assert quoted == (DOCS / "exploring.toml").read_text("utf-8")
    points = read_sweep(DOCS / "exploring.toml").space.grid()
    assert len(points) == 60 and len({point.config for point in points}) == 20


def test_prices_are_those_of_the_model():
    row = next(line for line in TEXT.splitlines() if line.startswith("together"))
    shown = [float(number) for number in re.findall(r"[\d.]+(?= mm| W)", row)]
    here, wide = cost(load_config("h200")), cost(load_config("h200", {"sm.count": 198}))
    assert shown == pytest.approx([here.area_mm2, here.power_w, wide.area_mm2, wide.power_w], abs=0.06)


def test_half_as_many_sms_again_save_what_is_said():
    assert "2, 6 and 7 %" in TEXT
    here, wide = (
        evaluate(Point("vector_add", config=(("sm.count", count),), parameters=(("size", 1 << 20),)), bound=False)
        for count in (132, 198)
    )
    assert 100 * (1 - wide["time_us"] / here["time_us"]) == pytest.approx(2.4, abs=0.6)


def test_machines_of_what_if_are_such_machines_and_nothing_is_suspicious_about_them():
    (quoted,) = re.findall(r"<!-- presets -->\n```\n(.*?)```", TEXT, flags=re.DOTALL)
    wide, small, stacked, two = (machines_of(line.split())[0] for line in quoted.splitlines())
    h200 = load_config("h200")
    for gpu, changes in (wide, small, stacked, two):
        assert gpu == "h200" and check(gpu, changes).warnings == ()
    assert load_config(*wide).sm.count == 2 * h200.sm.count
    assert load_config(*small).l2.bytes == h200.l2.bytes // 2
    hbm4, both = load_config(*stacked), load_config(*two)
    assert hbm4.dram.bandwidth_gb_s == 6 * 2048 * 8 / 8 and hbm4.dram.channels == 6 * 32 * 2
    assert cost(hbm4).structure.interfaces == 2 * cost(h200).structure.interfaces
    assert (both.sm.count, both.l2.bytes, both.dram.bandwidth_gb_s) == (264, 2 * h200.l2.bytes, 9600)
    assert both.l2.latency_far_cycles == load_config("b200").l2.latency_far_cycles
