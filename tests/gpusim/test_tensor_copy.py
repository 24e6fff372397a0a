"""Tensor maps and copies of boxes of tensors (TMA), replayed from an H200."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import gpusim
from gpusim.errors import ArgumentError, MemoryAccessError, SimulationError
from gpusim.launch.tensor_map import encode_tiled
from isa import Program
from tests.gpusim.matrix_operands import packed
from tests.gpusim.ptx import listed

DATA = Path(__file__).parent / "data" / "h200_tensor_copies.npz"
# Names by the driver's CUtensorMapDataType.
TYPES = {0: "uint8", 1: "uint16", 2: "uint32", 3: "int32", 4: "uint64", 5: "int64", 6: "float16", 7: "float32",
         8: "float64", 9: "bfloat16", 10: "float32_ftz", 11: "tfloat32", 12: "tfloat32_ftz"}  # fmt: skip
SWIZZLES = ("none", "32B", "64B", "128B")
_OPERATIONS = {
    "load": "cp.async.bulk.tensor.{n}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [s],[m,{{{c}}}],[b];",
    "store": "cp.async.bulk.tensor.{n}d.global.shared::cta.tile.bulk_group [m,{{{c}}}],[s];",
    "add": "cp.reduce.async.bulk.tensor.{n}d.global.shared::cta.add.tile.bulk_group [m,{{{c}}}],[s];",
}


def recorded(name):
    with np.load(DATA) as data:
        return json.loads(str(data[name]))


def kernel(kind, rank):
    """One warp copies one box; 16 KB of shared memory go to or come from the array `image`."""
    names = ",".join(f"c{k}" for k in range(rank))
    copy = _OPERATIONS[kind].format(n=rank, c=names)
    if kind == "load":
        fill = "st.shared.v4.b32 [at],{0xABABABAB,0xABABABAB,0xABABABAB,0xABABABAB};"
        issue = f"mbarrier.arrive.expect_tx.shared::cta.b64 st,[b],bytes; {copy}"
        end = """mov.u32 at,s; mad.lo.u32 at,t,16,at; mov.u32 n,0;
        OUT: ld.shared.v4.b32 {v0,v1,v2,v3},[at]; st.global.v4.b32 [x],{v0,v1,v2,v3};
        add.u64 x,x,512; add.u32 at,at,512; add.u32 n,n,1; setp.lt.u32 p,n,32; @p bra OUT;"""
        wait = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 p,[b],0; @!p bra WAIT;"
    else:
        fill = "ld.global.v4.b32 {v0,v1,v2,v3},[x]; st.shared.v4.b32 [at],{v0,v1,v2,v3}; add.u64 x,x,512;"
        issue = f"{copy} cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
        wait, end = "", ""
    corner = "".join(f"ld.param.u32 c{k},[k{k}];" for k in range(rank))
    coordinates = "".join(f",.param .u32 k{k}" for k in range(rank))
    return f"""
.version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128],.param .u64 image{coordinates},.param .u32 size) {{
.shared .align 1024 .b8 room[16384]; .shared .align 8 .b64 bar;
.reg .b64 x,m,st; .reg .b32 t,s,b,n,at,bytes; .reg .b32 c<5>; .reg .b32 v<4>; .reg .pred p,q;
{corner}
ld.param.u32 bytes,[size]; mov.u32 t,%tid.x; mov.u32 s,room; mov.u32 b,bar;
ld.param.u64 x,[image]; mad.wide.u32 x,t,16,x; mov.b64 m,map; cvta.param.u64 m,m;
mad.lo.u32 at,t,16,s; mov.u32 n,0;
IN: {fill} add.u32 at,at,512; add.u32 n,n,1; setp.lt.u32 p,n,32; @p bra IN;
setp.ne.u32 q,t,0; @q bra READY; mbarrier.init.shared::cta.b64 [b],1;
READY: fence.proxy.async; bar.sync 0; @q bra ISSUED;
{issue}
ISSUED: {wait}
{end}
ret;
}}
"""


def changed(text, *changes):
    """A kernel's text with each (old, new) of `changes`, which has to be in it, exchanged."""
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


IN_MEMORY = (
    (".param .align 64 .b8 map[128]", ".param .u64 map"),
    ("mov.b64 m,map; cvta.param.u64 m,m;", "ld.param.u64 m,[map];"),
)
"""Changes of the kernel that takes a pointer to the map."""


