"""Bulk copies in time, from block to block and to several blocks, and what else blocks of a cluster send each other."""

import numpy as np
import pytest

import gpusim
from gpusim.engine import launch_state
from gpusim.engine.sm.admission import ROOM
from gpusim.errors import KernelError, MemoryAccessError
from gpusim.launch.tensor_map import encode_tiled
from tests.gpusim.kernels import Kernels

HEAD = """
typedef unsigned long long u64;
__device__ unsigned sh(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(void *b, unsigned n) {
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(sh(b)), "r"(n) : "memory");
}
__device__ void expect(void *b, unsigned n) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(sh(b)), "r"(n) : "memory");
}
__device__ void wait(void *b, unsigned phase) {
  unsigned over = 0;
  while (!over)
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(over) : "r"(sh(b)), "r"(phase) : "memory");
}
__device__ unsigned rank() { unsigned r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ unsigned at(const void *p, unsigned r) {
  unsigned x; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(x) : "r"(sh(p)), "r"(r)); return x;
}
__device__ void meet() { asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory"); }
__device__ void load(void *to, const void *from, unsigned bytes, void *b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(sh(to)),
               "l"(from), "r"(bytes), "r"(sh(b)) : "memory");
}
__device__ void store(void *to, const void *from, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(sh(from)), "r"(bytes)
               : "memory");
}
#define COMMIT asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define LEFT(n) asm volatile("cp.async.bulk.wait_group " #n ";" ::: "memory")
#define READ(n) asm volatile("cp.async.bulk.wait_group.read " #n ";" ::: "memory")
#define CLOCK(t) asm volatile("mov.u32 %0, %%clock;" : "=r"(t)::"memory")
#define VIEW asm volatile("fence.proxy.async;" ::: "memory")
#define K extern "C" __global__ void
"""
KERNELS = Kernels(HEAD)
MODES = pytest.mark.parametrize("mode", ["detailed", "functional"])

KERNELS.add("""
K early(const int *in, int *out) {
  __shared__ __align__(128) int room[32]; __shared__ u64 bar;
  int t = threadIdx.x;
  room[t] = -1; init(&bar, 1); VIEW; __syncthreads();
  if (t == 0) { expect(&bar, 128); load(room, in, 128, &bar); }
  __syncwarp();
  out[t] = *(volatile int *)(room + t);
  wait(&bar, 0);
  out[32 + t] = room[t];
}
""")


def test_a_copy_that_is_read_too_early():
    values, out = np.arange(32, dtype=np.int32), np.zeros(64, np.int32)
    gpusim.simulate(KERNELS["early"], 1, 32, (values, out))
    assert (out[:32] == -1).all()
    assert (out[32:] == values).all()
    gpusim.simulate(KERNELS["early"], 1, 32, (values, out), mode="functional")
    assert (out[32:] == values).all()


KERNELS.add("""
// What is in shared memory when it leaves is stored; a program that has waited may overwrite it.
K overwritten(int *out, int waits, int ends) {
  __shared__ __align__(128) int room[32];
  int t = threadIdx.x;
  room[t] = t; VIEW; __syncwarp();
  if (t == 0) { store(out, room, 128); COMMIT; if (waits) READ(0); }
  __syncwarp();
  room[t] = -1;
  if (ends) return;
  if (t == 0) LEFT(0);
}
""")


@pytest.mark.parametrize("ends", [0, 1])
@pytest.mark.parametrize("waits", [0, 1])
def test_a_source_that_is_overwritten(waits, ends):
    out = np.zeros(32, np.int32)
    gpusim.simulate(KERNELS["overwritten"], 1, 32, (out, np.int32(waits), np.int32(ends)))
    assert (out == (np.arange(32) if waits else -1)).all()


KERNELS.add("""
// Blocks on one SM after the other store what they have and end: nobody gets what is the next one's.
K turns(int *out, int commits) {
  __shared__ __align__(128) int room[32];
  int t = threadIdx.x;
  room[t] = blockIdx.x; VIEW; __syncwarp();
  if (t == 0) { store(out + 32 * blockIdx.x, room, 128); if (commits) COMMIT; }
}
""")


@pytest.mark.parametrize("commits", [0, 1])
@MODES
def test_stores_that_nobody_waits_for(mode, commits):
    out = np.zeros((300, 32), np.int32)
    gpusim.simulate(KERNELS["turns"], 300, 32, (out, np.int32(commits)), mode=mode, gpu="tiny")
    assert (out == np.arange(300)[:, None]).all()


