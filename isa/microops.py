"""The vocabulary of the lowered program: columns of a code row, classes, units and micro-operations.

`isa.lower` turns every SASS instruction into one row of `COLUMNS` int32 numbers; compiled executors read
nothing else. A micro-operation number divided by 100 is its class, so that `OP // 100 == CLASS`.

More than 500 lines, because whoever reads a row needs the one list of all meanings.

Operand codes (columns A, B, C, DST and where named AUX5): a code `r >= 0` is row r of the warp's registers,
element offset `warp_base + 32 * r`; a code `r < 0` is constant row `~r`, element offset `32 * ~r`. 64-bit operands
are two consecutive rows, low word first; 128-bit ones four. Constant rows 0..3 are zero.
Predicates: 16 words of 32 lanes per warp: 0..6 P0..P6, 7 PT, 8..14 UP0..UP6, 15 UPT. PT and UPT are all ones and are
never written.
"""

# --- columns -------------------------------------------------------------------------------------------------------
COL_OP = 0
COL_CLASS = 1
COL_UNIT = 2
COL_GUARD = 3  # 0..15, 7 = always
COL_GUARD_NEG = 4
COL_STALL = 5  # cycles before the warp may issue again
COL_YIELD = 6
COL_WBAR = 7  # scoreboard set at result, 7 = none
COL_RBAR = 8  # scoreboard set when sources are read, 7 = none
COL_WAIT = 9  # mask over six scoreboards
COL_REUSE = 10
COL_UNIFORM = 11  # 1: executes once for the warp: run it with mask 0xffffffff
COL_DST = 12  # operand code of the first destination row
COL_DST_COUNT = 13  # rows written, 0 = none
COL_A = 14
COL_MOD_A = 15
COL_B = 16
COL_MOD_B = 17
COL_C = 18
COL_MOD_C = 19
COL_PD0 = 20  # destination predicates, 7 or 15 = discarded
COL_PD1 = 21
COL_PS0 = 22  # source predicates
COL_PS0_NEG = 23
COL_PS1 = 24
COL_PS1_NEG = 25
COL_PS2 = 26
COL_PS2_NEG = 27
COL_AUX0 = 28  # meaning depends on the micro-operation, see below
COL_AUX1 = 29
COL_AUX2 = 30
COL_AUX3 = 31
COL_AUX4 = 32
COL_AUX5 = 33
COL_CONST = 34  # bank << 16 | byte offset of the constant operand that is read, -1 = none
COL_READS = 35  # registers to read: from the even bank, and 16 times those from the odd one
COL_VARIABLE = 36  # 1: variable latency, completion is signalled by a scoreboard
COL_SPIN = 37  # 1: a load that an ATOMS.CAST.SPIN loop begins with
COLUMNS = 40  # a whole number of 32-byte pieces; columns 38 and 39 are zero

# --- operand modifiers ---------------------------------------------------------------------------------------------
MOD_NONE = 0
MOD_FNEG = 1
MOD_FABS = 2
MOD_FNEG_FABS = 3  # -|x|
MOD_INEG = 4
MOD_NOT = 5

# --- classes: one compiled executor each; the last four are executed by the SM core ----------------------------------
CLS_INT = 1
CLS_FLOAT = 2
CLS_DOUBLE = 3
CLS_CONVERT = 4
CLS_PRED = 5
CLS_CROSS = 6
CLS_HALF = 7
CLS_TENSOR = 8
CLS_SPECIAL = 9
CLS_MEMORY = 10
CLS_CONTROL = 11
CLS_BARRIER = 12

# --- units (issue pipes) -------------------------------------------------------------------------------------------
UNIT_NONE = 0
UNIT_FMA = 1
UNIT_FMAHEAVY = 2
UNIT_ALU = 3
UNIT_FP64 = 4
UNIT_HALF = 5
UNIT_XU = 6
UNIT_LSU = 7
UNIT_UNIFORM = 8
UNIT_CBU = 9
UNIT_TENSOR = 10
UNIT_ADU = 11
UNIT_TEX = 12
UNITS = 13

