"""Instructions that came after the H200's architecture: pairs of floats, minimum of three."""

import numpy as np
import pytest

import gpusim
from isa.compile import assemble
from isa.listing import program_from_cubin


def run(body, a, b, c):
    """Runs PTX on pairs of floats x0, x1, x2 (64-bit registers) with singles f0, f1, f2 beside; result x3 or f3."""
    text = f"""
.version 8.8
.target sm_100
.address_size 64
.visible .entry k(.param .u64 pa,.param .u64 pb,.param .u64 pc,.param .u64 po) {{
.reg .b64 p<4>; .reg .b64 x<4>; .reg .f32 f<4>, h<4>; .reg .u32 t;
mov.u32 t,%tid.x;
ld.param.u64 p0,[pa]; ld.param.u64 p1,[pb]; ld.param.u64 p2,[pc]; ld.param.u64 p3,[po];
mad.wide.u32 p0,t,8,p0; mad.wide.u32 p1,t,8,p1; mad.wide.u32 p2,t,8,p2; mad.wide.u32 p3,t,8,p3;
ld.global.b64 x0,[p0]; ld.global.b64 x1,[p1]; ld.global.b64 x2,[p2];
mov.b64 {{f0,h0}},x0; mov.b64 {{f1,h1}},x1; mov.b64 {{f2,h2}},x2;
{body}
st.global.b64 [p3],x3;
ret;
}}
"""
    program = program_from_cubin(assemble(text, "sm_100"), abi="c", path="k")
    out = np.zeros_like(a)
    gpusim.simulate(program, 1, 32, (a, b, c, out), "tiny", overrides=["gpu.arch=sm_100"])
    return out


@pytest.fixture
def pairs():
    rng = np.random.default_rng(9)
    a, b, c = (rng.standard_normal((32, 2)).astype(np.float32) for _ in range(3))
    a[0], b[0], c[0] = (np.inf, -np.inf), (1e30, 2e-39), (-0.0, 0.0)
    return a, b, c


def test_sums_and_products_of_pairs(pairs):
    a, b, c = pairs
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(run("add.rn.f32x2 x3,x0,x1;", a, b, c), a + b)
        np.testing.assert_array_equal(run("mul.rn.f32x2 x3,x0,x1;", a, b, c), a * b)
        fused = (a.astype(np.float64) * b + c).astype(np.float32)
    np.testing.assert_allclose(run("fma.rn.f32x2 x3,x0,x1,x2;", a, b, c), fused, rtol=2**-23)


def test_the_least_and_the_greatest_of_three(pairs):
    a, b, c = pairs
    body = "min.f32 f3,f0,f1,f2; max.f32 h3,h0,h1,h2; mov.b64 x3,{f3,h3};"
    out = run(body, a, b, c)
    np.testing.assert_array_equal(out[:, 0], np.minimum(np.minimum(a, b), c)[:, 0])
    np.testing.assert_array_equal(out[:, 1], np.maximum(np.maximum(a, b), c)[:, 1])


def test_a_uniform_load_in_divergent_code_is_for_all_lanes(pairs):
    """The launch's four pointers come by one load of 16 bytes, here in a branch that half of the lanes take first."""
    a, b, c = pairs
    body = "setp.lt.u32 q,t,7; @q bra less; add.rn.f32x2 x3,x0,x1; bra both; less: mul.rn.f32x2 x3,x0,x1; both:"
    with np.errstate(over="ignore", invalid="ignore"):
        expected = np.where(np.arange(32)[:, None] < 7, a * b, a + b)
    np.testing.assert_array_equal(run(".reg .pred q; " + body, a, b, c), expected)