KERNELS.add("""
K groups(int *out, unsigned *times, int n) {
  __shared__ __align__(128) int room[8192];
  unsigned t0, t1, t2, t3;
  if (threadIdx.x) return;
  CLOCK(t0); store(out, room, 128); COMMIT; store(out + 8192, room, n); COMMIT; CLOCK(t1);
  LEFT(1); CLOCK(t2); LEFT(0); CLOCK(t3);
  times[0] = t1 - t0; times[1] = t2 - t1; times[2] = t3 - t2;
}
""")


def test_groups_of_stores_are_waited_for():
    """A group of 32 KiB takes 32 bytes a cycle longer than one of 128 bytes, as on an H200."""
    times = np.zeros(3, np.uint32)
    gpusim.simulate(KERNELS["groups"], 1, 32, (np.zeros(1 << 15, np.int32), times, np.int32(32768)))
    _, first, second = times.tolist()
    assert first < 250
    assert 900 < second < 1100


KERNELS.add("""
K __launch_bounds__(32) sum(int *out) {
  __shared__ __align__(128) int room[32];
  room[threadIdx.x] = threadIdx.x + blockIdx.x; VIEW; __syncwarp();
  if (threadIdx.x == 0) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32 [%0], [%1], 128;" ::"l"(out),
                 "r"(sh(room)) : "memory");
    COMMIT; LEFT(0);
  }
}
""")


@MODES
def test_reductions_of_many_blocks_into_one_place(mode):
    """None is lost, on however many host threads."""
    out = np.zeros(32, np.int32)
    options = {"threads": 3} if mode == "detailed" else {}
    gpusim.simulate(KERNELS["sum"], 264, 32, (out,), mode=mode, **options)
    assert (out == 264 * np.arange(32) + 263 * 132).all()


KERNELS.add("""
// Block `from` sends its row of the input to the blocks in mask; the others' rooms stay as they are.
K __cluster_dims__(4, 1, 1) many(const int *in, int *out, int mask, int from) {
  __shared__ __align__(128) int room[256]; __shared__ u64 bar;
  int t = threadIdx.x; unsigned r = rank();
  for (int n = t; n < 256; n += 32) room[n] = -1;
  init(&bar, 1); VIEW; meet();
  if (t == 0 && mask >> r & 1) expect(&bar, 1024);
  meet();
  if (t == 0 && r == from)
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1], 1024, [%2], %3;" ::"r"(sh(room)), "l"(in + 256 * r), "r"(sh(&bar)), "h"((short)mask)
                 : "memory");
  if (mask >> r & 1) wait(&bar, 0);
  meet();
  for (int n = t; n < 256; n += 32) out[256 * blockIdx.x + n] = room[n];
}
""")


@MODES
@pytest.mark.parametrize(("mask", "source"), [(15, 0), (10, 1), (5, 3), (4, 2), (1, 1)])
def test_a_copy_to_several_blocks(mask, source, mode):
    values, out = np.arange(2048, dtype=np.int32), np.zeros((8, 256), np.int32)
    gpusim.simulate(KERNELS["many"], 8, 32, (values, out, np.int32(mask), np.int32(source)), mode=mode)
    row = values[256 * source : 256 * source + 256]
    for block in range(8):
        assert (out[block] == (row if mask >> block % 4 & 1 else -1)).all(), block


def test_a_copy_to_a_block_that_is_not_there():
    with pytest.raises(KernelError, match="cluster"):
        gpusim.simulate(KERNELS["many"], 8, 32, (*np.zeros((2, 2048), np.int32), np.int32(17), np.int32(0)))


PASSED_ON = """
// Each block's row goes to the next one, by a bulk copy, a reduction, or stores of each thread.
K __cluster_dims__(4, 1, 1) NAME(const uint4 *in, uint4 *out) {
  __shared__ __align__(128) uint4 mine[32]; __shared__ __align__(128) uint4 theirs[32]; __shared__ u64 bar;
  int t = threadIdx.x; unsigned r = rank(), next = (r + 1) % 4;
  mine[t] = in[32 * blockIdx.x + t]; theirs[t] = in[32 * ((blockIdx.x & ~3) + (r + 2) % 4) + t];
  init(&bar, 1); VIEW; meet();
  if (t == 0) expect(&bar, 512 / PART);
  unsigned to = at(theirs, next), b = at(&bar, next), lane = to + 16 / PART * t; uint4 v = mine[t];
  (void)lane; (void)v;
  SEND;
  wait(&bar, 0);
  out[32 * blockIdx.x + t] = theirs[t];
  meet();
}
"""