# --- CLS_INT: 100.. common, 130.. with 64-bit values or carries out, 150.. rare (a compiled function each) -----
OP_MOV = 100  # d = A
OP_SEL = 101  # d = PS0 ? A : B
OP_IADD3 = 102  # d = A + B + C
OP_IADD3_X = 103  # d = A + B + C + PS0 + PS1, no carry out
OP_IMAD = 104  # d = A * B + C
OP_IMAD_X = 105  # d = A * B + C + PS0
OP_LEA = 106  # d = (A << AUX0) + B
OP_AND = 107
OP_OR = 108
OP_XOR = 109
OP_LOP3 = 110  # AUX0 = truth table
OP_LOP3_PRED = 111  # as LOP3; PD0 = (d != 0) | PS0, with AUX1 = 1: & PS0
OP_SHL = 112  # d = A << B, zero from 32 up
OP_SHR_U = 113
OP_SHR_S = 114
OP_SHF_L = (
    115  # (C:A) << B; AUX0 = 1 high word, AUX1 = number of bits (32, 64), AUX2 = 1 wrap the shift, 0 clamp it
)
OP_SHF_R_U = 116
OP_SHF_R_S = 117
OP_MNMX_U = 118  # d = PS0 ? min(A, B) : max(A, B)
OP_MNMX_S = 119
OP_IABS = 120
OP_MOV_WIDE = 130  # pair d = pair A
OP_ADD3_WIDE = 131  # pair d = pair A + pair B + pair C
OP_IADD3_CARRY = 132  # A + B + C + PS0 + PS1, -x as ~x + 1 without wrapping; PD0: sum >= 2**32, PD1: >= 2**33
OP_LEA_CARRY = (
    133  # + PS0; PD0 = carry out. AUX1: 1 = negate, 2 = invert the shifted value; AUX2: 0 low word of it,
)
#                     1 high word of (C:A) << AUX0, 2 high word of sign extended A << AUX0
OP_IMAD_CARRY = 134  # 32-bit A * B + C + PS0; PD0 = carry out of the addition
OP_IMAD_WIDE_U = (
    135  # pair d = A * B + pair C (+ PS0), PD0 = carry out; AUX0 bit 0: a carry is read or written, bit 1: - pair C
)
OP_IMAD_WIDE_S = 136
OP_IMAD_HI_U = 137  # d = high word of A * B + pair C (+ PS0); AUX0 as above
OP_IMAD_HI_S = 138
OP_SEL_WIDE = 139  # pair d = PS0 ? pair A : pair B
OP_MNMX_WIDE_U = 140  # pairs: d = PS0 ? min(A, B) : max(A, B)
OP_MNMX_WIDE_S = 141
OP_ADD2_WIDE = (
    142  # pair d = A + B + PS0, PD0 = carry out; AUX0 bit 0 negates A, bit 1 B, bits 2 and 3 invert them
)
OP_BMSK = 150  # mask of B bits from bit A; AUX0 = 1 wrap, 0 clamp
OP_SGXT_S = 151  # sign extension of A's low B bits; AUX0 = 1 wrap
OP_SGXT_U = 152
OP_PRMT = 153  # bytes of (C:A) chosen by B; AUX0 = mode PRMT_*
OP_ADDMNMX_U = 154  # d = PS0 ? min(A + B, C) : max(A + B, C); AUX1 = 1: not below 0 (RELU)
OP_ADDMNMX_S = 155
OP_MNMX3_U = 156  # d = PS0 ? min(A, B, C) : max(A, B, C); AUX1 = 1 RELU
OP_MNMX3_S = 157
OP_IDP_4A = 158  # dot product of four bytes + C; AUX0 bit 0: A signed, bit 1: B signed
OP_IDP_2A = 159  # dot product of two half words with two bytes + C; AUX0 as above, AUX1 = 1 upper bytes (.HI)
OP_I2I_SAT = 160  # d = signed A saturated to AUX0 bits, AUX1 = 1 signed result
OP_I2IP = 161  # d = C >> AUX3 << 2 * bits | A << bits | B; AUX0 = bits, AUX1 = 1 signed, AUX2 = 1 saturated elements
OP_VABSDIFF = 162  # d = |A - B| + C, PD0 = carry of the addition; AUX0 = 1 signed
OP_VABSDIFF4 = 163  # absolute byte differences, AUX1 = 1: their sum + C; AUX0 = 1 signed; PD0 = 0
OP_ADD_16X2 = 164  # two 16-bit additions; AUX0 bit 0 negates the halves of A, bit 1 those of B
OP_MNMX_16X2 = 165  # two 16-bit OP_MNMX; AUX0 = 1 signed, AUX1 = 1 RELU, AUX2 = 1: of A + B and C
OP_MNMX3_16X2 = 166  # as OP_MNMX3_*; AUX0 = 1 signed
OP_ADD_8X4 = 167  # four 8-bit additions; AUX0 as OP_ADD_16X2
OP_MNMX_8X4 = 168  # four 8-bit OP_MNMX; AUX0 = 1 signed
OP_ADD_SAT = 169  # d = A + B limited to a signed 32-bit integer; AUX0 = 1: A - B
OP_MOV_LANES = 170  # d = A in lanes k of four (k = lane % 4) of which AUX0 has bit k
OP_MNMX_CHOICE = 171  # OP_MNMX_*, AUX2 = 1: of halves; AUX0 = 1 signed, AUX1 = 1 RELU; PD0, PD1 = A or its halves are d
FIRST_WIDE_INT = 130
FIRST_RARE_INT = 150

