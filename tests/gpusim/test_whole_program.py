"""The engine as one program: parts, entries, and what is compiled on demand."""

import subprocess
import sys
import textwrap

import numpy as np
from numba.core import types

from gpusim.engine.state import code_cache
from gpusim.engine.state.jit import compiled, compiled_on_demand


@compiled
def tripled(x):
    return 3 * x


@compiled_on_demand(types.int64)
def rare(x, sign):
    return np.int64(tripled(x) + 1) * sign


@compiled
def sometimes(x, wanted):
    if wanted:
        return rare(x, 1) + rare(x, -2)
    return tripled(7) + tripled(x)


def run(code, folder):
    """What a new process prints, with a cache of its own."""
    script = "from tests.gpusim import test_whole_program as t\n" + code
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "GPUSIM_CACHE_DIR": str(folder), "PYTHONPATH": "."},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


LOOK = """
from gpusim.engine.state import code_cache, stubs
made = []
code_cache.watchers.append(made.append)
"""


def test_what_is_compiled_and_what_comes_from_the_disk(tmp_path):
    """A stub loads what it stands for when it is called, or before; a number at a call is no type of its own."""
    first = "print(t.sometimes(5, False), len(made), t.sometimes(5, True), *stubs.late, *t.tripled.part.overloads)"
    assert run(LOOK + first, tmp_path) == ["36", "3", "-16", "rare", "(int64,)"]
    again = "t.sometimes(5, False)\nt.rare.load()\nprint(t.sometimes(5, True), len(stubs.late), len(made))"
    assert run(LOOK + again, tmp_path) == ["-16", "0", "0"]
    # As after a change of a file that nothing else imports: only the entry is missing.
    kept = {path.name.split("-")[0]: path for path in tmp_path.rglob("*.*") if path.suffix in (".part", ".entry")}
    assert set(kept) == {"sometimes", "tripled", "rare"}
    for path in tmp_path.rglob("sometimes-*"):
        path.unlink()
    again = LOOK + "print(t.sometimes(5, False), *made)"
    assert run(again, tmp_path) == ["36", "sometimes", "machine", "code", "of", "sometimes"]


def test_an_index_is_what_it_says():
    """Compiled code has no address behind an index that counts from the end: a negative one lies in front."""

    @compiled
    def second(array, k):
        return array[1:][k]

    assert second(np.array([5, 6, 7]), 0) == 6 and second(np.array([5, 6, 7]), -1) == 5


def test_a_file_is_written_whole(tmp_path):
    code_cache.keep(tmp_path / "new" / "a.part", b"content")
    assert [(path.name, path.read_bytes()) for path in (tmp_path / "new").iterdir()] == [("a.part", b"content")]


def test_no_program_waits_for_a_function_in_its_run():
    """`warm.prepare_core` knows what each needs: in a process that has loaded nothing, short programs that need little
    of what is compiled on demand, and together all of it."""
    code = """
        import gpusim
        from programs import images, registry
        from gpusim.engine.state import stubs
        named = "saxpy scan warp_collectives atomics spin_lock cluster_reduction matmul_tensor low_precision"
        for name in (*named.split(), "matmul_hopper", "flash_attention", "double"):
            variant = registry.families()[name][-1]
            launch = variant.make(min(variant.sizes), 0)
            kernel = images.image(variant.name)
            gpusim.simulate(kernel, launch.grid, launch.block, launch.args, "tiny", launch.shared_bytes)
            assert not stubs.late, (name, stubs.late)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=300)
