"""What H100 boards took, beside the prediction; and the microbenchmarks that the energies of events were fitted to."""

from __future__ import annotations

import gzip
import re

import numpy as np
import pytest

from gpusim.config import load_config
from gpusim.results.energy import EVENTS
from isa.compile import compile_cuda
from isa.cubin import read_cubin
from validate.compared import Compared
from validate.energy import command, kernels
from validate.energy.command import least_squares, static_watts
from validate.energy.kernels import by_name, of_round, rows_of

STATIC_W = 120.0
"""Modelled power of a board whose warps sleep, in W: 117 to 126 on five boards while cool, 148 on one at 56 degrees."""


def test_a_program_takes_what_a_board_took():
    row = command.predict("reduction/shuffle@1048576")
    assert abs(row.error) < 0.12
    _, measured_us, simulated_us = row.point
    # 9.2 % fast: the SMs' fences at its end take L2 no time beside their first way there; 2.7 % where they did.
    assert -0.1 < simulated_us / measured_us - 1 < 0.05


# How far off each is at most: what all of them together can say.
@pytest.mark.parametrize(("name", "most"), [("lop3 1 lanes", 0.1), ("wgmma_f16 f16 33 blocks", 0.06)])
def test_microbenchmarks_take_what_they_were_fitted_to(name, most):
    of = load_config("h100").energy
    pairs = np.array([getattr(of, f"{event}_pj") for event in EVENTS])
    per_round = of_round(by_name()[name])
    ((_, rows),) = [found for found in rows_of(kernels.recording()["micro"]) if found[0].name == name]
    for row in rows:
        joules = 1e-12 * per_round @ np.concatenate([pairs[:, 0], pairs[:, 1]]) * row["rounds"]
        static = static_watts(kernels.recording()["micro"])[row["board"]]
        assert joules / (1e-6 * row["us"]) + static == pytest.approx(row["watts"], rel=most)


def test_the_static_power_is_that_of_boards_that_sleep():
    of = load_config("h100").energy
    assert of.board_w + 132 * of.sm_w == pytest.approx(STATIC_W, rel=0.01)
    static = static_watts(kernels.recording()["micro"])
    cool = [static[board] for board in "abde"]
    assert min(cool) < STATIC_W < max(cool) < 1.1 * min(cool)
    by_sms = {row["name"]: row["watts"] for row in kernels.recording()["micro"] if row["board"] == "b"}
    assert by_sms["stay 132 SMs"] == pytest.approx(by_sms["stay 1 SMs"], rel=0.005)  # an SM that sleeps takes nothing


OTHERWISE = {"red32", "sts128", "write32"}
"""Kernels that NVRTC 13.5 orders otherwise than 13.4, whose code was measured."""


def test_the_stored_machine_code_is_that_of_the_source(toolchain):
    """Of all kernels but most of those that are a row of a table each: all of them take a minute."""
    rows = re.compile(r"^(OP|MMA|GROUP)\((?!iadd3|lop3|imad_wide).*\n( .*\n)*", re.MULTILINE)
    some = compile_cuda(rows.sub("", kernels.SOURCE.read_text()), "sm_90a", path="kernels.cu")
    stored, again = (
        {name: kernel.code for name, kernel in read_cubin(each).kernels.items()}
        for each in (gzip.decompress(kernels.CUBIN.read_bytes()), some)
    )
    assert len(stored) == 51 and len(again) == 21
    assert {name for name in again if stored[name] != again[name]} <= OTHERWISE


def test_least_squares_finds_what_is_not_negative():
    random = np.random.default_rng(3)
    a = random.uniform(0, 1, (40, 5))
    wanted = np.array([3.0, 0.0, 0.5, 2.0, 0.0])
    assert least_squares(a, a @ wanted) == pytest.approx(wanted, abs=1e-6)
    assert (least_squares(a, a @ (wanted - 0.4)) >= 0).all()


def test_order_of_variants():
    def row(point: str, measured: float, simulated: float) -> Compared:
        return Compared(group="train", case="", point=(point,), measured=measured, simulated=simulated)

    rows = [row("a/1@8", 1, 5), row("a/2@8", 2, 4), row("a/3@8", 3, 6), row("b@8", 9, 1)]
    assert list(command.ranks([row("a/3@8", 3, 6), row("a/4@8", 3.01, 1)])) == []  # alike
    assert [(one[2], other[2], agree) for one, other, agree in command.ranks(rows)] == [
        ("1", "2", False), ("1", "3", True), ("2", "3", True)
    ]  # fmt: skip


def test_command(capfd):
    from validate.__main__ import main

    assert main(["energy", "--only", "divergence/1", "divergence/2"]) == 0
    printed = capfd.readouterr().out
    assert "\ntrain " in printed and "1 of 1 as measured" in printed