@cache
def programs() -> dict[str, Program]:
    """All kernels of this file by their text."""
    kinds = {"load": "load", "store": "store", "red": "add"}
    texts = {kernel(kinds[each["kind"]], len(each["shape"])) for each in recorded("cases")}
    texts |= {changed(kernel(kind, len(first_case(kind)["shape"])), *IN_MEMORY) for kind in ("load", "store")}
    texts |= {changed(kernel("add", 2), reducing(operation)) for operation in REDUCTIONS}
    rank = len(first_case("load")["shape"])
    texts |= {changed(kernel("load", rank), *options.get("changes", ())) for options, _ in OUT_OF_BOUNDS}
    return listed(sorted(texts), "sm_90a")


def copy(case, corner=None, changes=(), moved=0, map_offset=None):
    """Runs a recorded case; the tensor and the image as they are afterwards.

    changes: of the kernel's text. moved: bytes by which the map's tensor begins later than it does. map_offset: the
    map lies in global memory, and the kernel is given an address so many bytes from it.
    """
    kind = {"load": "load", "store": "store", "red": "add"}[case["kind"]]
    rank = len(case["shape"])
    text = changed(kernel(kind, rank), *changes, *(() if map_offset is None else IN_MEMORY))
    program = programs()[text]
    form = {6: "f16", 7: "f32", 9: "f16"}.get(case["type"], "s8")
    mode = "any" if form == "s8" else "near"
    with gpusim.Device("h200") as device:
        tensor = device.to_device(packed(900000 + case["number"], 65536, form, mode))
        image = device.to_device(packed(950000 + case["number"], 4096, form, mode))
        tensor_map = encode_tiled(
            TYPES[case["type"]], tensor.address + moved, case["shape"], case["strides"], case["box"], case["steps"],
            SWIZZLES[case["swizzle"]], bool(case["nan_fill"]),
        )  # fmt: skip
        place = [np.int32(c) for c in corner or case["corner"]]
        if map_offset is not None:
            placed = device.to_device(np.frombuffer(tensor_map.tobytes(), np.uint8))
            tensor_map = np.uint64(placed.address + map_offset)
        device.launch(program, 1, 32, (tensor_map, image, *place, np.uint32(case["bytes"])))
        return tensor.copy_to_host(), image.copy_to_host()


def equals_the_hardware(case, tensor, image):
    number = case["number"]
    with np.load(DATA) as data:
        if case["kind"] == "load":
            np.testing.assert_array_equal(image, data[f"{number}"])
            return
        form = {6: "f16", 7: "f32", 9: "f16"}.get(case["type"], "s8")
        expected = packed(900000 + number, 65536, form, "any" if form == "s8" else "near")
        expected[data[f"{number}w"]] = data[f"{number}v"]
    np.testing.assert_array_equal(tensor, expected)


@pytest.mark.parametrize("case", recorded("cases"), ids=lambda case: f"{case['kind']}-{case['number']}")
def test_copies_equal_the_hardware(case):
    equals_the_hardware(case, *copy(case))


def first_case(kind, **wanted):
    return next(
        case for case in recorded("cases") if case["kind"] == kind and all(case[k] == v for k, v in wanted.items())
    )


@pytest.mark.parametrize("kind", ["load", "store"])
def test_a_map_in_global_memory_means_the_same(kind):
    case = first_case(kind)
    equals_the_hardware(case, *copy(case, map_offset=0))


OUT_OF_BOUNDS = [
    ({"map_offset": 1 << 30}, "out of bounds: global read of 128 bytes"),
    ({"map_offset": 16}, "out of bounds: global read of 128 bytes"),
    ({"changes": [("[s],[m", "[s+16256],[m")]}, "out of bounds: shared write"),
    ({"changes": [("[s],[m", "[s+64],[m")]}, "misaligned"),
    ({"changes": [("}],[b];", "}],[b+4];")]}, "misaligned: shared write of 8 bytes"),
    ({"changes": [("}],[b];", "}],[b+4096];")]}, "out of bounds: shared write of 8 bytes"),
    ({"moved": 1 << 30}, "out of bounds: global read"),
]


@pytest.mark.parametrize(("options", "message"), OUT_OF_BOUNDS)
def test_a_copy_out_of_bounds(options, message):
    with pytest.raises(MemoryAccessError, match=message):
        copy(first_case("load"), **options)


