"""The compiled engine. Rooms: `state` (what it works on), `rows` (what an instruction computes), `sm` (when), `memory`
(beyond the SM). Here, what ties them together: `launch_state`, `dispatcher` (blocks to SMs), `device`
(windows), `warm` (compilation before a run), `host_calls` and `retime`.
"""
