"""Results of a run.

Read `record` (raw counts of one launch), `counts` (their sums by kind), `metrics` (under Nsight Compute's names),
`limiter`, `roofline` and `advice` (what follows from them), `analysis` (all of it under one roof, and costs of lines),
`table`, `sentences` and `quantities` (what is shown of it, and how).
"""

SCHEMA_VERSION = 1
"""Of the documents that --json prints: raised when a field goes or changes its meaning (docs/report.md)."""
