"""Counters of asynchronous copies (LDGSTS) as Nsight Compute has them: 730 copies recorded on an H200."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

import gpusim
from gpusim.engine.sm.copy_cost import zero_wavefronts
from isa.assemble import assemble
from isa.listing import programs_from_cubin

RECORDING = json.loads(gzip.decompress((Path(__file__).parent / "data/h200_async_copies.json.gz").read_bytes()))

HEAD = """
.version 8.4
.target sm_90
.address_size 64
.visible .entry copy(.param .u64 data, .param .u64 from, .param .u64 to, .param .u64 out, .param .u32 mask,
  .param .u32 size) {
  .reg .b64 %rd<10>; .reg .b32 %r<10>; .reg .pred %p<3>;
  .shared .align 128 .b8 buffer[32768];
  ld.param.u64 %rd1, [data]; ld.param.u64 %rd2, [from]; ld.param.u64 %rd3, [to]; ld.param.u64 %rd7, [out];
  ld.param.u32 %r5, [mask]; ld.param.u32 %r0, [size];
  mov.u32 %r1, %tid.x; mul.wide.u32 %rd4, %r1, 4;
  add.u64 %rd2, %rd2, %rd4; add.u64 %rd3, %rd3, %rd4; add.u64 %rd7, %rd7, %rd4;
  ld.global.u32 %r2, [%rd2]; ld.global.u32 %r3, [%rd3];
  cvt.u64.u32 %rd5, %r2; add.u64 %rd6, %rd1, %rd5;
  mov.u32 %r4, buffer; add.u32 %r4, %r4, %r3; and.b32 %r8, %r1, 31;
  shr.u32 %r6, %r5, %r8; and.b32 %r6, %r6, 1; setp.ne.u32 %p1, %r6, 0; selp.u32 %r9, %r0, 0, %p1;
"""
WAIT = "cp.async.commit_group; cp.async.wait_group 0; "
COPY = "cp.async.OPERATOR.shared.global [%r4], [%rd6], SIZE; "
FORMS = {
    "": COPY + WAIT,
    "guarded": "@%p1 " + COPY + WAIT,
    "branch": "@!%p1 bra DONE; " + COPY + "DONE: " + WAIT,
    "zero": COPY.replace("SIZE;", "SIZE, %r9;") + WAIT,
    "ignore": "selp.u32 %r9, SIZE, 0, %p1; " + COPY.replace("SIZE;", "SIZE, %r9;") + WAIT,
    "L2::128B": COPY.replace(".global", ".global.L2::128B") + WAIT,
    "offset": COPY.replace("%r4", "%r4+256").replace("%rd6", "%rd6+512") + WAIT,
    "twice": COPY + COPY.replace("%r4", "%r4+16384").replace("%rd6", "%rd6+65536") + WAIT,
    "read back": "@%p1 " + COPY + WAIT + "bar.sync 0; ld.shared.u32 %r7, [%r4]; st.global.u32 [%rd7], %r7; ",
}


#: Copies past L1 of which several lanes have one target, which is a race: one wavefront or sector is counted otherwise.
SEVERAL_TO_ONE = {("read back", "rand0"), ("", "trand1")}


def of(each):
    return each["operator"], each["size"], each["form"]


@pytest.fixture(scope="module")
def kernels(toolchain):
    """All in one file, which is assembled and listed once."""
    wanted = sorted(set(map(of, RECORDING["copies"])))
    head, entry = HEAD.split(".visible")
    rows = [head]
    for number, (operator, size, form) in enumerate(wanted):
        text = f".visible{entry}{FORMS[form]} ret; }}".replace("entry copy", f"entry copy{number}")
        rows.append(text.replace("OPERATOR", operator).replace("SIZE", str(size)))
    programs = programs_from_cubin(assemble("\n".join(rows), "sm_90"), abi="c")
    return {each: programs[f"copy{number}"] for number, each in enumerate(wanted)}


@pytest.mark.parametrize("size", (4, 8, 16))
def test_a_copy_counts_as_on_the_hardware(kernels, size):
    data = np.arange(1 << 18, dtype=np.uint32)
    differing = []
    for each in [each for each in RECORDING["copies"] if each["size"] == size][::13]:
        source, target = (np.array(each[name], np.uint32) for name in ("source", "target"))
        args = [data, source, target, np.zeros(len(source), np.uint32), np.uint32(each["mask"]), np.uint32(size)]
        metrics = gpusim.simulate(kernels[of(each)], 1, len(source), args, "h200", mode="functional").metrics
        counters = [metrics[name] for name in RECORDING["metrics"]]
        if counters != each["counters"] and (size < 16 or (each["form"], each["name"]) not in SEVERAL_TO_ONE):
            differing.append((*of(each), each["name"], hex(each["mask"]), counters, each["counters"]))
    assert not differing, f"{len(differing)}: {differing[:8]}"


@pytest.mark.parametrize(("operator", "size", "wavefronts"), [("ca", 4, 1), ("ca", 16, 4), ("cg", 16, 4)])
def test_a_copy_of_which_no_lane_reads(kernels, operator, size, wavefronts):
    """It writes zeros, as in the last round of Triton's products, which count so on an H200: wavefronts and nothing
    else."""
    lanes = np.arange(32, dtype=np.uint32) * size
    args = [np.arange(1 << 18, dtype=np.uint32), lanes, lanes, np.zeros(32, np.uint32), np.uint32(0), np.uint32(size)]
    found, other = (
        gpusim.simulate(kernels[operator, size, form], 1, 32, args, "h200", mode="functional").metrics
        for form in ("ignore", "branch")
    )
    more = {name: found[name] - other[name] for name in RECORDING["metrics"]}
    assert {name for name, value in more.items() if value} == {
        "memory_l1_wavefronts_shared",
        "memory_l1_wavefronts_shared_ideal",
    }
    assert more["memory_l1_wavefronts_shared"] == wavefronts


@pytest.mark.parametrize(("operator", "apart", "conflicts"), [("ca", True, 4), ("ca", False, 0), ("cg", True, 0)])
def test_conflicts_are_those_of_copies_through_l1(kernels, operator, apart, conflicts):
    """As on an H100, where lanes of neighbouring targets read every other vector. It counts two copies, twice these."""
    t = np.arange(32, dtype=np.uint32)
    source = 16 * ((t & 15) * 2 + (t >> 4)) if apart else 16 * t
    args = [np.arange(1 << 18, dtype=np.uint32), source, 16 * t, 0 * t, np.uint32(0xFFFFFFFF), np.uint32(16)]
    metrics = gpusim.simulate(kernels[operator, 16, ""], 1, 32, args, "h100", mode="functional").metrics
    assert metrics["l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"] == conflicts


@pytest.mark.parametrize("form", ["", "guarded", "zero", "ignore"])
@pytest.mark.parametrize(("operator", "size"), [("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)])
def test_warps_count_what_each_does_alone(kernels, operator, size, form):
    """Lanes that lie as those of the warp before, further on or in another place of a row, and nearly so."""
    rng = np.random.default_rng(size)
    warps = []
    for step in (1, 2, 3, 17):
        lanes = np.arange(32) * size
        source, target = rng.permutation(lanes * step) + 2048, rng.permutation(lanes * (step % 4))
        source[rng.integers(32)] = source[rng.integers(32)]
        for here, there in ((0, 0), (128, 1024), (512, 128), (size, 0), (0, size), (0, 256), (16, 16)):
            warps.append((source + here, target + there))
        warps.append((source ^ size, target))
    whole = kernels[operator, size, form]

    def counted(some):
        source, target = (np.concatenate(each).astype(np.uint32) for each in zip(*some, strict=True))
        args = [np.arange(1 << 18, dtype=np.uint32), source, target, 0 * source, np.uint32(0xFF7F3FFE), np.uint32(size)]
        metrics = gpusim.simulate(whole, 1, len(source), args, "h200", mode="functional", threads=1).metrics
        return np.array([metrics[name] for name in RECORDING["metrics"]])

    assert (counted(warps) == sum(counted([each]) for each in warps)).all()


ZEROS = {
    ("cg", 16): {0: 4, 1: 4, 0xFF: 3, 0xFFFF: 2, 0xFFFFFFFE: 1, 0x7FFFFFFF: 1, 0x55555555: 4, "half": 4},
    ("ca", 16): {0: 0, 1: 1, 0xFF: 0, 0xFFFF: 0, 0xFFFFFFFE: 1, 0x7FFFFFFF: 1, 0x55555555: 4, "half": 0},
    ("ca", 8): {0: 0, 1: 1, 0xFF: 1, 0xFFFF: 0, 0xFFFFFFFE: 1, 0x7FFFFFFF: 1, 0x55555555: 2, "half": 0},
    ("ca", 4): {0: 0, 1: 1, 0xFF: 1, 0xFFFF: 1, 0xFFFFFFFE: 1, 0x7FFFFFFF: 1, 0x55555555: 1},
}
"""By operator and size: lanes that read all their bytes, the others none, or all lanes half of them. The data pipe's
further wavefronts of shared memory, beside those of a copy of which all lanes read all, on an H100 (Nsight Compute
2025.3, driver 580, ptxas 13.5)."""


def _data_pipe(kernel, mask, size):
    """The data pipe's wavefronts of shared memory, and its other ones."""
    lanes = np.arange(32, dtype=np.uint32)
    args = [np.arange(1 << 18, dtype=np.uint32), 16 * lanes, 16 * lanes, 0 * lanes, np.uint32(mask), np.uint32(size)]
    metrics = gpusim.simulate(kernel, 1, 32, args, "h100").metrics
    total, shared = (metrics[f"l1tex__data_pipe_lsu_wavefronts{end}.sum"] for end in ("", "_mem_shared"))
    return shared, total - shared


@pytest.mark.parametrize(("operator", "size"), ZEROS)
def test_zeros_take_wavefronts_of_their_own(kernels, operator, size):
    kernel = kernels[operator, size, "zero"]
    full, _ = _data_pipe(kernel, 0xFFFFFFFF, size)
    masks = {mask: (0xFFFFFFFF, size // 2) if mask == "half" else (mask, size) for mask in ZEROS[operator, size]}
    assert {mask: _data_pipe(kernel, *each)[0] - full for mask, each in masks.items()} == ZEROS[operator, size]


@pytest.mark.parametrize("banks", (16, 32, 64, 128))
def test_a_group_is_a_line_of_the_banks_and_has_a_warp_at_most(banks):
    some, others = np.int64(0x00010001), np.int64(0xFFFEFFFE)
    count = zero_wavefronts(some, others, np.int64(4), np.int64(4 * banks), False)
    assert count == (2 if banks == 16 else 1)


@pytest.mark.parametrize(("form", "wavefronts"), [("", 3), ("twice", 3), ("read back", 5)])
def test_groups_and_barriers_pass_through_the_data_pipe(kernels, form, wavefronts):
    """Two loads and the end of a group; and a barrier and a store. Copies count as of shared memory alone."""
    assert _data_pipe(kernels["ca", 16, form], 0xFFFFFFFF, 16)[1] == wavefronts