def named(sent):
    """Name of the kernel that sends in one of these ways."""
    return "send_" + sent.replace(" ", "_").replace(".", "_")


_BULK = """if (t == 0) asm volatile("{} [%0], [%1], 512, [%2];" ::"r"(to), "r"(sh(mine)), "r"(b) : "memory")"""
_COPY = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
_REDUCE = "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes."
_STORE = """asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes."""
_RED = """asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes."""


def _lane(begin, value, tail):
    return f'{begin} [%0], {value}, [%1];" ::"r"(lane), "r"(b), {tail} : "memory")'


SENT = {
    "copy": (1, _BULK.format(_COPY), lambda old, new: new),
    "add.u32": (1, _BULK.format(_REDUCE + "add.u32"), lambda old, new: old + new),
    "min.s32": (1, _BULK.format(_REDUCE + "min.s32"),
                lambda old, new: np.minimum(old.view(np.int32), new.view(np.int32)).view(np.uint32)),
    "xor.b32": (1, _BULK.format(_REDUCE + "xor.b32"), lambda old, new: old ^ new),
    "add.u64": (1, _BULK.format(_REDUCE + "add.u64"),
                lambda old, new: (old.view(np.uint64) + new.view(np.uint64)).view(np.uint32)),
    "16 bytes a lane": (1, _lane(_STORE + "v4.b32", "{%2,%3,%4,%5}", '"r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)'), None),
    "8 bytes a lane": (2, _lane(_STORE + "v2.b32", "{%2,%3}", '"r"(v.x), "r"(v.y)'), 2),
    "4 bytes a lane": (4, _lane(_STORE + "b32", "%2", '"r"(v.x)'), 1),
    "add a lane": (4, _lane(_RED + "add.u32", "%2", '"r"(v.x)'), 1),
    "dec a lane": (4, _lane(_RED + "dec.u32", "%2", '"r"(v.x)'), 1),
    "add 8 bytes a lane": (2, _lane(_RED + "add.u64", "%2", '"l"(v.x | (u64)v.y << 32)'), 2),
}  # fmt: skip
_BAD = {"misaligned": "to + 8", "out of bounds": "to + (1 << 20)"}
for _name, _part, _send in (
    *((each, part, send) for each, (part, send, _) in SENT.items()),
    *((each, 1, _BULK.format(_COPY).replace('"r"(to)', f'"r"({where})')) for each, where in _BAD.items()),
):
    KERNELS.add(PASSED_ON.replace("NAME", named(_name)).replace("SEND", _send).replace("PART", str(_part)))


def expected_of_lanes(name, old, new, words):
    """What lanes that send the first words of their 16 bytes make of the next block's row, from its start on."""
    sent = new.reshape(32, 4)[:, :words].ravel()
    there, rest = old[: 32 * words], old[32 * words :]
    if name.startswith("add 8"):
        sent = (there.view(np.uint64) + sent.view(np.uint64)).view(np.uint32)
    elif name.startswith("add"):
        sent = there + sent
    elif name.startswith("dec"):
        sent = np.where((there == 0) | (there > sent), sent, there - 1)
    return np.concatenate([sent, rest])


@MODES
@pytest.mark.parametrize("name", SENT)
def test_what_blocks_send_each_other(name, mode):
    expected = SENT[name][2]
    values = np.random.default_rng(5).integers(0, 1 << 32, (8, 128), np.uint32)
    out = np.zeros_like(values)
    gpusim.simulate(KERNELS[named(name)], 8, 32, (values, out), mode=mode)
    for block in range(8):
        first, r = block & ~3, block % 4
        old, new = values[first + (r + 2) % 4], values[first + (r + 3) % 4]
        right = expected(old, new) if callable(expected) else expected_of_lanes(name, old, new, expected or 4)
        np.testing.assert_array_equal(out[block], right)