PRMT_IDX = 0
PRMT_F4E = 1
PRMT_B4E = 2
PRMT_RC8 = 3
PRMT_ECL = 4
PRMT_ECR = 5
PRMT_RC16 = 6

# --- CLS_FLOAT: AUX0 = flags FLAG_*, AUX1 = rounding ROUND_*, AUX2 = power of two that scales FMUL ----------------
OP_FADD = 200  # plain: round to nearest, denormals kept; NaN results are 0x7fffffff
OP_FMUL = 201
OP_FFMA = 202
OP_FADD_MODE = 203  # with flags, rounding and scale
OP_FMUL_MODE = 204
OP_FFMA_MODE = 205
OP_FMNMX = 206  # PS0 ? min : max; AUX0 flags (FTZ, NAN, XORSIGN)
OP_FSEL_FTZ = 207  # d = PS0 ? A : B, flushed
OP_FSET = 208  # d = compare ? (AUX3 = 1: 1.0f, 0: all ones) : 0; other columns as FSETP
OP_FADD_FTZ = 209  # round to nearest, denormal sources and results flushed to zero of the same sign
OP_FMUL_FTZ = 210
OP_FFMA_FTZ = 211

OP_FMNMX3 = 212  # as FMNMX of three
OP_FADD2 = 213  # FADD, FMUL, FFMA of both words of pairs; AUX0 flags
OP_FMUL2 = 214
OP_FFMA2 = 215

FLAG_FTZ = 1
FLAG_SAT = 2
FLAG_NAN = 4  # FMNMX.NAN: a NaN source makes the result NaN
FLAG_XORSIGN = 8
FLAG_FMZ = 16  # 0 * x = 0; comes with FLAG_FTZ
ROUND_NEAREST = 0  # .RN, and the default
ROUND_DOWN = 1  # .RM or .FLOOR
ROUND_UP = 2  # .RP or .CEIL
ROUND_ZERO = 3  # .RZ or .TRUNC

# --- CLS_DOUBLE: operands are row pairs; modifiers act on the high word ----------------------------------------
OP_DADD = 300
OP_DMUL = 301
OP_DFMA = 302
OP_DADD_MODE = 303  # AUX1 = rounding
OP_DMUL_MODE = 304
OP_DFMA_MODE = 305
OP_DSETP = 306  # AUX as FSETP

