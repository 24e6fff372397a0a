"""Functional runs: the same results and the same counts as a detailed run, without time."""

import numpy as np
import pytest

import gpusim
from gpusim.errors import BarrierError, CyclesExceeded, DeadlockError, MemoryAccessError, ModeError
from gpusim.launch.cuda import array_of
from isa.compile import assemble
from isa.listing import programs_from_cubin
from programs import registry
from tests.gpusim import bundled
from tests.gpusim.kernels import Kernels

KERNELS = Kernels("""
#define KERNEL extern "C" __global__ void
KERNEL chain(volatile int *flags, int *sums, int step) {
  int before = blockIdx.x - step;
  if (threadIdx.x == 0) {
    int value = 1;
    if (before >= 0 && before < gridDim.x) { while (flags[before] == 0) {} value += sums[before]; }
    sums[blockIdx.x] = value;
    __threadfence();
    flags[blockIdx.x] = 1;
  }
}
KERNEL beyond(float *x) { x[threadIdx.x] = 1; }
KERNEL endless(volatile float *x) { while (x[0] == 0) __threadfence(); }
KERNEL some() { if (threadIdx.x < 32) __syncthreads(); }
KERNEL twice(float *x) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 1000) x[i] *= 2;
}
""")


def simulated(variant, size, mode, **options):
    launch = variant.make(size, 0)
    return bundled.simulate(launch, "h200", mode=mode, **options), launch


@pytest.mark.parametrize("name", [variants[-1].name for variants in registry.families().values()])
def test_results_and_counts_are_those_of_a_detailed_run(name):
    variant = registry.get(name)
    detailed, expected = simulated(variant, variant.test_size, "detailed")
    functional, found = simulated(variant, variant.test_size, "functional")
    assert variant.polls or dict(functional.metrics).items() <= dict(detailed.metrics).items()
    assert functional.metrics["smsp__inst_executed.sum"] > 0
    for mine, other in zip(found.args, expected.args, strict=True):
        np.testing.assert_array_equal(array_of(mine), array_of(other))


def test_what_needs_time_is_not_there():
    variant = registry.get("vector_add")
    result, _ = simulated(variant, 4096, "functional")
    with pytest.raises(ModeError, match="functional run has no cycles"):
        _ = result.cycles
    for name in ("energy", "energy_j", "power_w"):
        with pytest.raises(ModeError, match="functional run has no energy"):
            getattr(result, name)
    assert {each.energy_j for each in result.source_lines} == {None}
    with pytest.raises(KeyError, match="a functional run has no dram__bytes"):
        _ = result.metrics["dram__bytes.sum"]
    assert not {"cycles", "energy_j", "power_w", "energy_parts"} & result.to_dict().keys()
    assert "Mode            functional" in str(result) and "without time and energy" in str(result)
    assert "\nEnergy" not in str(result)


def test_other_modes_and_traces_are_refused():
    variant = registry.get("vector_add")
    with pytest.raises(ModeError, match="no mode 'quick'; there are detailed, once, sampled, functional"):
        simulated(variant, 4096, "quick")
    with pytest.raises(ModeError, match="no trace"):
        simulated(variant, 4096, "functional", trace=True)


@pytest.mark.parametrize("blocks", [40, 400])
def test_blocks_that_wait_for_others_meet_them(blocks):
    """A chain through the grid: each block waits for the one before it, or, where all fit at once, behind it."""
    for step in (1, -1) if blocks == 40 else (1,):
        flags, sums = np.zeros(blocks, np.int32), np.zeros(blocks, np.int32)
        gpusim.simulate(KERNELS["chain"], blocks, 1024, (flags, sums, np.int32(step)), gpu="tiny", mode="functional",
                        overrides={"sm.count": 24})  # fmt: skip
        np.testing.assert_array_equal(sums[::step], np.arange(1, blocks + 1))


def test_errors_are_found():
    x = np.zeros(100, np.float32)
    with pytest.raises(MemoryAccessError, match="out of bounds"):
        gpusim.simulate(KERNELS["beyond"], 1, 128, (x,), mode="functional")
    assert not x.any()
    with pytest.raises(CyclesExceeded):
        gpusim.simulate(KERNELS["endless"], 1, 32, (x,), mode="functional", max_cycles=100_000)
    with pytest.raises(BarrierError):
        gpusim.simulate(KERNELS["some"], 1, 64, (), mode="functional")


def test_a_device_may_be_functional():
    with gpusim.Device("tiny", mode="functional") as device:
        x = device.to_device(np.arange(1000, dtype=np.float32))
        for _ in range(2):
            result = device.launch(KERNELS["twice"], 8, 128, (x,))
        np.testing.assert_array_equal(x.copy_to_host(), 4 * np.arange(1000, dtype=np.float32))
        assert result.metrics["smsp__inst_executed.sum"] > 0 and device.now_cycles == 0


LOOK = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 py,.param .u32 pn) {
.shared .align 8 .b64 bar;
.reg .b64 y,st; .reg .b32 b,n,k,v,sum; .reg .pred p,q;
ld.param.u64 y,[py]; ld.param.u32 n,[pn]; mov.u32 b,bar; mov.u32 k,0; mov.u32 sum,0;
mbarrier.init.shared::cta.b64 [b],1;
NEXT: and.b32 v,k,1;
mbarrier.try_wait.parity.shared::cta.b64 p,[b],v;
setp.eq.u32 q,k,n; @q bra END;
mbarrier.arrive.shared::cta.b64 st,[b];
mbarrier.test_wait.parity.shared::cta.b64 q,[b],v;
selp.u32 v,100,0,p; add.u32 sum,sum,v; selp.u32 v,1,0,q; add.u32 sum,sum,v; add.u32 k,k,1; bra NEXT;
END: @!p bra NEXT; st.global.u32 [y],sum; ret; }"""


def test_a_thread_may_look_at_a_phase_before_it_ends_it():
    """Five phases, none of which is over when the thread first looks; then one that nobody ends."""
    program = programs_from_cubin(assemble(LOOK, "sm_90"), abi="c", path="k")["k"]
    out = np.zeros(1, np.uint32)
    with pytest.raises(DeadlockError, match="1 warp wait for the mbarrier"):
        gpusim.simulate(program, 1, 1, (out, np.int32(5)), "tiny", mode="functional")
    assert out[0] == 0
    ending = LOOK.replace("END: @!p bra NEXT;", "END:")
    program = programs_from_cubin(assemble(ending, "sm_90"), abi="c", path="k")["k"]
    gpusim.simulate(program, 1, 1, (out, np.int32(5)), "tiny", mode="functional")
    assert out[0] == 5