KERNELS.add("""
// Threads of all blocks arrive at the mbarrier of block 0; then it does at those of the others.
K __cluster_dims__(4, 1, 1) arrivals(int *out, unsigned *words) {
  __shared__ u64 bar; __shared__ u64 go; __shared__ int seen[4];
  int t = threadIdx.x; unsigned r = rank();
  init(&bar, 4 * 8); init(&go, 1); meet();
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(at(seen + r, 0)), "r"(r + 1) : "memory");
  __syncwarp();
  if (t < 8)
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(at(&bar, 0)) : "memory");
  if (r == 0) {
    wait(&bar, 0);
    if (t < 4) out[4 * (blockIdx.x / 4) + t] = seen[t];
    if (t && t < 4)
      asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(at(&go, t)) : "memory");
  } else wait(&go, 0);
  meet();
  if (t == 0) words[blockIdx.x] = (unsigned)(bar >> 63) | (unsigned)(go >> 63) << 1;
}
""")


@MODES
def test_arrivals_at_mbarriers_of_other_blocks(mode):
    out, words = np.zeros(8, np.int32), np.zeros(8, np.uint32)
    gpusim.simulate(KERNELS["arrivals"], 8, 32, (out, words), mode=mode)
    assert (out == [1, 2, 3, 4, 1, 2, 3, 4]).all()
    assert (words == [1, 2, 2, 2, 1, 2, 2, 2]).all()


KERNELS.add("""
// A block expects bytes at another's mbarrier, and they are complete there.
K __cluster_dims__(2, 1, 1) expected(unsigned *words) {
  __shared__ u64 bar; int t = threadIdx.x;
  init(&bar, 2); meet();
  if (rank() == 1 && t == 0) {
    unsigned b = at(&bar, 0);
    asm volatile("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], 48;" ::"r"(b) : "memory");
    asm volatile("mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%0], 16;" ::"r"(b) : "memory");
    asm volatile("mbarrier.arrive_drop.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(b) : "memory");
    asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%0], 40;" ::"r"(b) : "memory");
  }
  meet();
  if (t == 0) { words[4 * rank()] = bar; words[4 * rank() + 1] = bar >> 32; }
  if (rank() == 1 && t == 0)
    asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%0], 24;" ::"r"(at(&bar, 0)) : "memory");
  if (rank() == 0) wait(&bar, 0);
  meet();
  if (t == 0) { words[4 * rank() + 2] = bar; words[4 * rank() + 3] = bar >> 32; }
}
""")


@MODES
def test_transactions_at_mbarriers_of_other_blocks(mode):
    words = np.zeros(8, np.uint32)
    gpusim.simulate(KERNELS["expected"], 2, 32, (words,), mode=mode)
    before, after = words[:2].copy().view(np.uint64)[0], words[2:4].copy().view(np.uint64)[0]
    assert (int(before) >> 21) & 0x3FFFFF == 24  # bytes that are missing
    assert int(before) >> 63 == 0 and int(after) >> 63 == 1
    assert (-(int(after) >> 1)) & 0xFFFFF == 1  # one thread is expected from now on


KERNELS.add("""
K __maxnreg__(128) pool(unsigned *out, int wait) {
  unsigned t0, t1;
  if (threadIdx.x < 128) {
    CLOCK(t0);
    asm volatile("setmaxnreg.inc.sync.aligned.u32 200;");
    CLOCK(t1);
    if (threadIdx.x == 0) out[0] = t1 - t0;
  } else {
    for (int n = 0; n < wait; ++n) __nanosleep(0);
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 128) out[1] = 1;
  }
}
""")


def test_registers_go_from_warps_to_warps():
    """Four warps wait for registers until the others have given theirs back."""
    times = []
    for rounds in (0, 400):
        out = np.zeros(2, np.uint32)
        gpusim.simulate(KERNELS["pool"], 1, 256, (out, np.int32(rounds)))
        times.append(int(out[0]))
    assert times[1] > times[0] + 400


KERNELS.add("""
K prefetch(const uint4 *in, uint4 *out) {
  if (threadIdx.x == 0) asm volatile("cp.async.bulk.prefetch.L2.global [%0], 4096;" ::"l"(in) : "memory");
  for (int n = 0; n < 300; ++n) __nanosleep(0);
  uint4 v = in[threadIdx.x];
  out[threadIdx.x] = v;
}
""")


