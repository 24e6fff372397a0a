"""The vocabulary of the lowered program: columns of a code row, classes, units and micro-operations.

`isa.lower` turns every SASS instruction into one row of `COLUMNS` int32 numbers; compiled executors read
nothing else. A micro-operation is one row here, `_op(meaning, words)`, in the block of its executor; its number divided
by 100 is its class. `isa.microop_table` says what a row holds, and `MICRO_OPERATIONS` are all of them by name.

More than 500 lines, because whoever reads a row needs the one list of all meanings.

Operand codes (columns A, B, C, DST and where named AUX5): a code `r >= 0` is row r of the warp's registers,
element offset `warp_base + 32 * r`; a code `r < 0` is constant row `~r`, element offset `32 * ~r`. 64-bit operands
are two consecutive rows, low word first; 128-bit ones four. Constant rows 0..3 are zero.
Predicates: 16 words of 32 lanes per warp: 0..6 P0..P6, 7 PT, 8..14 UP0..UP6, 15 UPT. PT and UPT are all ones and are
never written.
"""

from isa.microop_table import MicroOperations

_table = MicroOperations()
_block, _op = _table.block, _table.row

# --- columns -------------------------------------------------------------------------------------------------------
COL_OP, COL_CLASS, COL_UNIT = range(3)
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
COL_A, COL_MOD_A, COL_B, COL_MOD_B, COL_C, COL_MOD_C = range(14, 20)
COL_PD0, COL_PD1 = 20, 21  # destination predicates, 7 or 15 = discarded
COL_PS0, COL_PS0_NEG, COL_PS1, COL_PS1_NEG, COL_PS2, COL_PS2_NEG = range(22, 28)  # source predicates
# Their meaning depends on the micro-operation, see its row.
COL_AUX0, COL_AUX1, COL_AUX2, COL_AUX3, COL_AUX4, COL_AUX5 = range(28, 34)
COL_CONST = 34  # bank << 16 | byte offset of the constant operand that is read, -1 = none
COL_READS = 35  # registers to read: bits 0 to 3 from the even bank, 4 to 7 from the odd one; 8 to 15: if none was kept
COL_VARIABLE = 36  # 1: variable latency, completion is signalled by a scoreboard
COL_SPIN = 37  # 1: a load that an ATOMS.CAST.SPIN loop begins with
COL_TENSOR = 38  # 1: halves that go through the tensor cores (HFMA2.MMA)
COL_RESULT = 39  # how a result comes to the registers: RESULT_*, 0 if it does not, or in another way
COLUMNS = 40  # a whole number of 32-byte pieces

RESULT_SOON, RESULT_LATER, RESULT_XU = 1, 2, 3  # as of most arithmetic; of doubles and HFMA2.MMA; of MUFU's unit
# --- operand modifiers ---------------------------------------------------------------------------------------------
MOD_NONE, MOD_FNEG, MOD_FABS, MOD_FNEG_FABS, MOD_INEG, MOD_NOT = range(6)  # FNEG_FABS: -|x|

# --- classes: one compiled executor each; the last five are executed by the SM core ----------------------------------
CLS_INT, CLS_FLOAT, CLS_DOUBLE, CLS_CONVERT, CLS_PRED, CLS_CROSS, CLS_HALF, CLS_TENSOR = range(1, 9)
CLS_SPECIAL, CLS_MEMORY, CLS_CONTROL, CLS_BARRIER, CLS_TMEM = range(9, 14)

# --- units (issue pipes) -------------------------------------------------------------------------------------------
UNIT_NONE, UNIT_FMA, UNIT_FMAHEAVY, UNIT_ALU, UNIT_FP64, UNIT_HALF, UNIT_XU, UNIT_LSU, UNIT_UNIFORM = range(9)
UNIT_CBU, UNIT_TENSOR, UNIT_ADU, UNIT_TEX, UNIT_TMEM = range(9, 14)
UNITS = 13

# --- CLS_INT --------------------------------------------------------------------------------------------------------
_block(100, "rows/int.py: exec_int")
OP_MOV = _op("d = A")
OP_SEL = _op("d = PS0 ? A : B")
OP_IADD3 = _op("d = A + B + C")
OP_IADD3_X = _op("d = A + B + C + PS0 + PS1, no carry out")
OP_IMAD = _op("d = A * B + C")
OP_IMAD_X = _op("d = A * B + C + PS0")
OP_LEA = _op("d = (A << n) + B", aux0="n")
OP_AND = _op("d = A & B")
OP_OR = _op("d = A | B")
OP_XOR = _op("d = A ^ B")
OP_LOP3 = _op("d = a truth table of the bits of A, B and C", aux0="bit 4a + 2b + c: the result for a, b, c")
OP_LOP3_PRED = _op("as LOP3 of A, B, C; PD0 = (d != 0) | PS0", aux0="as LOP3", aux1="1: & PS0")
OP_SHL = _op("d = A << B, zero from 32 up")
OP_SHR_U = _op("d = A >> B, zero from 32 up")
OP_SHR_S = _op("d = A >> B, copies of the sign from 32 up")
_FUNNEL = {"aux0": "1: high word", "aux1": "bits (32, 64)", "aux2": "1: wrap the shift, 0: clamp it"}
OP_SHF_L = _op("d = a word of (C:A) << B", **_FUNNEL)
OP_SHF_R_U = _op("d = a word of (C:A) >> B", **_FUNNEL)
OP_SHF_R_S = _op("d = a word of (C:A) >> B, with copies of the sign", **_FUNNEL)
OP_MNMX_U = _op("d = PS0 ? min(A, B) : max(A, B)")
OP_MNMX_S = _op("d = PS0 ? min(A, B) : max(A, B), signed")
OP_IABS = _op("d = |A|")

