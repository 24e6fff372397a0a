"""`python -m validate collection`: kernels of public collections, as an H200 counted them in their own programs.

Nothing of those programs is stored: `programs.toml` names them, and `h200.json` what was counted. Read `worker`
(runs on a machine with a GPU), `saving` (a program's launches, for the simulator), `recording`, then `compare` (which
programs there are, which of them judge, how one is compared, and the commands).
"""
