"""What happened when.

Read `options` (what to record), `recording` (what is kept, and the questions it answers), `reconvergence` (what became
of a warp's lanes), the format `perfetto` on `protobuf`, `trace` (a recording that writes it), then `recorder` (how it
comes out of a run). What is written for Accel-Sim streams out of runs without time: `accel_sim`, `accel_lines`,
`accel_text`, `accel_launch`.
"""