FIRST_WIDE_INT = 130  # from here on with 64-bit values or carries out, in a compiled function of their own
_block(FIRST_WIDE_INT, "rows/int.py: exec_int_wide")
OP_MOV_WIDE = _op("pair d = pair A")
OP_ADD3_WIDE = _op("pair d = pair A + pair B + pair C")
OP_IADD3_CARRY = _op("d = A + B + C + PS0 + PS1, -x as ~x + 1 unwrapped; PD0: sum >= 2**32, PD1: >= 2**33")
OP_LEA_CARRY = _op(
    "d = shifted A + B + PS0, PD0 = carry out",
    aux0="n",
    aux1="the shifted value: 1 negated, 2 inverted",
    aux2="it is 0: A << n, 1: the high word of (C:A) << n, 2: that of sign extended A << n",
)
OP_IMAD_CARRY = _op("d = low word of A * B, + C + PS0; PD0 = carry out of the addition")
_PRODUCT = {"aux0": "bit 0: a carry is read or written, bit 1: - pair C"}
OP_IMAD_WIDE_U = _op("pair d = A * B + pair C (+ PS0), PD0 = carry out", **_PRODUCT)
OP_IMAD_WIDE_S = _op("pair d = A * B + pair C (+ PS0), signed, PD0 = carry out", **_PRODUCT)
OP_IMAD_HI_U = _op("d = high word of A * B + pair C (+ PS0), PD0 = carry out", **_PRODUCT)
OP_IMAD_HI_S = _op("d = high word of A * B + pair C (+ PS0), signed, PD0 = carry out", **_PRODUCT)
OP_SEL_WIDE = _op("pair d = PS0 ? pair A : pair B")
OP_MNMX_WIDE_U = _op("pair d = PS0 ? min(A, B) : max(A, B) of pairs")
OP_MNMX_WIDE_S = _op("pair d = PS0 ? min(A, B) : max(A, B) of pairs, signed")
OP_ADD2_WIDE = _op(
    "pair d = pair A + pair B + PS0, PD0 = carry out", aux0="bits 0, 1 negate A, B, bits 2, 3 invert them"
)

FIRST_RARE_INT = 150  # from here on those that seldom occur, in a compiled function of their own
_block(FIRST_RARE_INT, "rows/int.py: exec_int_rare")
OP_BMSK = _op("d = B ones from bit A up", aux0="1: wrap, 0: clamp")
OP_SGXT_S = _op("d = sign extension of A's low B bits", aux0="1: wrap, 0: clamp")
OP_SGXT_U = _op("d = A's low B bits", aux0="1: wrap, 0: clamp")
OP_PRMT = _op("d = bytes of (C:A) chosen by B", aux0="PRMT_*")
OP_ADDMNMX_U = _op("d = PS0 ? min(A + B, C) : max(A + B, C)")
OP_ADDMNMX_S = _op("d = PS0 ? min(A + B, C) : max(A + B, C), signed", aux1="1: not below 0 (RELU)")
OP_MNMX3_U = _op("d = PS0 ? min(A, B, C) : max(A, B, C)")
OP_MNMX3_S = _op("d = PS0 ? min(A, B, C) : max(A, B, C), signed", aux1="1: RELU")
OP_IDP_4A = _op("d = dot product of four bytes of A and B, + C", aux0="bit 0: A signed, bit 1: B signed")
OP_IDP_2A = _op(
    "d = dot product of two half words of A and two bytes of B, + C", aux0="as IDP_4A", aux1="1: upper bytes"
)
OP_I2I_SAT = _op("d = signed A saturated to an integer of fewer bits", aux0="bits", aux1="1: signed result")
OP_I2IP = _op(
    "d = C >> k << 2 * bits | A << bits | B", aux0="bits", aux1="1: signed", aux2="1: saturated A, B", aux3="k"
)
OP_VABSDIFF = _op("d = |A - B| + C, PD0 = carry of the addition", aux0="1: signed")
OP_VABSDIFF4 = _op("d = absolute byte differences of A, B; PD0 = 0", aux0="1: signed", aux1="1: sum + C")
OP_ADD_16X2 = _op("d = two 16-bit additions A + B", aux0="bit 0 negates the halves of A, bit 1 those of B")
_SIGNED_RELU = {"aux0": "1: signed", "aux1": "1: RELU"}
OP_MNMX_16X2 = _op("d = PS0 ? min(A, B) : max(A, B) of halves", **_SIGNED_RELU, aux2="1: of A + B and C")
OP_MNMX3_16X2 = _op("d = PS0 ? min(A, B, C) : max(A, B, C) of halves", **_SIGNED_RELU)
OP_ADD_8X4 = _op("d = four 8-bit additions A + B", aux0="as ADD_16X2")
OP_MNMX_8X4 = _op("d = PS0 ? min(A, B) : max(A, B) of bytes", aux0="1: signed")
OP_ADD_SAT = _op("d = A + B limited to a signed 32-bit integer", aux0="1: A - B")
OP_MOV_LANES = _op("d = A in lanes k of four (k = lane % 4)", aux0="bit k: lanes k")
OP_MNMX_CHOICE = _op(
    "d = PS0 ? min(A, B) : max(A, B); PD0, PD1: A or its halves are d", **_SIGNED_RELU, aux2="1: halves"
)

