"""A load of sm_100 for a whole warp, where lanes have parted. What its instructions compute is `tests/oracle`'s."""

import numpy as np

import gpusim
from isa import assemble
from isa.listing import program_from_cubin

# Sums or products of pairs of floats.
TEXT = """
.version 8.8
.target sm_100
.address_size 64
.visible .entry k(.param .u64 pa,.param .u64 pb,.param .u64 pc,.param .u64 po) {
.reg .b64 p<4>; .reg .b64 x<4>; .reg .u32 t; .reg .pred q;
mov.u32 t,%tid.x;
ld.param.u64 p0,[pa]; ld.param.u64 p1,[pb]; ld.param.u64 p2,[pc]; ld.param.u64 p3,[po];
mad.wide.u32 p0,t,8,p0; mad.wide.u32 p1,t,8,p1; mad.wide.u32 p2,t,8,p2; mad.wide.u32 p3,t,8,p3;
ld.global.b64 x0,[p0]; ld.global.b64 x1,[p1]; ld.global.b64 x2,[p2];
setp.lt.u32 q,t,7; @q bra less; add.rn.f32x2 x3,x0,x1; bra both; less: mul.rn.f32x2 x3,x0,x1; both:
st.global.b64 [p3],x3;
ret;
}
"""


def test_a_uniform_load_in_divergent_code_is_for_all_lanes():
    """The launch's four pointers come by one load of 16 bytes, here in a branch that half of the lanes take first."""
    a, b, c = np.random.default_rng(9).standard_normal((3, 32, 2)).astype(np.float32)
    out = np.zeros_like(a)
    program = program_from_cubin(assemble(TEXT, "sm_100"), abi="c", path="k")
    gpusim.simulate(program, 1, 32, (a, b, c, out), "tiny", overrides=["gpu.arch=sm_100"])
    np.testing.assert_array_equal(out, np.where(np.arange(32)[:, None] < 7, a * b, a + b))
