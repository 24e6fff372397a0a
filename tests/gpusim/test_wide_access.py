"""Loads and stores of 32 bytes a thread (LDG, STG .ENL2.256: PTX ld.global.v8.b32), against NumPy."""

import numpy as np
import pytest

import gpusim
from isa.compile import assemble
from isa.listing import programs_from_cubin

HEAD = """.version 9.0
.target {arch}
.address_size 64
.visible .entry k(.param .u64 px,.param .u64 py) {{
.reg .b64 x,y,w; .reg .b32 t; .reg .b32 r<9>; .reg .pred p;
ld.param.u64 x,[px]; ld.param.u64 y,[py]; mov.u32 t,%tid.x; mad.wide.u32 x,t,32,x; mad.wide.u32 y,t,32,y;
"""
EIGHT = "{r0,r1,r2,r3,r4,r5,r6,r7}"
TURNED = "{r4,r5,r6,r7,r0,r1,r2,r3}"


def run(body, source, arch="sm_100a", mode="functional", out=None):
    program = programs_from_cubin(assemble(HEAD.format(arch=arch) + body + " ret; }", arch), abi="c", path="k")["k"]
    out = np.zeros_like(source) if out is None else out
    gpusim.simulate(program, 1, len(source), (source, out), gpu="tiny", mode=mode, overrides=[f"gpu.arch={arch[:-1]}"])
    return out


@pytest.fixture
def words():
    return np.random.default_rng(1).integers(0, 1 << 32, (96, 8), dtype=np.uint32)


@pytest.mark.parametrize("mode", ["functional", "detailed"])
@pytest.mark.parametrize("arch", ["sm_100a", "sm_120a"])
def test_each_thread_moves_eight_words(words, arch, mode):
    np.testing.assert_array_equal(
        run(f"ld.global.v8.b32 {EIGHT},[x]; st.global.v8.b32 [y],{EIGHT};", words, arch, mode), words
    )


@pytest.mark.parametrize("mode", ["functional", "detailed"])
def test_halves_lie_in_registers_apart(words, mode):
    body = f"ld.global.L1::no_allocate.v8.b32 {EIGHT},[x]; st.global.v8.b32 [y],{TURNED};"
    np.testing.assert_array_equal(run(body, words, mode=mode), np.roll(words, 4, axis=1))


@pytest.mark.parametrize("mode", ["functional", "detailed"])
def test_some_threads_alone(words, mode):
    body = f"and.b32 r8,t,1; setp.eq.u32 p,r8,0; ld.global.v8.b32 {EIGHT},[x]; @p st.global.v8.b32 [y],{EIGHT};"
    expected = np.where(np.arange(96)[:, None] % 2 == 0, words, 0)
    np.testing.assert_array_equal(run(body, words, mode=mode), expected)


@pytest.mark.parametrize("mode", ["functional", "detailed"])
def test_strong_accesses_and_those_after_atomics_move_at_l2(words, mode):
    """A load sees what the thread's atomics have done, and a strong store keeps what registers held at its issue."""
    body = f"""red.global.add.u32 [x+4],3; red.global.add.u32 [x+28],5; ld.relaxed.gpu.global.v8.b32 {EIGHT},[x];
    st.relaxed.gpu.global.v8.b32 [y],{TURNED}; add.u32 r0,r0,1; red.global.add.u32 [x],r0; red.global.add.u32 [y],1;"""
    expected = words.copy()
    expected[:, 1] += 3
    expected[:, 7] += 5
    expected = np.roll(expected, 4, axis=1)
    expected[:, 0] += 1
    np.testing.assert_array_equal(run(body, words, mode=mode), expected)
