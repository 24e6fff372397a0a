"""What came out of a run.

Read `record` (raw counts of one launch), `counts` (their sums by kind), `metric_table` and `metrics` (Nsight Compute's
names), `limiter`, `roofline` and `advice` (what follows from them), `serving` (which lane is served when), `costs`
and `least_time` (of lines, of the launch), `analysis` (all of it under one roof) and `report` (the same, printed).
"""

SCHEMA_VERSION = 1
"""Of the documents that commands print with --json: raised when a field goes or changes its meaning (docs/json.md)."""