PRMT_IDX, PRMT_F4E, PRMT_B4E, PRMT_RC8, PRMT_ECL, PRMT_ECR, PRMT_RC16 = range(7)

# --- CLS_FLOAT: NaN results are 0x7fffffff --------------------------------------------------------------------------
_block(200, "rows/float.py: exec_float")
_MODE = {"aux0": "FLAG_*", "aux1": "ROUND_*"}
_COMPARE = {"aux0": "COMPARE_*", "aux2": "BOOL_*"}
OP_FADD = _op("d = A + B, rounded to nearest, denormals kept")
OP_FMUL = _op("d = A * B, rounded to nearest, denormals kept")
OP_FFMA = _op("d = A * B + C, rounded once to nearest, denormals kept")
OP_FADD_MODE = _op("d = A + B", **_MODE)
OP_FMUL_MODE = _op("d = A * B, scaled by a power of two", **_MODE, aux2="its exponent")
OP_FFMA_MODE = _op("d = A * B + C", **_MODE)
OP_FMNMX = _op("d = PS0 ? min(A, B) : max(A, B)", aux0="FLAG_*: FTZ, NAN, XORSIGN")
OP_FSEL_FTZ = _op("d = PS0 ? A : B, flushed")
OP_FSET = _op(
    "d = (A cmp B) bool PS0 ? true : 0", **_COMPARE, aux1="FLAG_*: FTZ", aux3="true is 1: 1.0f, 0: all ones"
)
OP_FADD_FTZ = _op("as FADD, d = A + B; denormal sources and results flushed to zero of the same sign")
OP_FMUL_FTZ = _op("as FMUL, d = A * B, flushed")
OP_FFMA_FTZ = _op("as FFMA, d = A * B + C, flushed")
OP_FMNMX3 = _op("d = PS0 ? min(A, B, C) : max(A, B, C)", aux0="as FMNMX")
_PAIR = _MODE | {"aux3": "bits 0 to 2: the operands of which one word stands for both"}
OP_FADD2 = _op("pair d = A + B in each word of pairs", **_PAIR)
OP_FMUL2 = _op("pair d = A * B in each word of pairs", **_PAIR, aux2="as FMUL_MODE")
OP_FFMA2 = _op("pair d = A * B + C in each word of pairs", **_PAIR)

FLAG_FTZ, FLAG_SAT = 1, 2
FLAG_NAN = 4  # FMNMX.NAN: a NaN source makes the result NaN
FLAG_XORSIGN = 8
FLAG_FMZ = 16  # 0 * x = 0; comes with FLAG_FTZ
ROUND_NEAREST = 0  # .RN, and the default
ROUND_DOWN = 1  # .RM or .FLOOR
ROUND_UP = 2  # .RP or .CEIL
ROUND_ZERO = 3  # .RZ or .TRUNC

# --- CLS_DOUBLE: operands are row pairs; modifiers act on the high word ---------------------------------------------
_block(300, "rows/double.py: exec_double")
OP_DADD = _op("d = A + B")
OP_DMUL = _op("d = A * B")
OP_DFMA = _op("d = A * B + C")
OP_DADD_MODE = _op("d = A + B", aux1="ROUND_*")
OP_DMUL_MODE = _op("d = A * B", aux1="ROUND_*")
OP_DFMA_MODE = _op("d = A * B + C", aux1="ROUND_*")
OP_DSETP = _op("PD0 = (A cmp B) bool PS0, PD1 = !(A cmp B) bool PS0", **_COMPARE)

