"""Streams, copies and managed memory of a real H200, recorded, and the same plans on a simulated one.

Read `kernels.cu` (blocks that say where and when they ran), `lab.py` (streams behind a gate), the plans (`plans.py`,
`managed.py`), and `compare.py`. `results/` holds the recordings, with how they were made in `about`; `h200.json.gz` has
further experiments that docs/streams.md reads its rules from.
"""
