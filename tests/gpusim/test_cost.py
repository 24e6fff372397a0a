"""What a GPU costs: against known dies and products, and in the directions that an architect knows."""

import json
import re
import statistics
from dataclasses import astuple
from pathlib import Path

import pytest

from gpusim.cli import main
from gpusim.config import load_config
from gpusim.explore import technology as T
from gpusim.explore.cost import cost, family_of, memory_of, structure
from tests.gpusim import known_dies as dies


def mean(errors):
    return statistics.fmean(abs(error) for error in errors.values())


def test_known_dies_come_out_within_what_is_said():
    errors = dies.area_errors()
    assert mean(errors) <= 0.04
    assert max(map(abs, errors.values())) <= 0.13
    for name, most in (("GV100", 0.13), ("GA100", 0.09), ("GH100", 0.11), ("TU104", 0.03)):
        assert abs(errors[name]) <= most


def test_dies_that_the_fit_has_not_seen():
    errors = dies.leave_one_out()
    assert mean(errors) <= 0.056
    assert max(map(abs, errors.values())) <= 0.195
    assert all(abs(errors[name]) >= abs(error) for name, error in dies.area_errors().items())


def test_the_errors_that_are_printed_are_those_of_the_tables(capsys):
    for errors in (dies.area_errors(), dies.leave_one_out(), dies.power_errors()):
        off = f"{100 * mean(errors):.1f} % in the mean, {100 * max(map(abs, errors.values())):.1f} % at most"
        assert off in T.ERRORS
    main(["cost", "tiny"])
    assert capsys.readouterr().out.endswith(f"errors: {T.ERRORS}\n")


def test_the_factors_are_those_of_the_fit():
    assert astuple(T.FITTED) == pytest.approx(astuple(dies.fit()), rel=2e-3)


def test_power_of_known_products():
    errors = dies.power_errors()
    assert mean(errors) <= 0.15
    assert max(map(abs, errors.values())) <= 0.31


@pytest.mark.parametrize(
    ("gpu", "name"),
    [("v100", "V100 SXM2"), ("a100", "A100 SXM 80GB"), ("h100", "H100 SXM"), ("h200", "H200 SXM")],
)
def test_a_configuration_counts_as_the_product_it_describes(gpu, name):
    counted = structure(load_config(gpu))
    product = next(each.structure for each in dies.PRODUCTS if each.name == name)
    for part in ("node", "sms", "lanes", "fp32", "integer", "fp64", "mufu", "tensor", "l1_bytes", "l2_bytes",
                 "register_bytes", "interfaces", "memory", "links", "ray_tracing"):  # fmt: skip
        assert getattr(counted, part) == getattr(product, part), part
    assert counted.other_bytes == pytest.approx(product.other_bytes, rel=0.13)


def test_what_belongs_to_an_architecture():
    assert structure(load_config("t4")).ray_tracing
    assert family_of("sm_100a") == T.FAMILIES["sm_100"]
    assert family_of("sm_87") == T.FAMILIES["sm_86"]
    assert family_of("sm_50") == T.FAMILIES["sm_60"]
    assert [memory_of(each) for each in ("HBM3e", "GDDR5", "HBM4", "HBM5")] == ["HBM3E", "GDDR6", "HBM4", "HBM4"]


def test_the_document_has_what_the_commands_print(capsys):
    text = (Path(__file__).parents[2] / "docs" / "exploring.md").read_text("utf-8")
    blocks = dict(re.findall(r"<!-- (\w+) -->\n```\n(.*?)```", text, flags=re.DOTALL))
    assert (blocks["dies"], blocks["products"]) == tuple(f"{table}\n" for table in dies.tables())
    main(["cost", "h200", "--set", "sm.count=264"])
    printed = capsys.readouterr().out.splitlines()
    shown = blocks["cost"].splitlines()
    assert [line for line in shown if line != "..."] == [*printed[:6], *printed[-6:]]


def price(**changes):
    """Cost of an H200 with keys changed; two underlines stand for the dot."""
    return cost(load_config("h200", {key.replace("__", "."): value for key, value in changes.items()}))