def test_a_misaligned_map():
    """A map has to begin at a multiple of 64 bytes (PTX ISA, tensormap)."""
    case = first_case("load")
    with gpusim.Device("h200") as device:
        space = device.to_device(np.zeros(512, np.uint8))
        program = programs()[changed(kernel("load", len(case["shape"])), *IN_MEMORY)]
        place = [np.int32(c) for c in case["corner"]]
        with pytest.raises(MemoryAccessError, match="misaligned: global read of 64 bytes"):
            device.launch(program, 1, 32, (np.uint64(space.address + 32), space, *place, np.uint32(case["bytes"])))


def reduction(kind, corner):
    """A reduction of a box of 32 x 8 words, or 16 x 8 of 64 bits, into a tensor of 50 x 30 words in rows of 64."""
    words = 2 if kind in (4, 5) else 1
    return {
        "kind": "red", "type": kind, "shape": [50 // words, 30], "strides": [256], "box": [32 // words, 8],
        "steps": [1, 1], "corner": [corner[0] // words, corner[1]], "swizzle": 0, "nan_fill": 0, "number": 70,
        "bytes": 0,
    }  # fmt: skip


REDUCTIONS = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "inc": lambda old, new: np.where(old >= new, 0, old + 1),
    "dec": lambda old, new: np.where((old == 0) | (old > new), new, old - 1),
}  # fmt: skip


def reducing(operation):
    """The change of a kernel that adds to one that does something else."""
    return "shared::cta.add", f"shared::cta.{operation}"


NUMBERS = {2: np.uint32, 3: np.int32, 4: np.uint64, 5: np.int64, 7: np.float32}


@pytest.mark.parametrize("corner", [(40, 26), (-8, -2)])
@pytest.mark.parametrize(
    "kind, operation",
    [
        *((7, "add"), (2, "inc"), (2, "dec"), (5, "min"), (5, "max")),
        *((k, each) for k in (2, 3, 4) for each in list(REDUCTIONS)[:6]),
    ],
)
def test_reductions_into_a_tensor(kind, operation, corner):
    """Elements inside the tensor are combined with the box's, row by row; all others stay (PTX ISA, cp.reduce)."""
    case = reduction(kind, corner)
    tensor, image = copy(case, changes=[reducing(operation)])
    mode = ("f32", "near") if kind == 7 else ("s8", "any")
    numbers, words = NUMBERS[kind], np.dtype(NUMBERS[kind]).itemsize // 4
    before = packed(900000 + case["number"], 65536, *mode).view(numbers)
    box = image.view(numbers)[: 256 // words].reshape(8, -1)
    expected = before.copy()
    for y in range(8):
        for x in range(32 // words):
            column, row = case["corner"][0] + x, case["corner"][1] + y
            if 0 <= column < case["shape"][0] and 0 <= row < 30:
                at = row * 64 // words + column
                expected[at] = REDUCTIONS[operation](before[at], box[y, x])
    np.testing.assert_array_equal(tensor.view(numbers), expected)
    assert (expected != before).any()


@pytest.mark.parametrize("kind, operation", [(7, "min"), (4, "inc"), (5, "add"), (8, "max")])
def test_reductions_that_a_type_does_not_have(kind, operation):
    """A map says at run time what the elements are: float32 has no minimum, signed 64-bit integers no sum."""
    with pytest.raises(SimulationError, match="not modelled"):
        copy(reduction(kind, (4, 2)), changes=[reducing(operation)])


def test_a_corner_off_sixteen_bytes_is_an_error():
    """The GPU stops such a copy with an illegal instruction."""
    case = next(case for case in recorded("cases") if case["kind"] == "load" and case["type"] == 7)
    with pytest.raises(SimulationError):
        copy(case, corner=[case["corner"][0] + 1, *case["corner"][1:]])


def test_bad_maps_are_refused():
    with pytest.raises(ArgumentError, match="16 bytes"):
        encode_tiled("float32", 8, [64], [], [32])
    with pytest.raises(ArgumentError, match="one stride fewer"):
        encode_tiled("float32", 0, [64, 64], [], [32, 1])
    with pytest.raises(ArgumentError, match="swizzled line"):
        encode_tiled("float32", 0, [64, 64], [256], [32, 1], swizzle="32B")