def test_a_prefetch_into_l2():
    """It reads 128 sectors, which the load finds in L2 then."""
    values, out = np.arange(1024, dtype=np.uint32), np.zeros(128, np.uint32)
    result = gpusim.simulate(KERNELS["prefetch"], 1, 32, (values, out))
    assert (out == values[:128]).all()
    assert result.metrics["lts__t_sectors_srcunit_tex_op_read.sum"] == 128 + 16


KERNELS.add("""
// A tensor map is made in shared memory and copied to global memory, as tensormap.cp_fenceproxy does.
K map(void *map, const void *tensor, int *out) {
  __shared__ __align__(128) unsigned words[32]; __shared__ __align__(128) int room[32]; __shared__ u64 bar;
  int t = threadIdx.x; words[t] = 0; room[t] = -1; init(&bar, 1); __syncwarp();
  if (t == 0) {
    unsigned s = sh(words);
    asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(s), "l"(tensor));
    asm volatile("tensormap.replace.tile.rank.shared::cta.b1024.b32 [%0], 1;" ::"r"(s));
    asm volatile("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 0, 8;" ::"r"(s));
    asm volatile("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 1, 4;" ::"r"(s));
    asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 0, 20;" ::"r"(s));
    asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, 16;" ::"r"(s));
    asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 0, 80;" ::"r"(s));
    asm volatile("tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], 0, 1;" ::"r"(s));
    asm volatile("tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], 1, 1;" ::"r"(s));
    asm volatile("tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%0], 2;" ::"r"(s));
    asm volatile("tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%0], 0;" ::"r"(s));
    asm volatile("tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%0], 0;" ::"r"(s));
    asm volatile("tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%0], 0;" ::"r"(s));
  }
  __syncwarp();
  asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;"
               ::"l"(map), "r"(sh(words)) : "memory");
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
  if (t == 0) {
    expect(&bar, 128);
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {4, 3}],"
                 " [%2];" ::"r"(sh(room)), "l"(map), "r"(sh(&bar)) : "memory");
  }
  wait(&bar, 0);
  out[t] = room[t];
}
""")


@MODES
def test_a_map_that_the_device_makes(mode):
    tensor, out = np.arange(320, dtype=np.int32), np.zeros((4, 8), np.int32)
    gpusim.simulate(KERNELS["map"], 1, 32, (np.zeros(32, np.uint32), tensor, out), mode=mode)
    np.testing.assert_array_equal(out, tensor.reshape(16, 20)[3:7, 4:12])


@pytest.mark.parametrize("message", _BAD)
def test_a_copy_to_another_block_out_of_bounds(message):
    values = np.zeros((8, 128), np.uint32)
    with pytest.raises(MemoryAccessError, match=message):
        gpusim.simulate(KERNELS[named(message)], 8, 32, (values, values.copy()))


KERNELS.add("""
K lone(void *g, int loads, int bytes, int offset) {
  __shared__ __align__(128) uint4 room[1024]; __shared__ u64 bar;
  init(&bar, 1); VIEW; if (threadIdx.x) return;
  if (loads) { expect(&bar, bytes); load(room, (char *)g + offset, bytes, &bar); wait(&bar, 0); }
  else { store((char *)g + offset, room, bytes); COMMIT; LEFT(0); }
}
""")


@pytest.mark.parametrize(
    ("size", "offset", "sectors"),
    [(16, 0, 1), (48, 16, 2), (64, 0, 2), (128, 0, 4), (128, 16, 5), (128, 64, 4), (256, 0, 8), (512, 32, 16),
     (2048, 0, 64), (16384, 0, 512), (16384, 48, 640)],
)  # fmt: skip
def test_sectors_equal_the_hardware(size, offset, sectors):
    """As Nsight Compute counts them on an H200, less those of the same kernel without a copy."""
    for loads in (1, 0):
        if loads and offset == 48:
            continue  # known gap: parts of a sector that two requests ask for are one here
        args = (np.zeros(8192, np.uint32), *map(np.int32, (loads, size, offset)))
        metrics = gpusim.simulate(KERNELS["lone"], 1, 32, args).metrics
        assert metrics[f"lts__t_sectors_srcunit_tex_op_{'read' if loads else 'write'}.sum"] == sectors
        assert metrics["memory_l2_theoretical_sectors_global"] == 0
        assert metrics["memory_l1_wavefronts_shared"] == 0