# --- CLS_CONVERT ---------------------------------------------------------------------------------------------------
OP_MUFU_RCP = (
    400  # AUX0 flags; AUX1 = 0 f32, 1 half, 2 bfloat16 (EX2, TANH), then AUX5 = half (0 low, 1 high)
)
OP_MUFU_RSQ = 401
OP_MUFU_SQRT = 402
OP_MUFU_EX2 = 403
OP_MUFU_LG2 = 404
OP_MUFU_SIN = 405
OP_MUFU_COS = 406
OP_MUFU_TANH = 407
OP_MUFU_RCP64H = 408  # A and d are the high words of doubles
OP_MUFU_RSQ64H = 409
OP_F2I = (
    410  # AUX0 flags, AUX1 rounding, AUX2 result bits, AUX3 = 1 signed, AUX4 source bits, AUX5 half (0, 1)
)
OP_I2F = 411  # AUX1 rounding, AUX2 result bits, AUX3 = 1 signed, AUX4 source bits, AUX5 = first byte of a small source
OP_F2F = 412  # AUX0 flags, AUX1 rounding, AUX2 result bits, AUX4 source bits, AUX5 half (0 low, 1 high)
OP_FRND = 413  # AUX0 flags, AUX1 rounding, AUX2 = bits
OP_POPC = 414
OP_FLO_U = 415  # AUX0 = 1: distance from the top (.SH); no bit found gives 0xffffffff; PD0 = found
OP_FLO_S = 416
OP_BREV = 417
OP_F2FP = 418  # AUX0 flags, AUX1 rounding, AUX2 format of the result (HALF_*, NARROW_*), AUX3 = PACK_*, AUX4 = source
#                 format where it is not f32, AUX5 = half of B that is unpacked
OP_F2IP = 419  # d = C << 2 * bits | A << bits | B, the f32 A and B as integers of AUX2 bits; AUX0, AUX1, AUX3 as F2I

FLAG_NTZ = 32  # F2I makes zero of NaN, not the top bit
FLAG_BF16 = 128  # a 16-bit source is bfloat16
FLAG_TO_BF16 = 256  # a 16-bit result is bfloat16
FLAG_SATFINITE = 512  # beyond the range: the largest finite value
FLAG_OOB = 1024  # HFMA2.OOB: a factor that is the NaN of what lies outside a tensor makes the result zero
PACK_AB = 0  # d = A << 16 | B, or of narrow formats C << 16 | A << 8 | B
PACK_ONE = 1  # d = C << 16 | B
PACK_WORD = 2  # d = B, of 32 bits
UNPACK_WIDEN = 3  # d = the two narrow numbers of a half of B
UNPACK_NARROW = 4  # d = C << 16 | the two halves of B, narrowed
NARROW_E4M3 = 2  # 8 bits: four of exponent, three of mantissa, no infinities
NARROW_E5M2 = 3
NARROW_TF32 = 4  # float32 with 10 bits of mantissa

# --- CLS_PRED ------------------------------------------------------------------------------------------------------
OP_ISETP = (
    500  # AUX0 COMPARE_*, AUX1 = 1 unsigned, AUX2 BOOL_*; PD0 = (A cmp B) bool PS0, PD1 = !(A cmp B) bool PS0
)
#                 AUX3 = 1: .EX, equal high words take the result of the low words from PS1
OP_FSETP = 501  # as ISETP, AUX0 bit 3 = unordered counts as true, AUX1 = FLAG_FTZ
OP_PLOP3 = 502  # PD0 = table AUX0 of (PS0, PS1, PS2), PD1 = table AUX1; bit k of AUX2: the sign of A, B or C, not PSk
OP_P2R = 503  # d = A with the bits of mask B taken from predicates; AUX0 = byte of d that receives them; AUX1 = 1: UP
OP_R2P = 504  # predicates in mask B = bits of byte AUX0 of A; AUX1 = 1: UP
OP_ISETP_WIDE = 506  # ISETP of pairs
OP_FCHK = 505  # PD0 = 1 if A / B needs the slow path

