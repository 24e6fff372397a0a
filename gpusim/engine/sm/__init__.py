"""The execution of instructions in time inside one SM, and their effects beyond registers.

Read `sm` (the life of an SM in a window), `scheduler` and `readiness` (who issues), `execute` (one instruction),
`control`, `lane_states` and `convergence` (divergence), `lsu`, `coalescer` and `lines` (an access and the L1), then
what else there is: `barrier`, `mbarrier`, `fence`, `cluster`, `async_copy`, `group_matrix`, and bulk copies:
`tensor_map`, `tensor_box`, `bulk_copy`, `bulk_effect`; `deferred` is what takes effect between
windows. Checks on request are `shadow`, `shadow_clocks` and `shadow_copies`.
"""