POLICY = KERNELS.add("""
K policy(const unsigned *sizes, const char *base, u64 *out, unsigned one) {
  unsigned size = one ? one : sizes[threadIdx.x]; u64 y;
  const char *at = base + (one ? 0 : (threadIdx.x % 3) * 4096) ;
  asm volatile("createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 %0, [%1], 4096, %2;"
               : "=l"(y) : "l"(at), "r"(size));
  out[threadIdx.x] = y;
}
""")
KERNELS.add(
    POLICY.replace("K policy(", "K one_policy(")
    .replace("one ? one : sizes[threadIdx.x]", "one")
    .replace("(one ? 0 : (threadIdx.x % 3) * 4096) ", "sizes[0]")
)


def test_a_policy_for_each_lane():
    """The compiler goes through the lanes one value at a time (R2UR.OR); a kernel for all lanes says the same."""
    sizes = np.array([4096 << n % 19 for n in range(32)], np.uint32)
    base, out = np.zeros(1 << 20, np.uint8), np.zeros(32, np.uint64)
    with gpusim.Device("h200") as device:
        there = device.to_device(base)
        found = device.to_device(out)
        device.launch(KERNELS["policy"], 1, 32, (device.to_device(sizes), there, found, np.uint32(0)))
        policies = found.copy_to_host()
        for lane in (0, 1, 2, 6, 13, 20, 31):
            offset = device.to_device(np.array([lane % 3 * 4096], np.uint32))
            device.launch(KERNELS["one_policy"], 1, 32, (offset, there, found, np.uint32(sizes[lane])))
            assert (found.copy_to_host() == policies[lane]).all()
    assert np.unique(policies).size > 10


CANCEL = Kernels(HEAD, "sm_100a")
CANCEL.add("""
K cancel(unsigned *out) {
  __shared__ __align__(16) unsigned answer[4]; __shared__ u64 bar; int t = threadIdx.x; unsigned canceled;
  if (t < 4) answer[t] = 0x55555555;
  init(&bar, 1); VIEW; __syncwarp();
  if (t == 0) {
    expect(&bar, 16);
    asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];"
                 ::"r"(sh(answer)), "r"(sh(&bar)) : "memory");
  }
  wait(&bar, 0);
  asm volatile("{.reg .b128 h; .reg .pred p; ld.shared.b128 h, [%1];"
               " clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, h; selp.u32 %0, 1, 0, p;}"
               : "=r"(canceled) : "r"(sh(answer)) : "memory");
  out[32 * blockIdx.x + t] = 2 + canceled;
}
""")


@MODES
def test_no_block_is_taken_from_the_dispatcher(mode):
    """On sm_100 a block may ask for one that has not begun; all start anyway, so it is told that there is none."""
    out = np.zeros(256, np.uint32)
    gpusim.simulate(CANCEL["cancel"], 8, 32, (out,), mode=mode, overrides=["gpu.arch=sm_100"])
    assert (out == 2).all()


CANCEL.add("""
K __cluster_dims__(2, 1, 1) cancel_all(unsigned *out) {
  __shared__ __align__(16) unsigned answer[4]; __shared__ u64 bar; int t = threadIdx.x; unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (t < 4) answer[t] = 0x55555555;
  init(&bar, 1); VIEW; __syncwarp();
  if (t == 0) expect(&bar, 16);
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  if (t == 0 && rank == 1)
    asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
                 ".multicast::cluster::all.b128 [%0], [%1];" ::"r"(sh(answer)), "r"(sh(&bar)) : "memory");
  wait(&bar, 0);
  out[32 * blockIdx.x + t] = 2 + answer[t % 4];
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
""")


@MODES
def test_the_whole_cluster_is_told_that_no_block_is_left(mode):
    out = np.zeros(128, np.uint32)
    gpusim.simulate(CANCEL["cancel_all"], 4, 32, (out,), mode=mode, overrides=["gpu.arch=sm_100"])
    assert (out == 2).all()


KERNELS.add("""
K box_prefetch(const uint4 *in, void *map, uint4 *out) {
  if (threadIdx.x == 0)
    asm volatile("cp.async.bulk.prefetch.tensor.1d.L2.global.tile [%0, {8}];" ::"l"(map) : "memory");
  for (int n = 0; n < 300; ++n) __nanosleep(0);
  out[threadIdx.x] = in[threadIdx.x];
}
""")


