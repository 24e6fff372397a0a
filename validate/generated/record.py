"""Make the archive anew: compile here, run and count on a machine with a GPU, join.

    python -m validate.generated.record build FOLDER      # here, with the tool chain; takes half an hour
    python -m validate.generated.record measure FOLDER    # on the GPU's machine: NumPy and ncu are enough
    python -m validate.generated.record collect FOLDER    # here: writes the archive, or `keep` what seeds.py keeps

`build FOLDER 10000 20000` takes other seeds, `measure FOLDER 3000` counts as many kernels only.
Twenty kernels go into a cubin. Outputs come from a plain launch, counters from one launch under ncu, some hundred
launches to a process. What the archive has from Numba (generated kernels, and ordinary ones of the kind that people
write) stays in it as it was recorded.
"""

from __future__ import annotations

import gzip
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np

from gpusim.results.profile import parse_profile
from validate import gpu
from validate.generated import emit, tree
from validate.metrics import DIFFERENCES, EXACT

SEEDS = 1000, 2020
PER_PROCESS = 200
LAUNCHES = "launches.pkl.gz"


def build(folder: Path, first_seed: str = str(SEEDS[0]), last: str = str(SEEDS[1])) -> None:
    """Compile all kernels into `folder`, and describe their launches in `LAUNCHES`."""
    from isa import compile_cuda

    launches: dict[str, dict[str, Any]] = {}
    for first in range(int(first_seed), int(last), emit.PER_CUBIN):
        text, kernels = emit.grown(first)
        (folder / f"cuda{first}.cubin").write_bytes(compile_cuda(text, path="generated.cu"))
        for seed, each in kernels.items():
            launches[f"cuda{seed}"] = {
                "grid": each.grid,
                "block": each.block,
                "shared_bytes": each.shared_bytes,
                "tree": each.to_text().replace(", ", ","),
                "args": tuple(tree.arguments(each.total, seed).values()),
                "file": f"cuda{first}.cubin",
                "symbol": f"gen{seed}",
            }
    with gzip.open(folder / LAUNCHES, "wb") as stream:
        pickle.dump(launches, stream)


def measure(folder: Path, most: str = "") -> None:
    """Run everything on this machine's GPU: `outputs.pkl.gz`, `device.json`, and counters in `counters.json`. Raises
    ValueError if ncu did not count what was launched."""
    # Ratios are of counters that are recorded themselves.
    wanted = [name for name in EXACT if name not in DIFFERENCES and not name.endswith(".ratio")]
    names = list(_launches(folder))
    launch_some(folder, "outputs", "0", str(len(names)))
    counters: dict[str, list[float | None]] = {}
    for first in range(0, min(int(most or len(names)), len(names)), PER_PROCESS):
        chosen = names[first : first + PER_PROCESS]
        part = [str(folder), "", str(first), str(first + len(chosen))]
        command = [sys.executable, "-m", "validate.generated.record", "launch", *part]
        done = gpu.count(command, wanted, timeout_s=300)
        for name, launch in zip(chosen, parse_profile(done.csv), strict=True):
            counters[name] = [launch.metrics.get(metric) for metric in wanted]
    document = {"metrics": wanted, "counters": counters, "ncu": gpu.provenance()["ncu"]}
    (folder / "counters.json").write_text(json.dumps(document))


def launch_some(folder: Path, keep: str, first: str, last: str) -> None:
    """Launch a range of the kernels once each; with `keep`, write what they left in their arrays."""
    real = gpu.RealGpu()
    outputs: dict[str, list[np.ndarray]] = {}
    for name, each in list(_launches(folder).items())[int(first) : int(last)]:
        function = real.function((folder / each["file"]).read_bytes(), each["symbol"])
        places = [real.alloc(value.nbytes) if isinstance(value, np.ndarray) else 0 for value in each["args"]]
        for value, place in zip(each["args"], places, strict=True):
            if place:
                real.put(place, value)
        words = [np.uint64(place) if place else value for value, place in zip(each["args"], places, strict=True)]
        real.launch(function, each["grid"], each["block"], words, each["shared_bytes"])
        real.synchronize()
        arrays = [(value, place) for value, place in zip(each["args"], places, strict=True) if place]
        outputs[name] = [real.get(place, value.shape, value.dtype) for value, place in arrays]
        for _, place in arrays:
            real.free(place)
    if keep:
        with gzip.open(folder / "outputs.pkl.gz", "wb") as stream:
            pickle.dump(outputs, stream)
        (folder / "device.json").write_text(json.dumps(real.about()))


def collect(folder: Path) -> None:
    """Join what was built and measured into the archive."""
    from isa.listing import program_from_cubin
    from validate.generated import archive
    from validate.images import tools

    counted = json.loads((folder / "counters.json").read_text())
    with gzip.open(folder / "outputs.pkl.gz") as stream:
        outputs = pickle.load(stream)
    rows = [(archive.entry_of(each), each.program()) for each in archive.load()[1] if not each.name.startswith("cuda")]
    for name, each in _launches(folder).items():
        program = program_from_cubin((folder / each["file"]).read_bytes(), each["symbol"], abi="c")
        row = {key: each[key] for key in ("grid", "block", "shared_bytes", "tree")}
        row |= {
            "name": name,
            "close": False,
            "values": [],
            "code_sha256": program.code_sha256,
            "outputs": [archive.digest(array) for array in outputs[name]],
            "counters": [int(value) for value in counted["counters"].get(name, ())],
        }
        rows.append((row, program))
    provenance = {**json.loads((folder / "device.json").read_text()), "ncu": counted["ncu"], "tools": tools()}
    archive.save(archive.ARCHIVE, provenance, counted["metrics"], rows)


def keep(folder: Path) -> None:
    """What was measured of kernels that are kept by their seeds alone."""
    from isa.cubin import read_cubin
    from validate.generated import seeds

    counted = json.loads((folder / "counters.json").read_text())
    with gzip.open(folder / "outputs.pkl.gz") as stream:
        outputs = pickle.load(stream)
    rows = []
    for name, each in _launches(folder).items():
        code = read_cubin((folder / each["file"]).read_bytes()).code(each["symbol"]).code
        counters = [int(value) for value in counted["counters"].get(name, ())]
        rows.append((seeds.of_code(code), seeds.of_outputs(outputs[name]), counters))
    provenance = {**json.loads((folder / "device.json").read_text()), "ncu": counted["ncu"]}
    seeds.save(int(next(iter(_launches(folder))).removeprefix("cuda")), rows, counted["metrics"], provenance)


def _launches(folder: Path) -> dict[str, dict[str, Any]]:
    with gzip.open(folder / LAUNCHES) as stream:
        return dict(pickle.load(stream))


if __name__ == "__main__":
    step, where = sys.argv[1], Path(sys.argv[2])
    where.mkdir(parents=True, exist_ok=True)
    steps: dict[str, Any] = {"build": build, "measure": measure, "launch": launch_some}
    steps |= {"collect": collect, "keep": keep}
    steps[step](where, *sys.argv[3:])