# --- CLS_CONVERT ----------------------------------------------------------------------------------------------------
_block(
    400,
    "rows/mufu.py: mufu",
    aux0="FLAG_*: BF16, TO_BF16",
    aux1="A is 0: f32, 1: half, 2: bfloat16 (EX2, TANH)",
    aux5="half of A that is read (0, 1)",
)
OP_MUFU_RCP = _op("d = 1 / A")
OP_MUFU_RSQ = _op("d = 1 / sqrt(A)")
OP_MUFU_SQRT = _op("d = sqrt(A)")
OP_MUFU_EX2 = _op("d = 2**A")
OP_MUFU_LG2 = _op("d = log2(A)")
OP_MUFU_SIN = _op("d = sin(2 pi A)")
OP_MUFU_COS = _op("d = cos(2 pi A)")
OP_MUFU_TANH = _op("d = tanh(A)")
OP_MUFU_RCP64H = _op("d = 1 / A, both high words of doubles")
OP_MUFU_RSQ64H = _op("d = 1 / sqrt(A), both high words of doubles")
_block(410, "rows/convert.py: exec_convert")
_WHOLE = {**_MODE, "aux2": "bits of d", "aux5": "half of A that is read"}
_FROM_FLOAT = {**_WHOLE, "aux4": "bits of A"}
OP_F2I = _op("d = A as an integer", **_FROM_FLOAT, aux3="1: signed")
OP_I2F = _op("d = integer A as a float", **(_FROM_FLOAT | {"aux3": "1: signed", "aux5": "first byte of a small A"}))
OP_F2F = _op("d = A as another float", **_FROM_FLOAT)
OP_FRND = _op("d = A rounded to a whole number, of as many bits", **_WHOLE)
OP_POPC = _op("d = number of ones in A")
OP_FLO_U = _op("d = number of A's leading one, else all ones; PD0 = found", aux0="1: distance from the top (.SH)")
OP_FLO_S = _op("as FLO_U, d = leading bit of A that differs from the sign; PD0 = found", aux0="as FLO_U")
OP_BREV = _op("d = A with its bits in reverse")
_PACKED = _MODE | {
    "aux2": "format of the result: HALF_*, NARROW_*",
    "aux3": "PACK_*, UNPACK_*",
    "aux4": "source format where it is not f32",
    "aux5": "half (of E2M1 byte) of B that is unpacked",
}
OP_F2FP = _op("d = A, B packed, over C", **_PACKED)
OP_F2IP = _op(
    "d = C << 2 * bits | A << bits | B, the f32 A and B as integers", **_MODE, aux2="bits", aux3="1: signed"
)
OP_F2FP_NARROW = _op("as F2FP, A, B over C, of NARROW_E2M3 and those after it; of E2M1 C << 8", **_PACKED)

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
NARROW_E2M3, NARROW_E3M2, NARROW_E2M1, NARROW_E8 = range(5, 9)  # 6 bits, 6, 4; an exponent

# --- CLS_PRED -------------------------------------------------------------------------------------------------------
_block(500, "rows/predicate.py: exec_pred")
OP_ISETP = _op(
    "PD0 = (A cmp B) bool PS0, PD1 = !(A cmp B) bool PS0",
    **_COMPARE,
    aux1="1: unsigned",
    aux3="1: .EX, equal high words take the result of the low words from PS1",
)
OP_FSETP = _op("as ISETP of f32 A, B, PS0: PD0, PD1", **_COMPARE, aux1="FLAG_*: FTZ")
OP_PLOP3 = _op(
    "PD0, PD1 = truth tables of PS0, PS1, PS2",
    aux0="table of PD0",
    aux1="table of PD1",
    aux2="bit k: the sign of A, B or C, not PSk",
)
_FILE = {"aux1": "1: uniform predicates"}
OP_P2R = _op("d = A with the bits of mask B taken from predicates", aux0="byte of d that receives them", **_FILE)
OP_R2P = _op("predicates in mask B = bits of a byte of A", aux0="the byte", **_FILE)
OP_FCHK = _op("PD0 = A / B needs the slow path")
OP_ISETP_WIDE = _op("as ISETP of pairs A, B, and PS0: PD0, PD1", **_COMPARE, aux1="1: unsigned")

COMPARE_LT, COMPARE_EQ, COMPARE_GT, COMPARE_UNORDERED = 1, 2, 4, 8
COMPARE_MIN = 16  # DSETP only: PD0 = (A is the minimum) bool PS0, PD1 = both are NaN
COMPARE_MAX = 32
BOOL_AND, BOOL_OR, BOOL_XOR = range(3)

# --- CLS_CROSS: executed with the real mask even when the destination is uniform ------------------------------------
_block(600, "rows/cross.py: exec_cross")
_UNIFORM = {"aux5": "1: the results are uniform"}
OP_SHFL = _op("d = A of the lane that B (lane or offset) and C (clamp, segment) name; PD0 = in range", aux0="SHFL_*")
OP_VOTE = _op("d = ballot of PS0 (executing lanes), PD0 = all / any / equal", aux0="VOTE_*", **_UNIFORM)
OP_MATCH_ANY = _op("d = lanes of the executing mask with the same A", aux0="1: 64-bit")
OP_MATCH_ALL = _op("d = executing mask if all A are equal else 0, PD0 = all equal", aux0="1: 64-bit")
OP_REDUX = _op("d = A of all executing lanes, reduced", aux0="REDUX_*", aux1="FLAG_*: NAN", **_UNIFORM)
OP_R2UR = _op(
    "d = A of the lowest executing lane, to all lanes; PD0 = lanes whose A is another one",
    **_UNIFORM,
    aux0="1: or in which it holds already",
)

SHFL_IDX, SHFL_UP, SHFL_DOWN, SHFL_BFLY = range(4)
VOTE_ALL, VOTE_ANY, VOTE_EQ = range(3)
REDUX_SUM, REDUX_MIN_U, REDUX_MAX_U, REDUX_MIN_S, REDUX_MAX_S, REDUX_AND, REDUX_OR, REDUX_XOR = range(8)
REDUX_MIN_F, REDUX_MAX_F = 8, 9  # float32; a number wins against NaN, without FLAG_NAN, as FMNMX