COMPARE_LT = 1
COMPARE_EQ = 2
COMPARE_GT = 4
COMPARE_UNORDERED = 8
COMPARE_MIN = 16  # DSETP only: PD0 = (A is the minimum) bool PS0, PD1 = both are NaN
COMPARE_MAX = 32
BOOL_AND = 0
BOOL_OR = 1
BOOL_XOR = 2

# --- CLS_CROSS: executed with the real mask even when the destination is uniform -----------------------------------
OP_SHFL = 600  # A value, B lane or offset, C clamp and segment; AUX0 = SHFL_*; PD0 = source lane in range
OP_VOTE = 601  # AUX0 = VOTE_*; d = ballot of PS0 (executing lanes), PD0 = all / any / equal; AUX5 = 1: uniform results
OP_MATCH_ANY = 602  # AUX0 = 1: 64-bit; d = lanes of the executing mask with the same value
OP_MATCH_ALL = 603  # d = executing mask if all are equal else 0, PD0 = all equal
OP_REDUX = 604  # AUX0 = REDUX_*; d is uniform
OP_R2UR = 605  # d = A of the lowest executing lane, to all lanes; PD0 = lanes whose A is another one

SHFL_IDX = 0
SHFL_UP = 1
SHFL_DOWN = 2
SHFL_BFLY = 3
VOTE_ALL = 0
VOTE_ANY = 1
VOTE_EQ = 2
REDUX_SUM = 0
REDUX_MIN_U = 1
REDUX_MAX_U = 2
REDUX_MIN_S = 3
REDUX_MAX_S = 4
REDUX_AND = 5
REDUX_OR = 6
REDUX_XOR = 7
REDUX_MIN_F = 8  # float32; a number wins against NaN; AUX1 = flags (NAN), as FMNMX
REDUX_MAX_F = 9

# --- CLS_HALF: AUX0 flags (FTZ, SAT, RELU), AUX1 = HALF_* format, AUX2 = selectors of A, B, C, two bits each --------
# (0: both halves, 1: the lower twice, 2: the upper twice)
OP_HADD2 = 700
OP_HMUL2 = 701
OP_HFMA2 = 702
OP_HMNMX2 = 703
OP_HSETP2 = 704  # AUX3 = COMPARE_*, AUX4 = BOOL_*
OP_HSET2 = 705
OP_HADD2_F32 = 706  # d = f32 of one half of A
OP_FHADD = 707  # d = f32 A + half B, as f32
OP_FHFMA = 708  # d = half A * half B + f32 C

HALF_F16 = 0
HALF_BF16 = 1
FLAG_RELU = 64

# --- CLS_TENSOR ----------------------------------------------------------------------------------------------------
OP_HMMA = (
    800  # AUX0 = M << 16 | N << 8 | K, AUX1 = TENSOR_* of the sources, AUX2 = bits of the result (16, 32)
)
OP_IMMA = 801  # AUX0 shape, AUX1 bit 0: A signed, bit 1: B signed, bits 4..: bits of an element, or INTEGER_*; AUX2 = 1
#                saturate; AUX4 = words of a fragment of B for 8 columns (of A for 8 rows where A is sparse)
OP_DMMA = 802  # AUX0 shape
OP_MOVM = 803  # transpose an 8x8 matrix of 16-bit elements
# HMMA and IMMA with AUX3 = 1 + selector: A is structured sparse, AUX5 = row of its metadata.
OP_GMMA = 804  # a warp's sixteen rows of a product of four warps: AUX0 = N, AUX1 = TENSOR_* of A | of B << 8, AUX2 =
#                bits of the result, AUX3 as AUX1 of IMMA, AUX4 = GMMA_*, A = registers or B = descriptor of A, AUX5 =
#                descriptor of B, PS0: C is added

TENSOR_F16 = 0
TENSOR_BF16 = 1
TENSOR_TF32 = 2
TENSOR_E4M3 = 3
TENSOR_E5M2 = 4
TENSOR_INTEGER = 5
INTEGER_AND = 1  # single bits: the number of those set in both
INTEGER_XOR = 2  # ... of those that differ
GMMA_NEGATE_A = 1
GMMA_NEGATE_B = 2
GMMA_TRANSPOSE_A = 4
GMMA_TRANSPOSE_B = 8
GMMA_SATURATE = 16
GMMA_REGISTERS = 32  # A is in registers

