"""Rarer forms of bulk copies, as an H200 executed them: im2col, interleaved tensors, types that round, reductions of
every type and operation, products of sparse matrices, arrivals that do not end a phase."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import gpusim
from gpusim.errors import ArgumentError, SimulationError
from gpusim.launch.tensor_map import encode_im2col, encode_tiled
from isa.compile import compile_cuda
from isa.listing import programs_from_cubin
from tests.gpusim.matrix_operands import mixed, packed
from tests.gpusim.ptx import listed as listed_together
from tests.gpusim.test_bulk_copy import HEAD
from tests.gpusim.test_tensor_copy import IN_MEMORY, changed, kernel

TYPES = ("uint8", "uint16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64", "bfloat16",
         "float32_ftz", "tfloat32", "tfloat32_ftz")  # fmt: skip
SIZES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)
SWIZZLES = ("none", "32B", "64B", "128B")
INTERLEAVES = ("none", "16B", "32B")


@cache
def recording():
    with np.load(Path(__file__).parent / "data" / "h200_bulk_forms.npz") as file:
        return dict(file)


def listed(name):
    return json.loads(str(recording()[name]))


def encoded(case, address):
    tail = {
        "element_strides": case["steps"], "swizzle": SWIZZLES[case.get("sw", 0)], "nan_fill": bool(case.get("oob", 0)),
        "interleave": INTERLEAVES[case.get("inter", 0)],
    }  # fmt: skip
    tensor = TYPES[case["type"]], address, case["shape"], case["strides"]
    if "lower" in case:
        return encode_im2col(*tensor, case["lower"], case["upper"], case["channels"], case["pixels"], **tail)
    return encode_tiled(*tensor, case["box"], **tail)


def copied_bytes(case):
    """Of an interleaved tensor the first dimension counts slots, the last but one as many channels as fill one."""
    size, slot = SIZES[case["type"]], 8 << case.get("inter", 0)
    if "lower" in case:
        return case["pixels"] * (slot if case.get("inter") else case["channels"] * size)
    counts = [-(-n // step) for n, step in zip(case["box"], case["steps"], strict=True)]
    if case.get("inter"):
        counts[-2] = -(-counts[-2] * size // slot)
        return int(np.prod(counts)) * slot
    return case["box"][0] * int(np.prod(counts[1:])) * size


def text_of(case):
    """The kernel of a case, in PTX."""
    rank, load = len(case["shape"]), case["kind"] == "load"
    kind = "load" if load else "add" if case["op"] else "store"
    changes = list(IN_MEMORY)
    if not load and case["op"]:
        changes.append(("shared::cta.add", f"shared::cta.{case['op']}"))
    if "lower" in case and load:
        offsets = ",".join(f"h{s}" for s in range(rank - 2))
        set_ = "".join(f"mov.b16 h{s},{n};" for s, n in enumerate(case["offs"]))
        changes += [(".tile.", ".im2col."), ("}],[b];", f"}}],[b],{{{offsets}}};")]
        changes.append(("mov.u32 t,%tid.x;", f".reg .b16 h<3>; {set_} mov.u32 t,%tid.x;"))
    elif "lower" in case:
        changes.append((".tile.", ".im2col_no_offs."))
    return changed(kernel(kind, rank), *changes)


@cache
def copies():
    """Programs by their text."""
    return listed_together(sorted(map(text_of, [*listed("cases"), *listed("illegal")])), "sm_90a")


def copy(case, before, image):
    """Runs a case; the tensor and the 16 KB of shared memory, or what was given for them, afterwards."""
    code = copies()[text_of(case)]
    with gpusim.Device("h200") as device:
        tensor, room = device.to_device(before), device.to_device(image)
        placed = device.to_device(np.frombuffer(encoded(case, tensor.address).tobytes(), np.uint8))
        corner = [np.int32(c) for c in case["corner"]]
        arguments = (np.uint64(placed.address), room, *corner, np.uint32(copied_bytes(case)))
        device.launch(code, 1, 32, arguments)
        return tensor.copy_to_host(), room.copy_to_host()


def tensor_of(case):
    if case["kind"] == "store":
        return packed(800000 + case["number"], 8192, case["form"], "any")
    if case["type"] in (7, 10, 11, 12):
        return packed(700000, 32768, "f32", "any")
    return np.arange(65536, dtype=np.uint32).astype(np.uint16).view(np.uint32)


@pytest.mark.parametrize("case", listed("cases"), ids=lambda case: f"{case['kind']}-{case['number']}")
def test_copies_equal_the_hardware(case):
    before, number = tensor_of(case), case["number"]
    if case["kind"] == "load":
        _, image = copy(case, before, np.zeros(4096, np.uint32))
        found = image.view(np.uint16)
        words = np.cumsum(recording()[f"l{number}"].astype(np.int64)).astype(np.uint16)
        np.testing.assert_array_equal(found[: words.size], words)
        assert (found[words.size :] == 0xABAB).all()
        return
    tensor, _ = copy(case, before.copy(), packed(850000 + number, 4096, case["form"], "any"))
    expected = before.copy()
    expected[np.cumsum(recording()[f"s{number}a"].astype(np.int64))] = recording()[f"s{number}v"]
    np.testing.assert_array_equal(tensor, expected)


@pytest.mark.parametrize("case", listed("illegal"), ids=lambda case: f"{case['kind']}-{case['number']}")
def test_copies_that_are_illegal_instructions(case):
    with pytest.raises(SimulationError, match="not modelled"):
        copy(case, tensor_of(case), np.zeros(4096, np.uint32))


def test_corners_of_a_map_of_pixels_have_two_dimensions_fewer():
    with pytest.raises(ArgumentError, match="two fewer"):
        encode_im2col("float16", 4096, [16, 9, 7, 4], [32, 288, 2016], [0], [0, 0], 8, 24)


REDUCE = """
K NAME(void *g, const uint4 *in) {
  __shared__ __align__(128) uint4 room[64]; int t = threadIdx.x;
  room[t] = in[t]; room[t + 32] = in[t + 32]; VIEW; __syncwarp();
  if (t == 0) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.OP [%0],[%1],1024;" ::"l"(g), "r"(sh(room))
                 : "memory");
    COMMIT; LEFT(0);
  }
}
"""


@pytest.mark.parametrize("number", range(len(listed("reduce"))), ids=lambda n: ".".join(listed("reduce")[n][:2]))
def test_plain_reductions_equal_the_hardware(number):
    form = listed("reduce")[number][2]
    there, sent = packed(910000 + number, 256, form, "any"), packed(920000 + number, 256, form, "any")
    gpusim.simulate(kernels()[f"reduce{number}"], 1, 32, (there, sent))
    np.testing.assert_array_equal(there, recording()[f"r{number}"])


_SHAPES = {"tf32": ("m64n8k16", "f32.tf32.tf32"), "e4m3": ("m64n8k64", "f32.e4m3.e4m3"),
           "e5m2": ("m64n8k64", "f32.e5m2.e4m3"), "s8": ("m64n8k64", "s32.s8.s8"), "u8": ("m64n8k64", "s32.u8.s8"),
           "f16": ("m64n8k32", "f32.f16.f16"), "bf16": ("m64n8k32", "f32.bf16.bf16"),
           "h16": ("m64n8k32", "f16.f16.f16")}  # fmt: skip


def product(name, number):
    """The kernel sparse<number> of one product: matrices of eight rows of 16 bytes, those along K together."""
    kind, variant = name.split("_")[1:]
    shape, types = _SHAPES[kind]
    words, count = ("f", 4) if types.startswith("f32") else ("r", 4 if types.startswith("s32") else 2)
    d = ",".join(f"%{n}" for n in range(count))
    registers = variant[0] == "r"
    a = "{" + ",".join(f"%{count + n}" for n in range(4)) + "}" if registers else f"%{count}"
    next_ = count + (4 if registers else 1)
    given = ", ".join(f'"r"(ra[{n}])' for n in range(4)) if registers else '"l"(da)'
    flags = "" if types.startswith("s32") else ", 1, 1"
    if kind in ("f16", "bf16", "h16"):
        flags += ", 0" if registers else ", 0, 0"
    outs = ", ".join(f'"+{words}"(d[{n}])' for n in range(count))
    return f"""