# --- CLS_HALF: two halves in a word ---------------------------------------------------------------------------------
_block(
    700,
    "rows/half.py: exec_half",
    aux0="FLAG_*",
    aux1="HALF_*",
    aux2="two bits for each source: 0 both halves, 1 the lower twice, 2 the upper twice",
)
OP_HADD2 = _op("d = A + B")
OP_HMUL2 = _op("d = A * B")
OP_HFMA2 = _op("d = A * B + C")
OP_HMNMX2 = _op("d = PS0 ? min(A, B) : max(A, B)")
_COMPARED = {"aux3": "COMPARE_*", "aux4": "BOOL_*"}
OP_HSETP2 = _op("PD0 = (A cmp B) bool PS0 of the lower halves, PD1 of the upper ones", **_COMPARED)
OP_HSET2 = _op("d = (A cmp B) bool PS0 ? true : 0, in halves", **_COMPARED, aux5="true is 1: 1.0, 0: all ones")
OP_HADD2_F32 = _op("d = one half of A + one of B, as f32")
OP_FHADD = _op("d = f32 A + half B, as f32")
OP_FHFMA = _op("d = half A * half B + f32 C")

HALF_F16, HALF_BF16 = 0, 1
FLAG_RELU = 64
FLAG_ABS = 2048  # of magnitudes

# --- CLS_TENSOR -----------------------------------------------------------------------------------------------------
_block(800, "rows/tensor.py: exec_tensor")
_SHAPE = {"aux0": "M << 16 | N << 8 | K"}
_SPARSE = {"aux3": "0, or 1 + selector: A is structured sparse", "aux5": "row of its metadata"}
OP_HMMA = _op("d = A * B + C", **_SHAPE, **_SPARSE, aux1="TENSOR_* of A and B", aux2="bits of d (16, 32)")
OP_IMMA = _op(
    "d = A * B + C",
    **_SHAPE,
    **_SPARSE,
    aux1="bit 0: A signed, bit 1: B signed, bits 4..: bits of an element, or INTEGER_*",
    aux2="1: saturate",
    aux4="words of a fragment of B for 8 columns (of A for 8 rows where A is sparse)",
)
OP_DMMA = _op("d = A * B + C", **_SHAPE)
OP_MOVM = _op("d = A transposed, an 8x8 matrix of 16-bit elements")
_block(804, "sm/group_matrix.py: group_matrix")
OP_GMMA = _op(
    "d = A * B (+ C if PS0), a warp's sixteen rows of a product of four warps; A = registers or B = descriptor of A",
    aux0="N | register with metadata << 16",
    aux1="TENSOR_* of A | of B << 8",
    aux2="bits of the result",
    aux3="as aux1 of IMMA",
    aux4="GMMA_*",
    aux5="descriptor of B",
)
_block(805, "../tensor_memory/registers.py: narrow_product")
OP_QMMA = _op(
    "d = A * B + C",
    **_SHAPE,
    aux1="NARROW_FORMS of A | of B << 4 | SCALES_* << 8",
    aux2="bits of d | row of the selector of scales << 8",
    aux3="row of A's scales",
    aux4="row of B's",
    aux5="row of the metadata",
)

NARROW_FORMS = ("E4M3", "E5M2", "E2M3", "E3M2", "E2M1")
SCALES_GIVEN, SCALES_PACKED, SCALES_16, SCALES_UE4M3, SCALES_SPARSE = 1, 2, 4, 8, 16  # of four bits; SPARSE: A is

TENSOR_F16, TENSOR_BF16, TENSOR_TF32, TENSOR_E4M3, TENSOR_E5M2, TENSOR_INTEGER = range(6)
INTEGER_AND = 1  # single bits: the number of those set in both
INTEGER_XOR = 2  # ... of those that differ
GMMA_NEGATE_A, GMMA_NEGATE_B, GMMA_TRANSPOSE_A, GMMA_TRANSPOSE_B, GMMA_SATURATE = 1, 2, 4, 8, 16
GMMA_REGISTERS = 32  # A is in registers
GMMA_SPARSE = 64  # A is structured sparse
GMMA_SELECTOR_BIT = 7  # bits 7, 8: which lanes hold its metadata
GMMA_COMMITS = 512  # the last one of a group that can be waited for

# --- CLS_SPECIAL ----------------------------------------------------------------------------------------------------
_block(900, "sm/special.py: read_special", aux0="SR_*")
OP_S2R = _op("d = special register; S2UR is the same with UNIFORM = 1")
OP_CS2R = _op("d = special register, of one row or, with DST_COUNT 2, of two")

SR_TID_X, SR_TID_Y, SR_TID_Z, SR_CTAID_X, SR_CTAID_Y, SR_CTAID_Z, SR_LANEID, SR_CLOCKLO, SR_CLOCKHI = range(9)
SR_GLOBALTIMERLO, SR_GLOBALTIMERHI, SR_VIRTUALSMID = 9, 10, 11
SR_CGACTAID = 12  # rank of the block in its cluster
SR_EQMASK, SR_LTMASK, SR_LEMASK, SR_GTMASK, SR_GEMASK = range(13, 18)
SR_VIRTID = 18  # warp slot in bits 8..14, SM in the bits above 20 (%warpid is extracted from it)
SR_VIRTCFG = 19  # warps per SM in bits 8..14, SMs in the bits from 20 up (%nwarpid, %nsmid)
SR_TID = 20  # packed x | y << 16 | z << 26
SR_SMEMSZ, SR_CGASIZE, SR_WARPID, SR_SMID = range(21, 25)
SR_SWINHI = 25  # high word of the shared window of the generic address space
SR_ZERO = 26  # SRZ
SR_LWINHI = 27  # high word of the local window