# --- CLS_SPECIAL ---------------------------------------------------------------------------------------------------
OP_S2R = 900  # d = special register AUX0 (SR_*); S2UR is the same with UNIFORM = 1
OP_CS2R = 901  # same; DST_COUNT 1 or 2 rows (2: a 64-bit register)

SR_TID_X = 0
SR_TID_Y = 1
SR_TID_Z = 2
SR_CTAID_X = 3
SR_CTAID_Y = 4
SR_CTAID_Z = 5
SR_LANEID = 6
SR_CLOCKLO = 7
SR_CLOCKHI = 8
SR_GLOBALTIMERLO = 9
SR_GLOBALTIMERHI = 10
SR_VIRTUALSMID = 11
SR_CGACTAID = 12  # rank of the block in its cluster
SR_EQMASK = 13
SR_LTMASK = 14
SR_LEMASK = 15
SR_GTMASK = 16
SR_GEMASK = 17
SR_VIRTID = 18  # warp slot in bits 8..14, SM in the bits above 20 (%warpid is extracted from it)
SR_VIRTCFG = 19  # warps per SM in bits 8..14, SMs in the bits from 20 up (%nwarpid, %nsmid)
SR_TID = 20  # packed x | y << 16 | z << 26
SR_SMEMSZ = 21
SR_CGASIZE = 22
SR_WARPID = 23
SR_SMID = 24
SR_SWINHI = 25  # high word of the shared window of the generic address space
SR_ZERO = 26  # SRZ
SR_LWINHI = 27  # high word of the local window

SPECIAL_REGISTERS = {
    **{f"SR_PM{k}": SR_ZERO for k in range(8)},  # the profiler's counters, of which nothing is counted
    "SR_TID.X": SR_TID_X,
    "SR_TID.Y": SR_TID_Y,
    "SR_TID.Z": SR_TID_Z,
    "SR_TID": SR_TID,
    "SR_CTAID.X": SR_CTAID_X,
    "SR_CTAID.Y": SR_CTAID_Y,
    "SR_CTAID.Z": SR_CTAID_Z,
    "SR_LANEID": SR_LANEID,
    "SR_CLOCKLO": SR_CLOCKLO,
    "SR_CLOCK": SR_CLOCKLO,
    "SR_CLOCKHI": SR_CLOCKHI,
    "SR_GLOBALTIMERLO": SR_GLOBALTIMERLO,
    "SR_GLOBALTIMERHI": SR_GLOBALTIMERHI,
    "SR_VIRTUALSMID": SR_VIRTUALSMID,
    "SR_CgaCtaId": SR_CGACTAID,
    "SR_CgaSize": SR_CGASIZE,
    "SR_EQMASK": SR_EQMASK,
    "SR_LTMASK": SR_LTMASK,
    "SR_LEMASK": SR_LEMASK,
    "SR_GTMASK": SR_GTMASK,
    "SR_GEMASK": SR_GEMASK,
    "SR_VIRTID": SR_VIRTID,
    "SR_VIRTCFG": SR_VIRTCFG,
    "SR_SMEMSZ": SR_SMEMSZ,
    "SR_WARPID": SR_WARPID,
    "SR_SMID": SR_SMID,
    "SR_SWINHI": SR_SWINHI,
    "SR_LWINHI": SR_LWINHI,
    "SRZ": SR_ZERO,
    # Below this the stack has run out: code for debugging compares it with R1. Local memory begins at 0 here.
    "SR_LMEMHIOFF": SR_ZERO,
}

