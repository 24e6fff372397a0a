"""Streams, copies and managed memory of a real H200, recorded, and the same plans on a simulated one.

Read `kernels.cu` (blocks that say where and when they ran), `lab.py` (streams behind a gate, on a real or a simulated
GPU), the plans (`plans.py`, `copying.py`, `managed.py`), `compare.py`, and `measure.py`, which records the plans.
`results/h200.json.gz` holds further experiments that docs/streams.md reads its rules from.
"""
