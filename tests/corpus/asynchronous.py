"""Forms of what sm_90a and later targets have beside the corpus: asynchronous copies and products, mbarriers, clusters.

They are assembled and lowered, not run: most of them need a setting that a lone instruction has not. What a target does
not have is dropped when it is assembled, so each form may be there for one of them only.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

POLICY = "createpolicy.fractional.L2::evict_first.b64 wide, 1.0; "
REMOTE = "mapa.shared::cluster.u32 word, sh, {z.r}; "
GENERIC = "cvt.u64.u32 wide, sh; cvta.shared.u64 wide, wide; "
DONE = "mbarrier::complete_tx::bytes"
TYPES = {
    "add": "u32 s32 u64 f32 f64", "min": "u32 s32 u64 s64", "max": "u32 s32 u64 s64", "inc": "u32", "dec": "u32",
    "and": "b32 b64", "or": "b32 b64", "xor": "b32 b64",
}  # fmt: skip


def _letter(kind: str) -> str:
    return {"f32": "f", "f64": "d", "b128": "q"}.get(kind) or {"8": "h", "6": "h", "2": "r", "4": "l"}[kind[-1]]


def _list(name: str, count: int, letter: str) -> str:
    return "{ " + ", ".join(f"{{{name}{k:03d}.{letter}}}" for k in range(count)) + " }"


def copies() -> Iterator[str]:
    for way, size in (("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)):
        copy = f"cp.async.{way}.shared.global"
        for rest in ("", ", {a.r}", ", {a.p}"):
            yield f"{copy} [sh], [in], {size}{rest}"
        for near in ("L2::64B", "L2::128B", "L2::256B"):
            yield f"{copy}.{near} [sh], [in], {size}"
        yield f"{POLICY}{copy}.L2::cache_hint.L2::128B [sh], [in], {size}, {{a.r}}, wide"
        for rest in ("commit_group; cp.async.wait_group 0", "commit_group; cp.async.wait_group 3", "wait_all"):
            yield f"{copy} [sh], [in], {size}; cp.async.{rest}"
        for no in ("", ".noinc"):
            yield f"{copy} [sh], [in], {size}; cp.async.mbarrier.arrive{no}.shared::cta.b64 [sh+16]"


def mbarriers() -> Iterator[str]:
    yield "mbarrier.init.shared::cta.b64 [sh], {a.r}; fence.mbarrier_init.release.cluster"
    yield f"{GENERIC}mbarrier.init.b64 [wide], 5; mbarrier.inval.b64 [wide]"
    yield "mbarrier.pending_count.b64 {d.r}, {a.l}"
    for op, scope, space in product(("expect_tx", "complete_tx"), ("cta", "cluster"), ("cta", "cluster")):
        yield f"mbarrier.{op}.relaxed.{scope}.shared::{space}.b64 [sh], {{a.r}}"
    for op, count in product(("arrive", "arrive_drop"), ("", ", {a.r}", ", 3")):
        for order in ("", ".release.cta", ".release.cluster", ".relaxed.cta", ".relaxed.cluster"):
            yield f"mbarrier.{op}{order}.shared::cta.b64 {{d.l}}, [sh]{count}"
            if count:
                yield f"mbarrier.{op}.expect_tx{order}.shared::cta.b64 {{d.l}}, [sh]{count}"
                yield f"{REMOTE}mbarrier.{op}.expect_tx{order}.shared::cluster.b64 _, [word]{count}"
            yield f"{REMOTE}mbarrier.{op}{order}.shared::cluster.b64 _, [word]{count}"
        yield f"{GENERIC}mbarrier.{op}.b64 {{d.l}}, [wide]{count}"
        if count:
            yield f"mbarrier.{op}.noComplete.shared::cta.b64 {{d.l}}, [sh]{count}"
    for wait, order in product(("test_wait", "try_wait"), ("", ".acquire.cta", ".acquire.cluster", ".relaxed.cta")):
        for form in (f"{order}.shared::cta.b64 {{d.p}}, [sh], {{a.l}}",
                     f".parity{order}.shared::cta.b64 {{d.p}}, [sh], {{a.r}}"):  # fmt: skip
            yield f"mbarrier.{wait}{form}"
            if wait == "try_wait":
                yield f"mbarrier.{wait}{form}, {{b.r}}"
                yield f"again: mbarrier.{wait}{form}; @!{{d.p}} bra again"


def bulk() -> Iterator[str]:
    for space in ("cluster", "cta"):
        copy = f"cp.async.bulk.shared::{space}.global.{DONE}"
        yield f"{copy} [sh], [in], {{a.r}}, [sh+16]"
        yield f"{POLICY}{copy}.L2::cache_hint [sh], [in], 1024, [sh+16], wide"
        yield f"{copy}.multicast::cluster [sh], [in], {{a.r}}, [sh+16], {{b.h}}"
        yield f"{POLICY}{copy}.multicast::cluster.L2::cache_hint [sh], [in], {{a.r}}, [sh+16], {{b.h}}, wide"
    yield f"{REMOTE}cp.async.bulk.shared::cluster.shared::cta.{DONE} [word], [sh], {{a.r}}, [word+16]"
    copy = "cp.async.bulk.global.shared::cta.bulk_group"
    yield f"{copy} [out], [sh], {{a.r}}"
    yield f"{POLICY}{copy}.L2::cache_hint [out], [sh], {{a.r}}, wide"
    yield f"{copy}.cp_mask [out], [sh], {{a.r}}, {{b.h}}"
    yield "cp.async.bulk.prefetch.L2.global [in], {a.r}"
    for count, read in product((0, 1, 3), ("", ".read")):
        yield f"cp.async.bulk.commit_group; cp.async.bulk.wait_group{read} {count}"
    for op, kinds in TYPES.items():
        for kind in kinds.split() + ["s64"] * (op in ("min", "max")):
            yield f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}.{kind} [out], [sh], {{a.r}}"
            to = f"{DONE}.{op}.{kind} [word], [sh], {{a.r}}, [word+16]"
            yield f"{REMOTE}cp.reduce.async.bulk.shared::cluster.shared::cta.{to}"
    for op, kind in product(("add.noftz", "min", "max"), ("f16", "bf16")):
        yield f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}.{kind} [out], [sh], {{a.r}}"


def tensors() -> Iterator[str]:
    for n in range(1, 6):
        at = f"[in, {_list('c', n, 'r')}]"
        load, rest = f"cp.async.bulk.tensor.{n}d.shared::cluster.global", f"[sh], {at}, [sh+16]"
        yield f"{load}.tile.{DONE} {rest}"
        yield f"{load}.tile.{DONE}.multicast::cluster {rest}, {{g.h}}"
        yield f"{load}.tile.{DONE}.cta_group::2 {rest}"
        yield f"{POLICY}{load}.tile.{DONE}.L2::cache_hint {rest}, wide"
        yield f"cp.async.bulk.tensor.{n}d.global.shared::cta.tile.bulk_group {at}, [sh]"
        yield f"cp.async.bulk.prefetch.tensor.{n}d.L2.global.tile {at}"
        for op in TYPES:
            yield f"cp.reduce.async.bulk.tensor.{n}d.global.shared::cta.{op}.tile.bulk_group {at}, [sh]"
        if n < 3:
            continue
        yield f"{load}.im2col.{DONE} {rest}, {_list('o', n - 2, 'h')}"
        yield f"{load}.im2col.{DONE}.multicast::cluster {rest}, {_list('o', n - 2, 'h')}, {{g.h}}"
        for way in ("im2col::w", "im2col::w::128"):
            yield f"{load}.{way}.{DONE} {rest}, {_list('o', 2, 'h')}"
        yield f"cp.async.bulk.tensor.{n}d.global.shared::cta.im2col_no_offs.bulk_group {at}, [sh]"
        yield f"cp.reduce.async.bulk.tensor.{n}d.global.shared::cta.add.im2col_no_offs.bulk_group {at}, [sh]"
        yield f"cp.async.bulk.prefetch.tensor.{n}d.L2.global.im2col {at}, {_list('o', n - 2, 'h')}"
    at = f"[in, {_list('c', 5, 'r')}]"
    yield f"cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.{DONE} [sh], {at}, [sh+16]"
    yield f"cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group {at}, [sh]"
    for place in ("global.b1024.{} [in]", "shared::cta.b1024.{} [sh]"):
        for name, size in (("global_address", "b64"), ("rank", "b32")):
            yield f"tensormap.replace.tile.{name}.{place.format(size)}, {{a.{_letter(size)}}}"
        for name, k in product(("box_dim", "global_dim", "global_stride", "element_stride"), (0, 3)):
            size = "b64" if name == "global_stride" else "b32"
            yield f"tensormap.replace.tile.{name}.{place.format(size)}, {k}, {{a.{_letter(size)}}}"
        for name in ("elemtype", "interleave_layout", "swizzle_mode", "fill_mode", "swizzle_atomicity"):
            yield f"tensormap.replace.tile.{name}.{place.format('b32')}, 1"
    for scope in ("cta", "cluster", "gpu", "sys"):
        yield f"fence.proxy.tensormap::generic.acquire.{scope} [in], 128"
        yield f"fence.proxy.tensormap::generic.release.{scope}"
        copy = f"tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.{scope}.sync.aligned"
        yield f"{copy} [in], [sh], 128"
    yield "prefetch.tensormap [in]"


def clusters() -> Iterator[str]:
    yield f"{REMOTE}mov.u32 {{d.r}}, word; getctarank.shared::cluster.u32 {{da.r}}, sh; getctarank.u64 {{db.r}}, in"
    for kind in ("u8", "s8", "u16", "u32", "u64", "f32", "b128"):
        x = _letter(kind)
        yield f"{REMOTE}ld.shared::cluster.{kind} {{d.{x}}}, [word]"
        yield f"{REMOTE}st.shared::cluster.{kind} [word], {{b.{x}}}"
    for order in (".relaxed.cluster", ".acquire.cluster", ".release.cluster", ".volatile", ".relaxed.gpu"):
        yield f"{REMOTE}ld{order}.shared::cluster.u32 {{d.r}}, [word]"
        yield f"{REMOTE}st{order}.shared::cluster.u32 [word], {{b.r}}"
    for op, kinds in (TYPES | {"exch": "b32 b64 b128", "cas": "b16 b32 b64 b128"}).items():
        for kind, order in product(kinds.split(), ("", ".acq_rel.cluster")):
            x = _letter(kind)
            values = f"{{b.{x}}}, {{c.{x}}}" if op == "cas" else f"{{b.{x}}}"
            yield f"{REMOTE}atom{order}.shared::cluster.{op}.{kind} {{d.{x}}}, [word], {values}"
            yield f"{REMOTE}red{order.replace('acq_rel', 'release')}.shared::cluster.{op}.{kind} [word], {values}"
            to = f"{DONE}.{op}.{kind} [word], {values}, [word+16]"
            yield f"{REMOTE}red.async.relaxed.cluster.shared::cluster.{to}"
    for kind, count in product(("b32", "s64", "f32", "f64"), (1, 2, 4)):
        x = _letter(kind)
        form, values = (f"v{count}.{kind}", _list("b", count, x)) if count > 1 else (kind, f"{{b.{x}}}")
        yield f"{REMOTE}st.async.shared::cluster.{DONE}.{form} [word], {values}, [word+16]"
    for order, aligned in product(("", ".release", ".relaxed"), ("", ".aligned")):
        yield f"barrier.cluster.arrive{order}{aligned}; barrier.cluster.wait{aligned}"
    for what in ("async", "async.global", "async.shared::cta", "async.shared::cluster", "alias"):
        yield f"fence.proxy.{what}"
    for order, space in (("acquire", "cluster"), ("release", "cta")):
        yield f"fence.{order}.sync_restrict::shared::{space}.cluster"
        yield f"fence.proxy.async::generic.{order}.sync_restrict::shared::{space}.cluster"


def products() -> Iterator[str]:
    """wgmma of all types, dense and sparse, with A in shared memory and in registers, and one type in larger sizes."""
    halves, none = ", 1, 1, 0, {t}", ""
    kinds = [("f32", "f16.f16", 16, halves), ("f16", "f16.f16", 16, halves), ("f32", "bf16.bf16", 16, halves),
             ("f32", "tf32.tf32", 8, ", -1, 1"), ("s32", "b1.b1.and.popc", 256, none)]  # fmt: skip
    bytes_8 = ("e4m3", "e5m2")
    kinds += [(to, f"{a}.{b}", 32, ", 1, 1") for to, a, b in product(("f32", "f16"), bytes_8, bytes_8)]
    kinds += [("s32", f"{a}.{b}", 32, none) for a, b in product(("s8", "u8"), ("s8", "u8.satfinite"))]
    sizes = [(8, each) for each in kinds] + [(n, kinds[0]) for n in (64, 256)]
    for (n, (to, types, k, rest)), registers, sparse in product(sizes, (0, 1), (0, 1)):
        if sparse and k == 256:
            continue
        d = _list("d", n // 4 if to == "f16" else n // 2, "f" if to == "f32" else "r")
        a, rest = (_list("y", 4, "r"), rest.replace(", 0, {t}", ", 1")) if registers else ("{y.l}", rest)
        name = f"m64n{n}k{k * 2 if sparse else k}.{to}.{types} {d}, {a}, {{x.l}}{', {w.r}, 0' * sparse}, {{v.p}}"
        clear = "; ".join(f"mov.b32 {{d{j:03d}.{'f' if to == 'f32' else 'r'}}}, 0" for j in range(d.count("{") - 1))
        yield (
            f"{clear}; wgmma.fence.sync.aligned; wgmma.mma_async{'.sp' * sparse}.sync.aligned.{name}"
            f"{rest.replace('{t}', '1')}; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0"
        )


def matrices() -> Iterator[str]:
    for count, across in product((1, 2, 4), ("", ".trans")):
        load, store = _list("d", count, "r"), _list("b", count, "r")
        yield f"ldmatrix.sync.aligned.m8n8.x{count}{across}.shared.b16 {load}, [sh]"
        yield f"stmatrix.sync.aligned.m8n8.x{count}{across}.shared.b16 [sh], {store}"
        yield f"stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8 [sh], {store}"
        yield f"ldmatrix.sync.aligned.m8n16.x{count}.shared.b8x16.b6x16_p32 {load}, [sh]"
        yield f"ldmatrix.sync.aligned.m16n16.x{count}.trans.shared.b8 {_list('d', 2 * count, 'r')}, [sh]"
    yield "movmatrix.sync.aligned.m8n8.trans.b16 {d.r}, {a.r}"
    yield "elect.sync {d.r}|{da.p}, {a.r}"


def caches() -> Iterator[str]:
    for first, second in product(("last", "normal", "first", "unchanged"), ("", ".L2::evict_first")):
        policy = f"L2::evict_{first}{second}.b64 {{d.l}}"
        yield f"createpolicy.fractional.{policy}, 0.5"
        yield f"createpolicy.range.global.{policy}, [in], {{a.r}}, {{b.r}}"
    yield "createpolicy.cvt.L2.b64 {d.l}, {a.l}"
    for what in ("ld.global.L2::cache_hint.u32 {d.r}, [in], wide", "st.global.L2::cache_hint.u32 [out], {a.r}, wide",
                 "atom.global.add.L2::cache_hint.u32 {d.r}, [in], {a.r}, wide"):  # fmt: skip
        yield POLICY + what
    for level, space in product(("L1", "L2"), ("global.", "local.", "")):
        yield f"prefetch.{space}{level} [{'in' if space != 'local.' else 'wide'}]"
    yield "prefetch.global.L2::evict_last [in]; applypriority.global.L2::evict_normal [in], 128; discard.L2 [in], 128"
    for hint in ("", ".L1::no_allocate", ".L2::evict_last", ".L2::evict_first"):
        yield f"ld.global{hint}.v8.b32 {_list('d', 8, 'r')}, [in]"
        yield f"st.global{hint}.v4.b64 [out], {_list('b', 4, 'l')}"


def several_gpus_and_later() -> Iterator[str]:
    for op, kinds in TYPES.items():
        for kind in kinds.split():
            yield f"multimem.ld_reduce.relaxed.gpu.global.{op}.{kind} {{d.{_letter(kind)}}}, [in]"
            yield f"multimem.red.relaxed.gpu.global.{op}.{kind} [in], {{a.{_letter(kind)}}}"
    yield "multimem.st.relaxed.gpu.global.u32 [in], {a.r}"
    cancel = f"clusterlaunchcontrol.try_cancel.async.shared::cta.{DONE}"
    yield f"{cancel}.b128 [sh], [sh+16]"
    yield f"{cancel}.multicast::cluster::all.b128 [sh], [sh+16]"
    yield "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 {d.p}, {a.q}"
    yield "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 {d.r}, {a.q}"
    yield "st.bulk.weak.shared::cta [sh], 1024, 0"
    yield "st.async.mmio.release.sys.global.b32 [out], {b.r}"
    yield "red.async.mmio.release.sys.global.add.u32 [out], {b.r}"
    yield "griddepcontrol.wait; griddepcontrol.launch_dependents"


CHAPTERS = (copies, mbarriers, bulk, tensors, clusters, products, matrices, caches, several_gpus_and_later)
FORMS = tuple((form, "ends") for chapter in CHAPTERS for form in chapter())