# --- CLS_MEMORY ----------------------------------------------------------------------------------------------------
# A address row, C uniform base, B data; AUX0 SPACE_*, AUX1 bytes per lane | MEM_SIGNED, AUX2 immediate byte offset,
# AUX3 MEM_* address and ordering bits, AUX4 atomic operation << 8 | type (LDC: bank), AUX5 swap operand of CAS.
OP_LOAD = 1000
OP_STORE = 1001
OP_ATOM = 1002  # d = old value; PD0 where the form has one
OP_RED = 1003
OP_LDC = 1004
OP_LDGSTS = (
    1005  # asynchronous copy: A shared address (offset AUX2), B global address (offset AUX5), C its uniform
)
#                   base; AUX3 describes the global address; AUX4 = 1: lanes with PS0 false write zeros
OP_LDSM = 1006  # AUX5 = matrices (1, 2, 4) | transposed << 8
OP_STSM = 1007
OP_QSPC = 1008  # PD0 = generic address A lies in space AUX4; AUX5 = 1: shared memory of the whole cluster
OP_SYNCS = 1010  # mbarrier at A: AUX4 = SYNCS_*, B operand, d pair = its words before, PD0 = phase is over
OP_ARRIVES = 1011  # the copies so far arrive at mbarrier A: AUX4 = 0 as arrivals, 1 as transactions
OP_BULK_COPY = 1012  # AUX4 = BULK_*: A = destination and mbarrier, B = source (loads) or the other way round, C = size;
#                      of tensors: A = shared address, mbarrier (loads), coordinates, B = tensor map, AUX1 = dimensions;
#                      reductions: AUX1 = bytes, AUX2 = ATOMIC_*, AUX3 = TYPE_*

SPACE_GLOBAL = 0
SPACE_SHARED = 1
SPACE_LOCAL = 2
SPACE_GENERIC = 3
SPACE_CONST = 4
MEM_SIGNED = 1 << 8  # in AUX1
MEM_WIDE_ADDRESS = 1 << 0  # in AUX3: A is a 64-bit pair
MEM_UNIFORM_BASE = 1 << 1
MEM_UNIFORM_WIDE = 1 << 2
MEM_SHIFT_BIT = 4  # bits 4..7: left shift of the address register
MEM_STRONG = 1 << 8
MEM_CONSTANT = 1 << 9
MEM_BYPASS = 1 << 10  # LDGSTS.BYPASS: around L1
MEM_HINT_BIT = 12  # bits 12..15: HINT_*
MEM_SCOPE_BIT = 16  # bits 16..17: SCOPE_* of a strong access
HINT_NONE = 0
HINT_EVICT_FIRST = 1
HINT_EVICT_LAST = 2
HINT_NO_ALLOCATE = 3
HINT_LAST_USE = 4
HINT_EVICT_UNCHANGED = 5
SCOPE_CTA = 0
SCOPE_SM = 1
SCOPE_GPU = 2
SCOPE_SYSTEM = 3

BULK_LOAD = 0
BULK_STORE = 1
BULK_REDUCE = 2
BULK_TENSOR_LOAD = 3
BULK_TENSOR_STORE = 4
BULK_TENSOR_REDUCE = 5
SYNCS_EXCHANGE = 0
SYNCS_CHECK = 1
SYNCS_INVALIDATE = 2
SYNCS_ARRIVE = 3  # AUX5 says what of: arrivals (SYNCS_ONE, SYNCS_OPERAND) | transactions << 4 | SYNCS_DROP
SYNCS_NONE = 0
SYNCS_ONE = 1
SYNCS_OPERAND = 2
SYNCS_OPERAND_DONE = 3  # as many transactions are over
SYNCS_DROP = 1 << 8  # one thread fewer is expected from now on

ATOMIC_ADD = 0
ATOMIC_MIN = 1
ATOMIC_MAX = 2
ATOMIC_INC = 3
ATOMIC_DEC = 4
ATOMIC_AND = 5
ATOMIC_OR = 6
ATOMIC_XOR = 7
ATOMIC_EXCH = 8
ATOMIC_CAS = 9
ATOMIC_POPC_INC = 10  # ATOMS.POPC.INC: every executing lane adds one; B is not read
ATOMIC_CAST_SPIN = 11  # ATOMS.CAST.SPIN: compare with B, store AUX5 if equal; the old value is returned
TYPE_U32 = 0
TYPE_S32 = 1
TYPE_U64 = 2
TYPE_S64 = 3
TYPE_F32 = 4
TYPE_F16X2 = 5
TYPE_BF16X2 = 6
TYPE_F64 = 7
TYPE_F32_FTZ = 8
TYPE_U128 = 9  # EXCH and CAS only
TYPE_F32X2 = 10  # vectors, which are atomic element by element; their float32 flush denormal numbers
TYPE_F32X4 = 11
TYPE_F16X4 = 12
TYPE_F16X8 = 13
TYPE_BF16X4 = 14
TYPE_BF16X8 = 15
FIRST_VECTOR_TYPE = 10

