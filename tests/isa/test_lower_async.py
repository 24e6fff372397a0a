"""What the asynchronous instructions of sm_90 become, and what is refused by name before anything runs."""

from types import SimpleNamespace

import pytest

from isa import microops as m
from isa.errors import UnknownInstruction
from isa.instruction import parse_instruction
from isa.lower import lower, lower_instruction
from isa.lower_writer import ConstantPool, RegisterLayout

UREG = 100


def columns(text):
    return lower_instruction(parse_instruction(0, text, 0, {}), ConstantPool(), RegisterLayout(UREG, 200)).columns


@pytest.mark.parametrize(
    "text",
    [
        "STAS [R12.64+0x10], R15",
        "REDAS.ADD.F32 [R12.64], R15",
        "UBLKCP.G.G [UR8], [UR4], UR7",
        "UBLKRED.G.S.MIN.F32.RN [UR16], [UR5], UR7",
        "UBLKRED.S.G.ADD [UR16], [UR5], UR7",
        "UTMALDG.2D.GATHER4 [UR8], [UR4], UR6",
        "UGETNEXTWORKID.BROADCAST [UR4], [UR5]",
        "DEPBAR {6}",
        "LDSM.8.MT1616 R6, [R5]",
        "RPCMOV.32 R6, Rpc.MID",
    ],
)
def test_refused_by_name(text):
    with pytest.raises(UnknownInstruction, match=text.split()[0].split(".")[0]):
        columns(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("LDGMC.E.ADD.32.STRONG.SYS R3, [R2.64+URZ]", "multimem"),
        ("USTGR.E.NA.64.MMIO.SYS [UR4], UR6", "memory-mapped"),
        ("UREDGR.E.ADD.NA.S32.MMIO.SYS [UR4], UR6", "memory-mapped"),
        ("UMEMSETS.64 [UR5], URZ, UR4", "zeros in bulk"),
        ("UVIRTCOUNT.DEALLOC.SMPOOL 0x80", "tensor memory"),
    ],
)
def test_refused_for_what_is_not_modelled(text, reason):
    with pytest.raises(UnknownInstruction, match=f"{reason}.* not modelled"):
        columns(text)


def test_halves_of_rpc_are_rows_behind_the_registers():
    put, back = columns("RPCMOV.32 Rpc.HI, R7"), columns("RPCMOV.32 R9, Rpc.HI")
    assert put[m.COL_OP] == back[m.COL_OP] == m.OP_MOV
    assert (put[m.COL_DST], put[m.COL_A]) == (UREG - 1, 7)
    assert (back[m.COL_DST], back[m.COL_A]) == (9, UREG - 1)
    assert columns("RPCMOV.32 Rpc.LO, R7")[m.COL_DST] == UREG - 2
    code = (parse_instruction(0, "RPCMOV.32 Rpc.HI, R7", 0, {}),)
    lowered = lower(SimpleNamespace(name="k", registers=8, instructions=code))
    assert lowered.code[0, m.COL_DST] == lowered.ureg_base - 1 >= 8


@pytest.mark.parametrize(
    ("text", "op"),
    [
        ("R2UR.BROADCAST UR4, R2", m.OP_R2UR),
        ("SYNCS.CCTL.IVALL", m.OP_NOP),
        ("CCTLL.PF1 [R0]", m.OP_CCTL),
        ("CCTL.E.C.LDCU.IV.DEEP [UR4]", m.OP_CCTL),
    ],
)
def test_what_sm_100_has_beside(text, op):
    row = columns(text)
    assert row[m.COL_OP] == op and (op != m.OP_CCTL or row[m.COL_AUX0] == 0)
def test_sparse_products_of_four_warps():
    row = columns("HGMMA.SP.64x8x32.F32 R24, R28, gdesc[UR8], R24, R32, 0x1, gsb0")
    assert row[m.COL_AUX0] == 8 | 32 << 16
    assert row[m.COL_AUX4] == m.GMMA_REGISTERS | m.GMMA_SPARSE | 1 << m.GMMA_SELECTOR_BIT | m.GMMA_COMMITS
    row = columns("IGMMA.SP.64x8x64.U8.S8 R24, gdesc[UR4], R24, R28, gsb0")
    assert (row[m.COL_AUX0], row[m.COL_AUX4]) == (8 | 28 << 16, m.GMMA_SPARSE | m.GMMA_COMMITS)


