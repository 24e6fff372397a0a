"""Beyond the SM: from a request to its reply.

Read `system` (one window of requests), `walk` (the way of one), `place` (where an address lives), `crossbar`, `l2`,
`dram`, `peer` (other GPUs and other SMs) and `params` (the configuration in ticks).
"""
