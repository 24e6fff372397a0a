"""Beyond the SM: from a request to its reply.

Read `system` (one window of requests), `walk` (the way of one), `place` (where an address lives), `crossbar`, `l2`,
`dram`, `peer` (other GPUs), `params` (the configuration in ticks) and `host_memory`.
"""