_PRINTED = {f"SR_{name}_{axis}": f"SR_{name}.{axis}" for name in ("TID", "CTAID") for axis in "XYZ"}
_PRINTED |= {"SR_CGACTAID": "SR_CgaCtaId", "SR_CGASIZE": "SR_CgaSize", "SR_ZERO": "SRZ"}
SPECIAL_REGISTERS = {_PRINTED.get(name, name): number for name, number in globals().items() if name.startswith("SR_")}
SPECIAL_REGISTERS["SR_CLOCK"] = SR_CLOCKLO
SPECIAL_REGISTERS |= {f"SR_PM{k}": SR_ZERO for k in range(8)}  # the profiler's counters, of which nothing is counted
# Below this the stack has run out: code for debugging compares it with R1. Local memory begins at 0 here.
SPECIAL_REGISTERS["SR_LMEMHIOFF"] = SR_ZERO

# --- CLS_MEMORY -----------------------------------------------------------------------------------------------------
_ADDRESS = {"aux0": "SPACE_*", "aux2": "byte offset", "aux3": "MEM_*: how A and the uniform base C make the address"}
_ACCESS = {**_ADDRESS, "aux1": "bytes per lane | MEM_SIGNED"}
_ATOMIC = {**_ACCESS, "aux4": "ATOMIC_* << 8 | TYPE_*", "aux5": "swap operand of CAS"}
_block(1000, "sm/lsu.py: memory_access")
_PLAIN = {**_ACCESS, "aux4": "row of the second 16 of 32 bytes", "aux5": "row of the pair of a policy for L2, or 0"}
OP_LOAD = _op("d = memory at A", **_PLAIN)
OP_STORE = _op("memory at A = B", **_PLAIN)
OP_ATOM = _op("memory at A = it op B, d = its old value; PD0 where the form has one", **_ATOMIC)
OP_RED = _op("memory at A = it op B", **_ATOMIC)
OP_LDC = _op("d = constant at A + C", **_ACCESS, aux4="bank")
_block(1005, "sm/async_copy.py: async_access")
_MATRICES = {"aux4": "bits of elements that become bytes, or 0", "aux5": "matrices (1, 2, 4) | transposed << 8"}
OP_LDGSTS = _op(
    "shared memory at A = global memory at B, C its uniform base",
    **(_ACCESS | {"aux2": "offset of A", "aux3": "MEM_* of the global address", "aux5": "offset of B"}),
    aux4="1: lanes with PS0 false write zeros",
)
OP_LDSM = _op("d = matrices in shared memory whose rows lie at A", **_ACCESS, **_MATRICES)
OP_STSM = _op("matrices in shared memory whose rows lie at A = B", **_ACCESS, **_MATRICES)
_block(1008, "sm/special.py: query_space")
OP_QSPC = _op("PD0 = generic address A lies in a space", **_ADDRESS, aux4="it", aux5="1: of the whole cluster")
_block(1009, "sm/async_copy.py: async_access")
OP_SYNCS = _op(
    "mbarrier at A, operand B, pair d = its words before, PD0 = phase is over",
    **_ACCESS,
    aux4="SYNCS_EXCHANGE to SYNCS_ARRIVE",
    aux5="what arrives: SYNCS_* of arrivals | of transactions << 4 | SYNCS_DROP; of a look: 1: may wait for the phase",
)
OP_ARRIVES = _op("the copies so far arrive at mbarrier A", **_ACCESS, aux4="0: as arrivals, 1: as transactions")
OP_BULK_COPY = _op(
    "A = destination and mbarrier, B = source (loads) or the other way round, C = size; of tensors: A = shared "
    "address, mbarrier (loads), coordinates, B = tensor map, C = distances of pixels; upper half of C: blocks",
    aux0="SPACE_*",
    aux1="dimensions of a tensor",
    aux2="ATOMIC_* of a reduction",
    aux3="TYPE_* of a plain reduction",
    aux4="BULK_* of what moves | BULK_TENSOR to BULK_ANSWER",
)
OP_STAS = _op(
    "shared memory of a block of the cluster at A = B, or it op B; the mbarrier at the word after A hears of it",
    aux0="SPACE_*",
    aux1="bytes per lane",
    aux4="ATOMIC_* << 8 | TYPE_*",
)
OP_NEXT_BLOCK = _op("no block is left: 16 zeros at A, of which the mbarrier at B hears", aux0="SPACE_*")
OP_PREFETCH = _op("L2 fetches the lines of A", **_ADDRESS)

SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL, SPACE_GENERIC, SPACE_CONST = range(5)
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
HINT_NONE, HINT_EVICT_FIRST, HINT_EVICT_LAST, HINT_NO_ALLOCATE, HINT_LAST_USE, HINT_EVICT_UNCHANGED = range(6)
SCOPE_CTA, SCOPE_SM, SCOPE_GPU, SCOPE_SYSTEM = range(4)

