"""The PTX instructions of the corpus, by chapter of the PTX ISA: (template, note).

The note says what cannot be compared with another machine: "varies" where the result depends on the machine,
"approximate" where the PTX manual promises an error bound only, "ends" where the kernel is not to be run, "texture"
where it is refused; empty where every bit of the result is defined.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

Form = tuple[str, str]
_LETTER = {"16": "h", "32": "r", "64": "l"}
_ROUNDINGS = (".rn", ".rz", ".rm", ".rp")
_COMPARES = ["eq", "ne", "lt", "le", "gt", "ge"]
_FLOAT_COMPARES = ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]


def _letter(kind: str) -> str:
    """Operand class of a PTX type."""
    if kind in ("f32", "f64"):
        return "f" if kind == "f32" else "d"
    if kind in ("f16", "bf16", "u8", "s8"):
        return "h"
    if "x2" in kind:
        return "r"
    return _LETTER[kind[1:]]


def _two(op: str, kind: str) -> Form:
    x = _letter(kind)
    return f"{op}.{kind} {{d.{x}}}, {{a.{x}}}, {{b.{x}}}", ""


def _one(op: str, kind: str) -> Form:
    x = _letter(kind)
    return f"{op}.{kind} {{d.{x}}}, {{a.{x}}}", ""


def _three(op: str, kind: str) -> Form:
    x = _letter(kind)
    return f"{op}.{kind} {{d.{x}}}, {{a.{x}}}, {{b.{x}}}, {{c.{x}}}", ""


def integer() -> Iterator[Form]:
    every = [f"{s}{n}" for s in "us" for n in (16, 32, 64)]
    for op, kind in product(("add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max"), every):
        yield _two(op, kind)
    for op, kind in product(("mad.lo", "mad.hi", "sad"), every):
        yield _three(op, kind)
    for kind in ("s16", "s32", "s64"):
        yield _one("abs", kind)
        yield _one("neg", kind)
    for s in "us":
        yield f"mul.wide.{s}16 {{d.r}}, {{a.h}}, {{b.h}}", ""
        yield f"mul.wide.{s}32 {{d.l}}, {{a.r}}, {{b.r}}", ""
        yield f"mad.wide.{s}16 {{d.r}}, {{a.h}}, {{b.h}}, {{c.r}}", ""
        yield f"mad.wide.{s}32 {{d.l}}, {{a.r}}, {{b.r}}, {{c.l}}", ""
        for part in ("lo", "hi"):
            yield _two(f"mul24.{part}", f"{s}32")
            yield _three(f"mad24.{part}", f"{s}32")
            for other in "us":
                yield f"dp2a.{part}.{s}32.{other}32 {{d.r}}, {{a.r}}, {{b.r}}, {{c.r}}", ""
        for other in "us":
            yield f"dp4a.{s}32.{other}32 {{d.r}}, {{a.r}}, {{b.r}}, {{c.r}}", ""
        for n in (32, 64):
            yield f"bfind.{s}{n} {{d.r}}, {{a.{_LETTER[str(n)]}}}", ""
            yield f"bfind.shiftamt.{s}{n} {{d.r}}, {{a.{_LETTER[str(n)]}}}", ""
            yield f"bfe.{s}{n} {{d.{_LETTER[str(n)]}}}, {{a.{_LETTER[str(n)]}}}, {{b.r}}, {{c.r}}", ""
        for mode in ("clamp", "wrap"):
            yield f"szext.{mode}.{s}32 {{d.r}}, {{a.r}}, {{b.r}}", ""
    for op in ("add.sat", "sub.sat"):
        yield _two(op, "s32")
    yield _three("mad.hi.sat", "s32")
    yield _three("mad24.hi.sat", "s32")
    for n in (32, 64):
        x = _LETTER[str(n)]
        for op in ("popc", "clz"):
            yield f"{op}.b{n} {{d.r}}, {{a.{x}}}", ""
        yield f"brev.b{n} {{d.{x}}}, {{a.{x}}}", ""
        yield f"bfi.b{n} {{d.{x}}}, {{a.{x}}}, {{b.{x}}}, {{c.r}}, {{e.r}}", ""
    yield "fns.b32 {d.r}, {a.r}, {b.r}, {c.r}", ""
    for mode in ("clamp", "wrap"):
        yield f"bmsk.{mode}.b32 {{d.r}}, {{a.r}}, {{b.r}}", ""
        for way in "lr":
            yield f"shf.{way}.{mode}.b32 {{d.r}}, {{a.r}}, {{b.r}}, {{c.r}}", ""
    for op, kind in product(("add", "min", "max"), ("u16x2", "s16x2")):
        yield _two(op, kind)
    for op in ("min.relu", "max.relu"):
        yield _two(op, "s16x2")
        yield _two(op, "s32")
    for op, n in product(("and", "or", "xor"), ("16", "32", "64")):
        yield f"{op}.b{n} {{d.{_LETTER[n]}}}, {{a.{_LETTER[n]}}}, {{b.{_LETTER[n]}}}", ""
    for op, n in product(("not", "cnot"), ("16", "32", "64")):
        yield f"{op}.b{n} {{d.{_LETTER[n]}}}, {{a.{_LETTER[n]}}}", ""
    for op in ("and", "or", "xor"):
        yield f"{op}.pred {{d.p}}, {{a.p}}, {{b.p}}", ""
    yield "not.pred {d.p}, {a.p}", ""
    for table in (0x01, 0x1A, 0x6A, 0x96, 0xCA, 0xE8, 0xF8, 0x80):
        yield f"lop3.b32 {{d.r}}, {{a.r}}, {{b.r}}, {{c.r}}, {table}", ""
    for op in ("or", "and"):
        yield f"lop3.{op}.b32 {{d.r}}|{{e.p}}, {{a.r}}, {{b.r}}, {{c.r}}, 0xe2, {{f.p}}", ""
    for n in ("16", "32", "64"):
        x = _LETTER[n]
        for op in (f"shl.b{n}", f"shr.u{n}", f"shr.s{n}"):
            yield f"{op} {{d.{x}}}, {{a.{x}}}, {{b.r}}", ""
            yield f"{op} {{d.{x}}}, {{a.{x}}}, 5", ""
    for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"):
        yield f"prmt.b32{mode} {{d.r}}, {{a.r}}, {{b.r}}, {{c.r}}", ""
    yield "prmt.b32 {d.r}, {a.r}, {b.r}, 0x7b19", ""


def carries() -> Iterator[Form]:
    for n, s in product(("32", "64"), "us"):
        x, kind = _LETTER[n], f"{s}{n}"
        args = f"{{a.{x}}}, {{b.{x}}}"
        for first, second in (
            ("add.cc", "addc"),
            ("sub.cc", "subc"),
            ("add.cc", "addc.cc"),
            ("sub.cc", "subc.cc"),
        ):
            chain = f"{first}.{kind} {{d.{x}}}, {args}; {second}.{kind} {{da.{x}}}, {{c.{x}}}, {{e.{x}}}"
            yield chain + (f"; addc.{kind} {{db.{x}}}, 0, 0" if second.endswith("cc") else ""), ""
        for half in ("lo", "hi"):
            yield (
                (
                    f"mad.{half}.cc.{kind} {{d.{x}}}, {args}, {{c.{x}}}; "
                    f"madc.{half}.cc.{kind} {{da.{x}}}, {args}, {{e.{x}}}; addc.{kind} {{db.{x}}}, 0, 0"
                ),
                "",
            )


def video() -> Iterator[Form]:
    """The scalar and SIMD video instructions, which the assembler builds from others."""
    for op, a, b in product(("vadd", "vsub", "vabsdiff", "vmin", "vmax"), ("u32", "s32"), ("u32", "s32")):
        yield f"{op}.s32.{a}.{b} {{d.r}}, {{a.r}}.b1, {{b.r}}.h1", ""
    yield "vadd.s32.s32.s32.sat.add {d.r}, {a.r}.b0, {b.r}.b3, {c.r}", ""
    yield "vmax.s32.s32.s32.sat.min {d.r}, {a.r}.h0, {b.r}.h1, {c.r}", ""
    for op, mode in product(("vshl", "vshr"), ("clamp", "wrap")):
        yield f"{op}.u32.u32.u32.{mode} {{d.r}}, {{a.r}}, {{b.r}}.b0", ""
    for scale in ("", ".shr7", ".shr15"):
        yield f"vmad.s32.s32.s32.sat{scale} {{d.r}}, {{a.r}}.h0, {{b.r}}.h1, {{c.r}}", ""
    for cmp in _COMPARES:
        yield f"vset.u32.s32.{cmp} {{d.r}}, {{a.r}}.b2, {{b.r}}.b1", ""
        yield f"vset2.u32.s32.{cmp} {{d.r}}, {{a.r}}, {{b.r}}, {{c.r}}", ""
        yield f"vset4.u32.s32.{cmp} {{d.r}}, {{a.r}}, {{b.r}}, {{c.r}}", ""
    for op, n, a in product(("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"), (2, 4), ("u32", "s32")):
        yield f"{op}{n}.{a}.{a}.{a} {{d.r}}, {{a.r}}, {{b.r}}, {{c.r}}", ""
        yield f"{op}{n}.{a}.{a}.{a}.sat {{d.r}}, {{a.r}}, {{b.r}}, {{c.r}}", ""
        yield f"{op}{n}.{a}.{a}.{a}.add {{d.r}}, {{a.r}}, {{b.r}}, {{c.r}}", ""


def single() -> Iterator[Form]:
    for op, way, ftz, sat in product(("add", "sub", "mul"), _ROUNDINGS, ("", ".ftz"), ("", ".sat")):
        yield _two(f"{op}{way}{ftz}{sat}", "f32")
    for way, ftz, sat in product(_ROUNDINGS, ("", ".ftz"), ("", ".sat")):
        yield _three(f"fma{way}{ftz}{sat}", "f32")
    for way, ftz in product((*_ROUNDINGS, ".approx"), ("", ".ftz")):
        note = "approximate" if way == ".approx" else ""
        yield _two(f"div{way}{ftz}", "f32")[0], note
        yield _one(f"rcp{way}{ftz}", "f32")[0], note
        yield _one(f"sqrt{way}{ftz}", "f32")[0], note
    for ftz in ("", ".ftz"):
        yield _two(f"div.full{ftz}", "f32")[0], "approximate"
        for op in ("rsqrt.approx", "sin.approx", "cos.approx", "lg2.approx", "ex2.approx"):
            yield _one(op + ftz, "f32")[0], "approximate"
        for op, nan, sign in product(("min", "max"), ("", ".NaN"), ("", ".xorsign.abs")):
            yield _two(f"{op}{ftz}{nan}{sign}", "f32")
            yield _three(f"{op}{ftz}{nan}" + (".abs" if sign else ""), "f32")
        yield _one("abs" + ftz, "f32")
        yield _one("neg" + ftz, "f32")
        for cmp in _FLOAT_COMPARES:
            yield f"setp.{cmp}{ftz}.f32 {{d.p}}, {{a.f}}, {{b.f}}", ""
            yield f"set.{cmp}{ftz}.f32.f32 {{d.f}}, {{a.f}}, {{b.f}}", ""
            yield f"set.{cmp}{ftz}.u32.f32 {{d.r}}, {{a.f}}, {{b.f}}", ""
    yield "slct.ftz.f32.f32 {d.f}, {a.f}, {b.f}, {c.f}", ""
    yield _one("tanh.approx", "f32")[0], "approximate"
    yield _two("copysign", "f32")
    yield _two("copysign", "f64")
    for what, kind in product(("finite", "infinite", "number", "notanumber", "normal", "subnormal"), ("f32", "f64")):
        yield f"testp.{what}.{kind} {{d.p}}, {{a.{_letter(kind)}}}", ""


def compares() -> Iterator[Form]:
    for cmp, kind in product(_COMPARES, ("s16", "u16", "s32", "u32", "s64", "u64")):
        x = _letter(kind)
        yield f"setp.{cmp}.{kind} {{d.p}}, {{a.{x}}}, {{b.{x}}}", ""
        yield f"setp.{cmp}.and.{kind} {{d.p}}|{{da.p}}, {{a.{x}}}, {{b.{x}}}, {{c.p}}", ""
    for cmp in ("lo", "ls", "hi", "hs"):
        yield f"setp.{cmp}.u32 {{d.p}}, {{a.r}}, {{b.r}}", ""
    for bool_, kind in product(("and", "or", "xor"), ("s32", "u64", "f32", "f64")):
        x = _letter(kind)
        yield f"setp.lt.{bool_}.{kind} {{d.p}}|{{da.p}}, {{a.{x}}}, {{b.{x}}}, !{{c.p}}", ""
        yield f"set.ge.{bool_}.u32.{kind} {{d.r}}, {{a.{x}}}, {{b.{x}}}, {{c.p}}", ""
        yield f"set.ge.{bool_}.f32.{kind} {{d.f}}, {{a.{x}}}, {{b.{x}}}, {{c.p}}", ""
    for kind in ("b16", "b32", "b64", "f32", "f64"):
        x = _letter(kind)
        yield f"selp.{kind} {{d.{x}}}, {{a.{x}}}, {{b.{x}}}, {{c.p}}", ""
        yield f"slct.{kind}.s32 {{d.{x}}}, {{a.{x}}}, {{b.{x}}}, {{c.r}}", ""
        yield f"slct.{kind}.f32 {{d.{x}}}, {{a.{x}}}, {{b.{x}}}, {{c.f}}", ""


def double() -> Iterator[Form]:
    for op, way in product(("add", "sub", "mul", "div"), _ROUNDINGS):
        yield _two(op + way, "f64")
    for way in _ROUNDINGS:
        yield _three("fma" + way, "f64")
        yield _one("rcp" + way, "f64")
        yield _one("sqrt" + way, "f64")
    for op in ("rcp.approx.ftz", "rsqrt.approx", "rsqrt.approx.ftz"):
        yield _one(op, "f64")[0], "approximate"
    for op in ("abs", "neg"):
        yield _one(op, "f64")
    yield _two("min", "f64")
    yield _two("max", "f64")
    for cmp in _FLOAT_COMPARES:
        yield f"setp.{cmp}.f64 {{d.p}}, {{a.d}}, {{b.d}}", ""


def half() -> Iterator[Form]:
    for kind in ("f16", "f16x2", "bf16", "bf16x2"):
        sats = ("", ".sat") if kind.startswith("f") else ("",)
        ftzs = ("", ".ftz") if kind.startswith("f") else ("",)
        for op, ftz, sat in product(("add", "sub", "mul"), ftzs, sats):
            yield _two(f"{op}{ftz}{sat}", kind)
            yield _two(f"{op}.rn{ftz}{sat}", kind)
        for ftz, extra in product(ftzs, (*sats, ".relu")):
            yield _three(f"fma.rn{ftz}{extra}", kind)
        for oob in (".oob", ".oob.relu"):
            yield _three(f"fma.rn{oob}", kind)
        for op, ftz, nan, sign in product(("min", "max"), ftzs, ("", ".NaN"), ("", ".xorsign.abs")):
            yield _two(f"{op}{ftz}{nan}{sign}", kind)
        for op, ftz in product(("abs", "neg"), ftzs):
            yield _one(op + ftz, kind)
        yield _one("tanh.approx", kind)[0], "approximate"
        yield _one("ex2.approx" + ("" if kind.startswith("f") else ".ftz"), kind)[0], "approximate"
        for cmp, ftz in product(_FLOAT_COMPARES, ftzs):
            if "x2" in kind:
                yield f"setp.{cmp}{ftz}.{kind} {{d.p}}|{{da.p}}, {{a.r}}, {{b.r}}", ""
                yield f"set.{cmp}{ftz}.{kind}.{kind} {{d.r}}, {{a.r}}, {{b.r}}", ""
            else:
                yield f"setp.{cmp}{ftz}.{kind} {{d.p}}, {{a.h}}, {{b.h}}", ""
                yield f"set.{cmp}{ftz}.{kind}.{kind} {{d.h}}, {{a.h}}, {{b.h}}", ""
                yield f"set.{cmp}{ftz}.u32.{kind} {{d.r}}, {{a.h}}, {{b.h}}", ""
        if "x2" in kind:
            for bool_ in ("and", "or", "xor"):
                yield f"setp.lt.{bool_}.{kind} {{d.p}}|{{da.p}}, {{a.r}}, {{b.r}}, {{c.p}}", ""
                yield f"set.lt.{bool_}.{kind}.{kind} {{d.r}}, {{a.r}}, {{b.r}}, {{c.p}}", ""
    for kind, op in product(("f16", "bf16"), ("add", "sub")):
        yield f"{op}.f32.{kind} {{d.f}}, {{a.h}}, {{b.f}}", ""
    for kind in ("f16", "bf16"):
        yield f"fma.rn.f32.{kind} {{d.f}}, {{a.h}}, {{b.h}}, {{c.f}}", ""
    for op in ("add", "sub", "mul"):
        yield f"{op}.rn.f32x2 {{d.l}}, {{a.l}}, {{b.l}}", ""
    yield "fma.rn.ftz.f32x2 {d.l}, {a.l}, {b.l}, {c.l}", ""


def conversions() -> Iterator[Form]:
    integers = [f"{s}{n}" for s in "us" for n in (8, 16, 32, 64)]
    floats = ("f16", "bf16", "f32", "f64")
    for to, of in product(integers, integers):
        if to != of:
            yield f"cvt.{to}.{of} {{d.{_letter(to)}}}, {{a.{_letter(of)}}}", ""
            if int(to[1:]) <= int(of[1:]) or (to[0], of[0]) == ("u", "s"):
                yield f"cvt.sat.{to}.{of} {{d.{_letter(to)}}}, {{a.{_letter(of)}}}", ""
    for to, of, way in product(integers, floats, (".rni", ".rzi", ".rmi", ".rpi")):
        if of == "bf16" and to.endswith("8"):
            continue
        yield f"cvt{way}.{to}.{of} {{d.{_letter(to)}}}, {{a.{_letter(of)}}}", ""
    for to in integers:
        yield f"cvt.rzi.ftz.{to}.f32 {{d.{_letter(to)}}}, {{a.f}}", ""
        yield f"cvt.rni.sat.{to}.f32 {{d.{_letter(to)}}}, {{a.f}}", ""
    for to, of, way in product(floats, integers, _ROUNDINGS):
        if to == "bf16" and of.endswith("8"):
            continue
        yield f"cvt{way}.{to}.{of} {{d.{_letter(to)}}}, {{a.{_letter(of)}}}", ""
    for to, of in product(floats, floats):
        ways = (
            [".rni", ".rzi", ".rmi", ".rpi"]
            if to == of
            else list(_ROUNDINGS)
            if (to, of) != ("f32", "f16") and to != "f64"
            else []
        )
        if to == "f64" or of in ("f16", "bf16"):
            ways += [""]
        if of == "f32" and to in ("f16", "bf16"):
            ways += [".rn.relu", ".rz.relu", ".rn.satfinite"]
        for way in ways:
            yield f"cvt{way}.{to}.{of} {{d.{_letter(to)}}}, {{a.{_letter(of)}}}", ""
    for way in (".ftz", ".sat", ".ftz.sat", ".rni.ftz", ".rmi.ftz"):
        yield f"cvt{way}.f32.f32 {{d.f}}, {{a.f}}", ""
        if "i" not in way:
            yield f"cvt{way}.f32.f16 {{d.f}}, {{a.h}}", ""
    yield "cvt.rn.ftz.f16.f32 {d.h}, {a.f}", ""
    for way, kind in product((".rn", ".rz", ".rn.relu", ".rz.relu", ".rn.satfinite"), ("f16x2", "bf16x2")):
        yield f"cvt{way}.{kind}.f32 {{d.r}}, {{a.f}}, {{b.f}}", ""
    for way in (".rna", ".rn", ".rz", ".rn.relu", ".rz.relu", ".rna.satfinite"):
        yield f"cvt{way}.tf32.f32 {{d.r}}, {{a.f}}", ""
    for kind, relu in product(("e4m3x2", "e5m2x2"), ("", ".relu")):
        yield f"cvt.rn.satfinite{relu}.{kind}.f32 {{d.h}}, {{a.f}}, {{b.f}}", ""
        yield f"cvt.rn.satfinite{relu}.{kind}.f16x2 {{d.h}}, {{a.r}}", ""
        yield f"cvt.rn{relu}.f16x2.{kind} {{d.r}}, {{a.h}}", ""
    for kind in ("e2m3x2", "e3m2x2", "e2m1x2"):
        if kind != "e2m1x2":
            yield f"cvt.rn.satfinite.{kind}.f32 {{d.h}}, {{a.f}}, {{b.f}}", ""
            yield f"cvt.rn.f16x2.{kind} {{d.r}}, {{a.h}}", ""
    yield "cvt.rp.satfinite.ue8m0x2.f32 {d.h}, {a.f}, {b.f}", ""
    yield "cvt.rn.bf16x2.ue8m0x2 {d.r}, {a.h}", ""
    for to in ("u16", "s16", "u8", "s8"):
        if to.endswith("16"):
            yield f"cvt.pack.sat.{to}.s32 {{d.r}}, {{a.r}}, {{b.r}}", ""
        else:
            yield f"cvt.pack.sat.{to}.s32.b32 {{d.r}}, {{a.r}}, {{b.r}}, {{c.r}}", ""
    for to in ("u4", "s4", "u2", "s2"):
        yield f"cvt.pack.sat.{to}.s32.b32 {{d.r}}, {{a.r}}, {{b.r}}, {{c.r}}", ""


def accesses() -> Iterator[Form]:
    kinds = ("u8", "s8", "u16", "s16", "u32", "u64", "f32", "f64")
    for kind in kinds:
        x = _letter(kind)
        for way in (
            "",
            ".ca",
            ".cg",
            ".cs",
            ".lu",
            ".cv",
            ".nc",
            ".volatile",
            ".relaxed.gpu",
            ".acquire.cta",
            ".acquire.gpu",
            ".acquire.sys",
            ".relaxed.cta",
            ".relaxed.sys",
            ".mmio.relaxed.sys",
        ):
            yield (
                f"ld.global{way}.{kind} {{d.{x}}}, [in+8]"
                if not way.startswith((".vol", ".re", ".ac", ".mm"))
                else f"ld{way}.global.{kind} {{d.{x}}}, [in+8]",
                "",
            )
        yield f"ldu.global.{kind} {{d.{x}}}, [in]", ""
        yield f"ld.{kind} {{d.{x}}}, [in+16]", ""
        yield f"ld.shared.{kind} {{d.{x}}}, [sh]", ""
        yield f"ld.volatile.shared.{kind} {{d.{x}}}, [sh]", ""
        for way in (
            "",
            ".wb",
            ".cg",
            ".cs",
            ".wt",
            ".volatile",
            ".relaxed.gpu",
            ".release.cta",
            ".release.gpu",
            ".release.sys",
            ".mmio.relaxed.sys",
        ):
            body = f"st.global{way}.{kind} [out+8], {{a.{x}}}"
            if way.startswith((".vol", ".re", ".mm")):
                body = f"st{way}.global.{kind} [out+8], {{a.{x}}}"
            yield body, ""
        yield f"st.{kind} [out+16], {{a.{x}}}", ""
        yield f"st.shared.{kind} [sh], {{a.{x}}}; ld.shared.{kind} {{d.{x}}}, [sh]", ""
    for size, kind in product((2, 4), ("u8", "u16", "u32", "u64")):
        if size == 4 and kind == "u64":
            continue
        x = _letter(kind)
        many = ", ".join(f"{{d{k}.{x}}}" for k in range(size))
        data = ", ".join(f"{{a{k}.{x}}}" for k in range(size))
        for space, address in (("global", "in+32"), ("shared", "sh")):
            yield f"ld.{space}.v{size}.{kind} {{ {many} }}, [{address}]", ""
        yield f"st.global.v{size}.{kind} [out+32], {{ {data} }}", ""
        yield f"st.shared.v{size}.{kind} [sh], {{ {data} }}", ""
    for hint in (
        "L1::evict_last",
        "L1::evict_first",
        "L1::no_allocate",
        "L1::evict_unchanged",
        "L2::64B",
        "L2::128B",
        "L2::256B",
        "L1::evict_last.L2::128B",
    ):
        yield f"ld.global.{hint}.u32 {{d.r}}, [in]", ""
        yield f"ld.global.nc.{hint}.u32 {{d.r}}, [in]", ""
    for hint in ("L1::evict_last", "L1::evict_first", "L1::no_allocate", "L1::evict_unchanged"):
        yield f"st.global.{hint}.u32 [out], {{a.r}}", ""
    policy = "createpolicy.fractional.L2::evict_{}.b64 {{e.l}}, 0.5; "
    for name in ("last", "first", "normal", "unchanged"):
        yield (
            policy.format(name).replace("{e.l}", "wide") + "ld.global.L2::cache_hint.u32 {d.r}, [in], wide",
            "",
        )
    yield (
        policy.format("first").replace("{e.l}", "wide") + "st.global.L2::cache_hint.u32 [out], {a.r}, wide",
        "",
    )
    yield "createpolicy.fractional.L2::evict_last.L2::evict_first.b64 {d.l}, 0.25", "varies"
    yield "createpolicy.range.global.L2::evict_last.L2::evict_first.b64 {d.l}, [in], 4096, {a.r}", "varies"
    yield "createpolicy.cvt.L2.b64 {d.l}, 0x4000000000000000", "varies"
    for what in (
        "prefetch.global.L1 [in]",
        "prefetch.global.L2 [in]",
        "prefetch.L1 [in]",
        "prefetchu.L1 [in]",
        "prefetch.global.L2::evict_last [in]",
        "prefetch.global.L2::evict_normal [in]",
        "applypriority.global.L2::evict_normal [in], 128",
    ):
        yield what, "" if "128" not in what else "ends"
    yield "discard.global.L2 [in], 128", "ends"
    for kind, x in (("b128", "q"),):
        yield f"ld.global.{kind} {{d.{x}}}, [in]", ""
        yield f"st.global.{kind} [out], {{a.{x}}}", ""
        yield f"ld.relaxed.gpu.global.{kind} {{d.{x}}}, [in]", ""
    yield "ld.global.v8.f32 { {d0.f}, {d1.f}, {d2.f}, {d3.f}, {d4.f}, {d5.f}, {d6.f}, {d7.f} }, [in]", ""


def atomics() -> Iterator[Form]:
    table = {
        "add": "u32 s32 u64 f32 f64", "min": "u32 s32 u64 s64", "max": "u32 s32 u64 s64", "inc": "u32", "dec": "u32",
        "and": "b32 b64", "or": "b32 b64", "xor": "b32 b64", "exch": "b32 b64", "cas": "b16 b32 b64",
    }  # fmt: skip
    spaces = (("global", "in"), ("shared", "sh"), ("", "in"))
    for op, kinds in table.items():
        for kind, (space, address) in product(kinds.split(), spaces):
            x, dot = _letter(kind), f".{space}" if space else ""
            args = f"{{a.{x}}}, {{b.{x}}}" if op == "cas" else f"{{a.{x}}}"
            yield f"atom{dot}.{op}.{kind} {{d.{x}}}, [{address}+8], {args}", ""
            if op not in ("exch", "cas"):
                yield f"red{dot}.{op}.{kind} [{address}+8], {args}", ""
    for kind, (space, address) in product(("f16", "f16x2", "bf16", "bf16x2"), spaces):
        x, dot = _letter(kind), f".{space}" if space else ""
        yield f"atom{dot}.add.noftz.{kind} {{d.{x}}}, [{address}+8], {{a.{x}}}", ""
        yield f"red{dot}.add.noftz.{kind} [{address}+8], {{a.{x}}}", ""
    for order, scope in product((".relaxed", ".acquire", ".release", ".acq_rel"), (".cta", ".gpu", ".sys", ".cluster")):
        yield f"atom{order}{scope}.global.add.u32 {{d.r}}, [in], {{a.r}}", ""
        if order in (".relaxed", ".release"):
            yield f"red{order}{scope}.global.add.u32 [in], {{a.r}}", ""
    for space, address in spaces[:2]:
        yield f"atom.{space}.cas.b128 {{d.q}}, [{address}], {{a.q}}, {{b.q}}", ""
        yield f"atom.{space}.exch.b128 {{d.q}}, [{address}], {{a.q}}", ""
    vectors = [("f32", "f", 2), ("f32", "f", 4)]
    vectors += [(kind, "h", n) for kind in ("f16", "bf16") for n in (2, 4, 8)]
    vectors += [(kind, "r", n) for kind in ("f16x2", "bf16x2") for n in (2, 4)]
    for op, (kind, x, n) in product(("add", "min", "max"), vectors):
        if kind == "f32" and op != "add":
            continue
        old = ", ".join(f"{{d{k}.{x}}}" for k in range(n))
        new = ", ".join(f"{{a{k}.{x}}}" for k in range(n))
        noftz = "" if kind == "f32" else ".noftz"
        yield f"atom.global.{op}{noftz}.v{n}.{kind} {{ {old} }}, [in+32], {{ {new} }}", ""
        yield f"red.global.{op}{noftz}.v{n}.{kind} [in+32], {{ {new} }}", ""


def lanes() -> Iterator[Form]:
    for mode in ("up", "down", "bfly", "idx"):
        yield f"shfl.sync.{mode}.b32 {{d.r}}|{{da.p}}, {{a.r}}, {{b.r}}, 31, -1", ""
        yield f"shfl.sync.{mode}.b32 {{d.r}}, {{a.r}}, 3, 0x1c1f, -1", ""
    for mode in ("all", "any", "uni"):
        yield f"vote.sync.{mode}.pred {{d.p}}, {{a.p}}, -1", ""
    yield "vote.sync.ballot.b32 {d.r}, {a.p}, -1", ""
    yield "activemask.b32 {d.r}", "varies"
    for n in (32, 64):
        yield f"match.any.sync.b{n} {{d.r}}, {{a.{_LETTER[str(n)]}}}, -1", ""
        yield f"match.all.sync.b{n} {{d.r}}|{{da.p}}, {{a.{_LETTER[str(n)]}}}, -1", ""
    for op, kind in product(("add", "min", "max"), ("u32", "s32")):
        yield f"redux.sync.{op}.{kind} {{d.r}}, {{a.r}}, -1", ""
    for op in ("and", "or", "xor"):
        yield f"redux.sync.{op}.b32 {{d.r}}, {{a.r}}, -1", ""
    for op, nan, ab in product(("min", "max"), ("", ".NaN"), ("", ".abs")):
        yield f"redux.sync.{op}{ab}{nan}.f32 {{d.f}}, {{a.f}}, -1", ""
    yield "elect.sync {d.r}|{da.p}, -1", ""
    yield "bar.warp.sync -1", ""
    for scope in ("cta", "gl", "sys"):
        yield f"membar.{scope}", ""
    for order, scope in product(("sc", "acq_rel", "acquire", "release"), ("cta", "cluster", "gpu", "sys")):
        yield f"fence.{order}.{scope}", ""
    for what in (
        "fence.proxy.alias",
        "fence.proxy.async",
        "fence.proxy.async.global",
        "fence.proxy.async.shared::cta",
        "bar.sync 0",
        "bar.sync 1, 64",
        "bar.arrive 2, 64",
        "barrier.sync 3",
        "barrier.sync.aligned 3",
        "nanosleep.u32 {a.r}",
        "nanosleep.u32 100",
        "pmevent 3",
        "exit",
        "griddepcontrol.wait",
        "griddepcontrol.launch_dependents",
    ):
        yield what, ""
    yield "trap", "ends"
    yield "brkpt", "ends"
    yield "bar.red.popc.u32 {d.r}, 0, {a.p}", ""
    yield "bar.red.and.pred {d.p}, 0, {a.p}", ""
    yield "bar.red.or.pred {d.p}, 0, {a.p}", ""


def addresses() -> Iterator[Form]:
    for space in ("global", "shared", "local", "const", "param::entry", "shared::cluster"):
        yield f"isspacep.{space} {{d.p}}, in", ""
    for space in ("global", "shared", "local", "const"):
        yield f"cvta.to.{space}.u64 {{d.l}}, in", "varies"
    yield "{ .reg .u64 g; cvt.u64.u32 g, sh; cvta.shared.u64 {d.l}, g; }", "varies"
    yield (
        "{ .local .align 8 .b8 stack[64]; .reg .u64 g; mov.u64 g, stack; cvta.local.u64 {d.l}, g; st.u32 [{d.l}], 7; }",
        "varies",
    )
    for name in (
        "tid.x",
        "tid.y",
        "tid.z",
        "ntid.x",
        "ntid.y",
        "ntid.z",
        "ctaid.x",
        "ctaid.y",
        "ctaid.z",
        "nctaid.x",
        "nctaid.y",
        "nctaid.z",
        "laneid",
        "warpid",
        "nwarpid",
        "smid",
        "nsmid",
        "lanemask_eq",
        "lanemask_le",
        "lanemask_lt",
        "lanemask_ge",
        "lanemask_gt",
        "clock",
        "clock_hi",
        "globaltimer_lo",
        "globaltimer_hi",
        "dynamic_smem_size",
        "total_smem_size",
        "aggr_smem_size",
        "reserved_smem_offset_begin",
        "reserved_smem_offset_end",
        "reserved_smem_offset_cap",
        "clusterid.x",
        "nclusterid.x",
        "cluster_ctaid.x",
        "cluster_nctaid.x",
        "cluster_ctarank",
        "cluster_nctarank",
        "pm0",
        "pm7",
        "envreg0",
        "envreg31",
    ):
        yield f"mov.u32 {{d.r}}, %{name}", "varies"
    for name in ("clock64", "globaltimer", "gridid", "pm0_64", "current_graph_exec"):
        yield f"mov.u64 {{d.l}}, %{name}", "varies"
    yield "mov.pred {d.p}, %is_explicit_cluster", ""
    yield (
        (
            "stacksave.u64 {d.l}; and.b64 wide, {a.l}, 24; add.u64 wide, wide, 8; alloca.u64 {da.l}, wide, 8; "
            "st.local.u32 [{da.l}], 3; stackrestore.u64 {d.l}"
        ),
        "varies",
    )
    yield (
        (
            "ts: .branchtargets T0, T1, T2; and.b32 word, tid, 1; brx.idx word, ts; T0: mov.u32 {d.r}, 11; bra E; "
            "T1: mov.u32 {d.r}, 22; bra E; T2: mov.u32 {d.r}, 33; E: mov.u32 {da.r}, 1"
        ),
        "",
    )


def textures() -> Iterator[Form]:
    """Refused: textures and surfaces are not modelled."""
    out = "{ {d0.r}, {d1.r}, {d2.r}, {d3.r} }"
    for kind, coordinates in (
        ("1d", "{ {a.f} }"),
        ("2d", "{ {a.f}, {b.f} }"),
        ("3d", "{ {a.f}, {b.f}, {c.f}, {c.f} }"),
    ):
        yield f"tex.{kind}.v4.u32.f32 {out}, [texture, {coordinates}]", "texture"
    yield f"tex.1d.v4.u32.s32 {out}, [texture, {{ {{a.r}} }}]", "texture"
    yield f"tex.level.2d.v4.u32.f32 {out}, [texture, {{ {{a.f}}, {{b.f}} }}], {{c.f}}", "texture"
    yield f"tld4.r.2d.v4.u32.f32 {out}, [texture, {{ {{a.f}}, {{b.f}} }}]", "texture"
    yield (
        (
            f"tex.grad.2d.v4.u32.f32 {out}, [texture, {{ {{a.f}}, {{b.f}} }}], {{ {{a.f}}, {{b.f}} }}, "
            f"{{ {{a.f}}, {{b.f}} }}"
        ),
        "texture",
    )
    yield "txq.width.b32 {d.r}, [texture]", "texture"
    yield "suld.b.1d.b32.trap {d.r}, [surface, { {a.r} }]", "texture"
    yield "sust.b.1d.b32.trap [surface, { {a.r} }], {b.r}", "texture"
    yield "sured.b.add.1d.u32.trap [surface, { {a.r} }], {b.r}", "texture"


CHAPTERS: dict[str, tuple[Form, ...]] = {
    chapter.__name__: tuple(chapter())
    for chapter in (integer, carries, video, single, compares, double, half, conversions, accesses, atomics, lanes,
                    addresses, textures)
}  # fmt: skip
FORMS: tuple[Form, ...] = tuple(form for chapter in CHAPTERS.values() for form in chapter)