# --- CLS_CONTROL ---------------------------------------------------------------------------------------------------
OP_BRA = (
    1100  # AUX0 target index, PS0 extra condition; AUX1 = BRANCH_* kind, A = mask of the DIV and CONV kinds
)
OP_BRX = 1101  # A pair, AUX0 base address
OP_JMP = 1102  # AUX0 target index
OP_CALL = 1103  # AUX0 target index, or -1 with A pair; AUX1 = 1 absolute address in A
OP_RET = 1104  # A pair, AUX0 base address that is added; AUX1 = 1 absolute
OP_EXIT = 1105  # PS0 extra condition
OP_BSSY = 1106  # AUX1 barrier, AUX0 target index
OP_BSYNC = 1107
OP_BREAK = 1108
OP_WARPSYNC = 1109  # A mask row; AUX0 = 1 .ALL, 2 .EXCLUSIVE, 4 .COLLECTIVE (AUX1 = target or -1)
OP_BMOV = 1110  # AUX0 BMOV_*, AUX1 barrier, A source row
OP_YIELD = 1111
OP_NOP = 1112
OP_NANOSLEEP = 1113
OP_DEPBAR = 1114  # AUX0 scoreboard, AUX1 n, AUX2 mask of further scoreboards
OP_KILL = 1115
OP_BPT = 1116  # AUX0 = kind: 0 trap, 1 others, BPT_CODE_END
OP_MEMBAR = 1117  # AUX0 = SCOPE_*
OP_ERRBAR = 1118
OP_CCTL = 1119  # AUX0 = 1: invalidate L1 (.IVALL), 0: a hint
OP_LDGDEPBAR = 1120
OP_LEPC = 1122  # d pair = byte address AUX0
OP_JMX = 1124  # as BRX, the base is absolute
OP_ENDCOLLECTIVE = 1125  # the lanes that WARPSYNC.COLLECTIVE brought together part again
OP_SYSCALL = 1126  # the host does what isa.link.SYSTEM_CALLS[AUX0] says for the active lanes
OP_GROUP_WAIT = 1127  # WARPGROUP.DEPBAR: wait until at most AUX0 groups of products are not done
OP_ELECT = 1123  # PD0 = lowest executing lane only; d = its number

BRANCH_PLAIN = 0
BRANCH_DIV = 1  # taken if the executing lanes are not all that the barrier mask A names
BRANCH_CONV = 2
BRANCH_ANY = 3
BRANCH_UNIFORM = 4

BPT_CODE_END = 2  # what lies behind the last instruction of a kernel

BMOV_TO_REGISTER = 0
BMOV_FROM_REGISTER = 1
BMOV_CLEAR = 2  # to a register, and the barrier register is cleared

# --- CLS_BARRIER ---------------------------------------------------------------------------------------------------
OP_BAR = 1200  # AUX0 BAR_*, AUX1 barrier or -1 (row A), AUX2 threads, 0 = all, -1 = row B, PS0 for reductions
OP_B2R = 1201  # AUX0 = 0: d = result (popc), 1: PD0 = result of and / or
OP_CLUSTER_ARRIVE = 1202
OP_CLUSTER_WAIT = 1203

BAR_SYNC = 0
BAR_ARRIVE = 1
BAR_RED_POPC = 2
BAR_RED_AND = 3
BAR_RED_OR = 4
BAR_SYNC_ALL = 5  # .SYNCALL: every thread of the block
