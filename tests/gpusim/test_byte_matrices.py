"""ldmatrix and stmatrix of bytes against the PTX ISA's fragments, a byte at a time."""

import numpy as np
import pytest

import gpusim
from isa.compile import assemble
from isa.listing import programs_from_cubin

HEAD = """.version 9.0
.target {arch}
.address_size 64
.visible .entry k(.param .u64 px,.param .u64 py) {{
.shared .align 16 .b8 room[512]; .reg .b64 x,y; .reg .b32 t,s,a,r<4>;
ld.param.u64 x,[px]; ld.param.u64 y,[py]; mov.u32 t,%tid.x; mov.u32 s,room;
mad.lo.u32 a,t,16,s; mad.wide.u32 x,t,16,x; mad.wide.u32 y,t,16,y;
ld.global.v4.b32 {{r0,r1,r2,r3}},[x];
"""
LOAD = "st.shared.v4.b32 [a],{r0,r1,r2,r3}; bar.warp.sync -1; mov.b32 r0,0; mov.b32 r1,0; mov.b32 r2,0; mov.b32 r3,0;"
OUT = "st.global.v4.b32 [y],{r0,r1,r2,r3}; ret; }"
STORE = "mov.b32 r0,r0; bar.warp.sync -1;"
BACK = "bar.warp.sync -1; ld.shared.v4.b32 {r0,r1,r2,r3},[a];" + OUT
REGISTERS = {1: "{r0}", 2: "{r0,r1}", 4: "{r0,r1,r2,r3}"}


def run(body, arch, mode="functional"):
    """The rows of 16 bytes that each thread has, before and after."""
    program = programs_from_cubin(
        assemble((HEAD.format(arch=arch) + body).replace(";", ";\n"), arch), abi="c", path="k"
    )
    given = np.random.default_rng(3).integers(0, 256, (32, 16), dtype=np.uint8)
    found = np.zeros((32, 16), np.uint8)
    gpusim.simulate(program["k"], 1, 32, (given, found), gpu="tiny", mode=mode, overrides=[f"gpu.arch={arch[:-1]}"])
    return given, found


def element(row, k, bits):
    """Element k of a row in memory, as the byte that a register gets."""
    value = int.from_bytes(row.tobytes(), "little") >> bits * k & (1 << bits) - 1
    return value << 2 if bits == 4 else value


FORMATS = {8: "b8", 6: "b8x16.b6x16_p32", 4: "b8x16.b4x16_p64"}


@pytest.mark.parametrize("arch", ["sm_100a", "sm_120a"])
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("bits", [6, 4])
def test_rows_of_narrow_numbers_become_bytes(bits, count, arch):
    load = f"ldmatrix.sync.aligned.m8n16.x{count}.shared.{FORMATS[bits]} {REGISTERS[count]},[a];"
    rows, found = run(f"{LOAD} {load} {OUT}", arch)
    for lane in range(32):
        for at in range(4 * count):
            matrix, b = divmod(at, 4)
            assert found[lane, at] == element(rows[8 * matrix + lane // 4], 4 * (lane % 4) + b, bits)


@pytest.mark.parametrize("mode", ["functional", "detailed"])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("bits", [8, 6, 4])
def test_columns_in_memory_become_rows(bits, count, mode):
    """A thread has rows g and g + 8 of four columns: of two in each register."""
    load = f"ldmatrix.sync.aligned.m16n16.x{count}.trans.shared.{FORMATS[bits]} {REGISTERS[2 * count]},[a];"
    columns, found = run(f"{LOAD} {load} {OUT}", "sm_100a", mode)
    for lane in range(32):
        for at in range(8 * count):
            matrix, register, b = at // 8, at // 4 % 2, at % 4
            column = 4 * (lane % 4) + 2 * register + b % 2
            assert found[lane, at] == element(columns[16 * matrix + column], lane // 4 + 8 * (b // 2), bits)


@pytest.mark.parametrize("mode", ["functional", "detailed"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_rows_become_columns_in_memory(count, mode):
    store = f"stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8 [a],{REGISTERS[count]};"
    given, found = run(f"{STORE} {store} {BACK}", "sm_100a", mode)
    for lane in range(32):
        for at in range(4 * count):
            matrix, b = divmod(at, 4)
            assert found[8 * matrix + 2 * (lane % 4) + b % 2, lane // 4 + 8 * (b // 2)] == given[lane, at]