BULK_LOAD, BULK_STORE, BULK_REDUCE, BULK_SHARED, BULK_SHARED_REDUCE, BULK_PREFETCH = range(6)
BULK_KIND = 7  # mask of these
BULK_TENSOR, BULK_IM2COL, BULK_MULTICAST = 8, 16, 32
BULK_PAIR, BULK_ROWS4 = 64, 128  # the mbarrier may be the other's of a pair; four rows of a matrix
BULK_ANSWER = 256  # as NEXT_BLOCK, to all blocks of the cluster
SYNCS_EXCHANGE, SYNCS_CHECK, SYNCS_INVALIDATE = range(3)
SYNCS_ARRIVE = 3  # AUX5 says what of: arrivals (SYNCS_ONE, SYNCS_OPERAND) | transactions << 4 | SYNCS_DROP
SYNCS_NONE, SYNCS_ONE, SYNCS_OPERAND = range(3)
SYNCS_OPERAND_DONE = 3  # as many transactions are over
SYNCS_DROP = 1 << 8  # one thread fewer is expected from now on
SYNCS_MASK = 1 << 9  # d = the lanes that arrive together, and the upper word before the first of them

ATOMIC_ADD, ATOMIC_MIN, ATOMIC_MAX, ATOMIC_INC, ATOMIC_DEC, ATOMIC_AND, ATOMIC_OR, ATOMIC_XOR = range(8)
ATOMIC_EXCH, ATOMIC_CAS = 8, 9
ATOMIC_POPC_INC = 10  # ATOMS.POPC.INC: every executing lane adds one; B is not read
ATOMIC_CAST_SPIN = 11  # ATOMS.CAST.SPIN: compare with B, store AUX5 if equal; the old value is returned
TYPE_U32, TYPE_S32, TYPE_U64, TYPE_S64, TYPE_F32, TYPE_F16X2, TYPE_BF16X2, TYPE_F64, TYPE_F32_FTZ = range(9)
TYPE_U128 = 9  # EXCH and CAS only
FIRST_VECTOR_TYPE = 10  # vectors, which are atomic element by element; their float32 flush denormal numbers
TYPE_F32X2, TYPE_F32X4, TYPE_F16X4, TYPE_F16X8, TYPE_BF16X4, TYPE_BF16X8 = range(FIRST_VECTOR_TYPE, 16)

# --- CLS_CONTROL ----------------------------------------------------------------------------------------------------
_block(1100, "sm/control.py: control")
_TARGET = {"aux0": "target index"}
_BASE = {"aux0": "base address that is added"}
OP_BRA = _op("branch of the lanes with PS0; A = mask of the DIV and CONV kinds", **_TARGET, aux1="BRANCH_*")
OP_BRX = _op("branch to pair A, if PS0", **_BASE)
OP_JMP = _op("branch, if PS0", **_TARGET)
OP_CALL = _op(
    "branch, if PS0, to pair A or to a target",
    aux0="target index or -1: pair A",
    aux1="1: A is absolute",
    aux2="what is added to a relative A",
)
OP_RET = _op("branch to pair A, if PS0", **_BASE, aux1="1: A is absolute")
OP_EXIT = _op("the lanes with PS0 end")
_BARRIER = {"aux1": "convergence barrier"}
OP_BSSY = _op("the lanes (if PS0) are those of a barrier", **_TARGET, **_BARRIER)
OP_BSYNC = _op("wait for the lanes of a barrier, if PS0", **_BARRIER)
OP_BREAK = _op("the lanes with PS0 leave a barrier", **_BARRIER)
OP_WARPSYNC = _op(
    "wait for the lanes in mask A, if PS0", aux0="1 .ALL, 2 .EXCLUSIVE, 4 .COLLECTIVE", aux1="target index or -1"
)
OP_BMOV = _op("a barrier to d, or A or another one to a barrier", aux0="BMOV_*", **_BARRIER, aux2="the other one")
OP_YIELD = _op("other lanes of the warp may go first")
OP_NOP = _op("nothing")
OP_NANOSLEEP = _op("nothing: A nanoseconds are a hint")
OP_DEPBAR = _op("wait for a scoreboard", aux0="scoreboard, 7: none", aux1="may be left")
OP_KILL = _op("the lanes with PS0 end")
OP_BPT = _op("the kernel ends with an error", aux0="0: trap, 1: others, BPT_CODE_END")
OP_MEMBAR = _op("wait for the stores so far", aux0="SCOPE_*")
OP_ERRBAR = _op("nothing")
OP_CCTL = _op("invalidate L1, or nothing; A and C: an address", **_ADDRESS | {"aux0": "1: .IVALL, 0: a hint"})
OP_LDGDEPBAR = _op("the asynchronous copies so far belong to this instruction's scoreboard")
OP_LEPC = _op("pair d = an address", aux0="the byte address")
OP_ELECT = _op("PD0 = lowest executing lane only (if PS0); d = its number")
OP_JMX = _op("branch to absolute pair A, if PS0", **_BASE)
OP_ENDCOLLECTIVE = _op("the lanes that WARPSYNC.COLLECTIVE brought together part again")
OP_SYSCALL = _op("the host serves the active lanes", aux0="a number of isa.link.SYSTEM_CALLS")
OP_BULK_COMMIT = _op("the bulk copies out of shared memory so far belong to this instruction's scoreboard")
OP_REGISTERS = _op(
    "PD0 = the warp has so many registers from now on: its block had enough to spare",
    aux0="registers of a thread",
    aux1="1: more, 0: fewer",
    aux2="registers at the launch",
)
OP_GROUP_WAIT = _op("WARPGROUP.DEPBAR: wait for products of four warps", aux0="groups that may be left")
OP_GROUP_ARRIVE = _op("WARPGROUP.ARRIVE: wait for the other three warps")
OP_GRID_TRIGGER = _op("PREEXIT: as far as this block goes, the next grid of the stream may begin")
OP_GRID_WAIT = _op("ACQBULK: wait for the end of the grid before, if this one has begun ahead of it")

