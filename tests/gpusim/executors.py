"""The executors that run single instructions, by class of micro-operation."""

from gpusim.engine.rows.convert import exec_convert
from gpusim.engine.rows.cross import exec_cross
from gpusim.engine.rows.double import exec_double
from gpusim.engine.rows.float import exec_float
from gpusim.engine.rows.half import exec_half
from gpusim.engine.rows.int import exec_int
from gpusim.engine.rows.predicate import exec_pred
from isa import microops as m

EXECUTORS = {
    m.CLS_INT: exec_int,
    m.CLS_FLOAT: exec_float,
    m.CLS_DOUBLE: exec_double,
    m.CLS_CONVERT: exec_convert,
    m.CLS_PRED: exec_pred,
    m.CLS_CROSS: exec_cross,
    m.CLS_HALF: exec_half,
}