def test_products_of_four_warps():
    row = columns("HGMMA.64x64x16.F32.BF16 R24, gdesc[UR8].negA.tnspB, R24, UP0, gsb0")
    assert (row[m.COL_OP], row[m.COL_AUX0], row[m.COL_AUX2]) == (m.OP_GMMA, 64, 32)
    assert row[m.COL_AUX1] == m.TENSOR_BF16 | m.TENSOR_BF16 << 8
    assert row[m.COL_AUX4] == m.GMMA_NEGATE_A | m.GMMA_TRANSPOSE_B | m.GMMA_COMMITS
    assert (row[m.COL_B], row[m.COL_AUX5]) == (UREG + 8, UREG + 10)
    assert row[m.COL_PS0] == 8
    registers = columns("QGMMA.64x128x32.F16.E4M3.E5M2 R24, -R56, gdesc[UR4], RZ, !UPT, gsb0")
    assert registers[m.COL_AUX4] == m.GMMA_REGISTERS | m.GMMA_NEGATE_A | m.GMMA_COMMITS
    assert (registers[m.COL_A], registers[m.COL_AUX5]) == (56, UREG + 6)
    assert registers[m.COL_AUX1] == m.TENSOR_E4M3 | m.TENSOR_E5M2 << 8
    assert (registers[m.COL_PS0], registers[m.COL_PS0_NEG]) == (7, 1)  # nothing is added


@pytest.mark.parametrize(
    ("part", "arrivals", "transactions"),
    [
        ("", m.SYNCS_ONE, m.SYNCS_OPERAND),
        (".A1T0", m.SYNCS_ONE, m.SYNCS_NONE),
        (".ART0", m.SYNCS_OPERAND, m.SYNCS_NONE),
        (".RED.A0TR", m.SYNCS_NONE, m.SYNCS_OPERAND),
        (".RED.A0TX", m.SYNCS_NONE, m.SYNCS_OPERAND_DONE),
        (".RED.A0T1", m.SYNCS_NONE, m.SYNCS_ONE),
    ],
)
def test_arrivals(part, arrivals, transactions):
    row = columns(f"SYNCS.ARRIVE.TRANS64{part} RZ, [UR9], R0")
    assert (row[m.COL_OP], row[m.COL_AUX4]) == (m.OP_SYNCS, m.SYNCS_ARRIVE)
    assert row[m.COL_AUX5] == arrivals | transactions << 4


def test_a_change_of_the_registers():
    layout = RegisterLayout(UREG, 200, 168)
    for text, pd, more, count in [
        ("USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xe8", 8, 1, 232), ("USETMAXREG.DEALLOC.CTAPOOL 0x28", 7, 0, 40)
    ]:  # fmt: skip
        row = lower_instruction(parse_instruction(0, text, 0, {}), ConstantPool(), layout).columns
        assert (row[m.COL_OP], row[m.COL_PD0], row[m.COL_AUX1]) == (m.OP_REGISTERS, pd, more)
        assert (row[m.COL_AUX0], row[m.COL_AUX2]) == (count, 168)


def test_waiting_for_several_scoreboards():
    """fence.proxy.tensormap waits for all that is under way."""
    row = columns("DEPBAR {5,4,3,2,1,0}")
    assert (row[m.COL_OP], row[m.COL_AUX0], row[m.COL_WAIT]) == (m.OP_DEPBAR, 7, 0x3F)
    row = columns("DEPBAR.LE SB2, 0x1, {4,3}")
    assert (row[m.COL_AUX0], row[m.COL_AUX1], row[m.COL_WAIT]) == (2, 1, 0x18)


_LOAD, _STORE, _REDUCE = (kind | m.BULK_TENSOR for kind in (m.BULK_LOAD, m.BULK_STORE, m.BULK_REDUCE))