@pytest.mark.parametrize(
    ("changes", "grows"),
    [
        ({"sm__count": 264}, "lane control"),
        ({"sm__registers": 131072}, "registers"),
        ({"sm__unified_l1_bytes": 524288}, "L1 and shared memory"),
        ({"icache__l15_bytes": 262144}, "instruction and constant caches"),
        ({"constant__l15_bytes": 131072}, "instruction and constant caches"),
        ({"l2__bytes": 2 * 62914560}, "L2"),
        ({"crossbar__port_reply_bytes_per_cycle": 128}, "crossbar"),
        ({"l2__slice_bytes_per_cycle": 128}, "crossbar"),
        ({"dram__channels": 384}, "memory interfaces"),
        ({"dram__bandwidth_gb_s": 12000}, "memory interfaces"),
        ({"pipes__alu__initiation_cycles": 1}, "integer units"),
        ({"pipes__fp64__initiation_cycles": 1}, "FP64 units"),
        ({"pipes__xu__initiation_cycles": 4}, "MUFU units"),
        ({"pipes__group_columns_per_cycle": 4}, "tensor units"),
    ],
)
def test_more_of_anything_has_its_price(changes, grows):
    before, after = price(), price(**changes)
    assert after.parts[grows].area_mm2 > before.parts[grows].area_mm2
    assert after.area_mm2 > before.area_mm2
    assert after.power_w > before.power_w
    if "sm__count" not in changes:
        same = set(before.parts) - {grows}
        assert all(after.parts[name].area_mm2 == before.parts[name].area_mm2 for name in same)


def test_two_dies_cost_their_link_and_a_second_fixed_part():
    one, two = price(), price(gpu__dies=2)
    link = two.structure.die_link_gb_s
    assert link == pytest.approx(2e-3 * 585 * 1980)  # both directions of l2.fabric_bytes_per_cycle
    assert two.parts["links between dies"].area_mm2 == pytest.approx(2 * link / 1350)
    assert two.parts["fixed"].area_mm2 == pytest.approx(2 * one.parts["fixed"].area_mm2)
    assert two.area_mm2 > one.area_mm2 and two.power_w > one.power_w
    assert price(gpu__dies=2, l2__fabric_bytes_per_cycle=1170).area_mm2 > two.area_mm2
    assert "links between dies" not in one.parts


def test_what_blackwell_has_beside_its_configuration(capsys):
    b200 = cost(load_config("b200"))
    assert b200.structure.tensor == 4096 and b200.parts["tensor memory"].area_mm2 > 0
    assert b200.power_w == pytest.approx(1000, rel=0.1)  # the product's limit
    assert main(["cost", "b200"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"2 dies of {b200.area_mm2 / 2:.0f} mm^2 each" in lines
    assert lines[-1].startswith("no die or product of sm_100 and later is among these") and b200.area_mm2 / 2 < 858
    assert main(["cost", "h200", "sm.count=264"]) == 0
    assert capsys.readouterr().out.startswith("NVIDIA H200, sm.count = 264:")


def test_twice_the_sms_are_less_than_twice_the_die():
    once, twice = price(), price(sm__count=264)
    outside = ("L2", "memory interfaces", "NVLink", "PCIe", "fixed")
    fixed = sum(once.parts[name].area_mm2 for name in outside) + once.parts["crossbar"].area_mm2 * 0.59
    assert twice.area_mm2 == pytest.approx(2 * once.area_mm2 - fixed, rel=0.01)


def test_command_prices_parts_and_changes(capsys):
    assert main(["cost", "h200", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sum(part["area_mm2"] for part in found["parts"].values()) == pytest.approx(found["area_mm2"])
    assert sum(part["power_w"] for part in found["parts"].values()) == pytest.approx(found["power_w"])
    assert main(["cost", "--set", "sm.count=264"]) == 0
    text = capsys.readouterr().out
    assert "sm.count = 264: 4N" in text
    assert "more than the 858 mm^2" in text
    assert text.splitlines()[-5].split() == ["without", "--set", f"{found['area_mm2']:.1f}", f"{found['power_w']:.1f}"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--node", "3nm"], "no process node '3nm'"),
        (["--links", "-1"], "--links must not be below 0"),
        (["h_201"], "did you mean 'h200'"),
    ],
)
def test_mistakes_are_one_line(arguments, message, capsys):
    assert main(["cost", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
