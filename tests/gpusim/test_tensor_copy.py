"""Tensor maps and copies of boxes of tensors (TMA), replayed from an H200."""

import json
from pathlib import Path

import numpy as np
import pytest

import gpusim
from gpusim.errors import ArgumentError, SimulationError
from gpusim.tensor_map import encode_tiled
from isa.compile import assemble
from isa.listing import program_from_cubin
from tests.gpusim.matrix_operands import packed

DATA = Path(__file__).parent / "data" / "h200_tensor_copies.npz"
# Names by the driver's CUtensorMapDataType.
TYPES = {0: "uint8", 1: "uint16", 2: "uint32", 3: "int32", 4: "uint64", 5: "int64", 6: "float16", 7: "float32",
         8: "float64", 9: "bfloat16"}  # fmt: skip
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


def copy(case, corner=None):
    """Runs a recorded case; the tensor and the image as they are afterwards."""
    kind = {"load": "load", "store": "store", "red": "add"}[case["kind"]]
    rank = len(case["shape"])
    program = program_from_cubin(assemble(kernel(kind, rank), "sm_90a"), abi="c", path="k")
    form = {6: "f16", 7: "f32", 9: "f16"}.get(case["type"], "s8")
    mode = "any" if form == "s8" else "near"
    with gpusim.Device("h200") as device:
        tensor = device.to_device(packed(900000 + case["number"], 65536, form, mode))
        image = device.to_device(packed(950000 + case["number"], 4096, form, mode))
        tensor_map = encode_tiled(
            TYPES[case["type"]], tensor.address, case["shape"], case["strides"], case["box"], case["steps"],
            SWIZZLES[case["swizzle"]], bool(case["nan_fill"]),
        )  # fmt: skip
        place = [np.int32(c) for c in corner or case["corner"]]
        device.launch(program, 1, 32, (tensor_map, image, *place, np.uint32(case["bytes"])))
        return tensor.copy_to_host(), image.copy_to_host()


@pytest.mark.parametrize("case", recorded("cases"), ids=lambda case: f"{case['kind']}-{case['number']}")
def test_copies_equal_the_hardware(case):
    tensor, image = copy(case)
    number = case["number"]
    with np.load(DATA) as data:
        if case["kind"] == "load":
            np.testing.assert_array_equal(image, data[f"{number}"])
            return
        form = {6: "f16", 7: "f32", 9: "f16"}.get(case["type"], "s8")
        expected = packed(900000 + number, 65536, form, "any" if form == "s8" else "near")
        expected[data[f"{number}w"]] = data[f"{number}v"]
    np.testing.assert_array_equal(tensor, expected)


def test_a_corner_off_sixteen_bytes_is_an_error():
    """The GPU stops such a copy with an illegal instruction."""
    case = next(case for case in recorded("cases") if case["kind"] == "load" and case["type"] == 7)
    with pytest.raises(SimulationError):
        copy(case, corner=[case["corner"][0] + 1, *case["corner"][1:]])


def test_maps_equal_the_drivers():
    """All that the driver was asked for and that is modelled; words 15 and on are not read by the simulated GPU."""
    compared = 0
    for entry in recorded("maps"):
        options = entry["options"]
        if entry["type"] not in TYPES or options.get("inter") or options.get("l2"):
            continue
        words = np.frombuffer(
            encode_tiled(
                TYPES[entry["type"]], entry["address"], entry["shape"], entry["strides"], entry["box"],
                entry["steps"], SWIZZLES[options.get("sw", 0)], bool(options.get("oob")),
            ).tobytes(),
            np.uint32,
        )  # fmt: skip
        recorded_words = np.frombuffer(bytes.fromhex(entry["map"]), np.uint32)
        np.testing.assert_array_equal(words[:15], recorded_words[:15], str(entry))
        compared += 1
    assert compared > 35


def test_bad_maps_are_refused():
    with pytest.raises(ArgumentError, match="16 bytes"):
        encode_tiled("float32", 8, [64], [], [32])
    with pytest.raises(ArgumentError, match="one stride fewer"):
        encode_tiled("float32", 0, [64, 64], [], [32, 1])
    with pytest.raises(ArgumentError, match="swizzled line"):
        encode_tiled("float32", 0, [64, 64], [256], [32, 1], swizzle="32B")