K __launch_bounds__(128) sparse{number}(const uint4 *a, const uint4 *b, const unsigned *meta, unsigned *out) {{
  __shared__ __align__(1024) uint4 room[160]; int t = threadIdx.x; unsigned m = meta[t], ra[4];
  room[t] = a[t]; if (t < 32) room[128 + t] = b[t];
  for (int n = 0; n < 4; ++n) ra[n] = ((const unsigned *)a)[4 * t + n];
  (void)ra; VIEW; __syncthreads();
  u64 da = sh(room) >> 4 | 8ull << 16 | 16ull << 32, db = (sh(room) + 2048) >> 4 | 8ull << 16 | 32ull << 32; (void)da;
  {"float" if words == "f" else "unsigned"} d[{count}] = {{}};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("wgmma.mma_async.sp.sync.aligned.{shape}.{types} {{{d}}}, {a}, %{next_}, %{next_ + 1}, {variant[1]},"
               " 1{flags};" : {outs} : {given}, "l"(db), "r"(m) : "memory");
  asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int n = 0; n < {count}; ++n) out[{count} * t + n] = *(unsigned *)&d[n];
}}
"""


LAZY = """
K lazy(u64 *out, unsigned count, unsigned by) {
  __shared__ u64 bar; u64 st; int t = threadIdx.x;
  init(&bar, count); __syncwarp();
  asm volatile("mbarrier.arrive.noComplete.shared.b64 %0, [%1], %2;" : "=l"(st) : "r"(sh(&bar)), "r"(by) : "memory");
  out[t] = st;
}
"""


@cache
def kernels():
    """reduce0 and sparse0 and so on, compiled together and listed once."""
    found = [HEAD, LAZY]
    found += [product(name, n) for n, name in enumerate(listed("sparse"))]
    for n, (operation, kind, _) in enumerate(listed("reduce")):
        found.append(REDUCE.replace("NAME", f"reduce{n}").replace("OP", f"{operation}.{kind}"))
    return programs_from_cubin(compile_cuda("".join(found), "sm_90a"))


@pytest.mark.parametrize("number", range(len(listed("sparse"))), ids=lambda n: listed("sparse")[n])
def test_sparse_products_equal_the_hardware(number):
    name = listed("sparse")[number]
    kind = name.split("_")[1]
    form = {"h16": "f16"}.get(kind, kind)
    a = packed(940000 + number, 512, form, "spread")
    b = packed(941000 + number, 128, {"e5m2": "e4m3", "u8": "s8"}.get(form, form), "spread")
    chosen = mixed(942000 + number, 1024).reshape(128, 8)
    patterns = np.array([14, 4] if kind == "tf32" else [4, 8, 12, 9, 13, 14], np.uint64)
    words = patterns[chosen % np.uint64(len(patterns))] << np.arange(0, 32, 4, dtype=np.uint64)
    meta = np.bitwise_or.reduce(words, axis=1).astype(np.uint32)
    np.testing.assert_array_equal(meta, recording()[f"p{number}m"])
    out = np.zeros_like(recording()[f"p{number}"])
    gpusim.simulate(kernels()[f"sparse{number}"], 1, 128, (a, b, meta, out))
    np.testing.assert_array_equal(out, recording()[f"p{number}"])


def test_states_of_arrivals_that_do_not_end_a_phase():
    for count, by, states in listed("lazy"):
        out = np.zeros(32, np.uint64)
        gpusim.simulate(kernels()["lazy"], 1, 32, (out, np.uint32(count), np.uint32(by)))
        assert [hex(word) for word in out.tolist()] == states[:32]