BRANCH_PLAIN = 0
BRANCH_DIV = 1  # taken if the executing lanes are not all that the barrier mask A names
BRANCH_CONV, BRANCH_ANY, BRANCH_UNIFORM = range(2, 5)

BPT_CODE_END = 2  # what lies behind the last instruction of a kernel

BMOV_TO_REGISTER, BMOV_FROM_REGISTER = 0, 1
BMOV_CLEAR = 2  # to a register, and the barrier register is cleared
BMOV_COPY = 3  # from another barrier
BMOV_MOVE = 4  # from another barrier, which is cleared

# --- CLS_BARRIER ----------------------------------------------------------------------------------------------------
_block(1200, "sm/barrier.py: barrier")
OP_BAR = _op(
    "a barrier of the block; PS0: what is reduced",
    aux0="BAR_*",
    aux1="barrier, or -1: row A",
    aux2="threads, 0: all, -1: row B",
    aux3="1: the warp goes on until its next instruction that waits for barriers",
)
_block(1201, "sm/execute.py: read_barrier_result")
OP_B2R = _op("what a barrier's reduction gave", aux0="0: d = sum, 1: PD0 = and / or")
_block(1202, "sm/cluster.py: cluster_barrier")
OP_CLUSTER_ARRIVE = _op("arrive at the barrier of the thread block cluster")
OP_CLUSTER_WAIT = _op("wait at it")

# SYNC_ALL: .SYNCALL, every thread of the block.
BAR_SYNC, BAR_ARRIVE, BAR_RED_POPC, BAR_RED_AND, BAR_RED_OR, BAR_SYNC_ALL = range(6)

# --- CLS_TMEM: on tensor memory --------------------------------------------------------------------------------------
_block(1300, "../tensor_memory/execute.py: tmem_access")
_MOVED = {"aux0": "TMEM_*", "aux1": "registers", "aux2": "column offset", "aux3": "1: 16-bit cells, two a register"}
_PAIR = {"aux2": "1: of both blocks of a pair"}
_PLACE = _PAIR | {"aux4": "column offset"}
OP_TMEM_LOAD = _op("d = tensor memory at A", **_MOVED, aux4="REDUX_* | FLAG_* << 8 of aux5", aux5="extreme's row, -1")
OP_TMEM_STORE = _op("tensor memory at A = B", **_MOVED)
OP_TMEM_COPY = _op("tensor memory at A = shared memory of descriptor B", aux0="COPY_*", aux1="bits: 4, 6, 8", **_PLACE)
OP_TMEM_SHIFT = _op("lanes of tensor memory from A on = the next ones", **_PLACE)
OP_TMEM_PRODUCT = _op(
    "tensor memory at C = (it, if PS0) + A * B; A, B = descriptors",
    aux0="PRODUCT_HALF to PRODUCT_NIBBLE",
    aux1="PRODUCT_*",
    aux2="row of the address of metadata, and the instruction descriptor",
    aux3="row of the lanes that stay or (.WS) of the columns of B that are zero, -1: none",
    aux4="exponent by which what is there becomes less",
    aux5="row of the addresses of both scales, -1: none",
)
OP_TMEM_COMMIT = _op("the mbarrier at A hears of what came before", **_PAIR, aux3="1: those of the blocks in set B")
OP_TMEM_TAKE = _op("d = first of A free units of 32 columns, which are taken; PD0 = found", **_PAIR)
OP_TMEM_FREE = _op("of the units of 32 columns only those in set A stay taken")
OP_TMEM_LEAVE = _op("other blocks of the SM may take units")
OP_TMEM_WAIT = _op("the stores to tensor memory so far are there")

TMEM_32X32, TMEM_16X64, TMEM_16X128, TMEM_16X256, TMEM_16X32_LOW, TMEM_16X32_HIGH = range(6)  # lanes, bits; 2 x 16x32
COPY_128X256, COPY_4X256, COPY_128X128, COPY_64X128_02, COPY_64X128_01, COPY_32X128 = range(6)  # to which warps' lanes
PRODUCT_HALF, PRODUCT_BYTE, PRODUCT_INTEGER, PRODUCT_NIBBLE = range(4)  # 16 bits or TF32; 8, 6, 4; 8; 4 packed
PRODUCT_PAIR, PRODUCT_WS, PRODUCT_ASHIFT, PRODUCT_A_TMEM = 1, 2, 4, 8  # A_TMEM: A is in tensor memory
PRODUCT_16 = 16  # a scale for 16 elements

MICRO_OPERATIONS = _table.named(globals())