def test_a_prefetch_of_a_box():
    """A box of 64 words that begins at the ninth, of which 56 are in the tensor: seven sectors of 32 bytes."""
    with gpusim.Device("h200") as device:
        words = device.to_device(np.arange(1024, dtype=np.uint32))
        made = encode_tiled("uint32", words.address, [64], [], [64])
        placed = device.to_device(np.frombuffer(made.tobytes(), np.uint8))
        out = device.to_device(np.zeros(128, np.uint32))
        result = device.launch(KERNELS["box_prefetch"], 1, 32, (words, placed, out))
    assert result.metrics["lts__t_sectors_srcunit_tex_op_read.sum"] == 7 + 16


KERNELS.add("""
K small(const int *in, int *out) {
  __shared__ __align__(128) int room[4096]; __shared__ u64 bar; int t = threadIdx.x, w = t / 32 * 32;
  init(&bar, 1); VIEW; __syncthreads();
  if (t == 0) expect(&bar, 16384);
  __syncthreads();
  if (t % 32 == 0) for (int n = w; n < w + 32; ++n) load(room + 4 * n, in + 4 * (1023 - n), 16, &bar);
  wait(&bar, 0);
  for (int n = t; n < 4096; n += 1024) out[n] = room[n];
  VIEW; __syncthreads();
  if (t % 32 == 0) {
    for (int n = w; n < w + 32; ++n) store(out + 4096 + 4 * n, room + 4 * n, 16);
    COMMIT; LEFT(0);
  }
}
""")


@MODES
def test_more_copies_than_there_is_room_for(mode, monkeypatch):
    """Warps wait until earlier ones are there."""
    room = launch_state.Capacity(bulk=ROOM + 16)
    monkeypatch.setattr(launch_state, "Capacity", lambda: room)
    values, out = np.arange(4096, dtype=np.int32), np.zeros((2, 1024, 4), np.int32)
    gpusim.simulate(KERNELS["small"], 1, 1024, (values, out), mode=mode)
    assert (out == values.reshape(1024, 4)[::-1]).all()


KERNELS.add("""
K box(void *map, int kind, int bytes) {
  __shared__ __align__(128) uint4 room[512]; __shared__ u64 bar;
  init(&bar, 1); VIEW; if (threadIdx.x) return;
  if (kind == 0) {
    expect(&bar, bytes);
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {0, 0}],"
                 " [%2];" ::"r"(sh(room)), "l"(map), "r"(sh(&bar)) : "memory");
    wait(&bar, 0);
  } else {
    if (kind == 1) asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {0, 0}], [%1];"
                                ::"l"(map), "r"(sh(room)) : "memory");
    else asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {0, 0}], [%1];"
                      ::"l"(map), "r"(sh(room)) : "memory");
    COMMIT; LEFT(0);
  }
}
""")


@pytest.mark.parametrize(
    ("box", "swizzle", "sectors"), [([32, 8], "none", 32), ([32, 8], "128B", 32), ([4, 64], "none", 64)]
)
def test_sectors_of_boxes_equal_the_hardware(box, swizzle, sectors):
    """As Nsight Compute counts those of TMA on an H200, whatever the swizzle; rows of 16 bytes are a sector each."""
    for kind, name in enumerate(("read", "write", "red")):
        with gpusim.Device("h200") as device:
            tensor = device.to_device(np.zeros(64 * 4096, np.uint32))
            made = encode_tiled("uint32", tensor.address, [4096, 64], [16384], box, swizzle=swizzle)
            placed = device.to_device(np.frombuffer(made.tobytes(), np.uint8))
            args = (placed, np.int32(kind), np.int32(4 * box[0] * box[1]))
            metrics = device.launch(KERNELS["box"], 1, 32, args).metrics
            assert metrics[f"lts__t_sectors_srcunit_tex_op_{name}.sum"] == sectors


def test_host_threads_change_nothing():
    values = np.arange(256 * 64, dtype=np.int32)
    runs = []
    for threads in (1, 3):
        out = np.zeros((64, 256), np.int32)
        many = gpusim.simulate(KERNELS["many"], 64, 32, (values, out, np.int32(15), np.int32(1)), threads=threads)
        rows = np.zeros((64, 128), np.uint32)
        sent = gpusim.simulate(KERNELS[named("add a lane")], 64, 32, (values.view(np.uint32), rows), threads=threads)
        runs.append((many.cycles, out.tobytes(), sent.cycles, rows.tobytes()))
    assert runs[0] == runs[1]
