"""Run a job on a GPU: `python -m validate.instructions.worker JOB.npz OUT.npz [SECONDS]`.

Each form is the job's cubin with 16 bytes replaced, loaded and launched on its family's operands. An instruction that
the GPU refuses ends its process's context, so child processes do the work: the form at which one ends is marked, and
the next child goes on behind it.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from validate import gpu

_CELL_WORDS = 8
_RECORDED, _REFUSED = 1, 2


def run_forms(job_path: str, raw: str, first: int, seconds: float) -> None:
    """Run the forms from `first` on, and append the results of each to the file `raw`. Raises GpuError."""
    ends = time.monotonic() + seconds
    with np.load(job_path) as file:
        job = dict(file)
    cubin, offset, width = bytes(job["cubin"]), int(job["offset"]), int(job["output_words"])
    real, lanes = gpu.RealGpu(), job["operands"].shape[1]
    cells, out = real.alloc(4 * 32 * lanes * _CELL_WORDS), real.alloc(4 * 32 * lanes * width)
    constants = job["constants"].astype(np.uint32).tobytes()
    with open(raw, "ab") as stream:
        for k in range(first, len(job["encoding"])):
            if time.monotonic() > ends:
                return
            code = np.asarray(job["encoding"][k], np.uint64).tobytes()
            step = 32 if job["uniform"][k] else 1  # one block for each set of operands instead of one lane
            operands = np.repeat(job["operands"][int(job["family"][k])], step, axis=0)
            real.put(cells, operands)
            real.fill(out, 0, 4 * len(operands) * width)
            form = real.function(cubin[:offset] + code + cubin[offset + 16 :], "form")
            real.launch(form, (len(operands) // 32,), (32,), (np.uint64(cells), np.uint64(out), constants))
            real.synchronize()
            found = [real.get(at, (len(operands), words), np.uint32)[::step]
                     for at, words in ((out, width), (cells, _CELL_WORDS))]  # fmt: skip
            np.concatenate(found, axis=1).tofile(stream)
            stream.flush()


def main(job_path: str, out_path: str, seconds: float = 600.0) -> None:
    """Run a whole job within about `seconds` and write results [forms, lanes, words], state [forms], provenance."""
    ends = time.monotonic() + seconds
    with np.load(job_path) as file:
        texts, lanes, width = file["text"], file["operands"].shape[1], int(file["output_words"])
    results = np.zeros((len(texts), lanes, width + _CELL_WORDS), np.uint32)
    state = np.zeros(len(texts), np.uint8)
    position = 0
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder, "raw")
        while position < len(texts) and time.monotonic() < ends:
            raw.write_bytes(b"")
            left = ends - time.monotonic()
            line = ["-m", "validate.instructions.worker", job_path, str(raw), str(position), str(left)]
            status, printed = gpu.run([sys.executable, *line], left + 10)
            found = np.fromfile(raw, np.uint32)
            found = found[: len(found) // results[0].size * results[0].size].reshape(-1, *results.shape[1:])
            results[position : position + len(found)] = found
            state[position : position + len(found)] = _RECORDED
            position += len(found)
            if status and position < len(texts):
                print(f"{texts[position]}: {printed.strip().splitlines()[-1:]}")
                state[position] = _REFUSED
                position += 1
    print("not reached, recorded, refused:", np.bincount(state, minlength=3).tolist())
    found_on = gpu.provenance("name,driver_version")["smi"]
    provenance = {"gpu": found_on.get("name", ""), "driver": found_on.get("driver_version", "")}
    np.savez_compressed(out_path, results=results, state=state, provenance=json.dumps(provenance))


if __name__ == "__main__":
    if len(sys.argv) > 4:
        run_forms(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
    else:
        main(sys.argv[1], sys.argv[2], *map(float, sys.argv[3:]))
