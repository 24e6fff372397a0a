"""Events of a launch over time.

Read `recording` (what to record, what is kept, and the questions it answers, what became of a warp's
lanes among them), the format `perfetto` and a recording that writes it, then `recorder` (how it comes out of a run).
Accel-Sim's traces come out of runs without time: `accel_sim`, `accel_lines`, `accel_launch`.
"""

BINARY_VERSIONS = (70, 75, 80, 86, 90)
"""Versions of machine code for which Accel-Sim has a table of opcodes (`gpu-simulator/ISA_Def`, 2026)."""
