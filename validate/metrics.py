"""Names of the hardware counters that are recorded, and of those that a simulated run must equal exactly."""

from __future__ import annotations


def _family(stem: str, *tails: str) -> list[str]:
    return [f"{stem}{tail}.sum" for tail in tails]


CYCLES = "gpc__cycles_elapsed.max"

EXACT = (
    "smsp__inst_executed.sum",
    "smsp__thread_inst_executed.sum",
    "smsp__thread_inst_executed_pred_on.sum",
    "smsp__thread_inst_executed_per_inst_executed.ratio",
    "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio",
    "smsp__sass_branch_targets_threads_divergent.sum",
    *_family("smsp__inst_executed_pipe_", "adu", "alu", "cbu", "fma", "fp64", "lsu", "tensor", "tex", "uniform", "xu"),
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "memory_l1_tag_requests_global",
    "memory_l2_theoretical_sectors_global",
    "memory_l1_wavefronts_shared",
    "memory_l1_wavefronts_shared_ideal",
    "derived__memory_l1_wavefronts_shared_excessive",
)
"""Counters that follow from the machine code and the data alone, whatever the timing."""

ASKED_AGAIN = tuple(name for name in EXACT if "inst_executed" in name)
"""Exact counters that depend on timing in kernels whose warps poll (`Variant.polls`)."""

DIFFERENCES = {
    "derived__memory_l1_wavefronts_shared_excessive": (
        "memory_l1_wavefronts_shared",
        "memory_l1_wavefronts_shared_ideal",
    )
}
"""Counters that ncu shows in its sections but does not take as a name on its command line: the first recorded
counter less the second, which is the section's own formula."""

LAUNCH = (
    "launch__occupancy_limit_blocks",
    "launch__occupancy_limit_registers",
    "launch__occupancy_limit_shared_mem",
    "launch__occupancy_limit_warps",
    "launch__registers_per_thread",
    "launch__shared_mem_per_block_driver",
    "launch__shared_mem_per_block_dynamic",
    "launch__shared_mem_per_block_static",
    "launch__waves_per_multiprocessor",
)
"""ncu's facts about the launch itself; they follow from machine code and launch, so they must be exact too."""

PIPES = (
    *("alu", "fma", "fmaheavy", "fma_type_fp16", "fp64", "lsu", "xu", "uniform", "cbu", "adu", "tex", "tma"),
    *("tensor_op_hmma", "tensor_op_imma", "tensor_op_dmma", "tensor_op_gmma"),
)
"""Pipes whose `sm__inst_executed_pipe_*.sum` is recorded for kernels that are not ours."""

TIMED_PIPES = ("sm__inst_executed_pipe_fmaheavy.sum", "sm__inst_executed_pipe_adu.sum")
"""Counts that depend on timing: which half of the FMA pipe was free; what the ADU is asked again."""

_STALLS = (
    *("barrier", "branch_resolving", "dispatch_stall", "drain", "gmma", "imc_miss", "lg_throttle"),
    *("long_scoreboard", "math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instruction"),
    *("not_selected", "selected", "short_scoreboard", "sleeping", "tex_throttle", "wait"),
)

RECORDED = (
    CYCLES,
    "sm__cycles_active.avg",
    "sm__cycles_active.max",
    "gpu__time_duration.sum",
    # Clock rates during the launch, in Hz.
    "gpc__cycles_elapsed.avg.per_second",
    "lts__cycles_elapsed.avg.per_second",
    "dram__cycles_elapsed.avg.per_second",
    *(name for name in EXACT if name not in DIFFERENCES),
    "smsp__inst_executed_pipe_fmaheavy.sum",
    *_family("smsp__inst_executed_op_", "branch", "ldc", "shared_atom", "generic_atom_dot_alu", "global_red"),
    *_family("l1tex__data_bank_conflicts_pipe_lsu_mem_shared", "", "_op_ld", "_op_st", "_op_atom"),
    *_family("l1tex__data_pipe_lsu_wavefronts", "", "_mem_shared", "_mem_shared_op_ld"),
    *_family("l1tex__data_pipe_lsu_wavefronts_mem_shared", "_op_st", "_op_atom"),
    *_family("l1tex__t_requests_pipe_lsu_mem_global_op_", "atom", "red"),
    *_family("l1tex__t_sectors_pipe_lsu_mem_global_op_", "atom", "red", "ld_lookup_hit", "ld_lookup_miss"),
    *_family("l1tex__m_xbar2l1tex_read_sectors", ""),
    *_family("lts__t_requests_srcunit_tex", ""),
    *_family("lts__t_sectors_srcunit_tex", "", "_op_read", "_op_write", "_op_atom", "_op_red"),
    *_family("lts__t_sectors_srcunit_tex", "_lookup_hit", "_lookup_miss"),
    *_family("lts__t_sectors_srcunit_ltcfabric", "", "_lookup_hit", "_lookup_miss"),
    *_family("lts__d_sectors_fill_device", ""),
    *_family("dram__bytes_", "read", "write"),
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "smsp__warps_launched.sum",
    "sm__icc_requests.sum",
    "sm__icc_requests_lookup_miss.sum",
    "idc__requests.sum",
    "idc__requests_lookup_miss.sum",
    "launch__registers_per_thread",
    *(f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio" for reason in _STALLS),
)
"""Metrics requested from ncu; names unknown to its version are left out and listed in the recording."""


def with_differences(metrics: dict[str, float]) -> dict[str, float]:
    """Counters of a launch, and those of `DIFFERENCES` whose parts are among them."""
    both = {name: pair for name, pair in DIFFERENCES.items() if metrics.keys() >= {*pair}}
    return metrics | {name: metrics[whole] - metrics[part] for name, (whole, part) in both.items()}