@pytest.mark.parametrize(
    ("text", "kind", "more"),
    [
        ("UBLKCP.S.G [UR8], [UR4], UR6", m.BULK_LOAD, {m.COL_C: UREG + 6}),
        ("UBLKCP.S.G.MULTICAST [UR8], [UR4], UR6, desc[UR10]", m.BULK_LOAD | m.BULK_MULTICAST, {}),
        ("UBLKCP.S.S [UR8], [UR7], UR5", m.BULK_SHARED, {m.COL_A: UREG + 8, m.COL_B: UREG + 7}),
        ("UBLKCP.G.S [UR4], [UR8], UR6", m.BULK_STORE, {}),
        ("UBLKRED.G.S.ADD.S32 [UR16], [UR4], UR6", m.BULK_REDUCE, {m.COL_AUX2: m.ATOMIC_ADD, m.COL_AUX3: m.TYPE_S32}),
        ("UBLKRED.G.S.MAX.BF16.RN [UR6], [UR4], UR5", m.BULK_REDUCE, {m.COL_AUX3: m.TYPE_BF16X2}),
        ("UBLKRED.G.S.ADD.F64.RN [UR6], [UR4], UR5", m.BULK_REDUCE, {m.COL_AUX3: m.TYPE_F64}),
        ("UBLKRED.S.S.INC [UR16], [UR4], UR6", m.BULK_SHARED_REDUCE, {m.COL_AUX2: m.ATOMIC_INC}),
        ("UBLKPF.L2 [UR4], UR6, desc[UR8]", m.BULK_PREFETCH, {m.COL_B: UREG + 4}),
        ("UTMALDG.3D [UR8], [UR4], desc[UR6]", _LOAD, {m.COL_AUX1: 3}),
        ("UTMALDG.5D.IM2COL.MULTICAST [UR8], [UR18], UR4", _LOAD | m.BULK_IM2COL | m.BULK_MULTICAST,
         {m.COL_C: UREG + 4}),
        ("UBLKCP.S.G [UR8], [UR4], UR6, desc[UR10]", m.BULK_LOAD, {}),
        ("UTMASTG.5D [UR8], [UR4]", _STORE, {m.COL_AUX1: 5}),
        ("UTMAREDG.2D.MAX [UR8], [UR4]", _REDUCE, {m.COL_AUX1: 2, m.COL_AUX2: m.ATOMIC_MAX}),
        ("UTMAREDG.4D.IM2COL.ADD [UR8], [UR14]", _REDUCE | m.BULK_IM2COL, {m.COL_AUX1: 4}),
        ("UTMAPF.L2.2D [UR8], [UR4]", m.BULK_PREFETCH | m.BULK_TENSOR, {m.COL_A: UREG + 8}),
    ],
)  # fmt: skip
def test_bulk_copies(text, kind, more):
    row = columns(text)
    assert (row[m.COL_OP], row[m.COL_AUX4]) == (m.OP_BULK_COPY, kind)
    assert {column: row[column] for column in more} == more


@pytest.mark.parametrize(
    ("text", "size", "what"),
    [
        ("STAS [R12.64], R15", 4, m.ATOMIC_EXCH << 8 | m.TYPE_U32),
        ("STAS.64 [R4.64], R2", 8, m.ATOMIC_EXCH << 8 | m.TYPE_U64),
        ("STAS.128 [R4.64], R8", 16, m.ATOMIC_EXCH << 8 | m.TYPE_U128),
        ("REDAS.MIN.S32 [R4.64], R2", 4, m.ATOMIC_MIN << 8 | m.TYPE_S32),
        ("REDAS.ADD.64 [R4.64], R2", 8, m.ATOMIC_ADD << 8 | m.TYPE_U64),
    ],
)
def test_stores_in_other_blocks(text, size, what):
    row = columns(text)
    assert (row[m.COL_OP], row[m.COL_AUX1], row[m.COL_AUX4]) == (m.OP_STAS, size, what)


def test_products_of_four_warps_with_and_without_their_scoreboard():
    """Of several in a row only the last, which ends a group that can be waited for, names gsb0."""
    first, last = (columns(f"HGMMA.64x8x16.F32 R4, gdesc[UR4], R4{end}") for end in ("", ", gsb0"))
    assert (first[m.COL_AUX4], last[m.COL_AUX4]) == (0, m.GMMA_COMMITS)
    first[m.COL_AUX4] = last[m.COL_AUX4]
    assert (first == last).all() if hasattr(first, "all") else first == last
